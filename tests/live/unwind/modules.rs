//! Modules and packages of Python functions whose files' paths do not tell them: archives, notebooks, code compiled elsewhere, packages in folders
//! that are not called `site-packages`; and each function once where CPython makes functions for perf.
//!
//! Leaves out names and order of frames otherwise (`oracle`).

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::record::{FrameKind, StackStatus};
use energy_trace_tests::breadth::some_or_all;
use energy_trace_tests::interpreters;
use energy_trace_tests::place::{Place, assert_code};
use std::path::Path;
use std::process::Command;

/// What takes CPU time in each of these programs.
const SPIN: &str = "import time\ndef spin():\n    end = time.process_time() + 0.15\n    while time.process_time() < end: pass\n";

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// Writes files of a folder in the place.
fn write(place: &Place, folder: &str, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = place.path(folder).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Records a command, with modules found in these folders or archives.
fn record(place: &Place, found_in: &Path, command: &[&str]) -> Recording {
    let first = ["record", "--power", "model", "--no-svg", "-F", "499", "--"];
    let output = place.command(&[&first[..], command].concat()).env("PYTHONPATH", found_in).output().unwrap();
    assert_code(&output, 0);
    read(&place.path("energy-trace.data")).unwrap()
}

/// A module has the name that it has itself: in an archive, in a package without `__init__.py`, compiled elsewhere, in a namespace of `exec`; the
/// cells of a notebook and the archive's own code are `__main__`.
#[test]
fn modules_by_their_own_word() {
    let place = place();
    let run = "from spin import spin\ndef run(): spin()\nrun()\n";
    let cells = "for file, name, text in [\n    ('/tmp/ipykernel_47/273.py', '__main__', 'def train(): spin()\\ntrain()'),\n    \
                 ('/build/machine/part.py', 'pkg.part', 'def built(): spin()\\nbuilt()'),\n    \
                 ('<string>', 'plugin', 'def made(): spin()\\nmade()'),\n]:\n    \
                 exec(compile(text, file, 'exec'), {'__name__': name, 'spin': spin})\n";
    let main = format!("from spin import spin\nimport pkg.mod, space.part\n{cells}spin()\n");
    let files = [
        ("spin.py", SPIN),
        ("pkg/__init__.py", ""),
        ("pkg/mod.py", run),
        ("space/part.py", run),
        ("__main__.py", main.as_str()),
    ];
    write(&place, "tree", &files);
    let archive = place.path("tool.pyz");
    let make = Command::new("/usr/bin/python3")
        .args(["-m", "zipapp", "tree", "-o"])
        .arg(&archive)
        .current_dir(place.folder())
        .status();
    assert!(make.unwrap().success());
    for python in interpreters::of_each_kind() {
        let recording = record(&place, Path::new(""), &[python.to_str().unwrap(), archive.to_str().unwrap()]);
        let has = |module: &str, name: &str| {
            recording.frames.iter().any(|frame| frame.module == module && frame.name == name)
        };
        for (module, name) in [
            ("spin", "spin"),
            ("pkg.mod", "run"),
            ("space.part", "run"),
            ("__main__", "train"),
            ("pkg.part", "built"),
            ("plugin", "made"),
            ("__main__", "<module>"),
        ] {
            assert!(has(module, name), "{}: no {module}.{name}", python.display());
        }
    }
}

/// What the program entered, by `--by api`.
fn api_rows(place: &Place) -> Vec<String> {
    let output = place.run(&["report", "energy-trace.data", "--by", "api", "--format", "json"]);
    assert_code(&output, 0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// Makes of the folder `deps` two without sources: compiled on another machine, and in the folder (`compileall -b .`).
const COMPILE: &str = "import py_compile, shutil\nfor folder, place in ('bare', '/build/machine'), ('local', './burnlib'):\n    \
                       shutil.copytree('deps', folder, ignore=shutil.ignore_patterns('burnlib'))\n    \
                       for name in ('__init__', '_core'):\n        \
                       py_compile.compile(f'deps/burnlib/{name}.py', f'{folder}/burnlib/{name}.pyc', f'{place}/{name}.py')\n";

/// A package that metadata lists has rows of its own, under its public names where its sources are there, in a folder and in an archive; the
/// module beside it is the program's.
#[test]
fn packages_by_their_metadata() {
    let core = format!("{SPIN}def work(): spin()\n");
    let files = [
        ("burnlib/__init__.py", "from ._core import work\n"),
        ("burnlib/_core.py", core.as_str()),
        ("burnlib-1.0.dist-info/RECORD", "burnlib/__init__.py,,\nburnlib/_core.py,,\n"),
        ("own.py", "import burnlib\ndef go(): burnlib.work()\n"),
    ];
    let place = place();
    write(&place, "deps", &files);
    let archive = Command::new("/usr/bin/python3")
        .args(["-m", "zipfile", "-c", "../deps.zip", "burnlib", "burnlib-1.0.dist-info", "own.py"])
        .current_dir(place.path("deps"))
        .status();
    assert!(archive.unwrap().success());
    place.write("app.py", 0o644, "import own\nfor _ in range(3): own.go()\n");
    let compile = Command::new("/usr/bin/python3").args(["-c", COMPILE]).current_dir(place.folder()).status();
    assert!(compile.unwrap().success());
    let calls = [
        ("deps", "burnlib.work"),
        ("deps.zip", "burnlib._core.work"),
        ("bare", "burnlib._core.work"),
        ("local", "burnlib._core.work"),
    ];
    for (folder, call) in calls {
        record(&place, &place.path(folder), &["/usr/bin/python3", "app.py"]);
        let rows = api_rows(&place);
        assert!(rows.iter().any(|row| row == call), "{folder}: {rows:?}");
        assert!(!rows.iter().any(|row| row.starts_with("own")), "{folder}: {rows:?}");
    }
}

/// With the functions that CPython makes for perf stacks are as whole as without, and each function stands once.
#[test]
fn functions_made_for_perf() {
    let script = format!(
        "{SPIN}def inner(): spin()\ndef outer(): sorted([1], key=lambda _: inner())\nfor _ in range(4): outer()\n"
    );
    let wanted = ["<module>", "outer", "outer.<locals>.<lambda>", "inner", "spin"];
    for python in some_or_all(&interpreters::found(12..=13)) {
        let place = place();
        place.write("app.py", 0o644, &script);
        let recording = record(&place, Path::new(""), &[python.to_str().unwrap(), "-X", "perf", "app.py"]);
        let (mut whole, mut all) = (0, 0);
        for sample in &recording.samples {
            let frames: Vec<_> = recording.frames_of(sample.stack).map(|(_, frame)| frame).collect();
            let python = frames.iter().filter(|frame| frame.kind == FrameKind::Python);
            let names: Vec<&str> = python.map(|frame| frame.name.as_str()).collect();
            if !names.contains(&"spin") {
                continue;
            }
            let once = names == wanted && !frames.iter().any(|frame| frame.name.starts_with("py::"));
            let is_whole = matches!(sample.status, StackStatus::Complete | StackStatus::Recovered(_));
            all += 1;
            whole += u32::from(once && is_whole);
        }
        assert!(all > 50 && whole * 100 >= all * 95, "{}: {whole} of {all}", python.display());
    }
}
