//! Studies of invented runs: what is found, what is not, and what every format says of it.

use super::layouts::{self, As, Layout};
use super::{dataset, markup, page, table};
use crate::data::{Grade, Measured, Outcome, Program, Run, Study, Units, results, sweeps};
use crate::sentences;
use energy_trace_statistics::comparison::Verdict;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use std::collections::BTreeMap;

/// Three programs of one group: the second uses a tenth more than the first, the third as much.
fn study(rounds: u32) -> Study {
    let factors = [1.0, 1.1, 1.0];
    let programs = ["plain", "a|b_{x}\u{1b}", "again"].map(|label| Program {
        label: label.to_owned(),
        command: vec!["python3".into(), label.into()],
        ..Program::default()
    });
    let mut random = fastrand::Rng::with_seed(3);
    let mut runs = Vec::new();
    for round in 1..=rounds {
        for (program, factor) in factors.iter().enumerate() {
            let joules = factor * (10.0 + random.f64() * 0.2);
            runs.push(run(runs.len() + 1, program, round, joules, 2.0 + random.f64() * 0.01));
        }
    }
    Study { seed: 5, rounds, programs: programs.into(), runs, ..Study::default() }
}

fn run(number: usize, program: usize, round: u32, joules: f64, seconds: f64) -> Run {
    let measured = Measured {
        seconds,
        joules,
        by_class: BTreeMap::from([("package".into(), joules)]),
        machine_joules: joules + 4.0,
        idle_joules: 4.0,
        other_joules: 0.0,
        grade: Some(Grade::Estimated),
        cpu_seconds: Some(seconds / 2.0),
        other_cpu_seconds: Some(0.01),
        meters: vec!["model (package-0)".into()],
        runtimes: vec!["CPython 3.11.2".into()],
        conditions: BTreeMap::from([("celsius_max:cpu-0".into(), 61.5), ("mhz_mean:cpus".into(), 2_400.0)]),
        calls: BTreeMap::from([("torch.relu".into(), joules / 2.0)]),
        functions: BTreeMap::from([("m.work".into(), joules / 3.0), ("m.crumb".into(), joules / 5_000.0)]),
        counted: BTreeMap::from([("step".into(), joules / 2.0)]),
        work: BTreeMap::from([("token".into(), units(joules / 50.0))]),
    };
    let counts = BTreeMap::from([("step".into(), 10.0)]);
    let metrics = BTreeMap::from([("accuracy".into(), 0.9)]);
    let facts = [("cpu", "Test CPU"), ("kernel", "6.1"), ("version", ["2.15", "2.16", "2.15"][program])];
    let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Run {
        number,
        program: Some(program),
        round,
        measured: Some(measured),
        metrics,
        counts,
        facts,
        ..Run::default()
    }
}

fn units(joules: f64) -> Units {
    Units { done: 40.0, joules_each: Some(joules), at_least: false }
}

/// Functions of one name in two files are two where all runs have both, and one where a run has it from one file.
#[test]
fn twins() {
    let of = |last: &[(&str, f64)]| {
        let mut found = study(8);
        let all = found.runs.len();
        for (at, run) in found.runs.iter_mut().enumerate() {
            let both = [("f  (a.so)", 1.0), ("f  (b.so)", 2.0)];
            let functions = if at + 1 == all { last } else { &both };
            run.measured.as_mut().unwrap().functions =
                functions.iter().map(|(name, joules)| ((*name).to_owned(), *joules)).collect();
        }
        let groups = results(&found);
        let functions = groups[0].blocks.iter().filter(|block| block.quantity.starts_with('f'));
        functions.map(|block| (block.quantity.clone(), block.cells[0].values[0])).collect::<Vec<_>>()
    };
    let apart = of(&[("f  (a.so)", 1.0), ("f  (b.so)", 2.0)]);
    assert_eq!(apart, [("f  (b.so)".to_owned(), 2.0), ("f  (a.so)".to_owned(), 1.0)]);
    assert_eq!(of(&[("f", 2.5)]), [("f".to_owned(), 3.0)]);
}

