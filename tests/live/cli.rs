//! The command line from outside: usage, exit statuses of what does not run, bad input, the doctor.
//!
//! Runs the real binary as root. Leaves out commands that run (`launch.rs`, `signals.rs`) and what the numbers are.

use energy_trace_tests::place::{Place, Talk, assert_code, assert_says, eventually, text};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// Wrong usage ends with 2 and runs nothing, whether the parser sees it or we do.
#[test]
fn wrong_usage() {
    let place = place();
    for line in [
        "",
        "record",
        "--",
        "--no-such-option -- touch ran",
        "-p x",
        "-p 0",
        "-p 1 -- touch ran",
        "-p 1 -a",
        "--control -- touch ran",
        "--cgroup x -- touch ran",
        "-F 0 -- touch ran",
        "--duration 0 -- touch ran",
        "--power coal -- touch ran",
        "--gpu kernels -- touch ran",
        "--model-watts fast -- touch ran",
        "-q -v -- touch ran",
        "-o same --svg same -- touch ran",
        "-o - -- touch ran",
        "--svg - -- touch ran",
        "report f --view sideways",
        "report f --by colour",
        "export f --format perf",
        "export f",
        "flamegraph f --domain cpu",
        "diff a",
        "diff a b --per-count 0",
        "top",
        "reprot f",
        "report f g",
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = place.run(&words);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty(), "{line}");
        assert!(!place.path("ran").exists(), "{line}");
    }
}

/// A format that does not exist is refused with those that do, and so is a view.
#[test]
fn later_versions_are_named() {
    let place = place();
    assert_says(&place.run(&["export", "f", "--format", "perf"]), &["pprof", "folded"]);
    assert_says(&place.run(&["report", "f", "--view", "sideways"]), &["logical", "physical"]);
}

/// A command that is not there ends with 127, and sudo's PATH is explained to whoever came through sudo.
#[test]
fn command_not_found() {
    let place = place();
    let output = place.run(&["--", "no-such-command-anywhere"]);
    assert_code(&output, 127);
    assert_says(&output, &["no-such-command-anywhere: command not found"]);
    let output = place.command(&["--", "no-such-command-anywhere"]).env("SUDO_UID", "1000").output().unwrap();
    assert_code(&output, 127);
    assert_says(&output, &["sudo replaces PATH"]);
}

/// Commands of later versions are refused by name, a mistyped one gets the nearest, and a script its interpreter.
#[test]
fn what_was_meant() {
    let place = place();
    assert_says(&place.run(&["serve"]), &["not in this version", "energy-trace -- serve"]);
    assert_says(&place.run(&["flamegrap", "f"]), &["did you mean `energy-trace flamegraph`"]);
    place.write("train.py", 0o644, "print()\n");
    for line in [&["--", "train.py"][..], &["train.py"], &["./train.py"]] {
        let output = place.run(line);
        assert_code(&output, if line.contains(&"./train.py") { 126 } else { 127 });
        assert_says(&output, &["`energy-trace ", "python3 ", "train.py`"]);
    }
    // Without a first line that says so, exec would have a shell run it.
    place.write("run.py", 0o755, "print()\n");
    let output = place.run(&["./run.py"]);
    assert_code(&output, 126);
    assert_says(&output, &["names no interpreter", "`energy-trace python3 ./run.py`"]);
}

/// What a shell's user writes is answered by the command to type, with the options that stood before it, before privileges are asked for.
#[test]
fn what_a_shells_user_means() {
    let place = place();
    for (line, meant) in [
        (&["-q", "python3 a.py"][..], "`energy-trace -q python3 a.py`"),
        (&["OMP_NUM_THREADS=1", "python3", "a.py"], "`energy-trace env OMP_NUM_THREADS=1 python3 a.py`"),
        (&["cd", "/tmp"], "`energy-trace sh -c 'cd /tmp && PROGRAM'`"),
        (&["record", "--", "a | b"], "`energy-trace record -- sh -c 'a | b'`"),
    ] {
        let output = place.run(line);
        assert_code(&output, 127);
        assert_says(&output, &[meant]);
    }
}

/// Where sudo has replaced PATH, the program that the user's shell runs is named: before another of that name is recorded, and where there is no other.
#[test]
fn programs_that_sudo_hides() {
    let place = place();
    std::fs::create_dir(place.path("venv")).unwrap();
    for tool in ["true", "only-here"] {
        place.write(&format!("venv/{tool}"), 0o755, "#!/bin/sh\n");
    }
    // Its name is what is looked at; the shell's last command keeps it from being replaced.
    std::fs::copy("/bin/sh", place.path("sudo")).unwrap();
    let venv = place.path("venv");
    let script = "PATH=/usr/bin:/bin SUDO_UID=1000 SUDO_GID=1000 \"$0\" --power none --no-svg -o /dev/null $1; exit $?";
    for (tool, code) in [("true", 0), ("only-here", 127)] {
        let mut sudo = Command::new(place.path("sudo"));
        sudo.args(["-c", script])
            .arg(place.program())
            .arg(tool)
            .env("PATH", format!("{}:/usr/bin:/bin", venv.display()));
        let output = sudo.current_dir(place.folder()).output().unwrap();
        assert_code(&output, code);
        let line =
            format!("`sudo energy-trace --power none --no-svg -o /dev/null {}/{tool}`", venv.display());
        assert_says(&output, &["sudo replaces PATH", &line]);
        // And so does the summary, which may be all that is still on the screen.
        assert_eq!(text(&output.stderr).contains("(/usr/bin/true)"), code == 0);
    }
}

