//! The script that asks a server's BMC for its power, with an `ipmitool` and a `curl` that answer as BMCs do, or not.

use energy_trace_power::{self as power, PowerPlan, SourceChoice};
use energy_trace_tests::process::Guard;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const IPMITOOL: &str = "    Instantaneous power reading:                   412 Watts
    Minimum during sampling period:                  4 Watts";
const SENSOR: &str = "Pwr Consumption  | 168";
const POWER: &str = r#"{"Id": "Power", "PowerControl": [{"Name": "Server",
    "PowerConsumedWatts": 409.5, "PowerLimit": {"LimitInWatts": 800}}, {"PowerConsumedWatts": 7}]}"#;
const TEXT: &str = r#"{"PowerControl": [{"PowerConsumedWatts": "100"}]}"#;
const METRICS: &str =
    r#"{"PowerWatts": {"@odata.id": "/redfish/v1/x", "Reading": 398}, "EnergykWh": {"Reading": 12}}"#;

/// A folder with a tool that answers so, and the script as a command that finds it.
fn script(tool: &str, answer: &str, words: &str) -> (tempfile::TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(tool);
    fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bmc-power.sh");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let redfish = if tool == "curl" { "https://bmc/redfish/v1/Chassis/1/Power" } else { "" };
    let mut command = Command::new("sh");
    command.args(["-c", words, script.to_str().unwrap()]).current_dir(&folder);
    command.env("PATH", path).env("REDFISH", redfish).env("IPMI", "");
    command.env("SENSOR", if answer == SENSOR { "Pwr Consumption" } else { "" });
    (folder, command)
}

/// Runs the script until it has written two rows, and gives these.
fn rows(tool: &str, answer: &str) -> (tempfile::TempDir, String) {
    let (folder, mut command) = script(tool, answer, "sh \"$0\" | head -n 3");
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    fs::write(folder.path().join("bmc.csv"), &text).unwrap();
    (folder, text)
}

/// What IPMI, a sensor of it and both of Redfish's resources say becomes the log of a meter of the whole machine.
#[test]
fn logs_of_bmcs() {
    let cases = [
        ("ipmitool", IPMITOOL, "412"),
        ("ipmitool", SENSOR, "168"),
        ("curl", POWER, "409.5"),
        ("curl", TEXT, "100"),
        ("curl", METRICS, "398"),
    ];
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

fn plan(file: &Path) -> PowerPlan {
    PowerPlan { choices: vec![SourceChoice::File("bmc", file.to_owned())], ..PowerPlan::default() }
}

/// What is in a file as soon as there is something.
fn wait_for(file: &Path) -> String {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if !text.is_empty() || Instant::now() > end {
            return text;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A BMC that does not know the question is no file for ever: the script says so.
#[test]
fn a_bmc_that_tells_nothing() {
    let (folder, mut command) = script("ipmitool", "", "exec sh \"$0\" watts 2> said");
    let _keeper = Guard::spawn(&mut command).unwrap();
    let said = wait_for(&folder.path().join("said"));
    assert!(said.contains("the BMC told no power"), "{said}");
    assert!(!folder.path().join("watts").exists());
}

/// The file that the script keeps is the meter of the whole machine; before the BMC has answered, there is none.
#[test]
fn a_kept_file() {
    let (folder, mut command) = script("ipmitool", IPMITOOL, "exec sh \"$0\" watts");
    let file = folder.path().join("watts");
    let said = power::open(&plan(&file)).err().unwrap().to_string();
    assert!(said.contains("watts cannot be read"), "{said}");
    let _keeper = Guard::spawn(&mut command).unwrap();
    assert_eq!(wait_for(&file), "412\n");
    let set = power::open(&plan(&file)).unwrap();
    let domain = &set.domains()[0];
    assert!(domain.name == "bmc" && domain.is_machine(), "{domain:?}");
}
