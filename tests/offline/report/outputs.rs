//! What reports look like and that their sums are exact: golden files, the JSON schema, properties over random profiles.
//!
//! `BLESS=1 cargo test --workspace --exclude xtask --test offline report::outputs` writes the golden files anew; look at the difference before it is committed. A golden file
//! that is missing fails.

use super::recording_builder::RecordingBuilder;
use super::training_runs::{estimated_training, gpu_training, measured_training, training};
use super::warm::warm_training;
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_model::recording::record::{DomainClass, FrameKind, Quality};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_report::budgets::{self, Budget};
use energy_trace_report::flamegraph::FlameOptions;
use energy_trace_report::fold::Cost;
use energy_trace_report::folded::{FoldedOptions, Per};
use energy_trace_report::functions::functions;
use energy_trace_report::json::JsonOptions;
use energy_trace_report::rest::Rest;
use energy_trace_report::row::Row;
use energy_trace_report::rows::{rows, rows_at};
use energy_trace_report::table::TableOptions;
use energy_trace_report::{By, DomainChoice, Level, ReportError, csv, flamegraph, folded, json, table};
use energy_trace_tests::report::schema_errors;
use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, proptest};
use serde_json::Value;
use std::path::Path;

/// Compares with a golden file, or writes it where `BLESS` is set.
#[track_caller]
pub(super) fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/golden/report").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; BLESS=1 writes it", path.display()));
    assert!(wanted == text, "{} differs; BLESS=1 takes the new text:\n{text}", path.display());
}

fn table_text(profile: &Profile, options: &TableOptions) -> String {
    let mut out = Vec::new();
    table::write(&mut out, profile, options).unwrap();
    String::from_utf8(out).unwrap()
}

/// The summary keeps to 80 and to 160 columns, and marks every estimate as one.
#[test]
fn table_at_80_and_160_columns() {
    let run = estimated_training();
    for width in [80, 160] {
        let text = table_text(&run, &TableOptions { width: Some(width), ..TableOptions::default() });
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= usize::from(width), "{widest} columns:\n{text}");
        golden(&format!("table-{width}.txt"), &text);
    }
}

/// Domains of all kinds, with long lines, keep to the width as well.
#[test]
fn no_line_is_wider_than_the_terminal() {
    for run in [estimated_training(), measured_training()] {
        for (by, width) in By::ALL.iter().flat_map(|by| [(by, 80), (by, 100), (by, 160)]) {
            let options =
                TableOptions { by: *by, width: Some(width), verbose: true, ..TableOptions::default() };
            let text = table_text(&run, &options);
            let too_wide = text.lines().find(|line| line.chars().count() > usize::from(width));
            assert_eq!(too_wide, None, "{text}");
        }
    }
}

/// Domains of all kinds stand in the ledger, psys apart from the sum, and what was not charged says why.
#[test]
fn table_of_measured_domains() {
    let options = TableOptions { width: Some(100), verbose: true, ..TableOptions::default() };
    golden("table-measured.txt", &table_text(&measured_training(), &options));
}

/// A GPU's joules are divided by nobody's CPU time: watts are the CPUs' and say so, and there are none where no CPU was measured.
#[test]
fn watts_beside_a_gpu() {
    let options = TableOptions { width: Some(100), ..TableOptions::default() };
    golden("table-gpu.txt", &table_text(&gpu_training(true), &options));
    golden("table-gpu-alone.txt", &table_text(&gpu_training(false), &options));
}

/// Each way to group has its table.
#[test]
fn table_by_everything() {
    let run = estimated_training();
    for (name, by) in [
        ("python", By::Python),
        ("line", By::Line),
        ("stack", By::Stack),
        ("api", By::Api),
        ("library", By::Library),
        ("thread", By::Thread),
        ("process", By::Process),
        ("range", By::Range),
    ] {
        let text =
            table_text(&run, &TableOptions { by, width: Some(100), rows: 5, ..TableOptions::default() });
        golden(&format!("table-by-{name}.txt"), &text);
    }
}

/// Without colour there is no escape sequence in the text; with colour the text is the same but for them.
#[test]
fn color_is_a_choice() {
    let run = estimated_training();
    let plain = table_text(&run, &TableOptions::default());
    assert!(!plain.contains('\x1b'));
    let colored = table_text(&run, &TableOptions { color: true, ..TableOptions::default() });
    assert!(colored.contains('\x1b'));
    let stripped: String = colored
        .split('\x1b')
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.split_once('m').unwrap().1 })
        .collect();
    assert_eq!(stripped, plain);
}

