//! Programs that mean harm to whoever records them (`tests/hostile/`): each costs a stated amount, ends in time, and is told of.
//!
//! Runs the real binary as root; BPF programs load. Needs a C compiler and the system's Python, 3.11 to 3.13. Leaves out what is parsed of
//! bytes that nobody meant (`hostile_input.rs`, `tests/fuzz`).

use energy_trace_tests::place::{Place, Talk, assert_code, eventually, text};
use energy_trace_tests::process::tests_dir;
use energy_trace_tests::processes::{Watch, family};
use energy_trace_tests::report::Report;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The command's user: nobody in particular.
const USER: &str = "54321";
/// What a recording may take at the most: two seconds of look-ups for each file that takes too long, on a machine that does other things.
const LIMIT: Duration = Duration::from_secs(240);
/// Most memory of all of the tracer's processes together.
const MOST_MIB: u64 = 300;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// What a recording of a part took.
struct Recorded {
    output: Output,
    watch: Watch,
    took: Duration,
    report: Report,
}

impl Recorded {
    fn mib(&self) -> u64 {
        self.watch.most_kib >> 10
    }
}

/// The words that start a part (or `all`), with a folder of its own that its user may write to.
fn part(place: &Place, part: &str, seconds: u32) -> Vec<String> {
    let folder = place.path("hostile");
    fs::create_dir_all(&folder).unwrap();
    for open in [place.folder(), &folder] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let words = ["/usr/bin/python3".into(), scripts(place), part.into()];
    let words = words.into_iter().chain([seconds.to_string().into(), folder]);
    words.map(|word: PathBuf| word.to_str().unwrap().to_owned()).collect()
}

/// The program's folder, in a place that every user can read.
fn scripts(place: &Place) -> PathBuf {
    let folder = place.path("scripts");
    fs::create_dir_all(&folder).unwrap();
    // Its user writes the recording beside it.
    fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    for file in fs::read_dir(tests_dir().join("hostile")).unwrap().flatten() {
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
    }
    folder
}

/// Records a command, and watches what the tracer takes.
fn record(place: &Place, options: &[&str], command: &[String], variables: &[(&str, String)]) -> Recorded {
    record_under(place, options, command, variables, |_| ())
}

/// The same with a tracer that is prepared in some way.
fn record_under(
    place: &Place,
    options: &[&str],
    command: &[String],
    variables: &[(&str, String)],
    prepare: impl FnOnce(&mut Command),
) -> Recorded {
    fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut tracer = place.command(&["record", "--power", "model"]);
    tracer
        .args(options)
        .args((!command.is_empty()).then_some("--"))
        .args(command)
        .env("SUDO_UID", USER)
        .env("SUDO_GID", USER);
    tracer.env("TMPDIR", place.folder());
    tracer.envs(variables.iter().map(|(name, value)| (*name, value)));
    prepare(&mut tracer);
    // Into files: nobody reads a pipe while it runs.
    let said = [(), ()].map(|()| tempfile::NamedTempFile::new().unwrap());
    tracer.stdin(Stdio::null()).stdout(said[0].reopen().unwrap()).stderr(said[1].reopen().unwrap());
    let (mut watch, began) = (Watch::default(), Instant::now());
    let mut running = Talk(tracer.spawn().unwrap());
    let pid = running.0.id();
    let mut recording = None;
    let ended = watch.until(pid, LIMIT, || {
        recording = recording.take().or_else(|| open_recording(pid));
        running.0.try_wait().unwrap().is_some()
    });
    let took = began.elapsed();
    assert!(ended, "the tracer runs on after {took:?}: {:?}", family(pid));
    let status = running.0.wait().unwrap();
    let [stdout, stderr] = said.map(|said| fs::read(said.path()).unwrap());
    let output = Output { status, stdout, stderr };
    assert!(recording.is_some(), "no recording was open: {}", text(&output.stderr));
    let report = report(place, recording.unwrap());
    Recorded { output, watch, took, report }
}

/// The recording by the tracer's own descriptor: its path may lead anywhere by now.
fn open_recording(pid: u32) -> Option<fs::File> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let is_it = |link: &Path| {
        fs::read_link(link).is_ok_and(|to| text(to.as_os_str().as_encoded_bytes()).contains(".data"))
    };
    files.map(|file| file.path()).find(|link| is_it(link)).and_then(|link| fs::File::open(link).ok())
}

