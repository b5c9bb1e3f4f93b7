//! Functions of one name and instances of one template: each by itself, and called the same, in the table, the summary, `diff` and the pictures.

use super::recording_builder::RecordingBuilder;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{DomainClass, FrameKind, Quality};
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_report::budgets::{Budget, check};
use energy_trace_report::diff::{Change, Comparison, DiffOptions, Divisor, compare};
use energy_trace_report::flamegraph::{self, FlameOptions};
use energy_trace_report::folded::{self, FoldedOptions, Per};
use energy_trace_report::summary::{self, SummaryOptions};
use energy_trace_report::{By, diff_flame, rows};

const CALLED: [&str; 7] = [
    "work  (liba.so)",
    "work  (libb.so)",
    "spin  (p/libx.so)",
    "spin  (q/libx.so)",
    "Op<1>::run(long)",
    "Op<2>::run(long)",
    "alone",
];
const OPTIONS: DiffOptions<'_> = DiffOptions {
    files: [&[]; 2],
    commands: [&[]; 2],
    work: Divisor::Counts([1.0; 2]),
    by: By::Function,
    native_frames: NativeFrames::Libraries,
    rows: 9,
    color: false,
    width: None,
};

/// A run in which the functions of `CALLED` spent so many millijoules.
fn run(mj: [i64; 7]) -> Profile {
    let mut b = RecordingBuilder::new("./prog", 9);
    let process = b.process(7, "prog", None);
    let thread = b.thread(process, 7, "prog");
    let main = b.frame(FrameKind::Native, "/t/prog", "main");
    let functions = [
        ("/t/liba.so", "work"),
        ("/t/libb.so", "work"),
        ("/t/p/libx.so", "spin"),
        ("/t/q/libx.so", "spin"),
        ("/t/prog", "Op<1>::run(long)"),
        ("/t/prog", "Op<2>::run(long)"),
        ("/t/liba.so", "alone"),
    ];
    for ((module, name), mj) in functions.into_iter().zip(mj) {
        let frame = b.frame(FrameKind::Native, module, name);
        let stack = b.stack(&[main, frame]);
        b.spent(thread, Some(stack), mj * 1_000, 900, 900);
    }
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    b.build()
}

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

