//! Commands and processes that are recorded: status, stdio, environment, users, children, attaching.
//!
//! Runs the real binary as root; BPF programs load. Leaves out signals (`signals.rs`) and what the numbers are.

use energy_trace_model::profile::Profile;
use energy_trace_tests::place::{Disk, Place, Talk, assert_code, assert_says, eventually, text};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// The recording of a place, as the library reads it.
fn recording(place: &Place) -> energy_trace_model::recording::Recording {
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// When only exec itself finds out (a script whose interpreter is missing), the status is the same, no recording is left behind, and the
/// one that was there before is where it was.
#[test]
fn exec_has_the_last_word() {
    let place = place();
    place.write("script", 0o755, "#!/no/such/interpreter\n");
    place.write("energy-trace.data", 0o644, "older");
    assert_code(&place.run(&["--power", "none", "--", "./script"]), 127);
    assert_eq!(std::fs::read_to_string(place.path("energy-trace.data")).unwrap(), "older");
    assert!(!place.path("energy-trace.data.old").exists());
    assert!(!place.path("energy-trace.svg").exists());
}

/// The status is the command's own, whether it exits, runs for a millisecond, executes itself anew, or is killed.
#[test]
fn status_is_the_commands() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("exec sh -c 'exec sh -c \"exit 5\"'", 5),
    ] {
        let place = place();
        let output = place.record(script).output().unwrap();
        assert_code(&output, code);
        let says_why = text(&output.stderr).contains("the command was ended by SIG");
        assert_eq!(says_why, script.starts_with("kill"), "{script}");
        let summary = recording(&place).summary.expect("the recording is whole");
        assert_eq!(summary.exit_code, Some(code), "{script}");
    }
}

/// A recording of a command that ends at once is whole, and every verb that reads it works or says why not.
#[test]
fn a_command_that_ends_at_once() {
    let place = place();
    assert_code(&place.run(&["--power", "model", "--", "true"]), 0);
    assert_eq!(recording(&place).header.command, ["true"]);
    assert_code(&place.run(&["report", "energy-trace.data"]), 0);
    let output = place.run(&["report", "energy-trace.data", "--format", "json"]);
    assert_code(&output, 0);
    assert!(text(&output.stdout).contains("energy-trace/report/1.3"));
}

/// A thousand children are followed and the recording is whole.
#[test]
fn a_thousand_children() {
    let place = place();
    let script = "i=0; while [ $i -lt 1000 ]; do /bin/true & i=$((i+1)); done; wait; exit 6";
    assert_code(&place.record(script).output().unwrap(), 6);
    let recording = recording(&place);
    assert!(recording.summary.is_some());
    // Some are gone before anybody can ask for their names; they are counted all the same.
    assert!(recording.processes.len() >= 990, "{} processes", recording.processes.len());
}

/// stdin and stdout are the command's: bytes pass untouched, and the summary is on stderr, without a terminal's control codes.
#[test]
fn stdio_is_the_commands() {
    let place = place();
    let mut command = place.command(&["--power", "model", "--", "cat"]);
    let mut child = Talk::spawn({
        command.env("TERM", "xterm");
        command
    });
    child.0.stdin.take().unwrap().write_all(b"a\0b\r\n\x1b[1m\xff").unwrap();
    let output = child.end();
    assert_code(&output, 0);
    assert_eq!(output.stdout, b"a\0b\r\n\x1b[1m\xff");
    assert!(!output.stderr.is_empty());
    assert!(!output.stderr.contains(&b'\r') && !output.stderr.contains(&0x1b), "{}", text(&output.stderr));
}

/// With `-q` nothing is printed; the files are written all the same.
#[test]
fn quiet() {
    let place = place();
    let output = place.run(&["-q", "--power", "none", "--no-svg", "--", "true"]);
    assert_code(&output, 0);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(recording(&place).summary.is_some());
    assert!(!place.path("energy-trace.svg").exists());
}