/// Where a run may have done more units than were counted, joules of one are called upper bounds.
#[test]
fn units_that_may_be_more() {
    let mut found = study(8);
    assert!(sentences::study_notes(&found.runs).iter().all(|note| !note.contains("upper bounds")));
    found.runs[0].measured.as_mut().unwrap().work.get_mut("token").unwrap().at_least = true;
    assert_eq!(verdicts(&found, "energy per token, at most")[1], Some(Verdict::Differ));
    let said = sentences::study_notes(&found.runs).join("\n");
    let runs = found.runs.iter().filter(|run| run.counts()).count();
    assert!(said.contains(&format!("not all of token were counted in 1 of {runs} runs")), "{said}");
}

fn in_text(study: &Study) -> String {
    let mut out = vec![];
    table::write(&mut out, study, &table::Options { rows: 5, color: false, width: None }).unwrap();
    String::from_utf8(out).unwrap()
}

/// Runs without energy are compared by time alone, and nothing says that 0 J equal 0 J.
#[test]
fn no_energy() {
    let mut found = study(8);
    for run in &mut found.runs {
        let of = run.measured.as_mut().unwrap();
        (of.grade, of.joules, of.machine_joules) = (None, 0.0, 0.0);
        (of.by_class, of.calls, of.functions) = <_>::default();
        of.work.insert("token".into(), units(0.0));
        of.counted.clear();
    }
    let groups = results(&found);
    assert!(groups[0].blocks.iter().all(|block| !block.quantity.starts_with("energy")), "{groups:?}");
    let said = in_text(&found);
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no energy was recorded, so there is none to compare"), "{said}");
    assert!(said.contains("time, s") && !said.contains("would be shown"), "{said}");
    let progress = sentences::study_progress(&found.runs[0], Some("A"), 9, std::time::Duration::ZERO);
    assert!(progress.contains("no energy") && !progress.contains('J'), "{progress}");
}

/// A unit that was counted in no run has no joules: there is no ratio of nothing to nothing.
#[test]
fn units_that_were_not_counted() {
    let mut found = study(8);
    for run in &mut found.runs {
        let nothing = Units { done: 0.0, joules_each: None, at_least: false };
        run.measured.as_mut().unwrap().work.insert("token".into(), nothing);
    }
    let said = in_text(&found);
    let (_, of_token) = said.split_once("energy per token").unwrap();
    let rows: Vec<&str> = of_token.lines().skip(2).take(3).collect();
    assert!(rows.iter().all(|row| row.trim_end().ends_with("not counted")), "{said}");
    assert!(rows.iter().all(|row| row.split_whitespace().all(|word| word != "1")), "{said}");
}

