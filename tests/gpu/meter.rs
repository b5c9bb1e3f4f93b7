//! The GPU meter against simulated GPUs: totals, what is found out of each kind of meter, and everything that can be wrong with one.
//!
//! Leaves out who launched what.

use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::PowerDiagnostic;
use energy_trace_model::recording::record::{
    CounterValue, GpuMeter, GpuMeterKind, GpuUse, Origin, Part, Quality, Reading, Record, SensorCost,
    SensorQuantity, SensorSeries, SensorValue,
};
use energy_trace_power::{self as power, PowerEnd, PowerPlan, PowerSet, PowerTask, SourceChoice};
use energy_trace_sentences::{ignored_reason, power_fact, source_note};
use energy_trace_tests::gpu::{Device, Gpu, Meter, Prologue, VARIABLE, one_gpu};
use energy_trace_tests::process::Guard;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The machine is handed over in the environment: one test at a time.
static ENVIRONMENT: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const LIMIT: Duration = Duration::from_secs(120);

fn machine(meters: Vec<Meter>) -> Gpu {
    let mut scenario = one_gpu(Meter::default());
    scenario.devices = meters.into_iter().map(|meter| Device { meter, ..Device::default() }).collect();
    Gpu::new(&scenario, Prologue::Jump).unwrap()
}

fn model(name: &str) -> Meter {
    Meter::model(name).unwrap()
}

fn plan(gpu: &Gpu) -> PowerPlan {
    // SAFETY: the only writer of the environment in this program, under the lock of `ENVIRONMENT`; the only reader outside the standard
    // library is the simulated driver, which is initialised by the same test afterwards.
    unsafe { std::env::set_var(VARIABLE, gpu.machine()) };
    let nvml_lib = Some(gpu.libraries().join("libnvidia-ml.so.1"));
    let period = Duration::from_millis(5);
    PowerPlan { nvml_lib, choices: vec![SourceChoice::Source("nvml")], period, ..PowerPlan::default() }
}

/// A run that is going on.
struct Run {
    task: PowerTask,
    records: Receiver<Record>,
    /// What was taken from there already.
    taken: Vec<Record>,
}

/// What a run has left.
struct Ended {
    readings: BTreeMap<DomainId, Vec<Reading>>,
    meters: BTreeMap<DomainId, GpuMeter>,
    uses: Vec<(DomainId, GpuUse)>,
    sensors: Vec<SensorSeries>,
    cost: Option<SensorCost>,
    end: PowerEnd,
}

impl Run {
    fn start(set: PowerSet) -> Self {
        let (sender, records) = channel();
        Self { task: set.start(sender).unwrap(), records, taken: Vec::new() }
    }