/// What `report` makes of a recording, which must be readable and exact.
fn report(place: &Place, mut recording: fs::File) -> Report {
    let copy = tempfile::NamedTempFile::new().unwrap();
    std::io::copy(&mut recording, &mut copy.as_file()).unwrap();
    let report = place.run(&["report", copy.path().to_str().unwrap(), "--format", "json"]);
    assert_code(&report, 0);
    let report = Report::parse(&text(&report.stdout)).unwrap();
    for row in &report.ledger {
        assert_eq!(row.imbalance_uj(), 0, "{row:?}");
    }
    let target: i64 = report.ledger.iter().map(|row| row.target_uj).sum();
    assert_eq!(report.self_uj("package"), target);
    report
}

fn sampling<'a>(report: &'a Report, what: &str) -> &'a serde_json::Value {
    &report.meta["sampling"][what]
}

/// C15, F14: wherever the caller of a frame leads, the frames before it are shown, the sample says that the chain is broken, and no stack has
/// a thousand equal frames.
#[test]
#[ignore = "slow, and part of everything_at_once: cargo xtask test --all"]
fn broken_python_frames() {
    let place = place();
    let script = scripts(&place).join("python_frames.py").to_str().unwrap().to_owned();
    for kind in ["itself", "pair", "cycle", "inner", "unmapped", "kernel", "unaligned"] {
        let words = ["/usr/bin/python3", &script, "spoiled", "1", kind].map(str::to_owned);
        let recorded = record(&place, &["--no-svg", "-o", "broken.data"], &words, &[]);
        assert_code(&recorded.output, 0);
        let verdicts = sampling(&recorded.report, "verdicts");
        println!("{kind}: {verdicts}");
        let broken = verdicts["python-lost:broken-chain"].as_u64().unwrap_or(0);
        let whole = sampling(&recorded.report, "samples").as_u64().unwrap();
        assert!(broken * 10 > whole * 7, "{kind}: {broken} of {whole} samples say so: {verdicts}");
        for function in ["spin", "middle"] {
            let seen: u64 = recorded.report.named(function).map(|f| f.samples).sum();
            assert!(seen * 10 > broken * 9, "{kind}: {function} is in {seen} of {broken}");
        }
        fs::remove_file(place.path("broken.data")).unwrap();
    }
}

/// C11: functions with names of 1 MB each: the names are cut, the recording stays small and so does the memory.
#[test]
fn names_of_a_megabyte() {
    let place = place();
    let command = part(&place, "names", 3);
    let recorded = record(&place, &["--no-svg", "-o", "names.data"], &command, &[]);
    assert_code(&recorded.output, 0);
    let bytes = fs::metadata(place.path("names.data")).unwrap().len();
    println!("{} MiB of memory, {bytes} bytes recorded", recorded.mib());
    assert!(bytes < 8 << 20, "{bytes} bytes recorded");
    assert!(recorded.mib() < MOST_OF_A_FILE_MIB, "{} MiB", recorded.mib());
    let cut = recorded.report.functions.iter().filter(|f| f.name.ends_with("n…")).count();
    assert!(cut > 20, "{cut} names are cut");
}

/// The program that burns.
fn compiled(place: &Place) -> PathBuf {
    let burn = place.path("burn");
    let mut compile = Command::new("cc");
    let source = tests_dir().join("hostile/burn.c");
    compile.args(["-O1", "-pthread"]).arg(source).arg("-o").arg(&burn).arg("-ldl");
    assert!(compile.status().unwrap().success());
    burn
}

/// S11: a function whose name in the file has 32 MB is shown under the name's begin, the recording stays small, and the report says so.
#[test]
fn a_name_of_32_megabytes() {
    let place = place();
    let recorded = record(&place, &["--no-svg", "-o", "name.data"], &part(&place, "longname", 2), &[]);
    assert_code(&recorded.output, 0);
    let bytes = fs::metadata(place.path("name.data")).unwrap().len();
    assert!(bytes < 4 << 20, "{bytes} bytes recorded");
    let cut = recorded.report.functions.iter().filter(|f| f.name.ends_with("n…")).count();
    assert_eq!((cut, warning(&recorded.report, "names-cut").is_empty()), (1, false));
}