/// Each output has each function by itself, with its own microjoules.
#[test]
fn one_name_in_every_output() {
    let profile = run([301, 102, 303, 104, 305, 106, 107]);
    let stacks = text(|out| {
        let options = FoldedOptions { per: Per::None, ..FoldedOptions::default() };
        folded::write(out, &profile, &options).unwrap();
    });
    let mut lines: Vec<String> = CALLED.iter().map(|name| format!("main;{name} ")).collect();
    lines
        .iter_mut()
        .zip([301, 102, 303, 104, 305, 106, 107])
        .for_each(|(line, mj)| *line += &format!("{mj}000"));
    lines.sort();
    assert_eq!(stacks.lines().collect::<Vec<_>>(), lines);
    let mut called = CALLED.map(str::to_owned);
    called.sort();
    for by in [By::Function, By::Line] {
        let mut table: Vec<String> =
            rows::rows(&profile, by).into_iter().map(|row| row.name + &row.inside).collect();
        table.retain(|name| name != "main");
        table.sort();
        assert_eq!(table, called, "{by:?}");
    }
    let svg = text(|out| flamegraph::write(out, &profile, &FlameOptions::default()).unwrap());
    let over_time = energy_trace_model::profile::OverTime::default();
    let page =
        text(|out| energy_trace_report::html::write(out, &profile, &over_time, &(0..1), false).unwrap());
    for name in CALLED {
        let in_xml = name.replace('<', "&lt;").replace('>', "&gt;");
        assert!(svg.contains(&format!("<title>{in_xml} (")), "{name}: {svg}");
        // In the graph, and in the tables of functions and of lines.
        let in_page = format!("\"{}\"", name.replace('<', "\\u003c"));
        assert!(page.matches(&in_page).count() >= 3, "{name}: {page}");
    }
    let text = text(|out| summary::write(out, &profile, &SummaryOptions::default()).unwrap());
    for row in [
        "301.00   ±7%     work liba.so",
        "102.00   ±7%     work libb.so",
        "303.00   ±7%     spin libx.so  (p/libx.so)",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    for row in ["Op<1>::run(long) prog", "Op<2>::run(long) prog", "alone liba.so"] {
        assert!(text.contains(row), "{row}: {text}");
    }
}

fn changed(compared: &Comparison<'_>) -> Vec<String> {
    let real = compared.changes.iter().skip(1).filter(|change| change.is_real());
    let mut names: Vec<String> = real.filter_map(|change: &Change| change.name.clone()).collect();
    names.sort();
    names
}

/// Work that goes from one function to another of its name is seen, by the names of the other outputs, and coloured in the picture.
#[test]
fn work_that_moves() {
    let [a, b] = [[300, 100, 300, 100, 300, 100, 100], [100, 300, 100, 300, 100, 300, 100]];
    let sides = [a, b].map(|mj| [1, 2, 3].map(|by| run(mj.map(|mj| mj * 100 + by))));
    let compared = compare([&sides[0], &sides[1]], &OPTIONS).unwrap();
    let mut moved = CALLED[..6].to_vec();
    moved.sort_unstable();
    assert_eq!(changed(&compared), moved);
    let svg = text(|out| diff_flame::write(out, &compared, &OPTIONS).unwrap());
    let coloured = svg.matches("fill=\"rgb(").count() - svg.matches("fill=\"rgb(250,250,250)").count();
    assert!(coloured >= 6 && svg.contains("work  (libb.so)") && !svg.contains("Op&lt;…&gt;"), "{svg}");
}

/// A twin that one side alone has takes no name away from the others: what both have is held against each other.
#[test]
fn a_twin_on_one_side() {
    let sides = [[300, 0, 300, 0, 300, 0, 100], [300, 80, 300, 80, 300, 80, 100]]
        .map(|mj| [1, 2, 3].map(|by| run(mj.map(|mj| if mj == 0 { 0 } else { mj * 100 + by }))));
    let mut sides = sides;
    for profile in &mut sides[0] {
        profile.rows.retain(|row| row.samples > 0 && row.energy.total().as_uj() > 0);
        profile.frames.iter_mut().for_each(|frame| frame.name = frame.name.replace("2>", "1>"));
    }
    let compared = compare([&sides[0], &sides[1]], &OPTIONS).unwrap();
    assert_eq!(changed(&compared), ["Op<…>::run(long)", "spin  (other files)", "work  (other files)"]);
}

/// A twin that one run alone has, as a sample of it is seldom, changes no name of the others: nothing has changed.
#[test]
fn a_rare_twin() {
    let of = |by: i64, rare: bool| {
        let mut profile = run([300, 100, 30_000 + by, if rare { 500 } else { 0 }, 300, 300, 100]);
        if !rare {
            profile.rows.retain(|row| row.energy.total().as_uj() > 0);
            let twins = profile.frames.iter_mut().filter(|frame| frame.module == "/t/q/libx.so");
            twins.for_each(|frame| "gone".clone_into(&mut frame.name));
        }
        profile
    };
    let sides = [[of(1, false), of(2, false), of(3, false)], [of(1, false), of(2, true), of(3, false)]];
    let compared = compare([&sides[0], &sides[1]], &OPTIONS).unwrap();
    assert_eq!(changed(&compared), [""; 0], "{:#?}", compared.changes);
}

/// A budget of a name that several functions have is of all of them; of one with its file of that alone.
#[test]
fn budgets_of_one_name() {
    let profile = run([301, 102, 303, 104, 305, 106, 107]);
    let used = |name: &str| {
        let checked = check(&profile, &[Budget::of_call(&format!("{name}=1J")).unwrap()]);
        checked[0].used.as_uj() / 1_000
    };
    let names = ["work", "work  (liba.so)", "work  (libb.so)", "spin  (q/libx.so)", "alone"];
    assert_eq!(names.map(used), [403, 301, 102, 104, 107]);
}