    /// Waits until the sensors were read once.
    async fn sensed(&mut self) {
        while !self.taken.iter().any(|record| matches!(record, Record::SensorReadings(_))) {
            match self.records.try_recv() {
                Ok(record) => self.taken.push(record),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    async fn stop(self) -> Ended {
        let end = self.task.stop().await;
        let (mut readings, mut meters, mut uses) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (mut sensors, mut cost) = (Vec::<SensorSeries>::new(), None);
        for record in self.taken.into_iter().chain(self.records) {
            match record {
                Record::Readings(id, batch) => readings.entry(id).or_insert_with(Vec::new).extend(batch),
                Record::GpuMeter(id, meter) => drop(meters.insert(id, meter)),
                Record::GpuUses(id, batch) => uses.extend(batch.into_iter().map(|one| (id, one))),
                Record::Sensor(sensor) => sensors.push(SensorSeries { sensor, values: Vec::new() }),
                Record::SensorReadings(read) => {
                    for (id, value) in read.of {
                        sensors[id.index()].values.push((read.at, value));
                    }
                }
                Record::SensorCost(of) => cost = Some(of),
                other => panic!("not of a power source: {other:?}"),
            }
        }
        Ended { readings, meters, uses, sensors, cost, end }
    }
}

impl Ended {
    fn codes(&self) -> Vec<&str> {
        self.end.diagnostics.iter().map(PowerDiagnostic::code).collect()
    }

    fn text(&self, code: &str) -> String {
        power_fact(self.end.diagnostics.iter().find(|found| found.code() == code).expect(code))
    }
}

fn good(readings: &[Reading]) -> Vec<(u64, u64)> {
    let value = |r: &Reading| match r.value {
        CounterValue::MicroJoules(uj) => Some((r.at.as_ns(), uj)),
        CounterValue::Failed => None,
    };
    readings.iter().filter_map(value).collect()
}

/// Runs a workload to its end beside a run of the meter.
async fn with_workload(gpu: &Gpu, set: PowerSet, arguments: &[&str]) -> Ended {
    work_beside(gpu, Run::start(set), arguments).await
}

async fn work_beside(gpu: &Gpu, run: Run, arguments: &[&str]) -> Ended {
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let mut command = gpu.command(&program);
    command.args(arguments);
    let work = tokio::task::spawn_blocking(move || Guard::spawn(&mut command)?.finish(LIMIT));
    let ended = work.await.unwrap().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    run.stop().await
}

/// A device that gets too warm by its work: its temperature rises, its clock falls, and it says why. Another device stays as it is, and what
/// one does not answer has no sensor.
#[tokio::test(flavor = "multi_thread")]
async fn warm_devices_slow_down() {
    let _one = ENVIRONMENT.lock().await;
    let mut warm = model("IDEAL");
    warm.warmth.limit_c = 40;
    let still = Meter { unsupported: vec!["nvmlDeviceGetClockInfo".into()], ..model("IDEAL") };
    let gpu = machine(vec![warm, still]);
    let mut run = Run::start(power::open(&plan(&gpu)).unwrap());
    // Else it may be warm before it is read for the first time.
    run.sensed().await;
    let ended = work_beside(&gpu, run, &["2"]).await;
    let of = |part, quantity| {
        let is_it = |series: &&SensorSeries| (series.sensor.part, series.sensor.quantity) == (part, quantity);
        let series = ended.sensors.iter().find(is_it)?;
        let values = series.values.iter().flat_map(|(_, value)| *value);
        let number = |value| match value {
            SensorValue::Temperature(at) => i64::from(at.as_mc() / 1000),
            SensorValue::Clock(at) => i64::from(at.as_khz() / 1000),
            SensorValue::Slowdown(why) => i64::from(why.heat) + 2 * i64::from(why.power || why.unknown),
            SensorValue::Count(count) => i64::try_from(count).unwrap(),
        };
        Some((series.sensor.limit.map(|at| at.as_mc() / 1000), values.map(number).collect::<Vec<_>>()))
    };
    let (limit, celsius) = of(Part::Gpu(0), SensorQuantity::Temperature).unwrap();
    assert!(limit == Some(40) && celsius[0] < 40 && celsius.iter().any(|&at| at > 45), "{celsius:?}");
    let (_, clock) = of(Part::Gpu(0), SensorQuantity::Clock).unwrap();
    assert!(clock[0] == 1410 && clock.contains(&940), "{clock:?}");
    let (_, why) = of(Part::Gpu(0), SensorQuantity::Slowdown).unwrap();
    assert_eq!(why[..2], [0, 1], "slowed down by heat: {why:?}");
    assert_eq!(of(Part::Gpu(0), SensorQuantity::MemoryClock), Some((None, vec![1215])));
    assert_eq!(of(Part::Gpu(1), SensorQuantity::Temperature), Some((Some(90), vec![37])));
    assert_eq!(of(Part::Gpu(1), SensorQuantity::Clock), None);
    let cost = ended.cost.unwrap();
    assert!(cost.rounds >= celsius.len() as u64 && cost.failed == 0 && cost.cpu_ns > 0, "{cost:?}");
}

/// The counter's readings differ by what the device really spent between them: idle and the workload.
#[tokio::test(flavor = "multi_thread")]
async fn totals_are_the_truth() {
    let _one = ENVIRONMENT.lock().await;
    let gpu = machine(vec![model("IDEAL")]);
    let set = power::open(&plan(&gpu)).unwrap();
    let ended = with_workload(&gpu, set, &["1"]).await;
    let values = good(&ended.readings[&DomainId::new(0)]);
    let ((from, first), (to, last)) = (values[0], values[values.len() - 1]);
    let truth = gpu.place().energy_uj(0, to) - gpu.place().energy_uj(0, from);
    let error = (last - first) as f64 / truth - 1.0;
    assert!(error.abs() < 0.01, "{error:+.4}");
    assert!(truth > 1.5 * 60e6 * (to - from) as f64 / 1e9, "the workload shows");
    assert_eq!(ended.codes(), [""; 0]);
}

/// Each device's step and idle power are found before the start and written down; constant power shows no lag, and none is made up.
#[tokio::test(flavor = "multi_thread")]
async fn steps_are_calibrated() {
    let _one = ENVIRONMENT.lock().await;
    let gpu = machine(vec![model("V100"), model("A100"), model("H100")]);
    let mut set = power::open(&plan(&gpu)).unwrap();
    set.measure_idle(Duration::from_secs(1)).await;
    let notes: Vec<String> = set.sources()[0].notes.iter().map(source_note).collect();
    let notes = notes.join("\n");
    for domain in set.domains() {
        let idle = domain.idle.as_ref().expect("a baseline");
        assert!((58.0..62.0).contains(&idle.power.as_watts()), "{}: {idle:?}", domain.name);
    }
    let ended = Run::start(set).stop().await;
    for (place, tick_ms) in [(0_u32, 20_u64), (1, 100), (2, 100)] {
        let meter = ended.meters[&DomainId::new(place)];
        let tick = meter.tick_ns.unwrap();
        assert!(tick.abs_diff(tick_ms * 1_000_000) < tick_ms * 200_000, "{meter:?}");
        assert_eq!((meter.kind, meter.lag_ns, meter.window_ns), (GpuMeterKind::Counter, None, None));
        assert!(notes.contains(&format!("gpu-{place}: the meter steps every")), "{notes}");
    }
    assert!(notes.contains("gpu-2: its power reading is a mean over a second and is not used"), "{notes}");
}

/// Of a device that computes while its idle power is to be measured, it is known who computed, and the power that it drew then.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_device_has_no_baseline() {
    let _one = ENVIRONMENT.lock().await;
    let gpu = machine(vec![model("A100"), model("A100")]);
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let work = Guard::spawn(gpu.command(&program).arg("5")).unwrap();
    let mut set = power::open(&plan(&gpu)).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    set.measure_idle(Duration::from_secs(1)).await;
    let [busy, quiet] = set.domains() else { panic!("two devices") };
    let (by, then) = busy.in_use().expect("in use");
    assert!(by.pids == [work.pid()] && by.percent > Some(30), "{by:?}");
    assert!(then.as_watts() > 90.0, "{then:?}");
    let idle = quiet.idle.as_ref().expect("a baseline").power.as_watts();
    assert!(quiet.in_use().is_none() && (58.0..62.0).contains(&idle), "{:?}", quiet.idle);
}

/// Under a load that changes, lag and window are found against the driver's own samples.
#[tokio::test(flavor = "multi_thread")]
async fn lag_is_found_under_load() {
    let _one = ENVIRONMENT.lock().await;
    let meter = Meter { tick_ms: 60, lag_ms: 70, window_ms: 60, sample_ms: 10, ..Meter::default() };
    let gpu = machine(vec![meter]);
    let mut set = power::open(&plan(&gpu)).unwrap();
    set.measure_idle(Duration::from_secs(1)).await;
    let ended = with_workload(&gpu, set, &["5"]).await;
    let found = ended.meters[&DomainId::new(0)];
    let lag = found.lag_ns.expect("a lag");
    assert!(lag.abs_diff(70_000_000) <= 20_000_000, "{found:?}");
    assert_eq!(found.window_ns, found.tick_ns, "{found:?}");
}

/// A counter that says a third more than the device's own power is told of.
#[tokio::test(flavor = "multi_thread")]
async fn sensors_that_disagree() {
    let _one = ENVIRONMENT.lock().await;
    let gpu = machine(vec![Meter { counter_gain: 1.33, ..Meter::default() }]);
    let mut set = power::open(&plan(&gpu)).unwrap();
    set.measure_idle(Duration::from_secs(1)).await;
    let ended = Run::start(set).stop().await;
    assert_eq!(ended.codes(), ["gpu-sensors-disagree"]);
    let text = ended.text("gpu-sensors-disagree");
    assert!(text.contains("gpu-0: the counter differs from the device's own power by +3"), "{text}");
}

/// Without a counter, power is summed up: an estimate, said so, and left out where only what is measured is wanted; averaged power says
/// that it is averaged.
#[tokio::test(flavor = "multi_thread")]
async fn power_without_a_counter() {
    let _one = ENVIRONMENT.lock().await;
    let no_counter = Meter { counter: false, lag_ms: 0, ..model("V100") }.full_duty();
    let gpu = machine(vec![no_counter, model("AVERAGED")]);
    let plan = plan(&gpu);
    let set = power::open(&plan).unwrap();
    assert_eq!(set.sources()[0].quality, Quality::Estimated);
    for domain in set.domains() {
        assert!(matches!(domain.origin, Origin::Counter { quality: Quality::Estimated, .. }), "{domain:?}");
    }
    let ended = with_workload(&gpu, set, &["1"]).await;
    let kinds: Vec<_> = ended.meters.values().map(|meter| meter.kind).collect();
    assert_eq!(kinds, [GpuMeterKind::InstantPower, GpuMeterKind::AveragedPower]);
    assert_eq!(ended.codes(), ["gpu-no-counter", "gpu-averaged-power", "gpu-unsupported"]);
    let values = good(&ended.readings[&DomainId::new(0)]);
    let ((from, first), (to, last)) = (values[0], values[values.len() - 1]);
    let truth = gpu.place().energy_uj(0, to) - gpu.place().energy_uj(0, from);
    let error = (last - first) as f64 / truth - 1.0;
    assert!(error.abs() < 0.1, "{error:+.4}");
    let refusing = PowerPlan { measured_only: true, ..plan };
    let refused = power::open(&refusing).err().expect("nothing is measured").to_string();
    assert!(refused.contains("--measured-only refuses sums of power"), "{refused}");
}

/// A meter of a device that tells neither energy nor power.
fn without_power() -> Meter {
    let unsupported = vec!["nvmlDeviceGetPowerUsage".to_owned()];
    Meter { counter: false, instant: false, sample_ms: 0, unsupported, ..Meter::default() }
}

/// Power of which nobody knows what it is a mean of is taken for one.
#[tokio::test(flavor = "multi_thread")]
async fn power_without_a_field() {
    let _one = ENVIRONMENT.lock().await;
    let unsupported = vec!["field 186".to_owned()];
    let gpu = machine(vec![Meter { counter: false, unsupported, ..model("IDEAL") }]);
    let ended = with_workload(&gpu, power::open(&plan(&gpu)).unwrap(), &["1"]).await;
    assert_eq!(ended.meters[&DomainId::new(0)].kind, GpuMeterKind::AveragedPower);
    let values = good(&ended.readings[&DomainId::new(0)]);
    let ((from, first), (to, last)) = (values[0], values[values.len() - 1]);
    let truth = gpu.place().energy_uj(0, to) - gpu.place().energy_uj(0, from);
    assert!(((last - first) as f64 / truth - 1.0).abs() < 0.1, "{first} to {last}, in truth {truth}");
}

/// A device that tells neither energy nor power: the time that kernels ran on it times its limit, said to be an estimate wherever it is
/// shown. It rests for longer than a counter may stand still.
#[test]
fn a_gpu_that_tells_how_busy_it_is() {
    let mut scenario = one_gpu(without_power());
    scenario.devices[0].limit_watts = Some(300.0);
    let gpu = Gpu::new(&scenario, Prologue::Jump).unwrap();
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let place = energy_trace_tests::place::Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let library = gpu.libraries().join("libnvidia-ml.so.1");
    let mut record = place.command(&["record", "--power", "nvml", "--no-svg", "--nvml-lib"]);
    let script = format!("'{}' 3; sleep 3", program.display());
    let output = gpu.env(&mut record).arg(&library).args(["--", "sh", "-c", &script]).output().unwrap();
    energy_trace_tests::place::assert_code(&output, 0);
    let summary = String::from_utf8_lossy(&output.stderr);
    assert!(summary.contains("estimated") && summary.contains("0.2 to 1 times that"), "{summary}");
    assert!(!summary.contains("CPU time times a constant"), "{summary}");
    let report = place.run(&["report", "--format", "json", "energy-trace.data"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let row = &json["ledger"][0];
    let busy = gpu.truth().unwrap().into_iter().filter(|launch| launch.kind == "kernel");
    let truth: u64 = busy.map(|launch| (launch.end_ns - launch.start_ns) * 3 / 10).sum();
    let error = row["measured_uj"].as_f64().unwrap() / truth as f64 - 1.0;
    assert!(error.abs() < 0.08 && row["quality"] == "estimated", "{error:+.3}: {row}");
    let [low, high] = [0, 1].map(|end| row["target_ci95_uj"][end].as_f64().unwrap());
    assert!(
        low > 0.0 && (low / high - 0.167).abs() < 0.001 && high == row["target_uj"].as_f64().unwrap(),
        "{row}"
    );
    let warnings = json["meta"]["warnings"].to_string();
    assert!(warnings.contains("\"gpu-utilization\"") && !warnings.contains("\"no-reading\""), "{warnings}");
    let page = place.run(&["export", "--format", "html", "energy-trace.data"]).stdout;
    assert!(String::from_utf8_lossy(&page).contains("times its power limit, an estimate"));
}

/// MIG, a virtual GPU and a module's counter each have their finding.
#[tokio::test(flavor = "multi_thread")]
async fn shared_devices() {
    let _one = ENVIRONMENT.lock().await;
    let virtual_gpu = Meter { vgpu: true, ..Meter::default() };
    let gpu = machine(vec![model("MIG"), virtual_gpu, Meter { module: true, ..Meter::default() }]);
    let ended = Run::start(power::open(&plan(&gpu)).unwrap()).stop().await;
    let codes = ended.codes();
    for code in ["gpu-mig", "gpu-virtual", "gpu-module"] {
        assert!(codes.contains(&code), "{code} is not in {codes:?}");
    }
    assert!(ended.text("gpu-unsupported").contains("gpu-0: not offered here: utilisation by process"));
    assert_eq!(ended.meters[&DomainId::new(2)].kind, GpuMeterKind::ModuleCounter);
    assert!(good(&ended.readings[&DomainId::new(2)]).iter().all(|v| v.1 >= 123_456_000));
}

/// A device that is lost during the run gives failed readings and one finding; the other goes on.
#[tokio::test(flavor = "multi_thread")]
async fn lost_during_the_run() {
    let _one = ENVIRONMENT.lock().await;
    let gpu = machine(vec![Meter { lost_after_s: Some(1.0), ..Meter::default() }, Meter::default()]);
    let run = Run::start(power::open(&plan(&gpu)).unwrap());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let ended = run.stop().await;
    assert_eq!(ended.codes(), ["gpu-lost"]);
    let (first, second) = (&ended.readings[&DomainId::new(0)], &ended.readings[&DomainId::new(1)]);
    assert_eq!(first.last().unwrap().value, CounterValue::Failed);
    assert!(second.iter().all(|r| r.value != CounterValue::Failed));
}

/// A counter that begins again is a finding, and the energy of that step is a gap and no number.
#[tokio::test(flavor = "multi_thread")]
async fn counter_that_is_reset() {
    let _one = ENVIRONMENT.lock().await;
    let gpu = machine(vec![Meter { reset_after_s: Some(1.0), ..Meter::default() }.full_duty()]);
    let run = Run::start(power::open(&plan(&gpu)).unwrap());
    tokio::time::sleep(Duration::from_millis(1700)).await;
    let ended = run.stop().await;
    assert_eq!(ended.codes(), ["gpu-counter-reset"]);
    let readings = &ended.readings[&DomainId::new(0)];
    let span = energy_trace_counters::Span::new(readings[0].at, readings[readings.len() - 1].at);
    let timeline = energy_trace_counters::intervals_of_readings(
        readings,
        &energy_trace_counters::Physics::of_gpu(),
        span,
    );
    assert_eq!(timeline.gaps.len(), 1, "{:?}", timeline.gaps);
    assert!(timeline.intervals.iter().all(|i| i.energy.as_uj() < 100_000_000));
}

/// A device that has no meter at all is left out with its reason, and is no zero.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_supported() {
    let _one = ENVIRONMENT.lock().await;
    let bare = Meter { mig: true, ..without_power() };
    let broken = Meter { lost_after_s: Some(0.0), ..Meter::default() };
    let gpu = machine(vec![bare, broken, Meter::default()]);
    let set = power::open(&plan(&gpu)).unwrap();
    let source = &set.sources()[0];
    assert_eq!(source.domains, ["gpu-2"]);
    let reasons: Vec<_> = source.ignored.iter().map(|i| ignored_reason(&i.reason)).collect();
    assert!(reasons[0].contains("no energy counter") && reasons[1].contains("cannot be read"), "{reasons:?}");
}

/// The driver's word on which process keeps the device busy is in the recording, by pid and in percent.
#[tokio::test(flavor = "multi_thread")]
async fn processes_have_their_use() {
    let _one = ENVIRONMENT.lock().await;
    let gpu = machine(vec![Meter::default()]);
    let ended = with_workload(&gpu, power::open(&plan(&gpu)).unwrap(), &["3"]).await;
    let pid = gpu.truth().unwrap()[0].pid;
    let own: Vec<_> = ended.uses.iter().filter(|(_, one)| one.pid.get() == pid).collect();
    assert!(!own.is_empty(), "{:?}", ended.uses);
    assert!(own.iter().any(|(_, one)| one.sm_percent > 30), "{own:?}");
    assert!(own.iter().all(|(_, one)| one.from < one.to));
    assert_eq!(own.len(), ended.uses.len());
}

/// `doctor` names what is wrong with each device by the same words as a report.
#[test]
fn doctor_names_findings() {
    let virtual_gpu = Meter { vgpu: true, ..Meter::default() };
    let module = Meter { module: true, ..Meter::default() };
    let gpu = machine(vec![model("MIG"), model("AVERAGED"), model("A100"), virtual_gpu, module]);
    let mut command = gpu.command(env!("CARGO_BIN_EXE_energy-trace"));
    let output = command
        .args(["doctor", "--nvml-lib"])
        .arg(gpu.libraries().join("libnvidia-ml.so.1"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).replace('\n', " ");
    let words: Vec<&str> = said.split_whitespace().collect();
    for code in ["[gpu-mig]", "[gpu-averaged-power]", "[gpu-unsupported]", "[gpu-virtual]", "[gpu-module]"] {
        assert!(words.contains(&code), "{code} is not in {said}");
    }
    assert!(words.join(" ").contains("gpu-2: the meter steps every"), "{said}");
}

/// The whole program: the ledger's GPU row is what the device spent, and the meter, its findings and the process are in the report.
#[test]
fn a_whole_recording() {
    let gpu = machine(vec![Meter { mig: true, ..model("A100") }.full_duty()]);
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let place = energy_trace_tests::place::Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let library = gpu.libraries().join("libnvidia-ml.so.1");
    let mut record = place.command(&["record", "--power", "nvml", "--no-svg", "--nvml-lib"]);
    let output = gpu.env(&mut record).arg(&library).arg("--").arg(&program).arg("4").output().unwrap();
    energy_trace_tests::place::assert_code(&output, 0);
    let report = place.run(&["report", "--format", "json", "energy-trace.data"]);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let row = &json["ledger"][0];
    assert_eq!((row["domain"].as_str(), row["quality"].as_str()), (Some("gpu-0"), Some("measured")));
    let measured = row["measured_uj"].as_f64().unwrap();
    let worked: f64 = gpu.truth().unwrap().iter().map(|l| l.uj).sum();
    let idle = 60e6 * json["meta"]["duration_ns"].as_f64().unwrap() / 1e9;
    // A step at either end is 100 ms of some hundred watts, of a run of seconds.
    let error = measured / (worked + idle) - 1.0;
    assert!(error.abs() < 0.08, "{error:+.3}: {row}");
    let warnings = json["meta"]["warnings"].to_string();
    assert!(warnings.contains("gpu-mig"), "{warnings}");
    let details = place.run(&["report", "-v", "energy-trace.data"]);
    let said = String::from_utf8_lossy(&details.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let pid = gpu.truth().unwrap()[0].pid;
    for words in ["gpu-0: the meter steps every", &format!("gpu-0: process {pid} kept it")] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
}

/// A device as the check on an H200 found it: 78 W at rest, 42 W more while a program has it open, and a counter of which a reading takes 3 ms. What it draws
/// because it is open is idle power also where the program never pauses, and no kernel's: with it the kernel of 140 W would have had 30 % too much.
/// Counters are read for a while after the end, to see it.
#[test]
fn what_an_open_gpu_draws_is_no_kernels() {
    let mut scenario = one_gpu(model("H200"));
    let device = &mut scenario.devices[0];
    (device.idle_watts, device.context_watts, device.limit_watts) = (78.0, 42.0, Some(700.0));
    for (kernel, us, watts) in [("matmul", 205.0, 140.0), ("softmax", 153.0, 302.0)] {
        let kernel = scenario.kernels.get_mut(kernel).unwrap();
        (kernel.us, kernel.watts) = (us, watts);
    }
    let gpu = Gpu::new(&scenario, Prologue::EndbrPush).unwrap();
    let program = gpu.workload("gpu_driver", &[]).unwrap();
    let place = energy_trace_tests::place::Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let mut record =
        place.command(&["record", "--power", "nvml", "--gpu", "kernel", "--no-svg", "--nvml-lib"]);
    let library = gpu.libraries().join("libnvidia-ml.so.1");
    let output = gpu.env(&mut record).arg(&library).arg("--").arg(&program).arg("6").output().unwrap();
    energy_trace_tests::place::assert_code(&output, 0);
    let report = place.run(&["report", "--format", "json", "energy-trace.data"]);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let launches = gpu.truth().unwrap();
    let is_off = |found: Option<f64>, truth: f64| (found.unwrap_or(0.0) / truth - 1.0).abs() > 0.06;
    let row = &json["ledger"][0];
    assert!(!is_off(row["target_uj"].as_f64(), launches.iter().map(|launch| launch.uj).sum()), "{row}");
    for kernel in ["matmul", "softmax"] {
        let truth: f64 = launches.iter().filter(|launch| launch.name == kernel).map(|launch| launch.uj).sum();
        let name = format!("{kernel}_[g]");
        let function =
            json["functions"].as_array().unwrap().iter().find(|f| f["name"] == name.as_str()).unwrap();
        assert!(!is_off(function["self_uj"]["gpu"].as_f64(), truth), "{truth} µJ in truth: {function}");
    }
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let readings = &recording.readings[&recording.domains[0].id];
    let summary = recording.summary.as_ref().unwrap();
    let after = readings.iter().filter(|reading| reading.at > summary.end).count();
    let seconds = summary.end.ns_since(summary.start) as f64 / 1e9;
    assert!(after >= 5 && readings.len() as f64 <= 30.0 * seconds + 20.0, "{after} of {}", readings.len());
}

/// Whom a recording is of that begins while a program keeps a GPU busy.
enum Recorded {
    TheProgram,
    Another,
}

/// Records so; returns the busy program's number and the report.
fn recorded_on_a_busy_gpu(mode: &str, whom: &Recorded) -> (u32, serde_json::Value) {
    recorded_on(&machine(vec![model("A100").full_duty()]), mode, whom)
}

fn recorded_on(gpu: &Gpu, mode: &str, whom: &Recorded) -> (u32, serde_json::Value) {
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let work = Guard::spawn(gpu.command(&program).args(["60", mode])).unwrap();
    let pid = work.pid();
    std::thread::sleep(Duration::from_secs(1));
    let place = energy_trace_tests::place::Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let mut record = place.command(&["record", "--power", "nvml", "--no-svg", "--nvml-lib"]);
    let record = gpu.env(&mut record).arg(gpu.libraries().join("libnvidia-ml.so.1"));
    let output = match whom {
        Recorded::TheProgram => record.args(["--duration", "6s", "-p", &pid.to_string()]).output(),
        Recorded::Another => record.args(["--", "sleep", "2"]).output(),
    };
    energy_trace_tests::place::assert_code(&output.unwrap(), 0);
    drop(work);
    let report = place.run(&["report", "--format", "json", "energy-trace.data"]);
    (pid, serde_json::from_slice(&report.stdout).unwrap())
}

/// A recording that begins on a GPU that the program keeps busy already: what it draws is the program's and is not taken for idle power, nobody
/// has less than nothing, and it is said who used the device.
#[test]
fn attached_to_a_busy_gpu() {
    let (pid, json) = recorded_on_a_busy_gpu("mixed", &Recorded::TheProgram);
    let (row, warnings) = (&json["ledger"][0], json["meta"]["warnings"].to_string());
    let uj = |name: &str| row[name].as_i64().unwrap();
    let parts = ["target_uj", "other_uj", "idle_uj"].map(uj);
    assert!(parts.iter().all(|&part| part >= 0) && uj("target_uj") * 2 > uj("measured_uj"), "{row}");
    assert!(
        warnings.contains("\"gpu-in-use\"") && warnings.contains(&format!("process {pid} used it")),
        "{warnings}"
    );
}

/// A program that draws little and works on when the recording ends: what its GPU draws then is no pause, though no launch is seen.
#[test]
fn attached_for_a_while() {
    let mut scenario = one_gpu(model("A100").full_duty());
    scenario.kernels.values_mut().for_each(|kernel| kernel.watts = 40.0);
    let gpu = Gpu::new(&scenario, Prologue::Jump).unwrap();
    let (_, json) = recorded_on(&gpu, "mixed", &Recorded::TheProgram);
    let (row, warnings) = (&json["ledger"][0], json["meta"]["warnings"].to_string());
    assert_eq!(row["idle_uj"], 0, "{row}");
    assert!(warnings.contains("\"gpu-in-use\""), "{warnings}");
}

/// The same where the program rests again and again: what the device draws then (60 W) is its idle power, and it is not said that nobody knows it.
#[test]
fn attached_to_a_gpu_with_pauses() {
    let (_, json) = recorded_on_a_busy_gpu("bursts", &Recorded::TheProgram);
    let (row, warnings) = (&json["ledger"][0], json["meta"]["warnings"].to_string());
    let watts = row["idle_uj"].as_f64().unwrap() / json["meta"]["duration_ns"].as_f64().unwrap() * 1e3;
    assert!((54.0..66.0).contains(&watts), "{watts} W: {row}");
    assert!(warnings.contains("gpu-idle-from-pauses") && !warnings.contains("not known"), "{warnings}");
}

/// A program that does not use a GPU which others keep busy: what these drew before the start counts as idle power, and that is said.
#[test]
fn beside_a_busy_gpu() {
    let (_, json) = recorded_on_a_busy_gpu("eager", &Recorded::Another);
    let (row, warnings) = (&json["ledger"][0], json["meta"]["warnings"].to_string());
    let uj = |name: &str| row[name].as_i64().unwrap();
    assert!(uj("idle_uj") * 2 > uj("measured_uj") && uj("target_uj") * 4 < uj("measured_uj"), "{row}");
    assert!(
        warnings.contains("gpu-used-by-others") && warnings.contains("counts as idle power"),
        "{warnings}"
    );
}

/// A module of CPU and GPU of which NVML counts the whole and a sensor shows the CPU's 40 W: the GPU has the difference, and the total is the module's.
#[test]
fn a_module_is_counted_once() {
    let gpu = machine(vec![Meter { module: true, ..model("IDEAL") }.full_duty()]);
    let sysfs = tempfile::tempdir().unwrap();
    let sensor = sysfs.path().join("class/hwmon/hwmon0");
    std::fs::create_dir_all(&sensor).unwrap();
    let files = [
        ("name", "power_meter"),
        ("power1_oem_info", "Grace Power Socket 0"),
        ("power1_average", "40000000"),
        ("power1_average_interval", "50"),
    ];
    files.iter().for_each(|(file, text)| std::fs::write(sensor.join(file), format!("{text}\n")).unwrap());
    let program = gpu.workload("gpu_mix", &[]).unwrap();
    let place = energy_trace_tests::place::Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let mut record =
        place.command(&["record", "--power", "nvml", "--power", "hwmon-power", "--no-svg", "--path.sysfs"]);
    record.arg(sysfs.path()).arg("--nvml-lib").arg(gpu.libraries().join("libnvidia-ml.so.1"));
    let output = gpu.env(&mut record).arg("--").arg(&program).arg("4").output().unwrap();
    energy_trace_tests::place::assert_code(&output, 0);
    let report = place.run(&["report", "--format", "json", "energy-trace.data"]);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let measured = |name: &str| {
        let mut rows = json["ledger"].as_array().unwrap().iter();
        rows.find(|row| row["domain"] == name).unwrap()["measured_uj"].as_f64().unwrap()
    };
    let seconds = json["meta"]["duration_ns"].as_f64().unwrap() / 1e9;
    let worked: f64 = gpu.truth().unwrap().iter().map(|launch| launch.uj).sum();
    let (cpu, both) = (measured("package-0"), measured("package-0") + measured("gpu-0"));
    let error = both / 60e6f64.mul_add(seconds, worked) - 1.0;
    assert!((cpu / (40e6 * seconds) - 1.0).abs() < 0.02 && error.abs() < 0.08, "{error:+.3}: {json}");
    let table = place.run(&["report", "energy-trace.data"]);
    let said = String::from_utf8_lossy(&table.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("gpu-0: its module's counter less package-0"), "{said}");
}
