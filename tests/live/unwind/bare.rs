//! Stacks through code without unwind information: no frame is wrong or missing in a stack that is called whole.
//!
//! Leaves out which return addresses are believed and why (`tests/offline/ebpf/walkers/scan.rs`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{PythonLoss, StackStatus, Truncation};
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::path::Path;
use std::process::Command;

/// Compiles the workload's parts.
fn build(folder: &Path) {
    let source = tests_dir().join("workloads/bare.c");
    let parts: [(&str, &[&str]); 3] = [
        ("bare", &["-DPREFIX=bare", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer"]),
        ("pointer", &["-DPREFIX=pointer", "-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer"]),
        ("main", &["-DMAIN"]),
    ];
    for (name, flags) in parts {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-fno-optimize-sibling-calls", "-c", "-o"]).arg(folder.join(format!("{name}.o")));
        assert!(cc.args(flags).arg(&source).status().unwrap().success());
    }
    // Without a full symbol table nobody knows where functions begin; the linker's own has their names.
    for (name, flags) in [("program", &["-rdynamic", "-s"][..]), ("named", &[])] {
        let mut cc = Command::new("cc");
        cc.args(flags).args(["-o", name, "main.o", "bare.o", "pointer.o"]).current_dir(folder);
        assert!(cc.status().unwrap().success());
    }
}

/// The names of a stack's functions from `main` on, or from its outermost one where that is missing.
fn names(recording: &Recording, stack: energy_trace_model::ids::StackId) -> Vec<&str> {
    let all: Vec<&str> = recording.frames_of(stack).map(|(_, frame)| frame.name.as_str()).collect();
    let from = all.iter().position(|name| *name == "main").unwrap_or(0);
    all[from..].to_vec()
}

/// Records the workload, all of it or its first part alone.
fn record(program: &Path, options: &[&str], arguments: &[&str]) -> Recording {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let mut line = vec!["record", "--power", "none", "--no-svg", "-F", "499"];
    line.extend(options);
    line.extend(["--", program.to_str().unwrap()]);
    line.extend(arguments);
    assert_code(&place.run(&line), 0);
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// What is called whole has each caller in its place; and most stacks are whole.
#[test]
fn callers_are_right_or_marked() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let program = folder.path().join("program");
    let all = record(&program, &[], &[]);
    let chains = [
        "main;bare;bare_deep;bare_deep;bare_deep;bare_deep;bare_spin",
        "main;pointer;pointer_deep;pointer_deep;pointer_deep;pointer_deep;pointer_spin",
        "main;through;pointer_through;pointer_deep;pointer_deep;pointer_deep;pointer_deep;pointer_spin",
        "main;stale;stale_kernel",
        "main;moved;moved_kernel",
        "main;hollow;hollow_spin",
        "__start_context;in_context",
    ];
    for chain in chains {
        check(&all, chain);
    }
    // The same by copies of the stack, which have holes where nothing was written.
    check(&record(&program, &["--unwind", "user"], &["0"]), "main;hollow;hollow_spin");
    // Where the symbol table says where functions begin, their code says the rest, in both.
    let named = folder.path().join("named");
    for options in [&["--unwind", "user"][..], &[]] {
        let recording = record(&named, options, &["1"]);
        check(&recording, chains[0]);
        let is_bridged = |status| matches!(status, StackStatus::Recovered(_) | StackStatus::Guessed(_));
        let bridged = recording.samples.iter().filter(|sample| is_bridged(sample.status)).count();
        assert!(bridged * 20 < recording.samples.len(), "{bridged} of {}", recording.samples.len());
    }
}

/// Where the symbol table says where functions begin, kernels that move the stack pointer lead back to their callers: of each sample it is
/// known by their code, and none is a guess.
#[test]
#[ignore = "four recordings of one kind of kernel: cargo xtask test --all runs it"]
fn kernels_that_move_the_stack() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let named = folder.path().join("named");
    for (part, chain) in [("5", "main;moved;moved_kernel"), ("7", "main;kept;kept_kernel")] {
        for options in [&["--unwind", "user"][..], &[]] {
            let recording = record(&named, options, &[part]);
            check(&recording, chain);
            let proved = recording.samples.iter().filter(|sample| sample.status == StackStatus::Complete);
            let (proved, all) = (proved.count(), recording.samples.len());
            assert!(proved * 100 >= all * 90, "{chain}: {proved} of {all}");
        }
    }
}

/// Programs of musl, whose first functions have no unwind information: whole down to the first one, in the first thread and in another.
#[test]
fn programs_of_musl() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <pthread.h>
        #include <time.h>
        __attribute__((noinline)) long leaf(long n) { volatile long s = 0; while (n--) s += n; return s; }
        __attribute__((noinline)) long other(long n) { volatile long s = 1; while (n--) s += n; return s; }
        void *in_thread(void *unused) {
            long sum = 0;
            while (clock() < CLOCKS_PER_SEC * 0.8) sum += other(100000);
            return (void *)sum;
        }
        int main(void) {
            pthread_t thread;
            long sum = 0;
            while (clock() < CLOCKS_PER_SEC * 0.4) sum += leaf(100000);
            return pthread_create(&thread, 0, in_thread, 0) || pthread_join(thread, 0) || sum == 1;
        }";
    std::fs::write(folder.path().join("program.c"), text).unwrap();
    for (name, flags) in [("dynamic", &[][..]), ("static", &["-static"])] {
        let mut gcc = Command::new("musl-gcc");
        gcc.args(["-O1", "-o", name, "program.c"]).args(flags);
        assert!(gcc.current_dir(folder.path()).status().unwrap().success());
        let recording = record(&folder.path().join(name), &[], &[]);
        check(&recording, "main;leaf");
        // `libc.so` has no names; its two functions are `__clone` and the thread's `start`.
        let outer = if name == "static" { ["__clone", "start"] } else { ["libc.so+", "libc.so+"] };
        let of_thread = recording.samples.iter().filter_map(|sample| {
            let names = names(&recording, sample.stack);
            let end = names.iter().position(|name| *name == "other")?;
            Some((sample.status == StackStatus::Complete, names[..end].to_vec()))
        });
        let of_thread: Vec<_> = of_thread.collect();
        let is_right = |names: &[&str]| matches!(names, [a, b, "in_thread"] if a.starts_with(outer[0]) && b.starts_with(outer[1]));
        let whole = of_thread.iter().filter(|(whole, names)| *whole && is_right(names)).count();
        eprintln!("{name}, in a thread: {whole} of {} whole", of_thread.len());
        assert!(of_thread.len() > 30 && whole * 100 >= of_thread.len() * 90, "{of_thread:?}");
    }
}