/// Environment, working directory, umask and open files are what they would be without energy-trace.
#[test]
fn environment_is_untouched() {
    let place = place();
    // The highest bits are signals 32 and up, of which glibc's posix_spawn ignores two of its own for whomever it starts.
    let script = "env; pwd; umask; ls /proc/self/fd; grep SigBlk /proc/self/status; \
                  echo $((0x$(sed -n 's/SigIgn:.//p' /proc/self/status) & 0x7fffffff))";
    let surroundings = |command: &mut Command| {
        command.env_clear().envs([
            ("PATH", "/usr/bin:/bin"),
            ("A", "b c"),
            ("HOME", "/root"),
            ("USER", "root"),
        ]);
        text(&command.stdin(Stdio::null()).output().unwrap().stdout)
    };
    let plain = surroundings(Command::new("/bin/sh").args(["-c", script]).current_dir(place.folder()));
    assert!(plain.contains("A=b c"));
    assert_eq!(surroundings(&mut place.record(script)), plain);
}

/// Under sudo the command is the invoking user, with that user's groups and home; the files are the user's; --as-root keeps root.
#[test]
fn under_sudo_it_is_the_user() {
    let place = place();
    chown(place.folder(), Some(65534), Some(65534)).unwrap();
    let sudo = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.envs([
            ("SUDO_UID", "65534"),
            ("SUDO_GID", "65534"),
            ("HOME", "/root"),
            ("USER", "root"),
            ("KEEP", "it"),
        ]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_code(&output, 0);
        text(&output.stdout)
    };
    let script = "id -u; id -g; id -G; echo $HOME $USER $KEEP; touch made";
    let said = sudo(&["--power", "model", "--", "sh", "-c", script]);
    assert_eq!(said, "65534\n65534\n65534\n/nonexistent nobody it\n");
    for name in ["made", "energy-trace.data"] {
        let file = std::fs::metadata(place.path(name)).unwrap();
        assert_eq!((file.uid(), file.gid()), (65534, 65534), "{name}");
    }
    let said = sudo(&["--as-root", "--power", "none", "--no-svg", "--", "sh", "-c", "id -u; echo $HOME"]);
    assert_eq!(said, "0\n/root\n");
    assert_eq!(std::fs::metadata(place.path("energy-trace.data")).unwrap().uid(), 65534);
}

/// Time that is up ends the recording and not the command.
#[test]
fn duration_ends_the_recording_only() {
    let place = place();
    let arguments =
        ["--power", "none", "--no-svg", "--duration", "100ms", "--", "sh", "-c", "read x; exit 4"];
    let child = Talk::spawn(place.command(&arguments));
    eventually("a whole recording", || {
        let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data"));
        recording.is_ok_and(|r| r.summary.is_some())
    });
    assert_code(&child.end(), 4);
}

/// A shell and the sleeper that it has started, for attaching to.
struct Tree {
    shell: Talk,
    sleeper: nix::unistd::Pid,
}

impl Tree {
    fn new() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let mut shell = Talk::spawn(command);
        let sleeper = nix::unistd::Pid::from_raw(shell.line().trim().parse().unwrap());
        Self { shell, sleeper }
    }

    fn attach(&self, place: &Place, more: &[&str]) -> Talk {
        let pid = self.shell.0.id().to_string();
        let mut arguments = vec!["--power", "none", "--no-svg", "-p", &pid];
        arguments.extend(more);
        Talk::spawn(place.command(&arguments))
    }

    fn lives(&self) -> bool {
        nix::sys::signal::kill(self.sleeper, None).is_ok()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // It may have been killed by the test itself.
        let _ = nix::sys::signal::kill(self.sleeper, nix::sys::signal::Signal::SIGKILL);
    }
}

/// The recording has begun when its first records are on disk.
fn begun(place: &Place) {
    eventually("the start", || {
        energy_trace_model::recording::file::read(&place.path("energy-trace.data")).is_ok()
    });
}

/// Attached for a time: the recording ends when it is up, and the processes are not touched.
#[test]
fn attached_for_a_time() {
    let (place, tree) = (place(), Tree::new());
    assert_code(&tree.attach(&place, &["--duration", "50ms"]).end(), 0);
    let recording = recording(&place);
    assert!(recording.header.command.is_empty());
    let names: Vec<&str> = recording.processes.iter().map(|process| process.name.as_str()).collect();
    assert!(names.contains(&"sh") && names.contains(&"sleep"), "the whole tree is known: {names:?}");
    assert!(tree.lives());
}

