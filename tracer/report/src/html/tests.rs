//! The page's data: whole, harmless whatever names are, and small. Leaves out what a browser makes of it (`cargo xtask page`).

use super::{hash, write};
use crate::tests::recording_builder::RecordingBuilder;
use crate::tests::training_runs::{gpu_training, measured_training};
use crate::tests::warm::warm_training;
use crate::tests::work::counted;
use energy_trace_model::ids::{FrameId, StackId};
use energy_trace_model::profile::over_time::{BinEnergy, Bins, RowBin};
use energy_trace_model::profile::{LedgerRow, OverTime, Profile, ProfileRow};
use energy_trace_model::recording::record::{DomainClass, FrameKind, Quality, StackNode};
use serde_json::Value;

/// A profile over time in which each row has all that it has in one bin, one row after the other.
fn over_time(profile: &Profile, per_row: u32) -> OverTime {
    let bins = Bins::over(profile.run.start, profile.run.end);
    let mut over = OverTime { bins, firsts: vec![0], ..OverTime::default() };
    for (number, row) in (0..).zip(&profile.rows) {
        for step in 0..per_row {
            let (energy, time_ns) = if step == 0 { (row.energy, row.time_ns) } else { Default::default() };
            over.entries.push(RowBin { bin: (number % 7 + step) % bins.count(), time_ns, energy });
        }
        over.entries[number as usize * per_row as usize..].sort_by_key(|entry| entry.bin);
        over.firsts.push(over.entries.len());
    }
    let ledger = |row: &LedgerRow| BinEnergy {
        covered_ns: 1,
        measured: row.measured,
        target: row.target,
        other: row.other,
        idle: row.idle,
        uncore: row.uncore,
        residual: row.residual,
        unattributed: row.unattributed.clone(),
    };
    let of_domain = |row: &LedgerRow| {
        let mut all = vec![BinEnergy::default(); bins.count() as usize];
        all[0] = ledger(row);
        all
    };
    over.domains = profile.ledger.iter().map(of_domain).collect();
    over
}

fn page(profile: &Profile, per_row: u32) -> String {
    let mut out = vec![];
    let over = over_time(profile, per_row);
    write(&mut out, profile, &over, &(0..over.bins.count()), false).unwrap();
    String::from_utf8(out).unwrap()
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, behind) = text.split_once(from).unwrap();
    behind.split_once(to).unwrap().0
}

fn data(page: &str) -> Value {
    serde_json::from_str(between(page, "<script type=\"application/json\" id=\"data\">", "</script>"))
        .unwrap()
}

fn sum(list: &Value) -> i64 {
    list.as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).sum()
}

/// Energies of rows, and all parts of the ledger, are in the page to the microjoule.
fn assert_whole(profile: &Profile, data: &Value) {
    let classes = data["classes"].as_array().unwrap();
    for (class, list) in classes.iter().zip(data["entries"]["energy"].as_array().unwrap()) {
        let of_class = |row: &ProfileRow| {
            row.energy
                .iter()
                .find(|(of, _)| of.name() == class["name"])
                .map_or(0, |(_, energy)| energy.as_uj())
        };
        assert_eq!(sum(list), profile.rows.iter().map(of_class).sum::<i64>(), "{class}");
    }
    for (row, domain) in profile.ledger.iter().zip(data["domains"].as_array().unwrap()) {
        let sums = ["measured", "target", "other", "idle", "residual"].map(|part| sum(&domain[part]));
        let wanted = [row.measured, row.target, row.other, row.idle, row.residual];
        assert_eq!(sums, wanted.map(|energy| energy.as_uj()));
    }
    let rows = data["entries"]["counts"].as_array().unwrap().len();
    for view in data["views"].as_array().unwrap() {
        assert_eq!(view["nodes"].as_array().unwrap().len(), rows, "{}", view["by"]);
    }
}

/// Nothing is lost on the way into the page, of CPUs and of GPUs.
#[test]
fn all_energy_is_in_the_page() {
    for profile in [measured_training(), gpu_training(true), gpu_training(false), Profile::default()] {
        assert_whole(&profile, &data(&page(&profile, 3)));
    }
}