fn json_value(profile: &Profile) -> Value {
    let mut out = Vec::new();
    json::write(&mut out, profile, &JsonOptions { pretty: true, ..JsonOptions::default() }).unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// The JSON is as the golden file has it, and valid.
#[test]
fn json_golden_and_valid() {
    let run = estimated_training();
    let mut out = Vec::new();
    json::write(&mut out, &run, &JsonOptions { pretty: true, ..JsonOptions::default() }).unwrap();
    golden("report.json", &String::from_utf8(out).unwrap());
    for value in [json_value(&run), json_value(&measured_training()), json_value(&warm_training())] {
        assert_eq!(schema_errors(&value), [""; 0]);
    }
}

/// The schema is strict: a key too many, a key too few and a number in the wrong form are each refused.
#[test]
fn schema_refuses_what_is_wrong() {
    let good = json_value(&estimated_training());
    let refused = |change: fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        !schema_errors(&value).is_empty()
    };
    assert!(refused(|value| value["extra"] = Value::from(1)));
    assert!(refused(|value| value["functions"][0]["extra"] = Value::from(1)));
    assert!(refused(|value| value["functions"][0]["self_uj"]["socket"] = Value::from(1)));
    assert!(refused(|value| value["ledger"][0]["measured_uj"] = Value::from(1.5)));
    assert!(refused(|value| value["meta"]["start"] = Value::from("yesterday")));
    assert!(refused(|value| {
        value["meta"].as_object_mut().unwrap().remove("warnings");
    }));
}

/// Budgets are in the JSON where there are any, and the schema knows them.
#[test]
fn budgets_in_json() {
    let run = estimated_training();
    let budgets = [Budget::of_call("torch.autograd.backward=1J").unwrap(), "2kJ".parse().unwrap()];
    let checked = budgets::check(&run, &budgets);
    let mut out = Vec::new();
    json::write(&mut out, &run, &JsonOptions { budgets: &checked, ..JsonOptions::default() }).unwrap();
    let value: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(schema_errors(&value), [""; 0]);
    let verdicts: Vec<&Value> =
        value["meta"]["budgets"].as_array().unwrap().iter().map(|budget| &budget["verdict"]).collect();
    assert_eq!(verdicts, ["exceeded", "kept"]);
}

/// Names that users ask for are rows, whatever the code behind them is called; recursion counts once in their totals.
#[test]
fn api_names_are_rows() {
    let report = json_value(&estimated_training());
    let function = |name: &str| {
        let mut found =
            report["functions"].as_array().unwrap().iter().filter(|function| function["name"] == name);
        let one = found.next().unwrap_or_else(|| panic!("no {name}")).clone();
        assert!(found.next().is_none(), "{name} is more than one row");
        one
    };
    let backward = function("torch.autograd.backward");
    assert_eq!(backward["total_uj"]["package"], 84_123_456 + 1_250_001);
    assert_eq!(backward["self_uj"]["package"], 0);
    assert_eq!(backward["symbol"], "torch.autograd.backward");
    let step = function("optimizer.step");
    assert_eq!(step["total_uj"]["package"], 12_000_003);
    assert_eq!(step["line"], 136);
    assert_eq!(function("torch.nn.Module.__call__")["total_uj"]["package"], 61_500_000 + 20_250_000);
}

/// Spreadsheets get the same rows.
#[test]
fn csv_golden() {
    let profile = estimated_training();
    let mut out = Vec::new();
    csv::write(&mut out, &profile).unwrap();
    golden("functions.csv", &String::from_utf8(out).unwrap());
}

/// All that was measured.
const WHOLE: FoldedOptions = FoldedOptions {
    domain: DomainChoice::Total,
    short_names: false,
    native_frames: NativeFrames::All,
    per: Per::Thread,
    rest: Rest::ALL,
};

fn folded_text(profile: &Profile, options: &FoldedOptions) -> String {
    let mut out = Vec::new();
    folded::write(&mut out, profile, options).unwrap();
    String::from_utf8(out).unwrap()
}

fn folded_sum(text: &str) -> i64 {
    let lines = text.lines().filter(|line| !line.starts_with("# "));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap()).sum()
}