/// A program needs no `--`, its options are its own, and RAPL and seconds are understood.
#[test]
fn a_program_without_dashes() {
    let place = place();
    let outputs = ["-o", "/dev/null", "--no-svg", "--power", "none", "--duration", "20"];
    let output =
        place.command(&outputs).args(["sh", "-c", "echo $1 $2; exit 3", "sh", "-o", "-q"]).output().unwrap();
    assert_code(&output, 3);
    assert_eq!(text(&output.stdout), "-o -q\n");
    std::fs::create_dir(place.path("sys")).unwrap();
    let output = place.run(&["--power", "rapl", "--path.sysfs", "sys", "true"]);
    assert_code(&output, 125);
    // What was asked for has its own word, and what can be done stands there.
    assert_says(&output, &["--power rapl gives no counter: perf: ", "without --power"]);
}

/// A run over its budget ends with 122 and says what it used; one whose budget nobody can judge, with 123; the command's own failure wins.
#[test]
fn budgets_of_a_run() {
    let place = place();
    let burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    for (power, command, status, said) in [
        ("model", burn.to_owned(), 122, "budget exceeded: the program used "),
        ("model", format!("{burn}; exit 3"), 3, "(estimated)"),
        ("none", "true".to_owned(), 123, "budget cannot be judged"),
    ] {
        let options = ["-q", "-o", "/dev/null", "--no-svg", "--power", power, "--budget", "1uJ"];
        let output = place.command(&options).args(["--", "sh", "-c", &command]).output().unwrap();
        assert_code(&output, status);
        assert_says(&output, &[said]);
    }
}

/// What was typed stands in one line of an error, and nothing of it moves a terminal.
#[test]
fn errors_are_harmless() {
    let place = place();
    for (option, word) in [
        ("--work", "a\nb=\u{1b}[31mfile:/x"),
        ("--work", "a=net\n\u{1b}]0;x\u{7}:/x"),
        ("--range-probes", "a\nerror: all is lost\u{1b}[2J"),
        ("--record", "--power 'coal\n\u{1b}[2J'"),
    ] {
        let line: &[&str] = if option == "--record" {
            &["compare", option, word, "--", "true"]
        } else {
            &[option, word, "true"]
        };
        let output = place.run(line);
        assert_code(&output, 2);
        let said = text(&output.stderr);
        assert!(!said.contains('\u{1b}') && !said.contains('\u{7}'), "{said:?}");
        assert!(!said.lines().any(|line| line.starts_with("b=") || line.starts_with("error: all")), "{said}");
    }
}

/// A file that may not be executed, and a folder, end with 126.
#[test]
fn command_not_executable() {
    let place = place();
    place.write("plain", 0o644, "#!/bin/sh\n");
    for name in ["./plain", "/tmp"] {
        assert_code(&place.run(&["--", name]), 126);
    }
}

/// Without privileges the message names the capabilities, repeats the command line under sudo, and the command does not run.
#[test]
fn without_privileges() {
    let place = place();
    let program = place.copy_of_program();
    std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&program)
        .args(["--", "touch", "a file"])
        .current_dir(place.folder())
        .output()
        .unwrap();
    assert_code(&output, 125);
    let sudo = format!("sudo {} -- touch 'a file'", program.display());
    assert_says(&output, &["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", &sudo, "sudo setcap cap_bpf,"]);
    assert!(!place.path("a file").exists());
}

/// A kernel without BTF, and one without BPF, are named as such, with the option that is missing.
#[test]
fn kernel_without_btf_or_bpf() {
    let place = place();
    let put = |path: &str, text: &str| {
        std::fs::create_dir_all(place.path(path).parent().unwrap()).unwrap();
        std::fs::write(place.path(path), text).unwrap();
    };
    put("root/proc/self/status", "CapEff:\t000001ffffffffff\n");
    let output = place.run(&["--path.rootfs", "root", "--", "touch", "ran"]);
    assert_code(&output, 125);
    assert_says(&output, &["CONFIG_BPF_SYSCALL"]);
    put("root/proc/sys/kernel/unprivileged_bpf_disabled", "2");
    put("root/sys/kernel/notes", "");
    put("root/sys/kernel/mm/ksm/run", "0");
    let output = place.run(&["--path.rootfs", "root", "--", "touch", "ran"]);
    assert_code(&output, 125);
    assert_says(&output, &["CONFIG_DEBUG_INFO_BTF"]);
    assert!(!place.path("ran").exists());
}