/// A table for a paper says beside each energy that it is estimated.
#[test]
fn estimated_in_a_paper() {
    let mut out = vec![];
    markup::latex(&mut out, &study(8), 5).unwrap();
    let text = String::from_utf8(out).unwrap();
    for part in ["energy of the program, J (estimated)}", "m.work, J (estimated)}", "{\\emph{time, s}}"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

fn verdicts(study: &Study, quantity: &str) -> Vec<Option<Verdict>> {
    let groups = results(study);
    let block = groups[0].blocks.iter().find(|block| block.quantity == quantity).unwrap();
    block.cells.iter().map(|cell| cell.beside_least.map(|beside| beside.verdict)).collect()
}

/// What differs is found in energy, calls and functions, and in nothing else; crumbs are not asked, and few rounds say that they are few.
#[test]
fn findings() {
    let found = study(20);
    for quantity in ["energy of the program", "energy per token", "torch.relu", "m.work"] {
        assert_eq!(verdicts(&found, quantity)[1], Some(Verdict::Differ), "{quantity}");
        assert!(!verdicts(&found, quantity).contains(&Some(Verdict::TooFew { needed: 8 })));
    }
    for quantity in ["time", "accuracy"] {
        assert!(!verdicts(&found, quantity).contains(&Some(Verdict::Differ)), "{quantity}");
    }
    assert!(results(&found)[0].blocks.iter().all(|block| block.quantity != "m.crumb"));
    // Three programs are three pairs, and two in 128 is too much of 0.05 / 3.
    assert_eq!(verdicts(&study(6), "time").iter().flatten().next(), Some(&Verdict::TooFew { needed: 7 }));
    assert_eq!(verdicts(&study(7), "energy of the program")[1], Some(Verdict::Differ));
}

/// A call that one program alone makes is compared with nothing and corrected for nowhere; in a run of its own that lacks it, it has 0.
#[test]
fn calls_of_one_program() {
    let mut found = study(8);
    for run in &mut found.runs {
        let calls = &mut run.measured.as_mut().unwrap().calls;
        if run.program == Some(1) && run.round != 3 {
            calls.insert("keras.fit".into(), 2.0);
        }
        if run.program != Some(2) {
            calls.insert("torch.add".into(), 1.0);
        }
    }
    let groups = results(&found);
    let block = |name: &str| groups[0].blocks.iter().find(|block| block.quantity == name).unwrap();
    let alone = block("keras.fit");
    assert_eq!(
        alone.cells.iter().map(|cell| (cell.program, cell.runs, cell.alone)).collect::<Vec<_>>(),
        [(1, 8, true)]
    );
    assert_eq!((alone.cells[0].values[2], alone.cells[0].beside_least), (0.0, None));
    let of_two = block("torch.add");
    assert_eq!(of_two.cells.iter().map(|cell| cell.program).collect::<Vec<_>>(), [0, 1]);
    // Three pairs in torch.relu and in m.work, and the one in torch.add.
    assert_eq!((alone.tests, of_two.tests), (7, 7));
    let said = said(&found, 80);
    for part in [
        "call: keras.fit, J; no sample in plain, again",
        "call: torch.add, J; no sample in again",
        "call: torch.relu, J\n",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

/// A failed run is shown and does not count, its round has no pair, and the other run of it counts; programs of two groups are not compared.
#[test]
fn failures_and_groups() {
    let mut failed = study(10);
    failed.runs[1].outcome = Outcome::Failed(139);
    let cell = results(&failed)[0].blocks[0].cells[1].clone();
    let found = cell.beside_least.unwrap().found;
    assert_eq!((cell.runs, cell.failed, found.pairs), (9, 1, 9));
    // The ratio is that of the medians that stand beside it.
    assert_eq!(found.ratio, Some(cell.median / results(&failed)[0].blocks[0].cells[0].median));
    let said = said(&failed, 80);
    assert!(said.contains("9/10") && said.contains("it was ended by signal 11"), "{said}");
    failed.programs[2].group = "other".into();
    let groups = results(&failed);
    assert_eq!(groups.iter().map(|group| group.blocks[0].cells.len()).collect::<Vec<_>>(), [2, 1]);
}

fn said(study: &Study, width: u16) -> String {
    let mut out = Vec::new();
    table::write(&mut out, study, &table::Options { rows: 5, color: false, width: Some(width) }).unwrap();
    String::from_utf8(out).unwrap()
}

/// On 80 columns no line is longer, with all cells; every format says that energy is estimated, and none moves a terminal.
#[test]
fn formats() {
    let study = study(20);
    let said = said(&study, 80);
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    for part in ["differs", "least", "not shown", "ratio", "seed 5", "would be shown", "Spearman"] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let mut all = vec![said];
    type Format = fn(&mut dyn std::io::Write, &Study) -> std::io::Result<()>;
    let formats: [Format; 5] = [
        |out, study| markup::markdown(out, study, 5),
        |out, study| markup::latex(out, study, 5),
        markup::csv,
        dataset::csv,
        dataset::json,
    ];
    for format in formats {
        let mut out = Vec::new();
        format(&mut out, &study).unwrap();
        all.push(String::from_utf8(out).unwrap());
    }
    for text in &all {
        assert!(text.contains("estimated") && !text.contains('\u{1b}'), "{text}");
    }
    assert!(
        all[1].contains("a\\|b\\_") && all[2].contains("a\\textbar{}b\\_\\{x\\}"),
        "{}\n{}",
        all[1],
        all[2]
    );
    assert_eq!(all[4].lines().count(), 61);
    let json: serde_json::Value = serde_json::from_str(&all[5]).unwrap();
    assert_eq!(json["results"][0]["quantities"][0]["programs"][1]["verdict"], "differs");
    assert_eq!(json["runs"].as_array().unwrap().len(), 60);
}

/// Where one program has nothing of a quantity there is no ratio to it: no format shows an infinite one, or none that is a number.
#[test]
fn ratio_to_nothing() {
    let mut study = study(20);
    for run in &mut study.runs {
        let joules = if run.program == Some(0) { 0.0 } else { 1.0 };
        let measured = run.measured.as_mut().unwrap();
        measured.functions.insert("m.work".into(), joules);
    }
    let mut all = vec![];
    table::write(&mut all, &study, &table::Options { rows: 5, color: false, width: None }).unwrap();
    markup::markdown(&mut all, &study, 5).unwrap();
    markup::csv(&mut all, &study).unwrap();
    page::write(&mut all, &study, 5).unwrap();
    let text = String::from_utf8(all).unwrap();
    let is_number = |word: &str| !["inf", "nan"].contains(&word.to_ascii_lowercase().as_str());
    let words = text.split(|c: char| !c.is_alphanumeric()).collect::<Vec<_>>();
    assert!(words.contains(&"work") && words.iter().all(|word| is_number(word)), "{text}");
}

/// A picture has the unit of the table below it.
#[test]
fn pictures_have_the_unit_of_their_table() {
    let mut page = vec![];
    page::write(&mut page, &study(20), 5).unwrap();
    let page = String::from_utf8(page).unwrap();
    let (_, part) = page.split_once("one call of step, mJ</h3>").unwrap();
    let (picture, table) = part.split_once("</svg>").unwrap();
    assert!(table.contains("median, mJ") && picture.contains(">100.0<"), "{picture}");
}

/// The Parquet file has the names and values of the CSV, numbers as numbers; names that differ only in what cannot be shown are two columns.
#[test]
fn data_sets_agree() {
    let mut study = study(2);
    study.noted = BTreeMap::from([("room".into(), "cold \"<b>\"\n".into())]);
    study.runs[1].measured = None;
    study.runs[2].metrics.extend([("a\u{1b}".into(), 1.5), ("a\\x1b".into(), 2.5)]);
    let (mut csv, mut parquet) = (Vec::new(), Vec::new());
    dataset::csv(&mut csv, &study).unwrap();
    dataset::parquet(&mut parquet, &study).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_slice());
    let heads = reader.headers().unwrap().clone();
    let reread = SerializedFileReader::new(bytes::Bytes::from(parquet)).unwrap();
    for (row, of) in reread.get_row_iter(None).unwrap().zip(reader.records()) {
        let (row, of) = (row.unwrap(), of.unwrap());
        let cells = row.get_column_iter().map(|(name, value)| (name.clone(), as_text(value)));
        let wanted = heads.iter().zip(&of).map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(cells.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    }
    assert_eq!(reread.metadata().file_metadata().num_rows(), 6);
    let twins: Vec<_> = heads.iter().filter(|head| head.starts_with("metric:a\\x1b")).collect();
    assert_eq!(twins, ["metric:a\\x1b", "metric:a\\x1b (2)"]);
}

fn as_text(value: &Field) -> String {
    match value {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A study without runs has columns and no rows, in both.
#[test]
fn no_runs() {
    let mut parquet = Vec::new();
    dataset::parquet(&mut parquet, &Study::default()).unwrap();
    let reread = SerializedFileReader::new(bytes::Bytes::from(parquet)).unwrap();
    assert_eq!(reread.metadata().file_metadata().num_rows(), 0);
}

/// What the program counted is divided by how often; sizes of one program make a line through truth, and every layout and the page say that
/// energy is estimated and hold nothing of a name that is markup.
#[test]
fn growth_and_layouts() {
    let mut sized = study(6);
    sized.against = Some("rows".into());
    for (program, rows) in sized.programs.iter_mut().zip([10, 20, 30]) {
        program.label = format!("<b>{rows}");
        program.group = rows.to_string();
        program.variables = BTreeMap::from([("rows".into(), rows.to_string())]);
    }
    for run in &mut sized.runs {
        let (program, measured) = run.program.zip(run.measured.as_mut()).unwrap();
        measured.joules = 2.0 + 0.5 * 10.0 * (program as f64 + 1.0) + f64::from(run.round) / 100.0;
    }
    let found = sweeps(&sized);
    let energy = found.iter().find(|sweep| sweep.quantity == "energy of the program").unwrap();
    assert!((energy.found.each.value - 0.5).abs() < 1e-9 && (energy.found.fixed.value - 2.035).abs() < 1e-9);
    assert!(found.iter().any(|sweep| sweep.quantity == "step" && sweep.unit == "J"));
    let narrow = said(&sized, 80);
    assert!(narrow.contains("R²") && narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    let all = [Layout::Models, Layout::Correlations, Layout::Configurations, Layout::Calls, Layout::Growth];
    for (layout, how) in
        all.into_iter().zip([As::Markdown, As::Latex, As::Markdown, As::Text(Some(80)), As::Latex])
    {
        let mut out = Vec::new();
        layouts::write(&mut out, &sized, layout, how).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("estimated") && !text.contains('\u{1b}'), "{text}");
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("Wilcoxon's signed-rank test over rounds, with Holm's correction"), "{text}");
    }
    let mut out = Vec::new();
    page::write(&mut out, &sized, 5).unwrap();
    let page = String::from_utf8(out).unwrap();
    assert!(page.contains("estimated") && !page.contains("<b>10") && page.contains("&lt;b&gt;10"), "{page}");
    assert!(page.matches("<circle").count() >= 18, "{page}");
}

/// A study without a run, and with runs that nobody could record, has tables all the same.
#[test]
fn nothing() {
    let mut empty = study(0);
    assert!(said(&empty, 80).contains("no run"));
    empty.runs.push(Run {
        program: Some(9),
        outcome: Outcome::NotRecorded("disk full".into()),
        ..Run::default()
    });
    assert!(said(&empty, 80).contains("disk full"));
}

fn sheet(study: &Study, layout: Layout, how: As) -> String {
    let mut out = Vec::new();
    layouts::write(&mut out, study, layout, how).unwrap();
    String::from_utf8(out).unwrap()
}

/// The cells of a row of CSV, by their heads.
fn row(csv: &str, start: &str) -> BTreeMap<String, String> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let row = reader.records().map(Result::unwrap).find(|row| &row[0] == start).unwrap();
    // The second of two columns of a name is the other's.
    let cells: Vec<(String, String)> =
        heads.iter().zip(&row).map(|(head, cell)| (head.to_owned(), cell.to_owned())).collect();
    cells.into_iter().rev().collect()
}

/// One question has one median, one p-value and one correction, whatever the layout.
#[test]
fn tables_agree() {
    let mut found = study(20);
    for (program, framework) in found.programs.iter_mut().zip(["torch", "tf", "jax"]) {
        program.variables = BTreeMap::from([("framework".into(), framework.into())]);
        program.group = "batch=1".into();
    }
    found.compared = Some("framework".into());
    let groups = results(&found);
    let cells = &groups[0].blocks[0].cells;
    let p = format!("{:.4}", cells[1].beside_least.unwrap().p).replace("0.0000", "<0.0001");
    let configuration = row(&sheet(&found, Layout::Configurations, As::Csv), "tf");
    let model = row(&sheet(&found, Layout::Models, As::Csv), "batch=1");
    let median = format!("{:.2}", cells[1].median);
    assert_eq!((&configuration["total energy, J"], &model["median energy J, tf"]), (&median, &median));
    assert_eq!((&configuration["p (Holm)"], &configuration["verdict"]), (&p, &"differs".to_owned()));
    assert_eq!((configuration["n"].as_str(), configuration["accuracy"].as_str()), ("20", "0.9000"));
    assert_eq!((configuration["version"].as_str(), configuration["busy CPUs"].as_str()), ("2.16", "0.50"));
    assert_eq!(configuration["of the program, %"], "50.0");
    // Half of the energy is in ten steps.
    let step: f64 = configuration["one call of step, mJ"].parse().unwrap();
    assert!((step - cells[1].median * 50.0).abs() < 0.1, "{configuration:?}");
    // Of three pairs the largest p is that of the two that are alike.
    let weakest = groups[0].blocks[0].pairs.values().map(|pair| pair.p).fold(0.0, f64::max);
    assert!(model["energy, p by Holm (Â12)"].starts_with(&format!("{weakest:.4}")), "{model:?}");
}

/// What is the same in all runs is equal; what no number of so few rounds could show has no p-value.
#[test]
fn equal_and_too_few() {
    let said = said(&study(20), 120);
    let accuracy = said.split("accuracy").nth(1).unwrap();
    assert_eq!(accuracy.lines().nth(3).unwrap().split_whitespace().last(), Some("equal"), "{said}");
    let few = results(&study(4));
    let verdict = few[0].blocks[0].cells[1].beside_least.unwrap();
    assert_eq!((verdict.verdict, table::p_of(&verdict)), (Verdict::TooFew { needed: 7 }, None));
}

/// Three rounds show no difference, however large, and nothing "would be shown": it says what they do show, and how many it takes.
#[test]
fn what_three_rounds_show() {
    let of = |rounds| results(&study(rounds))[0].blocks[0].cells[1].beside_least.unwrap().found;
    assert_eq!((of(3).interval, of(3).detectable), (None, None));
    // Six would do for two programs, but not for three.
    assert!(of(6).interval.is_some() && of(6).detectable.is_none() && of(7).detectable.is_some());
    let said = in_text(&study(3)).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("of that 3 rounds (or those in which both succeeded) can show no difference"),
        "{said}"
    );
    assert!(said.contains("--runs 8 or more") && !said.contains("would be shown"), "{said}");
}

/// Columns go in their order where there is no room, no line is longer than the terminal, and the table says which went.
#[test]
fn narrow_terminals() {
    for (width, gone) in [(100, ""), (75, "Â12"), (60, "Â12, 95 %"), (58, "Â12, 95 %, ±")] {
        let said = said(&study(20), width);
        let tables = said.split("no room").next().unwrap();
        assert!(tables.lines().all(|line| line.chars().count() <= usize::from(width)), "{said}");
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let told = words.split("no room for ").nth(1).and_then(|rest| rest.split(": they").next());
        assert_eq!(told.unwrap_or_default(), gone, "{said}");
        assert!(said.contains("differs") && said.contains("10."), "{said}");
    }
}

/// The paragraph names machine, versions, rounds, rests and meter in every format; a version that differs has each program's.
#[test]
fn methods_in_every_format() {
    let mut found = study(20);
    found.design.rest_s = 10.0;
    type Format = fn(&mut dyn std::io::Write, &Study) -> std::io::Result<()>;
    let formats: [Format; 5] = [
        |out, study| table::write(out, study, &table::Options { rows: 5, color: false, width: None }),
        |out, study| markup::markdown(out, study, 5),
        |out, study| markup::latex(out, study, 5),
        |out, study| page::write(out, study, 5),
        dataset::json,
    ];
    for format in formats {
        let mut out = Vec::new();
        format(&mut out, &found).unwrap();
        let text = String::from_utf8(out).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "Test CPU, Linux 6.1",
            "20 rounds",
            "10 s of rest",
            "model (package-0)",
            "2.15 (plain, ",
            "), 2.16 (a",
            "interpreter CPython 3.11.2",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}

/// On paper a symbol is no wider than the table below it, however long it is; CSV has it whole.
#[test]
fn long_symbols_on_paper() {
    let (mut found, symbol) = (study(7), "pocketfft::detail::general::".repeat(20));
    for measured in found.runs.iter_mut().filter_map(|run| run.measured.as_mut()) {
        measured.functions.insert(symbol.clone(), measured.joules / 2.0);
    }
    let (mut paper, mut numbers) = (Vec::new(), Vec::new());
    markup::latex(&mut paper, &found, 5).unwrap();
    markup::csv(&mut numbers, &found).unwrap();
    let paper = String::from_utf8(paper).unwrap();
    let title = paper.lines().find(|line| line.contains("function: pocketfft")).unwrap();
    assert!(title.chars().count() < 140 && title.contains("\\ldots"), "{title}");
    assert!(String::from_utf8(numbers).unwrap().contains(&symbol));
}

/// In a table of models a row is called as programs are, Â12 is the chance of the one with more wherever it stands, and where nothing was found
/// of a call a note says so in the place of columns. Versions go with what is compared.
#[test]
fn models_side_by_side() {
    let mut found = study(8);
    found.compared = Some("library".into());
    for (program, library) in found.programs.iter_mut().zip(["a", "b", "c"]) {
        program.group = "batch=64 model=ncf".into();
        program.variables = BTreeMap::from([("library".into(), library.into())]);
    }
    for run in &mut found.runs {
        let measured = run.measured.as_mut().unwrap();
        measured.counted.clear();
        let factor = if run.program == Some(2) { 1.05 } else { 1.0 };
        measured.by_class.clear();
        measured.joules *= factor;
    }
    let of_model = row(&sheet(&found, Layout::Models, As::Csv), "ncf, batch=64");
    let cell = |head: &str| of_model.get(head).unwrap_or_else(|| panic!("{head}: {of_model:?}")).as_str();
    assert_eq!(cell("energy, p by Holm (Â12)"), "0.0234 (1.00)");
    assert!(!of_model.keys().any(|head| head.contains("step")), "{of_model:?}");
    let text = sheet(&found, Layout::Models, As::Markdown);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no joules of one call of step: no sample"), "{text}");
    assert!(words.contains("version 2.15 (a, c), 2.16 (b)"), "{text}");
}

/// Runs that waited for busy CPUs drew less power: the table says so, of no program whose power is steady.
#[test]
fn load_that_changed_watts() {
    let mut busy = study(6);
    assert!(!said(&busy, 160).contains("it waited for them"));
    for run in busy.runs.iter_mut().filter(|run| run.program == Some(1) && run.round > 3) {
        let of = run.measured.as_mut().unwrap();
        (of.seconds, of.other_cpu_seconds) = (of.seconds * 2.0, Some(of.seconds));
    }
    let one = said(&busy, 160);
    assert_eq!(one.matches("power was").count(), 1, "{one}");
    assert!(one.contains("it waited for"), "{one}");
    for run in busy.runs.iter_mut().filter(|run| run.program != Some(1) && run.round > 3) {
        let of = run.measured.as_mut().unwrap();
        (of.seconds, of.other_cpu_seconds) = (of.seconds * 1.5, Some(of.seconds));
    }
    let all = said(&busy, 160);
    assert_eq!(all.matches("power was").count(), 1, "{all}");
    assert!(all.contains("all programs waited for"), "{all}");
}

/// A layout that is wider than the terminal is a record a row, with every number behind its head; no line is longer than the terminal.
#[test]
fn wide_layouts_on_narrow_terminals() {
    for width in [60, 80, 200] {
        let said = sheet(&study(20), Layout::Configurations, As::Text(Some(width)));
        assert!(said.lines().all(|line| line.chars().count() <= usize::from(width)), "{said}");
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.contains("total energy, J: 10."), width < 200, "{said}");
        assert!(said.contains("plain") && said.contains("differs"), "{said}");
    }
}
