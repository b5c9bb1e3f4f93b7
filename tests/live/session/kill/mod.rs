//! SIGKILL at any moment, to each of the tracer's processes: the program that is recorded does not notice, and nothing is left.
//!
//! Runs the real binary as root; BPF programs load. The moments are drawn from a seed that is printed; ENERGY_TRACE_KILLS says how many there
//! are for each role (`cargo xtask bench kill`: 50), ENERGY_TRACE_SEED draws them again. Leaves out signals that a program can hear
//! (`signals.rs`).

mod left;

use energy_trace_tests::place::{Place, assert_code, eventually, text};
use energy_trace_tests::processes::family;
use energy_trace_tests::random::Random;
use left::Before;
use std::fs;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What the target ends with.
const STATUS: i32 = 7;
/// How long a run may take at the most.
const LIMIT: Duration = Duration::from_secs(60);

/// Which of the tracer's processes is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Recorder,
    Resolver,
    Finisher,
}

impl Role {
    const ALL: [Self; 3] = [Self::Recorder, Self::Resolver, Self::Finisher];

    /// Its process, of this tracer; there may be several, and this is any of them.
    fn find(self, tracer: u32, random: &mut Random) -> Option<u32> {
        let name = match self {
            Self::Recorder => return Some(tracer),
            Self::Resolver => "et-resolver",
            Self::Finisher => "et-finisher",
        };
        let found: Vec<u32> =
            family(tracer).iter().filter(|seen| seen.name == name).map(|seen| seen.pid).collect();
        let place = usize::try_from(random.below(found.len() as u64)).unwrap();
        found.get(place).copied()
    }
}

/// How many moments there are for each role.
fn moments() -> u32 {
    let asked = std::env::var("ENERGY_TRACE_KILLS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if std::env::var_os("ENERGY_TRACE_ALL").is_some() { 6 } else { 1 })
}

fn seed() -> u64 {
    let said = std::env::var("ENERGY_TRACE_SEED").ok().and_then(|text| text.parse().ok());
    said.unwrap_or_else(|| std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs())
}

/// A tracer that is killed with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A recording of a program that says when it begins and ends, in a place of its own.
struct Run {
    place: Place,
    tracer: Running,
    began: Instant,
}

impl Run {
    fn start() -> Self {
        let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
        fs::create_dir(place.path("tmp")).unwrap();
        let program =
            "i=0; while [ $i -lt 8 ]; do /usr/bin/python3 -c 'sum(range(1000000))'; i=$((i+1)); done";
        let script =
            format!("echo > began; (trap '' HUP; {program}; exit {STATUS}); echo $? > ended; exit {STATUS}");
        let mut command = place.command(&["record", "--power", "model", "--", "sh", "-c", &script]);
        command.env("TMPDIR", place.path("tmp")).env(left::VARIABLE, place.folder());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(place.path("said")).unwrap());
        Self { tracer: Running(command.spawn().unwrap()), place, began: Instant::now() }
    }

    fn has(&self, name: &str) -> bool {
        self.place.path(name).exists()
    }

    fn said(&self) -> String {
        text(&fs::read(self.place.path("said")).unwrap())
    }

    /// Waits until the tracer has ended.
    fn end(&mut self) -> ExitStatus {
        while self.began.elapsed() < LIMIT {
            if let Some(status) = self.tracer.0.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the tracer does not end: {:?} {}", family(self.tracer.0.id()), self.said());
    }
}

fn kill(pid: u32) {
    // SAFETY: kill takes two numbers. The process is the tracer, which has not been waited for, or was its child a moment ago.
    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
}

/// One moment; whether there was such a process.
fn kill_at(role: Role, moment: Duration, random: &mut Random) -> bool {
    let before = Before::look();
    let mut run = Run::start();
    while run.began.elapsed() < moment {
        std::thread::sleep(Duration::from_millis(1));
    }
    let tracer = run.tracer.0.id();
    let alive = run.tracer.0.try_wait().unwrap().is_none();
    let found = role.find(tracer, random).filter(|_| alive);
    if let Some(pid) = found {
        kill(pid);
    }
    let status = run.end();
    let told = status.code() == Some(125) && run.said().contains("et-finisher");
    let whole = status.code() == Some(STATUS) || role == Role::Finisher && told;
    assert!(role == Role::Recorder || whole, "{role:?} at {moment:?}: {status} {}", run.said());
    // The program that was recorded begins and ends as without us, or was never let go.
    eventually("the end of all processes", || left::processes(run.place.folder()).is_empty());
    assert_eq!(
        run.has("began"),
        run.has("ended"),
        "{role:?} at {moment:?}: the target was harmed; {}",
        run.said()
    );
    if run.has("began") {
        let status = fs::read_to_string(run.place.path("ended")).unwrap();
        assert_eq!(status.trim(), STATUS.to_string(), "{role:?} at {moment:?}");
        let report = run.place.run(&["report", "energy-trace.data", "--format", "json"]);
        assert_code(&report, 0);
    }
    before.assert_nothing_left(&run.place.path("tmp"));
    found.is_some()
}

/// Each role, at moments from before the start to after the end.
#[test]
fn killed_at_any_moment() {
    let (seed, moments) = (seed(), moments());
    println!("ENERGY_TRACE_SEED={seed}, {moments} moments for each role");
    let mut random = Random(seed);
    let whole = {
        let mut run = Run::start();
        assert_eq!(run.end().code(), Some(STATUS), "{}", run.said());
        run.began.elapsed()
    };
    for role in Role::ALL {
        let (mut met, mut tried) = (0, 0);
        // A few more, where by chance it was never there.
        while tried < moments || met == 0 && tried < 5 * moments {
            met += u32::from(kill_at(role, whole.mul_f64(random.unit()), &mut random));
            tried += 1;
        }
        println!("{role:?}: killed at {met} of {tried} moments within {whole:?}");
        assert!(met > 0, "{role:?} was never there");
    }
}
