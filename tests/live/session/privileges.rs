//! Privileges that the program was given are not lent: not to options of its caller, not to the command, not to programs of PATH.
//!
//! Runs the real binary, as root and with capabilities. Leaves out output files (`session/outputs.rs`).

use energy_trace_tests::place::{Place, assert_code, assert_says, copy_program, run_bounded, text};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const USER: u32 = 12345;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// A copy of the program in the place, which the user may run.
fn copy_of_program(place: &Place) -> PathBuf {
    let copy = place.copy_of_program();
    chown(place.folder(), Some(USER), Some(USER)).unwrap();
    copy
}

/// As the user, with these options of setpriv.
fn as_user(place: &Place, options: &[&str], program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    let user = USER.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).args(options).arg(program);
    command.current_dir(place.folder());
    command
}

const AMBIENT: [&str; 4] = [
    "--inh-caps",
    "+bpf,+perfmon,+sys_ptrace,+dac_read_search",
    "--ambient-caps",
    "+bpf,+perfmon,+sys_ptrace,+dac_read_search",
];

/// A sysfs tree in which the file that names a powercap zone is a secret of root's.
fn tree_with_a_secret(place: &Place) -> PathBuf {
    let secret = place.write_secret("root:hunter2:20228:0:99999:7:::\n");
    let zone = place.path("fs/class/powercap/intel-rapl:0");
    fs::create_dir_all(&zone).unwrap();
    symlink(&secret, zone.join("name")).unwrap();
    symlink(&secret, zone.join("energy_uj")).unwrap();
    place.path("fs")
}

/// C3: with capabilities of the file, and with ambient ones, options that would use them for the caller are refused by name.
#[test]
fn options_that_lend_capabilities_are_refused() {
    let place = place();
    let program = copy_of_program(&place);
    tree_with_a_secret(&place);
    place.write("r.csv", 0o644, "time_s,wall_w\n0,1\n1,1\n");
    let capabilities = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep";
    let given = Command::new("setcap").arg(capabilities).arg(&program).status().unwrap();
    assert!(given.success(), "setcap of libcap2-bin");
    let plain = copy_program(&program, place.path("plain"));
    for (options, program) in [(&[][..], &program), (&AMBIENT[..], &plain)] {
        for (option, value) in [
            ("--nvml-lib", "evil.so"),
            ("--path.sysfs", "fs"),
            ("--path.rootfs", "fs"),
            ("--power", "replay:r.csv"),
        ] {
            let mut command = as_user(&place, options, program);
            command.args(["record", "-v", "--no-svg", option, value, "--", "touch", "ran"]);
            let output = run_bounded(command);
            assert_code(&output, 125);
            assert_says(
                &output,
                &[option, "is refused, because this program has capabilities that its caller lacks"],
            );
            assert!(!text(&output.stderr).contains("hunter2"), "{}", text(&output.stderr));
        }
        let mut command = as_user(&place, options, program);
        command.args(["doctor", "--path.sysfs", "fs"]);
        assert_code(&run_bounded(command), 125);
        let mut command = as_user(&place, options, program);
        command.args(["-q", "-o", "own.data", "--no-svg", "--power", "model", "--", "true"]);
        assert_code(&run_bounded(command), 0);
        // Reading is done without them: what only root may read stays unread.
        let mut command = as_user(&place, options, program);
        command.args(["report", "roots/secret"]);
        let output = run_bounded(command);
        assert_code(&output, 125);
        assert_says(&output, &["Permission denied"]);
    }
    assert!(!place.path("ran").exists());
}

/// C3: what a file holds that is no counter is not repeated, to root neither.
#[test]
fn contents_of_files_are_not_repeated() {
    let place = place();
    tree_with_a_secret(&place);
    for power in ["powercap", "auto", "replay:roots/secret", "replay:fs/class/powercap/intel-rapl:0/name"] {
        let arguments =
            ["-v", "--no-svg", "--path.sysfs", "fs", "--power", power, "--gpu", "off", "--", "true"];
        let output = place.run(&arguments);
        assert!(!text(&output.stderr).contains("hunter2"), "{power}: {}", text(&output.stderr));
    }
    assert_code(
        &place.run(&[
            "-v",
            "--no-svg",
            "--path.sysfs",
            "fs",
            "--power",
            "auto",
            "--gpu",
            "off",
            "--",
            "true",
        ]),
        0,
    );
    let output = place.run(&["report", "-v", "energy-trace.data"]);
    assert!(!text(&output.stdout).contains("hunter2"), "{}", text(&output.stdout));
}

/// C3: the advice says that capabilities equal root and go to a group, and refuses what would give them to everybody.
#[test]
fn the_advice_says_what_it_means() {
    let place = place();
    let program = copy_of_program(&place);
    let mut command = as_user(&place, &[], &program);
    command.args(["--", "true"]);
    let output = run_bounded(command);
    assert_code(&output, 125);
    assert_says(&output, &["chgrp tracers", "chmod 0750", "setcap cap_bpf", "equals root"]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut command = as_user(&place, &[], &program);
    command.args(["-q", "--no-svg", "--power", "none", "--", "touch", "ran"]);
    let output = run_bounded(command);
    assert_code(&output, 125);
    assert_says(&output, &["setuid root", "chmod u-s"]);
    assert!(!place.path("ran").exists());
}

/// C12: a program that was started with ambient capabilities starts its command without any.
#[test]
fn ambient_capabilities_end_here() {
    let place = place();
    let program = copy_of_program(&place);
    let mut command = as_user(&place, &AMBIENT, &program);
    command.args(["-q", "--no-svg", "--power", "none", "--", "grep", "Cap", "/proc/self/status"]);
    let output = run_bounded(command);
    assert_code(&output, 0);
    let said = text(&output.stdout);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(said.contains(&format!("{set}:\t0000000000000000\n")), "{said}");
    }
}

/// C13: numbers that setresuid takes for "unchanged", or that are too large, are no users.
#[test]
fn numbers_that_are_no_users() {
    for (user, group) in [("4294967295", "12345"), ("12345", "4294967295"), ("4294967296", "1"), ("-1", "1")]
    {
        let place = place();
        let mut command = place.command(&["-q", "--no-svg", "--power", "none", "--", "touch", "ran"]);
        command.env("SUDO_UID", user).env("SUDO_GID", group);
        let output = run_bounded(command);
        assert_code(&output, 125);
        assert_says(&output, &["is not a user or group number"]);
        assert!(!place.path("ran").exists());
        let output =
            place.command(&["report", "x"]).env("SUDO_UID", user).env("SUDO_GID", group).output().unwrap();
        assert_says(&output, &["is not a user or group number"]);
    }
}

/// C14: the `python3` of PATH is never run as root: as the invoking user, or not at all.
#[test]
fn doctor_runs_nothing_as_root() {
    let place = place();
    fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    let said = place.path("said");
    let script = format!("#!/bin/sh\nid -u >> {}\necho Python 3.11.2\n", said.display());
    place.write("python3", 0o755, &script);
    let path = format!("{}:/usr/bin:/bin", place.folder().display());
    let doctor = |command: &mut Command| text(&command.env("PATH", &path).output().unwrap().stdout);
    let all = doctor(&mut place.command(&["doctor"]));
    assert!(!said.exists(), "{:?}", fs::read_to_string(&said));
    assert!(all.contains("python3 on PATH"), "{all}");
    let all = doctor(&mut place.sudo(USER, &["doctor"]));
    assert_eq!(fs::read_to_string(&said).unwrap(), format!("{USER}\n"));
    assert!(all.contains("python3 on PATH: CPython 3.11"), "{all}");
}