/// Code that was made at run time and is called through a pointer, as oneDNN's kernels for AVX-512: it says itself where its caller is, and
/// nothing is a guess.
#[test]
fn kernels_made_at_run_time() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    for options in [&["--unwind", "user"][..], &[]] {
        let recording = record(&folder.path().join("named"), options, &["8"]);
        let (mut proved, mut all) = (0, 0);
        for sample in &recording.samples {
            let names = names(&recording, sample.stack);
            // Not where `made` prepares it.
            if !names.contains(&"made") || !names.contains(&"[jit: named]") {
                continue;
            }
            all += 1;
            if matches!(sample.status, StackStatus::Complete | StackStatus::Recovered(_)) {
                assert_eq!(names[..3], ["main", "made", "[jit: named]"]);
                proved += 1;
            }
        }
        // The first ones were taken before its page was known, the last ones when it was gone.
        assert!(all > 30 && proved * 100 >= all * 80, "{options:?}: {proved} of {all}");
    }
}

/// A 32-bit program: the function that runs has its name, its callers stand behind a mark, and every sample says why.
#[test]
fn programs_of_32_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (tests_dir().join("workloads/spin_32_bits.s"), folder.path().join("program"));
    let mut cc = Command::new("cc");
    cc.args(["-m32", "-nostdlib", "-static", "-o"]).arg(&program).arg(source);
    assert!(cc.status().unwrap().success());
    let recording = record(&program, &[], &[]);
    let mut seen = 0;
    for sample in &recording.samples {
        let names = names(&recording, sample.stack);
        let Some(at) = names.iter().position(|name| *name == "counting") else { continue };
        assert_eq!(names[..=at], ["[unknown: 32-bit program]", "counting"]);
        assert_eq!(sample.status, StackStatus::Truncated(Truncation::Bits32));
        seen += 1;
    }
    assert!(seen > 30, "{seen} of {}", recording.samples.len());
}

