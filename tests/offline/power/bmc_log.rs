//! The script that writes down what a server's BMC says, with an `ipmitool` and a `curl` that answer as BMCs
//! do.

use energy_trace_power::{self as power, PowerPlan, SourceChoice};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const IPMITOOL: &str = "    Instantaneous power reading:                   412 Watts
    Minimum during sampling period:                  4 Watts";
const POWER: &str = r#"{"Id": "Power", "PowerControl": [{"Name": "Server",
    "PowerConsumedWatts": 409.5, "PowerLimit": {"LimitInWatts": 800}}, {"PowerConsumedWatts": 7}]}"#;
const METRICS: &str =
    r#"{"PowerWatts": {"@odata.id": "/redfish/v1/x", "Reading": 398}, "EnergykWh": {"Reading": 12}}"#;

/// Runs the script until it has written two rows, and gives these.
fn rows(tool: &str, answer: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(tool);
    fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bmc-power-log.sh");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let command = "sh \"$0\" | head -n 3";
    let redfish = if tool == "curl" { "https://bmc/redfish/v1/Chassis/1/Power" } else { "" };
    let output = Command::new("sh")
        .args(["-c", command, script.to_str().unwrap()])
        .env("PATH", path)
        .env("REDFISH", redfish)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    fs::write(folder.path().join("bmc.csv"), &text).unwrap();
    (folder, text)
}

/// What IPMI and both of Redfish's resources say becomes the log of a meter of the whole machine.
#[test]
fn logs_of_bmcs() {
    let cases = [("ipmitool", IPMITOOL, "412"), ("curl", POWER, "409.5"), ("curl", METRICS, "398")];
    std::thread::scope(|scope| {
        let runs = cases.map(|(tool, answer, watts)| (watts, scope.spawn(move || rows(tool, answer))));
        for (watts, run) in runs {
            let (folder, text) = run.join().unwrap();
            assert_eq!(text.lines().filter(|line| line.ends_with(&format!(",{watts}"))).count(), 2, "{text}");
            let choices = vec![SourceChoice::File("replay", folder.path().join("bmc.csv"))];
            let set = power::open(&PowerPlan { choices, ..PowerPlan::default() }).unwrap();
            assert_eq!(set.domains()[0].name, "wall");
        }
    });
}