/// Temperatures and clocks are there in each bin, and the bins in which a part was slowed down; the slow clock of memory is not drawn.
#[test]
fn temperatures_and_clocks() {
    let without = &data(&page(&measured_training(), 1))["gauges"];
    assert_eq!(*without, serde_json::json!([]));
    let data = data(&page(&warm_training(), 1));
    let gauges: Vec<(&str, &str)> = data["gauges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gauge| (gauge["name"].as_str().unwrap(), gauge["unit"].as_str().unwrap()))
        .collect();
    assert_eq!(gauges, [("cpu-0", "°C"), ("cpus", "MHz"), ("gpu-0", "MHz")]);
    let warm = data["gauges"][0]["values"].as_array().unwrap();
    assert_eq!((warm.len(), &warm[0], &warm[499]), (500, &40.0.into(), &60.0.into()));
    let slowed = data["slowed"].as_array().unwrap();
    let gpu = slowed.iter().find(|line| line["part"] == "gpu-0").unwrap();
    assert_eq!((&gpu["by"], gpu["bins"].as_array().unwrap().len()), (&"heat".into(), 100));
    let cpu = slowed.iter().find(|line| line["part"] == "cpu-0").unwrap();
    assert!(!cpu["bins"].as_array().unwrap().is_empty(), "{cpu}");
}

/// Joules per unit are in each bin that a step touches, half of the energy in the first half; units beyond
/// the first are counted.
#[test]
fn units_of_work() {
    let profile = |kinds: usize| {
        let mut profile = measured_training();
        profile.work = (0..kinds).map(|_| counted(&profile, "tok\u{1b}en", 2)).collect();
        profile
    };
    let none = data(&page(&profile(0), 1));
    assert_eq!((&none["work"], &none["more_work"]), (&serde_json::json!([]), &0.into()));
    let one = profile(1);
    let data_of = |profile: &Profile| data(&page(profile, 1));
    let found = data_of(&one);
    let line = &found["work"][0];
    assert_eq!((&line["name"], &line["is_estimated"]), (&"tok\\x1ben".into(), &false.into()));
    let values = line["values"].as_array().unwrap();
    let at = |part: usize| values[values.len() * part / 100].as_f64();
    let each = one.work[0].steps[0].energy.total().as_uj() as f64 / 2.0;
    assert_eq!([10, 21, 40, 50, 68, 80].map(at), [None, Some(each), Some(each), Some(0.0), Some(0.0), None]);
    let many = data_of(&profile(9));
    assert_eq!((many["work"].as_array().unwrap().len(), &many["more_work"]), (4, &5.into()));
    assert!(
        found["facts"]["work"][0].as_str().unwrap().contains(" per tok\\x1ben: 20 counted in "),
        "{}",
        found["facts"]["work"]
    );
}

/// Whatever names are, they end no element and begin none; they are read back as they are shown everywhere.
#[test]
fn names_cannot_leave_the_data() {
    let name = "a\"'\\\n</script><!--<script>alert(1)</script>\u{2028}%SCRIPT%";
    let mut builder = RecordingBuilder::new("x </script><b>", 1);
    let process = builder.process(7, name, None);
    let thread = builder.thread(process, 7, name);
    let frame = builder.frame(FrameKind::Native, name, name);
    let stack = builder.stack(&[frame]);
    builder.spent(thread, Some(stack), 5, 900, 90);
    builder.ledger("</script>", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    let page = page(&builder.build(), 1);
    let inside = between(&page, "id=\"data\">", "</script>");
    assert!(!inside.contains('<') && !inside.contains('\u{2028}'), "{inside}");
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(data(&page)["flame"]["names"][0].as_str().unwrap().contains("</script><!--<script>"));
}

/// The one script may run and nothing may be loaded: no address is in the page but the name of SVG.
#[test]
fn nothing_is_asked_for() {
    let page = page(&measured_training(), 1);
    let script = page.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    let policy = between(&page, "Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains(&hash::source(script)), "{policy}");
    assert!(policy.contains(&hash::source(between(&page, "<style>", "</style>"))), "{policy}");
    let own = page.replace(&data(&page).to_string(), "").replace("http://www.w3.org/2000/svg", "");
    for asking in ["http:", "https:", "src=", "href=", "@import", "url(", "innerHTML", "fetch(", "eval("] {
        assert!(!own.contains(asking), "{asking}");
    }
}

/// More rows in bins than a browser takes: the smallest go together, and every sum stays.
#[test]
fn very_many_stacks_stay_a_page() {
    let mut profile = gpu_training(true);
    let (node, row) = (profile.stacks[0], profile.rows[0]);
    for number in 0..12_000_u32 {
        let mut frame = profile.frames[0].clone();
        frame.name = format!("a function of its own with number {number}");
        profile.frames.push(frame);
        let id = |at: usize| u32::try_from(at - 1).unwrap();
        profile.stacks.push(StackNode { frame: FrameId::new(id(profile.frames.len())), ..node });
        profile.rows.push(ProfileRow { stack: Some(StackId::new(id(profile.stacks.len()))), ..row });
    }
    let page = page(&profile, 100);
    let data = data(&page);
    assert_whole(&profile, &data);
    assert!(data["merged"]["stacks"].as_u64().unwrap() > 500, "{}", data["merged"]);
    assert!(page.len() < 10_000_000, "{}", page.len());
}
