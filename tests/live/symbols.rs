//! Names of machine code, live: inlined functions and lines, split debug files, containers, deleted files, code made at run time.
//!
//! Programs are compiled here by the compiler that builds the tests; `objcopy` and `strip` come with its linker. Needs root. Leaves out
//! stacks as such (`stacks.rs`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_tests::place::{Place, assert_code};
use energy_trace_tests::process::tests_dir;
use std::path::{Path, PathBuf};
use std::process::Command;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// Runs a command that has to succeed.
fn must(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?}");
}

/// Compiles `workloads/inlined.rs` with debug information.
fn compile(place: &Place, name: &str, flags: &[&str]) -> PathBuf {
    let (source, program) = (tests_dir().join("workloads/inlined.rs"), place.path(name));
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let fixed = ["--edition", "2024", "-O", "-g", "-o", program.to_str().unwrap(), source.to_str().unwrap()];
    must(&compiler, &[&fixed[..], flags].concat());
    program
}

/// Moves debug information and symbols into `NAME.debug` beside the program, which names it by a link.
fn split(program: &Path) -> PathBuf {
    let debug = PathBuf::from(format!("{}.debug", program.display()));
    let (path, debug_path) = (program.to_str().unwrap(), debug.to_str().unwrap());
    must("objcopy", &["--only-keep-debug", path, debug_path]);
    must("strip", &["--strip-all", path]);
    must("objcopy", &[&format!("--add-gnu-debuglink={debug_path}"), path]);
    debug
}

/// Records a command.
fn record(place: &Place, options: &[&str], command: &[&str]) -> Recording {
    let first = ["record", "--power", "none", "--no-svg", "-F", "499"];
    assert_code(&place.run(&[&first[..], options, &["--"], command].concat()), 0);
    energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap()
}

/// The frames of each sample's stack, root first.
fn stacks(recording: &Recording) -> Vec<Vec<&Frame>> {
    let frames = |stack| recording.frames_of(stack).map(|(_, frame)| frame).collect();
    recording.samples.iter().map(|sample| frames(sample.stack)).collect()
}

/// Whether a name is that of a function, with Rust's path before it and arguments behind it.
fn is(frame: &Frame, function: &str) -> bool {
    frame.name.split("::").any(|part| part.split(['<', '(']).next() == Some(function))
}

/// Samples whose innermost frame of the program is this one.
fn leaves<'a>(recording: &'a Recording, module: &str, function: &str) -> Vec<Vec<&'a Frame>> {
    let mut out = stacks(recording);
    out.retain(|stack| {
        let leaf = stack.iter().rev().find(|frame| frame.module == module);
        leaf.is_some_and(|leaf| is(leaf, function))
    });
    out
}

/// Functions that the compiler put into others are frames of their own, in the order of their calls, with the lines that ran; without the
/// option the function that holds them is the leaf.
#[test]
fn inlined_functions_and_lines() {
    let place = place();
    let program = compile(&place, "inlined", &[]);
    let path = program.to_str().unwrap();
    let source = std::fs::read_to_string(tests_dir().join("workloads/inlined.rs")).unwrap();
    let hot = 1 + source.lines().position(|line| line.contains("this line is hot")).unwrap();

    let plain = record(&place, &[], &[path, "1"]);
    assert!(leaves(&plain, path, "outermost").len() > 5, "{:?}", plain.frames);
    assert!(plain.frames.iter().all(|frame| frame.kind != FrameKind::Inlined));

    let recording = record(&place, &["--inlines"], &[path, "1"]);
    let stacks = leaves(&recording, path, "innermost");
    assert!(stacks.len() > 5, "{:?}", recording.frames);
    let mut lines = 0;
    for stack in &stacks {
        let own: Vec<&&Frame> = stack.iter().filter(|frame| frame.module == path).collect();
        let [.., outer, middle, inner] = own[..] else { panic!("{own:?}") };
        assert!(is(outer, "outermost") && outer.kind == FrameKind::Native, "{outer:?}");
        assert!(is(middle, "middle") && middle.kind == FrameKind::Inlined, "{middle:?}");
        assert!(is(inner, "innermost") && inner.kind == FrameKind::Inlined, "{inner:?}");
        assert!(outer.file.ends_with("inlined.rs") && outer.line > 0, "{outer:?}");
        lines += usize::from(inner.file.ends_with("inlined.rs") && inner.line as usize == hot);
    }
    assert!(lines > stacks.len() / 4, "{lines} of {}", stacks.len());
    let report = place.run(&["report", "--by", "line"]);
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(text.contains(&format!("innermost_[i] inlined.rs:{hot}")), "{text}");
}