/// Folded stacks hold what the domains measured where that is asked for, psys never, and energy below zero is said in a comment.
#[test]
fn folded_golden() {
    let run = measured_training();
    let text = folded_text(&run, &WHOLE);
    golden("total.folded", &text);
    let measured = |class| {
        run.ledger.iter().filter(|row| row.class == class).map(|row| row.measured.as_uj()).sum::<i64>()
    };
    let total = measured(DomainClass::Package) + measured(DomainClass::Dram) + measured(DomainClass::Gpu);
    assert_eq!(folded_sum(&text), total + 1_750_000);
    assert!(text.ends_with(&format!("drawn, {total} µJ measured\n")), "{text}");
    let psys = folded_text(&run, &FoldedOptions { domain: DomainChoice::Class(DomainClass::Psys), ..WHOLE });
    assert_eq!(psys, "[idle psys] 1400000000\n");
}

/// Unless more is asked for, folded stacks are the program's, and sum to what it was charged with, however frames are folded and whatever
/// roots they have.
#[test]
fn folded_stacks_are_the_programs() {
    let run = measured_training();
    let target: i64 = run.ledger.iter().filter(|row| row.class.adds_up()).map(|row| row.target.as_uj()).sum();
    for native_frames in NativeFrames::ALL {
        for per in [Per::Thread, Per::Process, Per::None] {
            let text = folded_text(&run, &FoldedOptions { native_frames, per, ..FoldedOptions::default() });
            assert_eq!(folded_sum(&text), target, "{text}");
            assert!(!text.contains("[other") && !text.contains("[idle"), "{text}");
        }
    }
    let text = folded_text(&run, &FoldedOptions { per: Per::None, ..FoldedOptions::default() });
    assert!(text.starts_with("torch_train.<module>;torch_train.train 500000\n"), "{text}");
    let text =
        folded_text(&run, &FoldedOptions { native_frames: NativeFrames::None, ..FoldedOptions::default() });
    assert!(text.contains("python3;omp worker:1;[native code] 101000000\n"), "{text}");
}

fn svg(profile: &Profile, options: &FlameOptions) -> String {
    let mut out = Vec::new();
    flamegraph::write(&mut out, profile, options).unwrap();
    String::from_utf8(out).unwrap()
}

/// Title, ledger and tooltips of a flame graph, in their order.
fn titles(svg: &str) -> Vec<String> {
    let parts = svg.split("<title>").skip(1);
    parts.map(|part| part.split_once("</title>").unwrap().0.to_owned()).collect()
}

/// The title says joules, and each tooltip has joules, share, watts and seconds, with the word where they are estimated.
#[test]
fn flame_graph_says_joules() {
    for (name, run) in
        [("estimated", estimated_training()), ("measured", measured_training()), ("gpu", gpu_training(true))]
    {
        let svg = svg(&run, &FlameOptions::default());
        golden(&format!("flame-{name}.txt"), &(titles(&svg).join("\n") + "\n"));
    }
}

/// The upper edge of the widest rectangle.
fn root_y(svg: &str) -> f64 {
    let root = svg.split_once("<title>program (").unwrap().1;
    let y = root.split_once(" y=\"").unwrap().1;
    y.split_once('"').unwrap().0.parse().unwrap()
}

/// The root is at the top, where the page opens; flipped, it is at the bottom, and nothing else changes in what is said.
#[test]
fn roots_are_on_top() {
    let run = estimated_training();
    let upright = svg(&run, &FlameOptions::default());
    let flipped = svg(&run, &FlameOptions { flip: true, ..FlameOptions::default() });
    assert!(root_y(&upright) < 100.0 && root_y(&flipped) > 100.0);
    let sorted = |svg: &str| {
        let mut titles = titles(svg);
        titles.sort();
        titles
    };
    assert_eq!(sorted(&upright), sorted(&flipped));
}

/// Others, idle and what nobody was charged with are named, and drawn on request; the program is the whole until then.
#[test]
fn the_program_is_the_whole() {
    let run = measured_training();
    let drawn = |rest: Rest| titles(&svg(&run, &FlameOptions { rest, ..FlameOptions::default() }));
    let alone = drawn(Rest::default());
    assert!(alone.iter().any(|title| title.starts_with("program (280.9 J, 100.00 %, ")), "{alone:?}");
    let nobodys = ["[other", "[idle", "[unattributed"];
    assert!(!alone.iter().any(|title| nobodys.iter().any(|part| title.starts_with(part))), "{alone:?}");
    let ledger = alone.iter().find(|title| title.contains("not drawn")).unwrap();
    for part in ["other programs 9.250 J", "idle 151.0 J", "charged to nobody 810.2 J"] {
        assert!(ledger.contains(part), "{ledger}");
    }
    let all = drawn(Rest::ALL);
    for part in ["all (", "[other processes] (", "[idle package-0] (", "[unattributed: no launch data] ("] {
        assert!(all.iter().any(|title| title.starts_with(part)), "{part} in {all:?}");
    }
}