/// Fails unless all whole stacks of this chain's leaf are this chain, and nine of ten are whole.
fn check(recording: &Recording, chain: &str) {
    let leaf = chain.rsplit(';').next().unwrap();
    let of_chain = |names: &[&str]| match chain.split(';').nth(1).unwrap() {
        "through" => names.contains(&"through") && names.contains(&leaf),
        "pointer" => !names.contains(&"through") && names.contains(&leaf),
        _ => names.contains(&leaf),
    };
    let (mut whole, mut all) = (0, 0);
    for sample in &recording.samples {
        let names = names(recording, sample.stack);
        let Some(end) = names.iter().rposition(|name| *name == leaf) else { continue };
        if !of_chain(&names) {
            continue;
        }
        all += 1;
        if matches!(sample.status, StackStatus::Complete | StackStatus::Recovered(_)) {
            assert_eq!(names[..=end].join(";"), chain);
            whole += 1;
        }
    }
    eprintln!("{chain}: {whole} of {all} whole");
    assert!(all > 30 && whole * 100 >= all * 90, "{chain}: {whole} of {all}");
}

/// Imports of TensorFlow call through 770 native frames, more than 512 of them below one sample's leaf: such stacks are whole.
#[test]
fn deep_callers_through_c() {
    let script = "import time
def leaf():
    for i in range(100000): pass
def rec(n):
    if n: list(map(rec, [n - 1]))
    else: leaf()
end = time.time() + 0.8
while time.time() < end or time.process_time() < 0.6: rec(110)";
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let options =
        ["record", "--power", "none", "--no-svg", "-F", "199", "--", "/usr/bin/python3", "-c", script];
    assert_code(&place.run(&options), 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let (mut deep, mut whole, mut longest) = (0, 0, 0);
    for sample in &recording.samples {
        let names: Vec<&str> =
            recording.frames_of(sample.stack).map(|(_, frame)| frame.name.as_str()).collect();
        if names.iter().filter(|name| **name == "rec").count() < 111 {
            continue;
        }
        deep += 1;
        longest = longest.max(names.len());
        let is_whole = matches!(sample.status, StackStatus::Complete | StackStatus::Recovered(_));
        whole += u32::from(is_whole && names[0] == "_start");
    }
    assert!(longest > 512, "{longest}");
    assert!(deep > 20 && whole * 10 >= deep * 9, "{whole} of {deep}");
}

/// More Python frames than are walked: the stack begins where the program does, says where frames are missing, and is not called whole.
#[test]
fn deeper_python_than_is_walked() {
    let script = "import sys, time
sys.setrecursionlimit(9000)
def leaf():
    for i in range(100000): pass
def rec(n):
    if n: rec(n - 1)
    else: leaf()
end = time.time() + 0.8
while time.time() < end or time.process_time() < 0.6: rec(5000)";
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let options =
        ["record", "--power", "none", "--no-svg", "-F", "199", "--", "/usr/bin/python3", "-c", script];
    assert_code(&place.run(&options), 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let mut deep = 0;
    for sample in &recording.samples {
        let names: Vec<&str> =
            recording.frames_of(sample.stack).map(|(_, frame)| frame.name.as_str()).collect();
        let Some(first) = names.iter().position(|name| *name == "rec") else { continue };
        let is_cut = sample.status == StackStatus::PythonLost(PythonLoss::TooDeep);
        let whole = matches!(sample.status, StackStatus::Complete | StackStatus::Recovered(_));
        if is_cut || whole {
            let mark = names.iter().position(|name| *name == "[unknown: too deep]");
            assert_eq!((names[0], mark.is_some_and(|mark| mark < first)), ("_start", is_cut), "{names:?}");
        }
        deep += u32::from(is_cut);
    }
    assert!(deep > 20, "{deep}");
}
