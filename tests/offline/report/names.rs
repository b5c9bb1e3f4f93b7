//! Names that programs choose for themselves move no terminal and break no format: 27 of them, in each place of a recording, through each
//! output of the real binary; and any text at all in the flame graph, which stays well-formed XML.
//!
//! Leaves out what names are otherwise (`report.rs`).

use super::recording_builder::RecordingBuilder;
use crate::recording::records::{domain, frame, header, reading, sample, slice};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{DomainId, FrameId, Pid, ProcessKey, StackId, ThreadKey, Tid};
use energy_trace_model::recording::file::RecordingWriter;
use energy_trace_model::recording::record::{
    DomainClass, Frame, FrameKind, Process, Quality, Record, RecordingDiagnostic, Runtime, StackNode,
    Summary, Thread,
};
use energy_trace_report::flamegraph::{self, FlameOptions};
use energy_trace_report::folded::Per;
use energy_trace_report::rest::Rest;
use energy_trace_tests::place::{Place, assert_code, run_bounded, text};
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::os::unix::ffi::OsStringExt as _;

pub(super) const HOSTILE: [&str; 27] = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H",
    "over\rwritten",
    "two\nlines",
    "a\ttab",
    "back\x08\x08space",
    "bell\x07",
    "nul\0byte",
    "del\x7fete",
    "\u{9b}31mC1",
    "\u{90}q\u{9c}",
    "\u{85}next line",
    "\u{202e}txet\u{202c}",
    "\u{2066}isolated\u{2069}",
    "\u{200f}mark\u{61c}",
    "zero\u{200b}width\u{feff}",
    "join\u{200d}er\u{2060}",
    "line\u{2028}separator",
    "para\u{2029}graph",
    "soft\u{ad}hyphen",
    "tag\u{e0041}s",
    "not\u{fffe}a\u{ffff}character",
    "]]>--><script>alert(1)</script>",
    "\"quotes\"'&amp;<>;#",
    "\u{fffd}\u{fffd} lone surrogates",
];

/// What must not be in any output but for line ends: of its own, not the product's.
fn is_harmful(c: char) -> bool {
    let listed = [
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200d}',
        '\u{200f}',
        '\u{2028}',
        '\u{2029}',
        '\u{202c}',
        '\u{202e}',
        '\u{2060}',
        '\u{2066}',
        '\u{2069}',
        '\u{feff}',
        '\u{e0041}',
        '\u{fffe}',
        '\u{ffff}',
    ];
    c != '\n' && (c.is_control() || listed.contains(&c))
}

#[track_caller]
pub(super) fn assert_harmless(what: &str, text: &str) {
    if let Some(at) = text.find(is_harmful) {
        let around: String = text[at..].chars().take(40).collect();
        panic!("{what}: {around:?}");
    }
}

/// Every character is one that XML 1.0 allows (its production 2), and every element is closed.
#[track_caller]
pub(super) fn assert_well_formed(svg: &str) {
    let allowed = |c: char| {
        matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..) && c as u32 & 0xfffe != 0xfffe
    };
    assert!(svg.chars().all(allowed), "{:?}", svg.chars().find(|&c| !allowed(c)));
    let mut reader = Reader::from_str(svg);
    reader.config_mut().check_end_names = true;
    let mut open = 0;
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error} in\n{svg}")) {
            Event::Start(element) => {
                open += 1;
                for attribute in element.attributes() {
                    let value = attribute.unwrap().value.into_owned();
                    quick_xml::escape::unescape(&String::from_utf8(value).unwrap()).unwrap();
                }
            }
            Event::End(_) => open -= 1,
            Event::Text(text) => drop(text.decode().unwrap()),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open, 0, "{svg}");
}

/// A recording in which this is the name of everything.
fn recording_of(name: &str) -> Vec<Record> {
    let ms = |ms: u64| ms * 1_000_000;
    let own = || name.to_owned();
    let process = Process {
        key: ProcessKey::new(0),
        pid: Pid::new(42),
        parent: None,
        name: own(),
        command: vec![own()],
        runtime: Some(Runtime::CPython { version: own() }),
    };
    let thread =
        Thread { key: ThreadKey::new(0), process: ProcessKey::new(0), tid: Tid::new(42), name: own() };
    let python =
        Frame { kind: FrameKind::Python, module: own(), file: own(), line: 3, first_line: 1, ..frame(name) };
    let native = Frame { module: format!("/lib/{name}"), file: own(), line: 7, ..frame(name) };
    let nameless = Frame { module: format!("/lib/{name}"), ..frame("") };
    let stack = |frame, parent: Option<u32>| StackNode {
        parent: parent.map(StackId::new),
        frame: FrameId::new(frame),
    };
    let mut head = header();
    head.command = vec!["prog".to_owned(), own()];
    let found = RecordingDiagnostic::NoMmapEvents { error: own() };
    let summary = Summary {
        start: KtimeNs::from_ns(ms(1)),
        end: KtimeNs::from_ns(ms(1_001)),
        diagnostics: vec![found],
        ..Summary::default()
    };
    let samples = (0..20)
        .map(|i| sample(ms(50 * i + 5)))
        .map(|s| energy_trace_model::recording::record::Sample { stack: StackId::new(2), ..s });
    vec![
        Record::Header(head),
        Record::Domain(domain()),
        Record::Process(process),
        Record::Thread(thread),
        Record::Frame(FrameId::new(0), python),
        Record::Frame(FrameId::new(1), native),
        Record::Frame(FrameId::new(2), nameless),
        Record::Stack(StackId::new(0), stack(0, None)),
        Record::Stack(StackId::new(1), stack(1, Some(0))),
        Record::Stack(StackId::new(2), stack(2, Some(1))),
        Record::Slices((0..20).map(|i| slice(ms(50 * i + 1), ms(50 * i + 40))).collect()),
        Record::Samples(samples.collect()),
        Record::Readings(DomainId::new(0), (0..=20).map(|i| reading(ms(50 * i + 1), 500_000 * i)).collect()),
        Record::Summary(summary),
    ]
}

