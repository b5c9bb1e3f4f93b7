//! What stands in the place of an output, before, during and after the run, lends nobody the rights of root and loses nothing.
//!
//! Runs the real binary as root, mostly as if user 12345 had typed sudo. Leaves out privileges beside those of files
//! (`session/privileges.rs`).

use energy_trace_model::recording::file::read;
use energy_trace_tests::place::{Place, Talk, assert_code, assert_says, eventually, run_bounded, text};
use energy_trace_tests::processes::all;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

const USER: u32 = 12345;
/// Enough CPU time for energy.
const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// Records a script of the user's under sudo: what it does first, and then some work.
#[track_caller]
fn record(place: &Place, script: &str) -> Output {
    let script = format!("{script}; {BURN}");
    run_bounded(place.sudo(USER, &["--power", "model", "--", "sh", "-c", &script]))
}

/// The file is the user's, and a flame graph or a recording by its first bytes.
#[track_caller]
fn assert_users(path: &Path, begins: &[u8]) {
    let found = fs::symlink_metadata(path).unwrap();
    assert!(found.is_file(), "{}", path.display());
    assert_eq!((found.uid(), found.gid()), (USER, USER), "{}", path.display());
    assert!(fs::read(path).unwrap().starts_with(begins), "{}", path.display());
}

const RECORDING: &[u8] = b"\x89ETR";
const SVG: &[u8] = b"<?xml";