/// S4: of a file with a page of code and 96 MiB of unwind information no more is read than the code can need, and the file is named.
#[test]
fn unwind_information_without_end() {
    let place = place();
    let recorded = record(&place, &["--no-svg"], &part(&place, "unwinding", 2), &[]);
    assert_code(&recorded.output, 0);
    assert!(recorded.mib() < MOST_OF_A_FILE_MIB, "{} MiB: {:?}", recorded.mib(), recorded.watch.shares);
    let told = warning(&recorded.report, "files-not-read");
    assert!(told.contains("0.so (it has more unwind information"), "{told}");
}

/// S5: 1,500 files of a user, where 400 may be open, keep the names of nobody else's program from being found, and a warning says whose went.
#[test]
fn files_of_one_user_are_not_all() {
    use std::os::unix::process::CommandExt as _;
    const OTHER: u32 = 12_346;
    // Nobody that another test's programs run as.
    const VICTIM: u32 = 12_347;
    let place = place();
    let words = part(&place, "libraries", 8);
    let burn = compiled(&place);
    let mut other = Command::new(&words[0]);
    other.args(&words[1..]).uid(OTHER);
    let _other = Talk::spawn(other);
    let ready = place.path("hostile/burn");
    eventually("the program that maps them", || ready.exists());
    let mut later = Command::new("sh");
    later.args(["-c", "sleep 3; exec \"$0\" spin 2"]).arg(&burn).uid(VICTIM);
    let _later = Talk::spawn(later);
    let under = |tracer: &mut Command| {
        let limit = libc::rlimit { rlim_cur: 400, rlim_max: 400 };
        // SAFETY: between fork and exec it makes one system call, on memory of its own.
        unsafe {
            tracer.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
    };
    let options = ["--no-svg", "-a", "--duration", "6s", "-F", "999"];
    let recorded = record_under(&place, &options, &[], &[], under);
    assert_code(&recorded.output, 0);
    assert!(recorded.report.functions.iter().any(|function| function.name == "hot"), "{:?}", recorded.output);
    let told = warning(&recorded.report, "files-not-kept");
    assert!(told.contains(&format!("user {OTHER} (")) && !told.contains(&VICTIM.to_string()), "{told}");
    assert!(text(&recorded.output.stderr).contains("were closed early"), "{:?}", recorded.output);
}

/// S6: the process that starts those that read files has a user of its own, and where somebody kills it all the same, programs that start later
/// have their names, and the first screen says what happened.
#[test]
fn a_killed_resolver_is_replaced() {
    let place = place();
    let program = compiled(&place);
    let script = format!(
        "echo > started; while [ ! -e killed ]; do sleep 0.1; done; exec {} spin 2",
        program.display()
    );
    let mut tracer =
        place.command(&["record", "--power", "model", "--no-svg", "-o", "r.data", "--", "sh", "-c", &script]);
    tracer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let tracer = tracer.spawn().unwrap();
    let pid = tracer.id();
    eventually("the command's start", || place.path("started").exists());
    let users: Vec<_> = family(pid).into_iter().filter(|seen| seen.name == "et-resolver").collect();
    for seen in &users {
        let status = fs::read_to_string(format!("/proc/{}/status", seen.pid)).unwrap();
        let user =
            status.lines().find_map(|line| line.strip_prefix("Uid:\t")).unwrap().split('\t').next().unwrap();
        let user: u32 = user.parse().unwrap();
        assert!(user > 999 && user != 65534, "{status}");
        // SAFETY: kill takes two numbers; it is a process of the tracer's, which runs.
        unsafe { libc::kill(seen.pid.cast_signed(), libc::SIGKILL) };
    }
    assert!(users.len() > 1, "{users:?}");
    place.write("killed", 0o644, "");
    let output = tracer.wait_with_output().unwrap();
    assert_code(&output, 0);
    let report = report(&place, fs::File::open(place.path("r.data")).unwrap());
    assert!(report.functions.iter().any(|function| function.name == "hot"), "{}", text(&output.stderr));
    assert!(warning(&report, "file-reader-lost").contains("it was started again"));
    assert!(text(&output.stderr).contains("was killed, and started again"), "{}", text(&output.stderr));
}

/// C17: 30,000 executable mappings in a loop cost the tracer a fifth of a CPU at the most (more than half of one before), beside what any
/// program costs it.
#[test]
#[ignore = "slow, and part of everything_at_once: cargo xtask test --all"]
fn mappings_without_end() {
    let place = place();
    let take = |what: &str| {
        let command = part(&place, what, 10);
        let recorded = record(&place, &["--no-svg", "-o", &format!("{what}.data")], &command, &[]);
        assert_code(&recorded.output, 0);
        let cpu = recorded.watch.cpu().as_secs_f64();
        println!("{what}: {cpu:.2} s of CPU time in {:?}, {} MiB", recorded.took, recorded.mib());
        assert!(recorded.mib() < 200, "{} MiB", recorded.mib());
        cpu
    };
    let (quiet, storm) = (take("folder"), take("mappings"));
    assert!(storm - quiet < 0.2 * 10.0, "{storm} s beside {quiet} s");
}

/// Everything at once for 30 s, with `-a`: the tracer ends in time and within its memory, what it recorded is readable and exact, and the files
/// that were put in its way are as they were.
#[test]
#[ignore = "slow, and each part has a test of its own: cargo xtask test --all"]
fn everything_at_once() {
    let place = place();
    let command = part(&place, "all", 30);
    let outputs =
        ["energy-trace.svg", "energy-trace.data"].map(|name| place.path(name).to_str().unwrap().to_owned());
    let gone = place.path("gone");
    fs::create_dir(&gone).unwrap();
    fs::set_permissions(&gone, fs::Permissions::from_mode(0o777)).unwrap();
    let stuck = Stuck::mount(&place);
    let variables = [
        ("HOSTILE_OUTPUTS", outputs.join("\n")),
        ("HOSTILE_GONE", gone.to_str().unwrap().to_owned()),
        ("HOSTILE_STUCK", stuck.file()),
    ];
    let recorded = record(&place, &["-a"], &command, &variables);
    clean(&place);
    println!("took {:?}, {} MiB, {:?} of CPU time", recorded.took, recorded.mib(), recorded.watch.cpu());
    println!("KiB at most: {:?}", recorded.watch.shares);
    println!("{}", recorded.report.meta["warnings"]);
    println!("{}", text(&recorded.output.stderr));
    assert!(recorded.mib() < MOST_MIB, "{} MiB: {:?}", recorded.mib(), recorded.watch.shares);
    let precious = fs::read_to_string(place.path("hostile/outputs/precious")).unwrap();
    assert_eq!(precious, "not to be touched");
    let shown = text(&recorded.output.stdout) + &text(&recorded.output.stderr);
    let obeyed =
        shown.chars().find(|&c| c.is_control() && !"\n\t".contains(c) || "\u{2028}\u{202e}".contains(c));
    assert_eq!(obeyed, None, "{shown:?}");
}

/// The recording's folder is taken away while it runs: what was recorded is shown all the same.
#[test]
fn the_folder_is_gone() {
    let place = place();
    let command = part(&place, "folder", 2);
    let gone = place.path("gone");
    fs::create_dir(&gone).unwrap();
    fs::set_permissions(&gone, fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(&gone, USER.parse().ok(), USER.parse().ok()).unwrap();
    let data = gone.join("energy-trace.data").to_str().unwrap().to_owned();
    let variables = [("HOSTILE_GONE", gone.to_str().unwrap().to_owned())];
    let recorded = record(&place, &["--no-svg", "-o", &data], &command, &variables);
    assert_code(&recorded.output, 0);
    assert!(!gone.join("energy-trace.data").exists());
    let shown = text(&recorded.output.stderr);
    assert!(shown.contains("hot") && shown.contains("was moved, replaced or removed"), "{shown}");
}

/// Of one file that harms, with what it takes alone.
const MOST_OF_A_FILE_MIB: u64 = 300;

/// The warning of this code; empty where there is none.
fn warning(report: &Report, code: &str) -> String {
    let warnings = report.meta["warnings"].as_array().unwrap().iter();
    let of_code = warnings.filter(|warning| warning["code"] == code);
    of_code.map(|warning| warning["text"].as_str().unwrap()).collect()
}

/// C4: programs that put a FIFO in the place of their own file just before they end: nobody waits for the FIFO's other end.
#[test]
fn pipes_in_the_place_of_programs() {
    let place = place();
    let recorded = record(&place, &["--no-svg"], &part(&place, "fifo", 3), &[]);
    assert_code(&recorded.output, 0);
    let seconds = recorded.report.meta["duration_ns"].as_u64().unwrap() / 1_000_000_000;
    assert!(seconds >= 2, "{seconds} s of 3 are in the recording");
}

/// C4, the whole machine: what another user does so does not keep `-a` from ending when its time is up.
#[test]
fn pipes_of_another_user() {
    let place = place();
    let words = part(&place, "fifo", 4);
    let mut other = Command::new(&words[0]);
    std::os::unix::process::CommandExt::uid(other.args(&words[1..]), 12_346);
    let _other = Talk::spawn(other);
    let nothing = Vec::new();
    let recorded = record(&place, &["--no-svg", "-a", "--duration", "2s"], &nothing, &[]);
    assert_code(&recorded.output, 0);
    assert!(sampling(&recorded.report, "samples").as_u64().unwrap() > 0);
}

/// C5: files of 20 KB whose headers say that they have 8 GiB cost little memory and are named; a string table that is too long is not read.
#[test]
fn sizes_that_are_lies() {
    let place = place();
    let recorded = record(&place, &["--no-svg"], &part(&place, "bombs", 2), &[]);
    assert_code(&recorded.output, 0);
    assert!(recorded.mib() < MOST_OF_A_FILE_MIB, "{} MiB: {:?}", recorded.mib(), recorded.watch.shares);
    let told = warning(&recorded.report, "files-not-read");
    for kind in [".symtab", ".dynsym", ".note.gnu.build-id", ".eh_frame"] {
        assert!(told.contains(&format!("bomb{kind} (its headers say")), "{kind}: {told}");
    }
}

/// C6: a library that loses its end while it is unwound through, and while its names are looked up: an error about one file, no SIGBUS.
#[test]
#[ignore = "slow, and part of everything_at_once: cargo xtask test --all"]
fn files_that_shrink() {
    for _ in 0..2 {
        let place = place();
        let recorded = record(&place, &["--no-svg"], &part(&place, "truncate", 6), &[]);
        assert_code(&recorded.output, 0);
        // Either it was read before it was cut, or it is named.
        let told = warning(&recorded.report, "files-not-read");
        let named = recorded.report.functions.iter().any(|function| function.name == "hot");
        assert!(named || told.contains("lib-lost.so"), "{told} {}", text(&recorded.output.stderr));
    }
}

/// C7: eight million lines that all name every address are read once, from the end, in little memory, and the last one names the code.
#[test]
fn a_perf_map_of_lines_over_everything() {
    let place = place();
    let recorded = record(&place, &["--no-svg", "-F", "999"], &part(&place, "maps", 3), &[]);
    clean(&place);
    assert_code(&recorded.output, 0);
    assert!(recorded.mib() < MOST_OF_A_FILE_MIB, "{} MiB", recorded.mib());
    let named = |name: &str| recorded.report.functions.iter().any(|function| function.name == name);
    let names: Vec<_> = recorded.report.functions.iter().map(|function| &function.name).collect();
    assert!(named("in_every_line") && !named("mallory_was_here"), "{names:?}");
}

/// C7: a perf map names a process's code if it is its user's, and not if it is a stranger's.
#[test]
fn whose_perf_map() {
    let place = place();
    let burn = compiled(&place);
    for (owner, believed) in [(12_346, false), (USER.parse().unwrap(), true)] {
        let mut victim = Command::new(&burn);
        std::os::unix::process::CommandExt::uid(victim.args(["sled", "5"]), USER.parse().unwrap());
        let victim = Talk::spawn(victim);
        let pid = victim.0.id().to_string();
        let map = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        fs::write(&map, "1 fffffffffffffff0 says_the_map\n").unwrap();
        std::os::unix::fs::chown(&map, Some(owner), None).unwrap();
        let nothing = Vec::new();
        let recorded = record(&place, &["--no-svg", "--duration", "1s", "-p", &pid], &nothing, &[]);
        fs::remove_file(&map).unwrap();
        let named = recorded.report.functions.iter().any(|function| function.name == "says_the_map");
        assert_eq!(named, believed, "a map of user {owner}");
    }
}

/// C7: a jitdump with a million records that all cover the same code, with times of another clock.
#[test]
#[ignore = "slow, and part of everything_at_once: cargo xtask test --all"]
fn a_jitdump_of_records_over_everything() {
    let place = place();
    let recorded = record(&place, &["--no-svg", "-F", "999"], &part(&place, "jitdump", 3), &[]);
    assert_code(&recorded.output, 0);
    assert!(recorded.mib() < MOST_MIB, "{} MiB", recorded.mib());
}

/// A file system that reads no page, and the process that keeps it.
struct Stuck {
    server: Talk,
    folder: PathBuf,
}

impl Stuck {
    fn mount(place: &Place) -> Self {
        let (program, folder) = (place.path("stuck"), place.path("mounted"));
        let mut compile = Command::new("cc");
        let source = tests_dir().join("hostile/stuck.c");
        assert!(compile.arg("-O1").arg(source).arg("-o").arg(&program).status().unwrap().success());
        let mut serve = Command::new(&program);
        serve.args(["serve", "200"]).arg(&folder);
        let mut server = Talk::spawn(serve);
        assert_eq!(server.line(), "mounted\n");
        Self { server, folder }
    }

    /// Its file.
    fn file(&self) -> String {
        self.folder.join("file").to_str().unwrap().to_owned()
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.server.signal(libc::SIGTERM);
        self.server.0.wait().unwrap();
    }
}

/// S1: pages of a file that is never read, where the recorder looks at a Python's version and at a function's name: the
/// recording ends in time, says whose memory it was, and another user's Python has its names.
#[test]
fn memory_that_never_answers() {
    let place = place();
    let words = part(&place, "stuck", 9);
    let stuck = Stuck::mount(&place);
    let mut other = Command::new(&words[0]);
    other.args(&words[1..]).env("HOSTILE_STUCK", stuck.file());
    std::os::unix::process::CommandExt::uid(&mut other, 12_346);
    let _other = Talk::spawn(other);
    let script = "def victim():\n for _ in range(10**4): pass\nimport time\nend = time.monotonic() + 5\nwhile time.monotonic() < end or time.process_time() < 1: victim()";
    let command = ["/usr/bin/python3", "-c", script].map(str::to_owned);
    let recorded = record(&place, &["--no-svg", "-a"], &command, &[]);
    assert_code(&recorded.output, 0);
    println!("{:?}, {} MiB, {}", recorded.took, recorded.mib(), recorded.report.meta["warnings"]);
    let told = warning(&recorded.report, "processes-not-answering");
    assert!(told.contains("of user 12346"), "{told}");
    let named: u64 = recorded.report.named("victim").map(|function| function.samples).sum();
    assert!(named > 50, "{named} samples are in victim");
    assert!(recorded.mib() < MOST_MIB, "{} MiB: {:?}", recorded.mib(), recorded.watch.shares);
}

/// S2: a command line of 48 MiB that takes no memory, and 200 processes with one of 1.6 MB: little is read, kept and recorded of them, and that is said.
#[test]
fn command_lines_without_end() {
    let place = place();
    let recorded = record(&place, &["--no-svg", "-o", "long.data"], &part(&place, "arguments", 3), &[]);
    assert_code(&recorded.output, 0);
    let bytes = fs::metadata(place.path("long.data")).unwrap().len();
    println!("{} MiB of memory, {bytes} bytes recorded", recorded.mib());
    assert!(bytes < 4 << 20, "{bytes} bytes recorded");
    assert!(recorded.mib() < MOST_MIB, "{} MiB: {:?}", recorded.mib(), recorded.watch.shares);
    assert!(!warning(&recorded.report, "command-lines-cut").is_empty());
}

/// S4: a library with 400 MB of unwind information for a page of code: nobody's samples are lost while it is looked into.
#[test]
fn unwind_information_holds_nobody_up() {
    let place = place();
    let recorded = record(&place, &["--no-svg", "-F", "999"], &part(&place, "rows", 6), &[]);
    assert_code(&recorded.output, 0);
    let told = warning(&recorded.report, "events-lost");
    println!("{told}, {} MiB, {}", recorded.mib(), recorded.report.meta["warnings"]);
    assert!(!told.contains("buffer full"), "{told}");
    assert!(sampling(&recorded.report, "samples").as_u64().unwrap() > 200);
}

/// C8: a debug link that leads, through a link, to a file of terabytes: nobody reads it for its checksum.
#[test]
fn a_debug_link_to_terabytes() {
    let place = place();
    let recorded = record(&place, &["--no-svg"], &part(&place, "debuglink", 1), &[]);
    assert_code(&recorded.output, 0);
    assert!(recorded.mib() < MOST_OF_A_FILE_MIB, "{} MiB", recorded.mib());
}

/// Takes away what the program has left in folders of everybody.
fn clean(place: &Place) {
    let mut clean = Command::new("/usr/bin/python3");
    clean.arg(tests_dir().join("hostile")).arg("clean").arg(place.path("hostile"));
    assert!(clean.status().unwrap().success());
}