/// Attached to a process that is stopped all the while: it is said why there is nothing.
#[test]
fn attached_to_one_that_is_stopped() {
    let (place, tree) = (place(), Tree::new());
    nix::sys::signal::kill(tree.sleeper, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let stat = format!("/proc/{}/stat", tree.sleeper);
    eventually("the stop", || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T ")));
    let pid = tree.sleeper.to_string();
    let output = place.run(&["--power", "none", "--no-svg", "--duration", "50ms", "-p", &pid]);
    assert_code(&output, 0);
    assert_says(&output, &["no CPU time was used"]);
}

/// Attached until somebody ends energy-trace: any of the usual signals gives a whole recording, and the processes are not touched.
#[test]
fn attached_until_a_signal() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let (place, tree) = (place(), Tree::new());
        let recorder = tree.attach(&place, &[]);
        begun(&place);
        recorder.signal(signal);
        assert_code(&recorder.end(), 0);
        assert!(recording(&place).summary.is_some());
        assert!(tree.lives());
    }
}

/// Attached to one of three workers, it is said that the other two and who started them are left out, and how they are taken as well;
/// who takes all is told nothing. The report names the program and the process.
#[test]
fn attached_to_a_worker() {
    let script = "import os, sys, time\nme = os.getpid()\nworkers = [os.fork() for _ in range(3) if os.getpid() == me]\n\
                  if os.getpid() == me: print(workers[0], flush=True)\nwhile os.getpid() == me or os.getppid() == me: time.sleep(0.02)";
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    let mut server = Talk::spawn(command);
    let (head, worker) = (server.0.id().to_string(), server.line().trim().to_owned());
    let record = |pid: &str| {
        let place = place();
        let output = place.run(&["--power", "none", "--no-svg", "--duration", "200ms", "-p", pid]);
        assert_code(&output, 0);
        text(&output.stderr)
    };
    let said = record(&worker);
    let advice = format!(
        "process {worker} is below process {head} of the same program, which is not recorded, nor are 2 other workers of it: -p {head} takes all"
    );
    assert!(said.contains(&advice) && said.contains("\npython3 "), "{said}");
    assert!(said.contains(&format!("(pid {worker})")), "{said}");
    let said = record(&head);
    assert!(!said.contains("takes all"), "{said}");
    assert!(said.starts_with(&format!("python3 … (pid {head})\n")), "{said}");
}

/// Makes a control group; its path below the mount of all.
fn new_group(name: &str) -> PathBuf {
    let root = Path::new("/sys/fs/cgroup");
    let mounted = |name: &&str| root.join(name).join("cgroup.procs").exists();
    let mount = ["", "unified", "pids"].into_iter().find(mounted).expect("control groups");
    let group = Path::new(mount).join(name);
    std::fs::create_dir(root.join(&group)).unwrap();
    group
}

/// A program that is put into a control group and then executed is that group's, and so are its children: as runtimes of containers, systemd
/// and Slurm do it.
#[test]
fn the_group_of_a_program() {
    let name = format!("energy-trace-test-{}.service", std::process::id());
    let group = Path::new("/sys/fs/cgroup").join(new_group(&name));
    let place = place();
    let script = r#"echo 0 > "$0/cgroup.procs" && exec sh -c 'sleep 0.1; true'"#;
    let mut arguments = vec!["--power", "none", "--no-svg", "--", "sh", "-c", script];
    arguments.push(group.to_str().unwrap());
    assert_code(&place.run(&arguments), 0);
    let recording = recording(&place);
    let groups = Profile::of_run(&recording);
    let groups = groups.groups_of_processes();
    let of = |program: &str| recording.processes.iter().rposition(|process| process.name == program).unwrap();
    let path = format!("/{name}");
    assert_eq!((groups[of("sh")], groups[of("sleep")]), (Some(path.as_str()), Some(path.as_str())));
    assert!(recording.control_groups.len() < recording.processes.len(), "{:?}", recording.control_groups);
    std::fs::remove_dir(group).unwrap();
}