/// A place that cannot be written to is found out before the run, with its path, and nothing is left behind.
#[test]
fn outputs_are_tried_before_the_run() {
    let place = place();
    for (arguments, named) in [
        (["-o", "none/x.data", "--svg", "x.svg"], "none/x.data"),
        (["-o", "x.data", "--svg", "none/x.svg"], "none/x.svg"),
        (["-o", "x.data", "--svg", "/proc"], "/proc"),
        (["-o", ".", "--svg", "x.svg"], "."),
    ] {
        let output = place.command(&arguments).args(["--", "touch", "ran"]).output().unwrap();
        assert_code(&output, 125);
        assert_says(&output, &[named]);
        assert_eq!(std::fs::read_dir(place.folder()).unwrap().count(), 0, "{arguments:?}");
    }
}

/// Without a counter, `--measured-only` refuses to record at all.
#[test]
fn measured_only_without_a_counter() {
    let place = place();
    std::fs::create_dir(place.path("sys")).unwrap();
    let arguments = ["--measured-only", "--path.sysfs", "sys", "--gpu", "off", "--", "touch", "ran"];
    assert_code(&place.run(&arguments), 125);
    assert!(!place.path("ran").exists());
}

/// Processes that do not exist, have ended, or are threads cannot be attached to, and each is told apart.
#[test]
fn attaching_to_nobody() {
    let place = place();
    let output = place.run(&["-p", "4194304"]);
    assert_code(&output, 125);
    assert_says(&output, &["process 4194304 does not exist"]);

    let mut zombie = Talk::spawn(Command::new("true"));
    eventually("the end of true", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", zombie.0.id())).unwrap();
        stat.contains(") Z ")
    });
    let output = place.run(&["-p", &zombie.0.id().to_string()]);
    assert_code(&output, 125);
    assert_says(&output, &["has already ended"]);
    zombie.0.wait().unwrap();

    let output = place.run(&["--cgroup", "no/such/group"]);
    assert_code(&output, 125);
    assert_says(&output, &["no/such/group"]);
}

/// What is no recording is refused by every verb that reads one, with its path.
#[test]
fn reading_what_is_no_recording() {
    let place = place();
    place.write("text", 0o644, "not a recording\n");
    place.write("empty", 0o644, "");
    for file in ["text", "empty", "missing", "."] {
        for verb in [&["report", file][..], &["flamegraph", file], &["export", file, "--format", "folded"]] {
            let output = place.run(verb);
            assert_code(&output, 125);
            assert_says(&output, &[file]);
            assert!(output.stdout.is_empty());
        }
    }
}

/// A recording comes by standard input too, through a pipe.
#[test]
fn reading_standard_input() {
    let place = place();
    assert_code(&place.record("true").output().unwrap(), 0);
    let named = place.run(&["report", "energy-trace.data"]);
    let mut piped = Command::new("sh");
    let line = format!("cat energy-trace.data | '{}' report -", place.program().display());
    let piped = piped.args(["-c", &line]).current_dir(place.folder()).output().unwrap();
    assert_code(&piped, 0);
    assert_eq!(text(&piped.stdout), text(&named.stdout));
}

/// A SUDO_UID that is no number is refused: the command must not run as root by accident.
#[test]
fn a_broken_sudo_uid_is_refused() {
    let place = place();
    let output = place.command(&["--", "touch", "ran"]).env("SUDO_UID", "nobody").output().unwrap();
    assert_code(&output, 125);
    assert_says(&output, &["SUDO_UID", "--as-root"]);
    assert!(!place.path("ran").exists());
}

/// The doctor's verdict is its exit status, in text and in JSON, and what is missing has a fix.
#[test]
fn doctor() {
    let place = place();
    let output = place.run(&["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_code(&output, if json["can_record"] == true { 0 } else { 1 });
    let areas: Vec<_> =
        json["findings"].as_array().unwrap().iter().map(|f| f["area"].as_str().unwrap()).collect();
    for area in [
        "kernel",
        "btf",
        "bpf",
        "privileges",
        "bpf programs",
        "perf",
        "tracefs",
        "pid namespace",
        "file readers",
        "power",
        "python",
    ] {
        assert!(areas.contains(&area), "{area} in {areas:?}");
    }
    std::fs::create_dir_all(place.path("root/proc/self")).unwrap();
    std::fs::write(place.path("root/proc/self/status"), "CapEff:\t0\n").unwrap();
    let output = place.run(&["doctor", "--path.rootfs", "root"]);
    assert_code(&output, 1);
    let said = text(&output.stdout);
    assert!(said.contains("fix: ") && said.contains("CONFIG_DEBUG_INFO_BTF"), "{said}");
}