/// Arguments may be secrets: pictures and exports hold nobody's, reports those of the recorded command and not of programs beside it, unless all are asked
/// for; and every file is its owner's alone, also a merged recording over a file that others could read.
#[test]
fn arguments_stay_with_the_recording() {
    let place = place();
    let own = ["--power", "model", "--", "sh", "-c", BURN, "main", "--token=SECRET123"];
    assert_code(&place.run(&own), 0);
    let mut neighbour = std::process::Command::new("sh");
    neighbour.args(["-c", "while :; do :; done", "neighbour", "--password=HUNTER2"]);
    let neighbour = Talk::spawn(neighbour);
    let pid = neighbour.0.id().to_string();
    let beside = ["-p", &pid, "--duration", "0.5", "--power", "model", "--no-svg", "-o", "beside.data"];
    assert_code(&place.run(&beside), 0);
    drop(neighbour);
    let made = |line: &[&str]| {
        let output = place.run(line);
        assert_code(&output, 0);
        text(&output.stdout)
    };
    made(&["export", "--format", "html", "-o", "page.html"]);
    let picture = fs::read_to_string(place.path("energy-trace.svg")).unwrap();
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    let beside = made(&["export", "beside.data", "--format", "html"]);
    for handed_on in [&picture, &page, &beside, &made(&["export", "--format", "json"])] {
        assert!(!handed_on.contains("HUNTER2") && !handed_on.contains("SECRET123"));
    }
    assert!(made(&["report", "--format", "json"]).contains("SECRET123"));
    for format in ["table", "json", "csv"] {
        let report = ["report", "beside.data", "--by", "process", "--format", format];
        assert!(!made(&report).contains("HUNTER2"), "{format}");
        assert!(made(&[&report[..], &["--arguments"]].concat()).contains("HUNTER2"), "{format}");
    }
    assert!(made(&["export", "beside.data", "--format", "html", "--arguments"]).contains("HUNTER2"));
    place.write("merged.data", 0o644, "");
    made(&["merge", "merged.data", "a=energy-trace.data"]);
    for file in ["energy-trace.data", "energy-trace.svg", "page.html", "merged.data"] {
        assert_eq!(fs::metadata(place.path(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

/// C1: a link that the command plants at the flame graph's place is replaced, and what it leads to keeps its bytes.
#[test]
fn a_planted_link_is_not_followed() {
    let place = place();
    let secret = place.write_secret("precious");
    let output = record(&place, &format!("ln -sf {} energy-trace.svg", secret.display()));
    assert_code(&output, 0);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "precious");
    assert_users(&place.path("energy-trace.svg"), SVG);
    assert_users(&place.path("energy-trace.data"), RECORDING);
}

/// C1: a pipe that the command plants there is not opened: the run ends, with its flame graph.
#[test]
fn a_planted_pipe_stops_nothing() {
    let place = place();
    let output = record(&place, "mkfifo energy-trace.svg");
    assert_code(&output, 0);
    assert_users(&place.path("energy-trace.svg"), SVG);
}

/// C1: a folder there cannot be replaced: the flame graph is beside it, and that is said.
#[test]
fn a_planted_folder_is_said() {
    let place = place();
    let output = record(&place, "mkdir energy-trace.svg");
    assert_code(&output, 0);
    assert_says(&output, &["energy-trace.svg cannot be replaced", "flame graph: energy-trace.svg.1"]);
    assert_users(&place.path("energy-trace.svg.1"), SVG);
}

/// C1: what is no file is refused before the run, by what it is; it stays as it was, and nothing else is left.
#[test]
fn what_is_no_file_is_refused() {
    let link = |path: &Path| symlink("target", path).unwrap();
    let pipe = |path: &Path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let folder = |path: &Path| fs::create_dir(path).unwrap();
    let socket = |path: &Path| drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    type Make<'a> = &'a dyn Fn(&Path);
    let kinds: [(&str, Make<'_>); 4] =
        [("a link", &link), ("a pipe", &pipe), ("a folder", &folder), ("a socket", &socket)];
    for option in ["-o", "--svg"] {
        for (what, make) in kinds {
            let place = place();
            make(&place.path("out"));
            let mode = fs::symlink_metadata(place.path("out")).unwrap().mode();
            let output =
                run_bounded(place.sudo(USER, &["--power", "model", option, "out", "--", "touch", "ran"]));
            assert_code(&output, 125);
            assert_says(&output, &["cannot write out: it is", what, option]);
            assert_eq!(fs::symlink_metadata(place.path("out")).unwrap().mode(), mode);
            assert_eq!(fs::read_dir(place.folder()).unwrap().count(), 1, "{option} {what}");
        }
    }
    for device in ["/dev/full", "/dev/zero"] {
        let output = run_bounded(place().sudo(USER, &["--power", "model", "-o", device, "--", "true"]));
        assert_code(&output, 125);
        assert_says(&output, &[device, "it is a device"]);
    }
}

/// C2: the command puts a link to somebody's recording into the place of its own: shown and kept is what was recorded.
#[test]
fn a_swapped_recording_is_not_read() {
    let place = place();
    let other =
        ["-q", "-o", "other.data", "--no-svg", "--power", "model", "--", "sh", "-c", "true not-for-you"];
    assert_code(&place.run(&other), 0);
    let secret = place.write_secret("");
    fs::rename(place.path("other.data"), &secret).unwrap();
    let output =
        record(&place, &format!("rm energy-trace.data; ln -s {} energy-trace.data", secret.display()));
    assert_code(&output, 0);
    assert!(!text(&output.stderr).contains("not-for-you"), "{}", text(&output.stderr));
    assert!(!fs::read_to_string(place.path("energy-trace.svg")).unwrap().contains("not-for-you"));
    assert_says(
        &output,
        &["energy-trace.data was moved, replaced or removed", "recording: energy-trace.data.1"],
    );
    assert_users(&place.path("energy-trace.data.1"), RECORDING);
    assert!(read(&place.path("energy-trace.data.1")).unwrap().summary.is_some());
}

/// C2: a pipe or a folder in the recording's place does not stop the run, and nothing is lost.
#[test]
fn what_replaces_the_recording_loses_nothing() {
    for replace in ["mkfifo energy-trace.data", "mkdir energy-trace.data", "true"] {
        let place = place();
        let output = record(&place, &format!("rm energy-trace.data; {replace}"));
        assert_code(&output, 0);
        assert_says(&output, &["recording: energy-trace.data.1, flame graph: energy-trace.svg"]);
        assert!(read(&place.path("energy-trace.data.1")).unwrap().summary.is_some(), "{replace}");
    }
}

/// A file that the summary names.
fn named(output: &Output, before: &str) -> PathBuf {
    let said = text(&output.stderr);
    let (_, rest) = said.rsplit_once(before).unwrap_or_else(|| panic!("{before:?} is not in:\n{said}"));
    rest.split([',', '\n']).next().unwrap().into()
}

/// C2: the folder is removed during the run: both results are saved where only the user looks, and that is said.
#[test]
fn a_removed_folder_loses_nothing() {
    let place = place();
    let folder = place.path("gone");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(USER), Some(USER)).unwrap();
    let script = format!("rm -r {}; {BURN}", folder.display());
    let mut command = place.sudo(USER, &["--power", "model", "--", "sh", "-c", &script]);
    command.current_dir(&folder);
    let output = run_bounded(command);
    assert_code(&output, 0);
    for (before, begins) in [("recording: ", RECORDING), ("flame graph: ", SVG)] {
        let saved = named(&output, before);
        assert_users(&saved, begins);
        let around = saved.parent().unwrap();
        assert_eq!(fs::metadata(around).unwrap().permissions().mode() & 0o777, 0o700);
        fs::remove_dir_all(around).unwrap();
    }
}

/// C2: the folder is renamed during the run: the files are in it, and it is said where that is.
#[test]
fn a_renamed_folder_is_followed() {
    let place = place();
    let folder = place.path("before");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(USER), Some(USER)).unwrap();
    let script = format!("mv before after; {BURN}");
    let outputs =
        ["-o", "before/r.data", "--svg", "before/r.svg", "--power", "model", "--", "sh", "-c", &script];
    let output = run_bounded(place.sudo(USER, &outputs));
    assert_code(&output, 0);
    for (before, begins) in [("recording: ", RECORDING), ("flame graph: ", SVG)] {
        let found = named(&output, before);
        assert_users(&found, begins);
        assert!(found.starts_with(place.path("after")), "{}", found.display());
    }
}

/// C2: `-o /dev/null` keeps no recording; the result is shown, and the status is the command's.
#[test]
fn no_recording_is_kept() {
    let place = place();
    let arguments = ["-o", "/dev/null", "--no-svg", "--power", "model", "--", "sh", "-c", "exit 3"];
    let output = run_bounded(place.sudo(USER, &arguments));
    assert_code(&output, 3);
    assert_says(&output, &["sh -c exit 3", "recording: not kept"]);
    assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(fs::read_dir(place.folder()).unwrap().count(), 0);
}

/// An older recording is kept as `.old`, put back when nothing ran, and what a run that failed has made is taken away.
#[test]
fn the_older_file_is_kept() {
    let place = place();
    place.write("energy-trace.data", 0o644, "first");
    let script = ["--power", "none", "--no-svg", "--", "./script"];
    place.write("script", 0o755, "#!/no/such/interpreter\n");
    assert_code(&run_bounded(place.sudo(USER, &script)), 127);
    assert_eq!(fs::read_to_string(place.path("energy-trace.data")).unwrap(), "first");
    assert!(!place.path("energy-trace.data.old").exists());
    let whole = ["--power", "none", "--no-svg", "--", "true"];
    assert_code(&run_bounded(place.sudo(USER, &whole)), 0);
    assert_eq!(fs::read_to_string(place.path("energy-trace.data.old")).unwrap(), "first");
    assert_users(&place.path("energy-trace.data"), RECORDING);
    let names: Vec<_> =
        fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

/// A folder that the user may not write to is refused before the run, with the user it was tried as.
#[test]
fn files_are_made_as_the_user() {
    let place = place();
    place.write_secret("");
    let arguments = ["-o", "roots/r.data", "--no-svg", "--", "touch", "ran"];
    let output = run_bounded(place.sudo(USER, &arguments));
    assert_code(&output, 125);
    assert_says(&output, &["cannot write roots/r.data as user 12345, who typed sudo", "-o FILE"]);
    assert!(!place.path("ran").exists() && !place.path("roots/r.data").exists());
}

/// The finisher is the user for good, without capabilities; when it is killed the recording stays, and the status says so.
#[test]
fn the_finisher() {
    let place = place();
    let mut command = place.sudo(USER, &["--power", "none", "--", "sh", "-c", "echo ready; read x"]);
    command.env("LC_ALL", "C");
    let mut child = Talk::spawn(command);
    assert_eq!(child.line(), "ready\n");
    let mine = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(et-finisher)") && stat.contains(&format!(" {} ", child.0.id()))
    };
    let pids = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pid = pids.into_iter().find(|pid| mine(pid)).expect("a finisher");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    for line in [
        "Uid:\t12345\t12345\t12345\t12345",
        "Gid:\t12345\t12345\t12345\t12345",
        "CapInh:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapAmb:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(line), "{line} is not in:\n{status}");
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.parse().unwrap()), nix::sys::signal::SIGKILL)
        .unwrap();
    let output = child.end();
    assert_code(&output, 125);
    assert_says(&output, &["et-finisher", "energy-trace.data"]);
    assert!(read(&place.path("energy-trace.data")).unwrap().summary.is_some());
}

/// A command that stops the finisher, whose user it is, keeps nobody: two SIGINTs end the run, and the recording is whole.
#[test]
fn a_stopped_finisher_keeps_nobody() {
    let place = place();
    let script = "echo ready; read finisher; kill -STOP $finisher && echo stopped";
    let mut child = Talk::spawn(place.sudo(USER, &["--power", "none", "--no-svg", "--", "sh", "-c", script]));
    assert_eq!(child.line(), "ready\n");
    // The command need not see other processes in `/proc` (`hidepid`), and is told which it is.
    let finisher = all().into_iter().find(|seen| seen.name == "et-finisher" && seen.parent == child.0.id());
    writeln!(child.0.stdin.as_mut().unwrap(), "{}", finisher.expect("a finisher").pid).unwrap();
    assert_eq!(child.line(), "stopped\n");
    let whole = || read(&place.path("energy-trace.data")).is_ok_and(|recording| recording.summary.is_some());
    eventually("the recording's end", whole);
    eventually("the end", || {
        let ended = child.0.try_wait().unwrap().is_some();
        if !ended {
            child.signal(libc::SIGINT);
        }
        ended
    });
    assert_code(&child.end(), 130);
}

/// The recording and the flame graph are not one file, however they are spelled.
#[test]
fn two_names_of_one_file() {
    let place = place();
    let arguments = ["-o", "same", "--svg", "./same", "--power", "none", "--", "touch", "ran"];
    let output = run_bounded(place.sudo(USER, &arguments));
    assert_code(&output, 125);
    assert_says(&output, &["./same is the recording", "--svg FILE"]);
    assert_eq!(fs::read_dir(place.folder()).unwrap().count(), 0);
}

/// A root that nobody called by sudo writes where root may: into a folder of somebody else's too. The files are root's.
#[test]
fn root_writes_into_folders_of_others() {
    let place = place();
    std::os::unix::fs::chown(place.folder(), Some(USER), Some(USER)).unwrap();
    place.write("energy-trace.data", 0o600, "older");
    assert_code(&place.run(&["-q", "--power", "model", "--", "sh", "-c", BURN]), 0);
    for name in ["energy-trace.data", "energy-trace.svg"] {
        assert_eq!(fs::metadata(place.path(name)).unwrap().uid(), 0, "{name}");
    }
    assert_eq!(fs::read_to_string(place.path("energy-trace.data.old")).unwrap(), "older");
}

/// When energy-trace is killed the finisher ends too, and no file is left but the recording.
#[test]
fn nothing_is_left_by_a_kill() {
    let place = place();
    let mut child =
        Talk::spawn(place.sudo(USER, &["--power", "none", "--", "sh", "-c", "echo ready; read x"]));
    assert_eq!(child.line(), "ready\n");
    // The command's first word comes a moment before the recording's first record, behind the 13 bytes that say what file it is: killed
    // between the two, nothing was recorded and nothing is kept.
    let recording = place.path("energy-trace.data");
    eventually("the recording's first record", || fs::metadata(&recording).is_ok_and(|file| file.len() > 64));
    let children = format!("/proc/{0}/task/{0}/children", child.0.id());
    let children: Vec<String> =
        fs::read_to_string(children).unwrap().split_whitespace().map(str::to_owned).collect();
    let comm = |pid: &String| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    assert!(children.iter().any(|pid| comm(pid) == "et-finisher\n"), "{children:?}");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    eventually("the finisher's end", || !children.iter().any(|pid| comm(pid) == "et-finisher\n"));
    let names: Vec<_> =
        fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["energy-trace.data"]);
}

/// Under sudo, verbs that read do it as the user: a recording of root's is not shown, and no file of root's is written.
#[test]
fn reading_verbs_are_the_users() {
    let place = place();
    let arguments = ["-q", "-o", "r.data", "--no-svg", "--power", "model", "--", "sh", "-c", BURN];
    assert_code(&place.run(&arguments), 0);
    let secret = place.write_secret("precious");
    for verb in
        [&["report", "r.data"][..], &["export", "r.data", "--format", "folded"], &["flamegraph", "r.data"]]
    {
        let output = run_bounded(place.sudo(USER, verb));
        assert_code(&output, 125);
        assert_says(&output, &["r.data", "Permission denied", "SUDO_UID"]);
        assert!(output.stdout.is_empty());
    }
    std::os::unix::fs::chown(place.path("r.data"), Some(USER), Some(USER)).unwrap();
    symlink(&secret, place.path("out")).unwrap();
    for verb in
        [&["flamegraph", "r.data", "-o", "out"][..], &["export", "r.data", "--format", "folded", "-o", "out"]]
    {
        assert_code(&run_bounded(place.sudo(USER, verb)), 125);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "precious");
    }
    for to in ["/dev/stdout", "/dev/stderr", "/dev/null", "-", "/dev/fd/1"] {
        let output = run_bounded(place.sudo(USER, &["flamegraph", "r.data", "-o", to]));
        assert_code(&output, 0);
        assert_eq!(output.stdout.starts_with(SVG), !["/dev/null", "/dev/stderr"].contains(&to), "{to}");
        assert_eq!(output.stderr.starts_with(SVG), to == "/dev/stderr", "{to}");
    }
}

/// A root that nobody called by sudo follows no link in a folder of somebody else's.
#[test]
fn root_follows_no_links_of_others() {
    let place = place();
    let arguments = ["-q", "-o", "r.data", "--no-svg", "--power", "model", "--", "sh", "-c", BURN];
    assert_code(&place.run(&arguments), 0);
    let secret = place.write_secret("precious");
    symlink(&secret, place.path("out")).unwrap();
    std::os::unix::fs::chown(place.folder(), Some(USER), Some(USER)).unwrap();
    let output = place.run(&["flamegraph", "r.data", "-o", "out"]);
    assert_code(&output, 125);
    assert_says(&output, &["out", "a link"]);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "precious");
    assert_code(&place.run(&["flamegraph", "r.data", "-o", "/dev/stdout"]), 0);
}