/// A stripped program has its names and lines from its debug file, and without one its place and its build id.
#[test]
fn split_debug_files() {
    let place = place();
    let program = compile(&place, "split", &["-C", "link-arg=-Wl,--build-id"]);
    let debug = split(&program);
    let path = program.to_str().unwrap();
    let recording = record(&place, &["--inlines"], &[path, "1"]);
    assert!(!leaves(&recording, path, "innermost").is_empty(), "{:?}", recording.frames);

    // Of another build: as if there were none.
    let mut bytes = std::fs::read(&debug).unwrap();
    bytes.push(0);
    std::fs::write(&debug, bytes).unwrap();
    let recording = record(&place, &["--inlines"], &[path, "1"]);
    assert!(leaves(&recording, path, "innermost").is_empty());
    let nameless = |stack: &Vec<&Frame>| stack.iter().any(|frame| frame.name.starts_with("split+0x"));
    assert!(stacks(&recording).iter().any(nameless), "{:?}", recording.frames);
    let id = recording.build_ids.get(path).unwrap();
    assert!(id.len() >= 32, "{id}");
    let report = place.run(&["report", "-v"]);
    assert!(String::from_utf8_lossy(&report.stdout).contains(&format!("{path}: {id}")));
}

/// A file that exists in a container only, and is gone with it, has its names, from a debug file beside it too.
#[test]
fn files_of_a_container() {
    let place = place();
    let program =
        compile(&place, "inside", &["-C", "target-feature=+crt-static", "-C", "relocation-model=static"]);
    let debug = split(&program);
    let root = place.path("root");
    std::fs::create_dir(&root).unwrap();
    let script = format!(
        "mount --bind {root} {root} && mount --make-private {root} && mount -t tmpfs none {root} && cp {program} {debug} {root}/ && exec chroot {root} /inside 1",
        root = root.display(),
        program = program.display(),
        debug = debug.display()
    );
    let mut unshare = vec!["unshare", "--mount"];
    if !Command::new("unshare").args(["--mount", "true"]).status().unwrap().success() {
        // In a chroot that is no mount point: there the new mount has to be kept apart by a mount of its own.
        unshare.extend(["--propagation", "unchanged"]);
    }
    let recording = record(&place, &[], &[&unshare[..], &["sh", "-c", &script]].concat());
    assert!(!root.join("inside").exists());
    let path = root.join("inside");
    assert!(!leaves(&recording, path.to_str().unwrap(), "outermost").is_empty(), "{:?}", recording.frames);
}

/// A program that was deleted while it ran has its names.
#[test]
fn deleted_files() {
    let place = place();
    let program = compile(&place, "deleted", &[]);
    let path = program.to_str().unwrap();
    let script = format!("{path} 2 & sleep 0.7; rm {path}; wait");
    let recording = record(&place, &[], &["sh", "-c", &script]);
    assert!(!program.exists());
    assert!(!leaves(&recording, path, "outermost").is_empty(), "{:?}", recording.frames);
}

/// Code that was made in the place of other code has the name of the time when it ran, by the jitdump.
#[test]
fn reused_addresses() {
    let place = place();
    let script = tests_dir().join("workloads/reuse.py");
    let folder = place.path("");
    let command = ["/usr/bin/python3", script.to_str().unwrap(), folder.to_str().unwrap(), "1.5"];
    let recording = record(&place, &[], &command);
    for (function, name, other) in [("first", "old_code", "new_code"), ("second", "new_code", "old_code")] {
        let mut of_function = stacks(&recording);
        of_function.retain(|stack| {
            let calls = |frame: &&Frame| frame.kind == FrameKind::Python && frame.name == function;
            stack.iter().any(calls)
        });
        let count = |name: &str| {
            of_function.iter().filter(|stack| stack.iter().any(|frame| frame.name == name)).count()
        };
        assert!(count(name) > 5, "{function}: {} of {}", count(name), of_function.len());
        assert_eq!(count(other), 0, "{function}");
    }
}

