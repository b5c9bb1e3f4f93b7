//! Which programs are recorded live: loops of all kinds, and the table of programs that a wattage for each innermost function gets wrong.
//!
//! Leaves out how they are recorded (`main.rs`).

use energy_trace_tests::process;
use std::path::{Path, PathBuf};

/// Functions whose names begin so belong to no target.
pub(crate) const BACKGROUND: &str = "stranger";

/// One program that is recorded, and what runs beside it.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) sockets: u32,
    pub(crate) sample_hz: u32,
    pub(crate) target: Vec<String>,
    /// Background processes, which declare their watts too.
    pub(crate) beside: Vec<Vec<String>>,
}

impl Program {
    fn new(name: &'static str, sockets: u32, target: Vec<String>) -> Self {
        Self { name, sockets, sample_hz: 99, target, beside: vec![] }
    }

    fn beside(self, command: &str) -> Self {
        let beside = self.beside.into_iter().chain([words(command)]).collect();
        Self { beside, ..self }
    }

    fn at(self, sample_hz: u32) -> Self {
        Self { sample_hz, ..self }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The program under test: the release build, or the one that `ENERGY_TRACE_UNDER_TEST` names, to see what another build does.
pub(crate) fn product() -> PathBuf {
    std::env::var_os("ENERGY_TRACE_UNDER_TEST").map_or_else(|| binary("energy-trace"), PathBuf::from)
}

/// What a release build makes: the product, or a workload of the tests' package.
fn binary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release").join(name)
}

fn threads() -> String {
    binary("threads").display().to_string()
}

/// The interpreter and a workload for it.
fn python(script: &str) -> String {
    format!("{} {}", process::python().display(), process::workload(script).display())
}

/// Loops of many kinds, at the rate that is sampled at where nothing is asked for.
pub(crate) fn loops(seconds: u32) -> Vec<Program> {
    let alone = process::alone_on(1).join(" ");
    let phases = |ms: u32| words(&format!("{alone} {} {seconds} --phase-ms {ms}", python("phases.py")));
    let threads = threads();
    let four = format!("{threads} {seconds} first=5 second=10 third=20 fourth=40");
    let two =
        format!("{threads} {seconds} first=8 second=20 & {threads} {seconds} third=12 fourth=30 & wait");
    let storm = format!(
        "(end=$(($(date +%s) + {seconds})); while [ $(date +%s) -lt $end ]; do /bin/true; done) & {threads} {seconds} first=8 second=30; wait"
    );
    let shell = |text: String| vec!["sh".to_owned(), "-c".to_owned(), text];
    let pair = words(&format!("{threads} {seconds} first=8 second=20"));
    vec![
        Program::new("phases of 300 ms", 2, phases(300)),
        Program::new("phases of 20 ms", 2, phases(20)),
        Program::new("phases of 5 ms", 2, phases(5)),
        Program::new("four threads", 1, words(&four)),
        Program::new("two processes", 1, shell(two)),
        Program::new("a background process", 1, pair.clone())
            .beside(&format!("{threads} {} {BACKGROUND}=12", seconds + 6)),
        Program::new("fork storm", 1, shell(storm)),
        Program::new("nobody beside", 1, pair),
    ]
}

/// Functions of 5, 15 and 40 W in one thread, whose times and callers are those of training steps. With `load` other processes of 8 and 20 W
/// run beside each, and it keeps no CPU to itself.
pub(crate) fn table(seconds: u32, load: bool) -> Vec<Program> {
    let alone = process::alone_on(1).join(" ");
    let program = |name, script: &str, phases: &str, quiet: bool| {
        let own = format!("{} {seconds} --phase-ms {phases}", python(script));
        let (sockets, command) = if quiet { (2, format!("{alone} {own}")) } else { (1, own) };
        Program::new(name, sockets, words(&command)).at(499)
    };
    let threads = threads();
    let burst = format!("{threads} {} {BACKGROUND}=12", seconds + 6);
    let programs = vec![
        program("own loops, 25 ms", "phases.py", "25", !load),
        program("own loops, 12:30:60 ms", "phases.py", "12:30:60", !load),
        program("shared function, 25 ms", "shared_leaf.py", "25", !load),
        program("shared function, 12:30:60 ms", "shared_leaf.py", "12:30:60", !load),
        program("own loops, 300 ms, two of 12 W beside", "phases.py", "300", false)
            .beside(&burst)
            .beside(&burst),
        program("own loops, 12:30:60 ms, two of 12 W beside", "phases.py", "12:30:60", false)
            .beside(&burst)
            .beside(&burst),
        program("own loops, 12:30:60 ms, 99 Hz", "phases.py", "12:30:60", !load).at(99),
    ];
    let loaded = format!("{threads} {} {BACKGROUND}-8=8 {BACKGROUND}-20=20", seconds + 6);
    let beside = |program: Program| if load { program.beside(&loaded) } else { program };
    programs.into_iter().map(beside).collect()
}

/// Loops of so many milliseconds, of three functions of 5, 15 and 40 W in constant order.
pub(crate) fn short_loops(seconds: u32) -> Vec<Program> {
    let alone = process::alone_on(1).join(" ");
    let of = |name, phases: &str, hz: u32| {
        let own = format!("{alone} {} {seconds} --phase-ms {phases}", python("phases.py"));
        Program::new(name, 2, words(&own)).at(hz)
    };
    vec![
        of("loop of 10 ms, 99 Hz", "3:4:3", 99),
        of("loop of 20 ms, 99 Hz", "6:8:6", 99),
        of("loop of 50 ms, 99 Hz", "10:15:25", 99),
        of("loop of 100 ms, 99 Hz", "20:30:50", 99),
        of("loop of 10 ms, 499 Hz", "3:4:3", 499),
        of("loop of 20 ms, 499 Hz", "6:8:6", 499),
        of("loop of 50 ms, 499 Hz", "10:15:25", 499),
        of("loop of 100 ms, 499 Hz", "20:30:50", 499),
    ]
}

/// The same work in each run, some ten seconds of it; with `load` beside other processes and without a CPU to itself.
pub(crate) fn repeated(load: bool) -> Program {
    let own = format!("{} 100", python("repeat.py"));
    if load {
        let beside = format!("{} 120 {BACKGROUND}-8=8 {BACKGROUND}-20=20", threads());
        return Program::new("the same work", 1, words(&own)).at(499).beside(&beside);
    }
    let alone = process::alone_on(1).join(" ");
    Program::new("the same work", 2, words(&format!("{alone} {own}"))).at(499)
}