/// By callee, a function that several others call is one rectangle at the root, with its callers below it.
#[test]
fn by_callee_merges_leaves() {
    let run = estimated_training();
    let of = |by_callee| titles(&svg(&run, &FlameOptions { by_callee, ..FlameOptions::default() }));
    let conv = |titles: &[String]| titles.iter().filter(|title| title.contains("mkldnn_convolution")).count();
    let (callers, callees) = (of(false), of(true));
    assert!(
        conv(&callers) == 2
            && callees.iter().any(|title| title.contains("mkldnn_convolution") && title.contains("(145.6 J")),
        "{callees:?}"
    );
}

/// Programs of one name need no row; of several, each has its own, and threads on request.
#[test]
fn programs_are_apart() {
    let of = |run: &Profile, per| titles(&svg(run, &FlameOptions { per, ..FlameOptions::default() }));
    let has = |titles: &[String], name: &str| titles.iter().any(|title| title.starts_with(name));
    let one = estimated_training();
    assert!(!has(&of(&one, None), "python3 (") && has(&of(&one, Some(Per::Process)), "python3 ("));
    assert!(has(&of(&one, Some(Per::Thread)), "omp worker:1 ("));
    let mut b = training();
    let compiler = b.process(200, "cc1", None);
    let thread = b.thread(compiler, 200, "cc1");
    b.spent(thread, None, 5_000_000, 100, 0);
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    let two = b.build();
    assert!(has(&of(&two, None), "cc1 (") && has(&of(&two, None), "python3 ("));
}

/// The script that is added takes the place of functions of inferno's, and uses others: all of them are there.
#[test]
fn scripts_fit_together() {
    let svg = svg(&estimated_training(), &FlameOptions::default());
    let (theirs, ours) = svg.split_once("</script>").unwrap();
    for replaced in ["g_to_text(", "g_to_func(", "update_text_for_elements(", "search(", "reset_search("] {
        let function = format!("\nfunction {replaced}");
        assert!(theirs.contains(&function) && ours.contains(&function), "{replaced}");
    }
    for used in [
        "function find_child(",
        "function format_percent(",
        "function get_params(",
        "function parse_params(",
        "var xpad",
        "var fontsize",
    ] {
        assert!(theirs.contains(used), "{used}");
    }
    let variables = theirs.split_once("var details").unwrap().1.split_once(';').unwrap().0;
    for used in ["searchbtn", "unzoombtn", "matchedtxt", "svg", "searching", "frames", "known_font_width"] {
        assert!(variables.contains(used), "{used} in {variables}");
    }
}

/// Names stand in rectangles as far as they fit, and are whole in tooltips.
#[test]
fn long_names_are_short() {
    let svg = svg(&estimated_training(), &FlameOptions::default());
    assert!(svg.contains("at::native::mkldnn_convolution(at::Tensor const&amp;, at::Tensor const&amp;, c10::ArrayRef&lt;long&gt;) ("));
    assert!(svg.contains("fg:short=\"at::native::mkldnn_convolution(…)\""));
    assert!(
        svg.contains(">native::mkldnn_convolution(…)</text>")
            || svg.contains(">at::native::mkldnn_convolution(…)</text>")
    );
}

/// Nothing to draw is an error that says which domain and where to look.
#[test]
fn nothing_to_draw_is_said() {
    let profile = estimated_training();
    let gpu = FlameOptions { domain: DomainChoice::Class(DomainClass::Gpu), ..FlameOptions::default() };
    let error = flamegraph::write(&mut Vec::new(), &profile, &gpu).unwrap_err();
    assert!(matches!(error, ReportError::NoEnergy { measured: false, .. }));
    assert_eq!(
        error.to_string(),
        "no energy to draw in domain `gpu`: the recording has no such domain; `energy-trace report` shows what the recording holds"
    );
}

/// A recording that was cut off is reported up to the cut, and says so.
#[test]
fn cut_off_recording() {
    let mut b = training();
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    b.cut_off();
    let run = b.build();
    assert!(table_text(&run, &TableOptions::default()).contains("the recording was cut off before its end"));
    let value = json_value(&run);
    assert_eq!(schema_errors(&value), [""; 0]);
    assert_eq!(value["meta"]["overhead"]["tracer_cpu_ns"], Value::Null);
    assert_eq!(value["meta"]["duration_ns"], 2_730_000_000_u64);
}