/// A control group in which energy-trace is itself: its own processes are not recorded, and the recording ends with the last of the others.
#[test]
fn a_group_with_energy_trace_in_it() {
    let (root, name) = (Path::new("/sys/fs/cgroup"), format!("energy-trace-test-{}", std::process::id()));
    let group = new_group(&name);
    let procs = root.join(&group).join("cgroup.procs");
    let place = place();
    // The shell puts itself into the group and becomes the command.
    let inside = |command: Command| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo 0 > \"$0\" && exec \"$@\""]).arg(&procs);
        shell.arg(command.get_program()).args(command.get_args()).current_dir(place.folder());
        for (name, _) in command.get_envs().filter(|(_, value)| value.is_none()) {
            shell.env_remove(name);
        }
        Talk::spawn(shell)
    };
    let mut sleeper = inside({
        let mut command = Command::new("sleep");
        command.arg("1000");
        command
    });
    let arguments = ["--power", "none", "--no-svg", "--cgroup", group.to_str().unwrap()];
    let recorder = inside(place.command(&arguments));
    begun(&place);
    sleeper.0.kill().unwrap();
    sleeper.0.wait().unwrap();
    assert_code(&recorder.end(), 0);
    let recording = recording(&place);
    let names: Vec<&str> = recording.processes.iter().map(|process| process.name.as_str()).collect();
    assert_eq!(names, ["sleep"]);
    std::fs::remove_dir(root.join(&group)).unwrap();
}

/// Attached until the end: the recording ends with the last process of the tree, not with its root.
#[test]
fn attached_until_the_end() {
    let (place, mut tree) = (place(), Tree::new());
    let mut recorder = tree.attach(&place, &[]);
    begun(&place);
    tree.shell.0.kill().unwrap();
    tree.shell.0.wait().unwrap();
    assert!(recorder.0.try_wait().unwrap().is_none(), "the sleeper still runs");
    drop(tree);
    assert_code(&recorder.end(), 0);
    assert!(recording(&place).summary.is_some_and(|summary| summary.exit_code.is_none()));
}

/// A process that ends while energy-trace attaches to it, sooner or later: either its last moments are recorded, or it is named as ended;
/// nothing waits for it for ever.
#[test]
fn attached_to_one_that_ends_meanwhile() {
    let mut recorded = 0;
    for delay in ["0", "0.01", "0.03", "0.06", "0.1", "0.2", "0.4", "0.8"] {
        let place = place();
        // Not this test's child, so that nobody leaves it a zombie.
        let script = format!("sleep {delay} >/dev/null 2>&1 & echo $!");
        let pid = text(&Command::new("sh").args(["-c", &script]).output().unwrap().stdout).trim().to_owned();
        let output = place.run(&["--power", "none", "--no-svg", "-p", &pid]);
        let code = output.status.code().unwrap();
        if code != 0 {
            assert_code(&output, 125);
            assert_says(&output, &[&format!("process {pid} ")]);
        }
        recorded += u32::from(code == 0);
    }
    println!("{recorded} of 8 were recorded"); // One that lives for long enough always is: `attached_until_the_end`.
}

/// The whole machine is recorded while a command runs, or for a time without one.
#[test]
fn the_whole_machine() {
    let place = place();
    let arguments = ["--power", "none", "--no-svg", "-a"];
    let output = place.command(&arguments).args(["--", "sh", "-c", "exit 8"]).output().unwrap();
    assert_code(&output, 8);
    assert_code(&place.command(&arguments).args(["--duration", "300ms"]).output().unwrap(), 0);
    let recording = recording(&place);
    assert!(recording.header.system_wide && recording.summary.is_some());
}

/// A disk that fills up ends the recording and not the command, which runs to its end; then the status is ours, and the disk is named.
#[test]
fn the_disk_fills_up() {
    let place = place();
    let disk = Disk::mount(&place, "size=64k");
    std::fs::write(disk.path().join("ballast"), vec![0; 52 * 1024]).unwrap();
    let arguments = ["--power", "none", "--no-svg", "-o", "disk/x.data", "--", "sh", "-c"];
    let script = "i=0; while [ $i -lt 2000 ]; do /bin/true & i=$((i+1)); done; wait; echo done";
    let output = place.command(&arguments).arg(script).output().unwrap();
    assert_code(&output, 125);
    assert_eq!(text(&output.stdout), "done\n");
    assert_says(&output, &["disk/x.data", "No space left"]);
}

/// A reader that closes the pipe early is no failure.
#[test]
fn closed_pipes() {
    let place = place();
    assert_code(&place.run(&["-q", "--power", "none", "--no-svg", "--", "true"]), 0);
    let program = Path::new(env!("CARGO_BIN_EXE_energy-trace"));
    let script = format!("{{ {} report energy-trace.data; echo $? > status; }} | true", program.display());
    assert!(Command::new("sh").args(["-c", &script]).current_dir(place.folder()).status().unwrap().success());
    assert_eq!(std::fs::read_to_string(place.path("status")).unwrap(), "0\n");
}