/// C9, C10: no output of a recording obeys a name of it; JSON gives each name back as it was, and the flame graph is XML.
#[test]
fn hostile_names_in_every_output() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let path = place.path("r.data");
    let mut lines: Vec<Vec<&str>> =
        ["function", "python", "line", "stack", "api", "library", "thread", "process"]
            .map(|by| vec!["report", "r.data", "--color", "never", "-v", "--by", by])
            .to_vec();
    lines.push(vec!["report", "r.data", "--format", "csv"]);
    for format in ["folded", "speedscope", "firefox", "chrome", "json"] {
        lines.push(vec!["export", "r.data", "--format", format]);
    }
    lines.push(vec!["flamegraph", "r.data", "-o", "-"]);
    lines.push(vec!["flamegraph", "r.data", "-o", "-", "--flip", "--by-callee", "--per", "thread"]);
    for name in HOSTILE {
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = RecordingWriter::over(file, &path).unwrap();
        recording_of(name).iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        for line in &lines {
            let output = place.run(line);
            assert_code(&output, 0);
            let said = String::from_utf8(output.stdout).unwrap();
            let what = format!("{name:?} in {line:?}");
            // CSV ends its lines by CR LF or LF; a name's own CR would stand elsewhere.
            assert_harmless(&what, &said.replace("\r\n", "\n"));
            if line.contains(&"flamegraph") {
                assert_well_formed(&said);
            }
        }
        let output = place.run(&["report", "r.data", "--format", "json"]);
        assert_code(&output, 0);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_harmless(&format!("{name:?} in JSON"), &said);
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(json["threads"][0]["name"], *name);
        assert_eq!(json["meta"]["command"][1], *name);
    }
}

/// Names of people and of code are as they were: letters of any script, and what is no letter but can be seen.
#[test]
fn other_names_are_untouched() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let path = place.path("r.data");
    for name in ["größe", "短い名前", "Ωμέγα::f<int&&>", "עברית", "naïve_e\u{301}", "\\x1b", "😀"]
    {
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = RecordingWriter::over(file, &path).unwrap();
        recording_of(name).iter().for_each(|record| writer.write(record).unwrap());
        writer.finish().unwrap();
        for line in [&["report", "r.data", "--by", "thread"][..], &["export", "r.data", "--format", "folded"]]
        {
            let output = place.run(line);
            assert_code(&output, 0);
            assert!(text(&output.stdout).contains(name), "{name}: {}", text(&output.stdout));
        }
    }
}

/// C9, C10: a command line with escapes and bytes that are no text: the summary, the flame graph and an error that quotes it.
#[test]
fn a_hostile_command_line() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let mut command = place.command(&["--power", "model", "--", "sh", "-c", burn, "a\x1b[2J\u{202e}"]);
    command.arg(std::ffi::OsString::from_vec(b"\xed\xa0\x80\x9b\xff\x01".to_vec()));
    let output = run_bounded(command);
    assert_code(&output, 0);
    assert_harmless("the summary", &text(&output.stderr));
    let svg = std::fs::read_to_string(place.path("energy-trace.svg")).unwrap();
    assert_harmless("the flame graph", &svg);
    assert_well_formed(&svg);
    let output = place.run(&["--", "no\x1b[31msuch\u{202e}"]);
    assert_code(&output, 127);
    assert_harmless("an error", &text(&output.stderr));
    let output = place.run(&["report", "no\x1b[31msuch\u{202e}"]);
    assert_code(&output, 125);
    assert_harmless("an error", &text(&output.stderr));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// C10: whatever characters names and the command line hold, the flame graph is well-formed XML.
    #[test]
    fn any_text_makes_xml(
        command in prop::collection::vec(any::<char>(), 0..40),
        names in prop::collection::vec(prop::collection::vec(any_char(), 0..20), 5),
        flip in any::<bool>(),
    ) {
        let [process, thread, module, python, native] =
            <[String; 5]>::try_from(names.into_iter().map(String::from_iter).collect::<Vec<_>>()).unwrap();
        let mut builder = RecordingBuilder::new("x", 2);
        let key = builder.process(7, &process, None);
        let key = builder.thread(key, 7, &thread);
        let frames = [builder.python(&module, &python, "x.py", 1), builder.frame(FrameKind::Native, &module, &native)];
        let stack = builder.stack(&frames);
        builder.spent(key, Some(stack), 5_000_000, 1_000, 100);
        builder.ledger("package-0", DomainClass::Package, Quality::Measured, [1_000_000, 0, 0]);
        let mut profile = builder.build();
        profile.run.header.command = vec![command.into_iter().collect()];
        let mut svg = Vec::new();
        let options = FlameOptions { flip, per: Some(Per::Thread), rest: Rest::ALL, ..FlameOptions::default() };
        flamegraph::write(&mut svg, &profile, &options).unwrap();
        assert_well_formed(&String::from_utf8(svg).unwrap());
    }
}

/// Any character, and those that formats care about more often.
fn any_char() -> impl proptest::strategy::Strategy<Value = char> {
    let special: Vec<char> =
        "\0\x01\x1b\x7f\r\n\t]]>&<\"'; #\u{85}\u{9b}\u{2028}\u{fffd}\u{fffe}\u{ffff}\u{10ffff}"
            .chars()
            .collect();
    proptest::prop_oneof![any::<char>(), prop::sample::select(special)]
}