/// The largest library of the machine: making its tables takes the longest.
fn largest_library() -> PathBuf {
    let files = std::fs::read_dir("/usr/lib/x86_64-linux-gnu").unwrap().flatten();
    let libraries = files.filter(|file| file.file_name().to_string_lossy().contains(".so"));
    libraries.max_by_key(|file| file.metadata().map_or(0, |m| m.len())).unwrap().path()
}

/// Code that is gone when the program ends was its program's, though its samples wait for word of an interpreter that might be in a library: a
/// large one is still being read.
#[test]
fn code_that_is_gone_at_the_end() {
    let place = place();
    let (source, program) = (tests_dir().join("workloads/made_code.c"), place.path("made_code"));
    must("cc", &["-O1", "-o", program.to_str().unwrap(), source.to_str().unwrap()]);
    let large = largest_library();
    let command = [program.to_str().unwrap(), "0.15", large.to_str().unwrap(), "libz.so.1"];
    let recording = record(&place, &[], &command);
    let innermost: Vec<String> =
        stacks(&recording).iter().filter_map(|s| Some(s.last()?.name.clone())).collect();
    let count = |name: &str| innermost.iter().filter(|found| *found == name).count();
    assert!(count("[jit: made_code]") > 10, "{innermost:?}");
    assert_eq!((count("[jit]"), count("[unknown: unmapped address]")), (0, 0), "{innermost:?}");
}

/// Callers of code that was made at run time are found by what the code says, however deep its stack is and whatever lies on it; where other code
/// takes its place, no stack goes on by the old code's.
#[test]
fn callers_of_made_code() {
    let place = place();
    let (source, program) = (tests_dir().join("workloads/deep_made_code.c"), place.path("deep_made_code"));
    must("cc", &["-O1", "-o", program.to_str().unwrap(), source.to_str().unwrap()]);
    let recording = record(&place, &[], &[program.to_str().unwrap(), "2", "0.8"]);
    let stacks = stacks(&recording);
    let callers: Vec<&str> = stacks
        .iter()
        .filter(|stack| stack.last().is_some_and(|frame| frame.name == "[jit: deep_made_code]"))
        .map(|stack| stack.get(stack.len().wrapping_sub(2)).map_or("nobody", |caller| caller.name.as_str()))
        .collect();
    let count = |name: &str| callers.iter().filter(|caller| **caller == name).count();
    assert!(2 * count("drive") > callers.len() && callers.len() > 50, "{callers:?}");
    assert_eq!(count("drive") + count("[no unwind info]"), callers.len(), "{callers:?}");
}

/// Code that is in no ELF file has the names of the perf map wherever it is, and the program's own code keeps its name where it was moved to
/// anonymous memory; what calls it is there.
#[test]
fn code_in_each_kind_of_memory() {
    let place = place();
    let (source, program) = (tests_dir().join("workloads/code_homes.c"), place.path("code_homes"));
    must("cc", &["-O1", "-o", program.to_str().unwrap(), source.to_str().unwrap()]);
    let recording = record(&place, &[], &[program.to_str().unwrap(), "0.2"]);
    let stacks = stacks(&recording);
    for (name, module) in [
        ("in_memfd", "[jit]"),
        ("in_shm", "[jit]"),
        ("in_sysv", "[jit]"),
        ("moved_text", program.to_str().unwrap()),
    ] {
        let mut of_place = stacks
            .iter()
            .filter(|stack| stack.iter().any(|frame| frame.name == name && frame.module == module));
        assert!(of_place.clone().count() > 10, "{name}: {:?}", recording.frames);
        assert!(of_place.any(|stack| stack.iter().any(|frame| frame.name == "drive")), "{name}");
    }
}