/// A run without any power source shows time, and says what to do.
#[test]
fn run_without_energy() {
    let mut b = RecordingBuilder::new("true", 1);
    let process = b.process(7, "true", None);
    let thread = b.thread(process, 7, "true");
    let main = b.frame(FrameKind::Native, "/bin/true", "main");
    let stack = b.stack(&[main]);
    b.spent(thread, Some(stack), 0, 900, 90);
    let run = b.build();
    let text = table_text(&run, &TableOptions { width: Some(80), ..TableOptions::default() });
    golden("table-no-energy.txt", &text);
    assert_eq!(schema_errors(&json_value(&run)), [""; 0]);
}

/// A ledger that does not balance is never shown in silence.
#[test]
fn broken_ledger_is_said() {
    let mut b = training();
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]).target =
        MicroJoules::from_uj(1);
    let value = json_value(&b.build());
    let codes: Vec<&str> = value["meta"]["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning["code"].as_str().unwrap())
        .collect();
    assert!(codes.contains(&"ledger-imbalance"), "{codes:?}");
}

/// A random run: a few frames of all kinds and names, stacks with repeats, energies of either sign.
fn random_run(stacks: &[Vec<usize>], spent: &[(usize, i32, i32)]) -> Profile {
    let mut b = RecordingBuilder::new("random", 3);
    let process = b.process(1, "random", None);
    let threads = [b.thread(process, 1, "main"), b.thread(process, 2, "worker 2")];
    let frames = [
        b.python("m", "f", "/x/m.py", 1),
        b.python("torch.autograd", "backward", "/x/torch/autograd/__init__.py", 1),
        b.python("torch._tensor", "Tensor.backward", "/x/torch/_tensor.py", 1),
        b.frame(FrameKind::Native, "/x/lib.so", "operator new;x 3"),
        b.frame(FrameKind::Native, "/x/bin/python3", "call"),
        b.frame(FrameKind::Kernel, "", "work"),
        b.frame(FrameKind::Special, "", "[no unwind info]"),
    ];
    let stacks: Vec<_> =
        stacks.iter().map(|path| b.stack(&path.iter().map(|&at| frames[at]).collect::<Vec<_>>())).collect();
    for &(at, package, dram) in spent {
        let mut energy = EnergyByClass::default();
        energy[DomainClass::Package] = MicroJoules::from_uj(package.into());
        energy[DomainClass::Dram] = MicroJoules::from_uj(dram.into());
        b.spent_by_class(threads[at % 2], stacks.get(at).copied(), energy, 10, 1);
    }
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [5, 1_000, -3]);
    b.ledger("dram-0", DomainClass::Dram, Quality::Measured, [0, 77, 0]);
    b.build()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Over any profile, own energies of functions, and of whatever else rows stand for, sum to the targets, class by class; recursion
    /// never doubles a total; and folded stacks with what they left out sum to what was measured.
    #[test]
    fn sums_are_exact(
        stacks in prop::collection::vec(prop::collection::vec(0_usize..7, 1..8), 1..12),
        spent in prop::collection::vec((0_usize..14, any::<i32>(), any::<i32>()), 1..40),
    ) {
        let run = random_run(&stacks, &spent);
        let all = functions(&run);
        for row in &run.ledger {
            let own: MicroJoules = all.iter().map(|function| function.row.spent.own.energy[row.class]).sum();
            prop_assert_eq!(own, row.target);
        }
        let time: u64 = all.iter().map(|function| function.row.spent.own.time_ns).sum();
        prop_assert_eq!(time, 10_000_000 * spent.len() as u64);
        for function in &all {
            assert!(function.row.spent.total.samples <= spent.len() as u64);
            assert!(function.row.spent.own.time_ns <= function.row.spent.total.time_ns);
        }
        for frames in NativeFrames::ALL {
            let folded = native_frames::folded(&run, frames);
            let energies = |run: &Profile| run.rows.iter().map(|row| (row.energy, row.time_ns)).collect::<Vec<_>>();
            prop_assert_eq!(energies(&run), energies(&folded));
            let own: MicroJoules = functions(&folded).iter().map(|function| function.row.spent.own.energy.total()).sum();
            prop_assert_eq!(own, run.ledger.iter().map(|row| row.target).sum(), "{:?}", frames);
        }
        for by in &By::ALL {
            let rows = rows(&run, *by);
            for row in &run.ledger {
                let own: MicroJoules = rows.iter().map(|group| group.spent.own.energy[row.class]).sum();
                prop_assert_eq!(own, row.target, "{:?}", by);
            }
        }
        let text = folded_text(&run, &WHOLE);
        let left_out: i64 = text.lines().find_map(|line| line.strip_prefix("# energy-trace: "))
            .map_or(0, |note| note.split("left out, ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap());
        let measured: i64 = run.ledger.iter().map(|row| row.measured.as_uj()).sum();
        prop_assert_eq!(folded_sum(&text) + left_out, measured);
    }
}

/// A training whose forward pass and backward run inside the closure of its optimizer's step.
fn closure_training() -> Profile {
    let mut b = RecordingBuilder::new("python3 train.py", 10);
    let process = b.process(100, "python3", Some("3.11.2"));
    let main = b.thread(process, 100, "python3");
    let site = "/v/lib/python3.11/site-packages/torch";
    let train = b.python("train", "train", "train.py", 10);
    let step = b.python("torch.optim.lbfgs", "LBFGS.step", &format!("{site}/optim/lbfgs.py"), 300);
    let closure = b.python("train", "train.<locals>.closure", "train.py", 12);
    let backward = b.python("torch._tensor", "Tensor.backward", &format!("{site}/_tensor.py"), 429);
    let importer = b.python("importlib._bootstrap", "_find_and_load", "<frozen importlib._bootstrap>", 1022);
    let module = b.python("torch", "<module>", &format!("{site}/__init__.py"), 1);
    let mut spent = |frames: &[_], uj, samples| {
        let stack = b.stack(frames);
        b.spent(main, Some(stack), uj, samples * 10, samples);
    };
    spent(&[train, step, closure, backward], 5_000_000, 500);
    spent(&[train, step], 1_000_000, 100);
    spent(&[train, importer, module], 2_000_000, 200);
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    b.build()
}

/// A call inside another call of the same framework has its row, at every level; each unit of energy is somebody's own.
#[test]
fn levels_of_calls() {
    let run = closure_training();
    let of = |level| {
        let rows = rows_at(&run, By::Api, level);
        let joules = |cost: Cost| cost.energy[DomainClass::Package].as_uj() / 1_000_000;
        let row = |row: &Row| (row.name.clone(), joules(row.spent.own), joules(row.spent.total));
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let is = |level, wanted: &[(&str, i64, i64)]| {
        let wanted: Vec<_> = wanted.iter().map(|&(name, own, total)| (name.to_owned(), own, total)).collect();
        assert_eq!(of(level), wanted, "{level:?}");
    };
    let (step, back, import) = ("optimizer.step", "torch.autograd.backward", "import torch");
    is(Level::All, &[(back, 5, 5), (import, 2, 2), (step, 1, 6)]);
    is(Level::Outer, &[(step, 6, 6), (import, 2, 2)]);
    is(Level::Inner, &[(back, 5, 5), (import, 2, 2), (step, 1, 1)]);
    is(Level::Tree, &[(step, 1, 6), (back, 5, 5), (import, 2, 2)]);
    let tree = rows_at(&run, By::Api, Level::Tree);
    assert_eq!(tree[1].callers, [step]);
    let sites: Vec<String> = rows_at(&run, By::Call, Level::All).into_iter().map(|row| row.name).collect();
    let wanted = [
        "train.py:14 → torch.autograd.backward",
        "train.py:12 → import torch",
        "train.py:12 → optimizer.step",
    ];
    assert_eq!(sites, wanted);
}

/// Every way to group is JSON that the schema takes, and CSV; their own energy is the target's.
#[test]
fn rows_for_programs() {
    let run = closure_training();
    for by in By::ALL.into_iter().filter(|by| *by != By::Function) {
        let mut out = Vec::new();
        let options = JsonOptions { rows: Some((by, Level::All)), ..JsonOptions::default() };
        json::write(&mut out, &run, &options).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(schema_errors(&value), [""; 0], "{by:?}");
        let rows = value["rows"].as_array().unwrap();
        let own: i64 = rows.iter().map(|row| row["self_uj"]["package"].as_i64().unwrap()).sum();
        assert_eq!(own, 8_000_000, "{by:?}");
        let mut out = Vec::new();
        csv::write_rows(&mut out, &run, by, Level::All).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), rows.len() + 1, "{by:?}");
    }
}
