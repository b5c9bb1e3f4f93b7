//! Choosing the sources: what `auto` takes, what was named, and how they become one list of domains.
//!
//! Before the start it also learns what the meters are worth: idle power, how they step and lag, and whether two drivers agree. Leaves out
//! how each source reads its hardware (`sources/`) and the reading of the run (`reading/`).

use super::error::{PowerError, ignored_reasons};
use super::idle;
use super::kind::{Discovered, Meter, Request, SourceKind};
use super::plan::{PowerPlan, SourceChoice};
use super::reading::{
    self, AtReadings, Beside, Clocks, CrossCheck, LiveReplay, OpenSource, PowerTask, Sensors,
};
use super::sensors;
use super::source::PowerSource;
use super::sources::{SOURCES, model};
use energy_trace_model::ids::{CpuId, DomainId, SocketId};
use energy_trace_model::recording::record::{
    Domain, DomainClass, IdleBaseline, IdleOrigin, IgnoredReason, InUse, Origin, PowerDiagnostic, Quality,
    Record, Scope, Sensor, SensorValue, Source, SourceId, SourceNote,
};
use energy_trace_model::units::MicroWatts;
use energy_trace_system::host::cpu_model::is_arm_at;
use energy_trace_system::host::topology::{read_sockets_at, tree_of_cpus};
use energy_trace_system::threads::on_thread;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::oneshot;

/// Power sources, open and ready to be read.
pub struct PowerSet {
    pub(super) sources: Vec<Source>,
    pub(super) domains: Vec<Domain>,
    pub(super) live: Vec<OpenSource>,
    replays: Vec<LiveReplay>,
    /// The clocks of CPUs, where a counter shows what these draw.
    clocks: Option<Clocks>,
    /// Temperatures, clocks of GPUs, and what slows parts down.
    sensors: Option<Sensors>,
    period: Duration,
    /// The socket of each CPU.
    sockets: BTreeMap<CpuId, SocketId>,
    /// A second reader of the counters of one live source, and that source's place.
    pub(super) check: Option<(usize, CrossCheck)>,
    /// What was found wrong before the start.
    pub(super) disagreements: Vec<PowerDiagnostic>,
    /// What to know of devices before believing their numbers.
    pub(super) of_devices: Vec<PowerDiagnostic>,
    at_readings: Option<AtReadings>,
}

/// Opens what the plan asks for.
///
/// `auto` takes every counter that can be read, in the order of `SOURCES`: powercap; perf for what powercap lacks, and for the rest to
/// compare with; GPUs by NVML, amdgpu and hwmon unless they are off; hwmon's sockets where nothing else has them, and its power sensors
/// likewise; a meter of the whole machine or its battery; and the model where neither covers the CPUs, unless estimates are refused. What a source offers and is not used is in its `ignored`, with the reason.
///
/// # Errors
/// When a source that was named is missing, a log is bad, or nothing is measured and estimates are refused.
pub fn open(plan: &PowerPlan) -> Result<PowerSet, PowerError> {
    let mut set = PowerSet::empty(plan.period);
    if plan.choices.contains(&SourceChoice::None) {
        return if plan.choices.len() == 1 { Ok(set) } else { Err(PowerError::NoneWithOthers) };
    }
    if plan.measured_only && SOURCES.iter().any(|kind| is_estimate(kind) && plan.names(kind.word)) {
        return Err(PowerError::ModelWithMeasuredOnly);
    }
    for kind in SOURCES {
        set.take_if_wanted(kind, plan)?;
    }
    if plan.measured_only && set.domains.is_empty() {
        let why: Vec<String> =
            set.sources.iter().filter(|s| !s.ignored.is_empty()).map(ignored_reasons).collect();
        return Err(PowerError::NothingMeasured { why: why.join("; ") });
    }
    if let Some(power) = plan.idle {
        set.give_idle(power);
    }
    if set.domains.iter().any(counts_cpus) {
        set.clocks = Clocks::open_at(&plan.sysfs);
    }
    set.find_sensors(&plan.sysfs);
    set.sockets = read_sockets_at(tree_of_cpus(&plan.sysfs));
    Ok(set)
}

impl PowerSet {
    pub(super) fn empty(period: Duration) -> Self {
        Self {
            sources: Vec::new(),
            domains: Vec::new(),
            live: Vec::new(),
            replays: Vec::new(),
            clocks: None,
            sensors: None,
            period,
            sockets: BTreeMap::new(),
            check: None,
            disagreements: Vec::new(),
            of_devices: Vec::new(),
            at_readings: None,
        }
    }

    /// The sources that were looked at: taken, ignored, and why.
    pub fn sources(&self) -> Vec<Source> {
        self.sources.clone()
    }

    /// The domains, each at the position of its id.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// What is called just before each reading, but for those of GPUs.
    pub fn call_at_readings(&mut self, call: Option<AtReadings>) {
        self.at_readings = call;
    }

    /// Takes the first readings and keeps reading on threads until `PowerTask::stop`.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(mut self, records: Sender<Record>) -> std::io::Result<PowerTask> {
        self.show();
        let diagnostics = self.disagreements.into_iter().chain(self.of_devices).collect();
        let beside = Beside { clocks: self.clocks, sensors: self.sensors };
        reading::start(
            self.live,
            self.replays,
            beside,
            self.period,
            diagnostics,
            records,
            self.at_readings.as_ref(),
        )
    }

    /// Chooses what the progress line shows: domains that add up, or psys alone where nothing else is read.
    fn show(&mut self) {
        let adds_up = |domain: &Domain| domain.class.adds_up();
        let all = || self.live.iter().flat_map(|live| live.source.domains());
        let only_psys = all().all(|domain| domain.class == DomainClass::Psys);
        for live in &mut self.live {
            live.shown = live.source.domains().iter().map(|domain| only_psys || adds_up(domain)).collect();
        }
    }

    /// Opens the sensors of sysfs, and those of the devices that are read.
    pub(super) fn find_sensors(&mut self, sysfs: &Path) {
        let of_devices = self.live.iter().filter_map(|live| live.source.sensors());
        self.sensors = Sensors::of(sensors::in_sysfs(sysfs).into_iter().chain(of_devices));
    }

    /// What the sensors say now.
    pub(super) fn read_sensors(&mut self) -> Vec<(Sensor, Option<SensorValue>)> {
        let Some(sensors) = &mut self.sensors else { return Vec::new() };
        let values = sensors.read();
        sensors.all().iter().cloned().zip(values).collect()
    }

    /// Adds a source that was looked at and gives nothing.
    pub(super) fn add_source(&mut self, source: Source) {
        self.sources.push(source);
    }

    /// Takes a source where `auto` or its name asks for it, and every file of one that reads files.
    fn take_if_wanted(&mut self, kind: &SourceKind, plan: &PowerPlan) -> Result<(), PowerError> {
        for file in plan.files(kind.word) {
            self.take(kind, plan, Some(file), true)?;
        }
        let named = plan.names(kind.word);
        if named || (plan.is_auto() && self.why_not_auto(kind, plan).is_none()) {
            self.take(kind, plan, None, named)?;
        }
        Ok(())
    }

    /// Why `auto` leaves a source out here; `None`: it takes it.
    pub(super) fn why_not_auto(&self, kind: &SourceKind, plan: &PowerPlan) -> Option<IgnoredReason> {
        (kind.why_not_auto)(&Request { plan, file: None, named: false, taken: &self.domains })
    }

    /// Looks for a source.
    pub(super) fn discover(
        &self,
        kind: &SourceKind,
        plan: &PowerPlan,
        file: Option<&Path>,
        named: bool,
    ) -> Result<Discovered, PowerError> {
        let mut found = (kind.discover)(&Request { plan, file, named, taken: &self.domains })?;
        if !named && is_arm_at(&plan.sysfs) {
            found.source.ignored.retain(|ignored| !is_without_rapl(&ignored.reason));
        }
        Ok(found)
    }

    /// Looks for a source and takes what is there. Nothing is an error where it was named, else a line in the report; what has
    /// nothing to say has no line.
    pub(super) fn take(
        &mut self,
        kind: &SourceKind,
        plan: &PowerPlan,
        file: Option<&Path>,
        named: bool,
    ) -> Result<(), PowerError> {
        let Discovered { source, meter, second_reader, diagnostics } =
            self.discover(kind, plan, file, named)?;
        self.of_devices.extend(diagnostics);
        if named && meter.is_none() && second_reader.is_none() {
            return Err(PowerError::Missing { name: plan.typed(kind.word), why: ignored_reasons(&source) });
        }
        self.compare_with(second_reader);
        match meter {
            Some(Meter::Counters(hardware)) => return self.add_live(hardware, source),
            Some(Meter::Log(replay)) => {
                let ids = self.add_domains(&replay.domains, &source)?;
                self.replays.push(LiveReplay { replay, ids });
            }
            Some(Meter::Model(domains)) => {
                self.add_domains(&domains, &source)?;
            }
            None if source.ignored.is_empty() => return Ok(()),
            None => {}
        }
        self.sources.push(source);
        Ok(())
    }

    /// Keeps a second reader, to compare it with the live source that has its domains.
    fn compare_with(&mut self, second: Option<Box<dyn PowerSource>>) {
        let Some(second) = second else { return };
        let is_read = |live: &OpenSource| {
            let names = || live.domains.iter().map(|(_, name)| name);
            second.domains().iter().any(|d| names().any(|name| *name == d.name))
        };
        let place = self.live.iter().position(is_read);
        self.check = place.map(|place| (place, CrossCheck::new(second)));
    }

    /// `--idle-watts` is the power of all sockets together; where no socket is read, of the meters of the whole machine.
    fn give_idle(&mut self, power: MicroWatts) {
        let is_read = |d: &Domain, class| d.class == class && matches!(d.origin, Origin::Counter { .. });
        let has_sockets = self.domains.iter().any(|d| is_read(d, DomainClass::Package));
        let class = if has_sockets { DomainClass::Package } else { DomainClass::Psys };
        let domains: Vec<&mut Domain> = self.domains.iter_mut().filter(|d| is_read(d, class)).collect();
        let parts = model::split(power, &vec![1; domains.len()]);
        for (domain, power) in domains.into_iter().zip(parts) {
            domain.idle = Some(IdleBaseline { power, origin: IdleOrigin::Given });
        }
    }

    fn add_live(&mut self, hardware: Box<dyn PowerSource>, source: Source) -> Result<(), PowerError> {
        let ids = self.add_domains(hardware.domains(), &source)?;
        let domains = ids.into_iter().zip(hardware.domains()).map(|(id, d)| (id, d.name.clone())).collect();
        self.live.push(OpenSource { source: hardware, id: source.id.clone(), domains, shown: Vec::new() });
        self.sources.push(source);
        Ok(())
    }

    /// Appends domains with their ids.
    fn add_domains(&mut self, domains: &[Domain], source: &Source) -> Result<Vec<DomainId>, PowerError> {
        let mut ids = Vec::new();
        for domain in domains {
            if let Some(first) = self.sources.iter().find(|s| s.domains.contains(&domain.name)) {
                let (domain, first, second) =
                    (domain.name.clone(), first.id.to_string(), source.id.to_string());
                return Err(PowerError::Clash { domain, first, second });
            }
            let id = DomainId::new(u32::try_from(self.domains.len()).unwrap_or(u32::MAX));
            self.domains.push(Domain { id, ..domain.clone() });
            ids.push(id);
        }
        Ok(ids)
    }

    /// NVML's numbers of GPUs, and the processes that compute on each now.
    pub fn gpu_users(&mut self) -> Vec<(u32, Vec<u32>)> {
        let meters = self.live.iter_mut().filter_map(|live| live.source.gpu_meters());
        meters.flat_map(|meters| meters.users()).collect()
    }

    /// Measures the idle power of every counter that has none yet, over a period before the run starts. Returns at once when there is
    /// none. Needs a tokio runtime.
    pub async fn measure_idle(&mut self, over: Duration) {
        if over.is_zero() || !self.live.iter().any(|live| self.lacks_idle(live)) {
            return;
        }
        self.let_settle().await;
        let mut tracks: Vec<Vec<idle::Track>> =
            self.live.iter().map(|live| vec![idle::Track::new(); live.domains.len()]).collect();
        if let Some((live, check)) = self.checked() {
            check.begin(live.source.as_mut());
        }
        let calibrations = self.start_calibrations(over);
        let mut loads = vec![idle::read_load(energy_trace_system::clock::now())];
        let end = tokio::time::Instant::now() + over;
        let mut interval = tokio::time::interval(Duration::from_millis(idle::STEP_MS));
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while interval.tick().await < end {
            for (live, tracks) in self.live.iter_mut().zip(&mut tracks) {
                let mut attempts = Vec::new();
                live.source.read(&mut attempts);
                idle::extend(tracks, &attempts);
            }
            loads.push(idle::read_load(energy_trace_system::clock::now()));
        }
        let over_ns = u64::try_from(over.as_nanos()).unwrap_or(u64::MAX);
        let in_use = self
            .finish_calibrations(calibrations, &IdleOrigin::Measured { over_ns, busy_percent: None })
            .await;
        self.set_idle(&tracks, &loads, over_ns);
        self.withdraw_idle(in_use);
        self.finish_check();
    }

    /// Waits for devices that still draw extra power for a program that has ended, at most `MOST_SETTLING`.
    async fn let_settle(&mut self) {
        let end = tokio::time::Instant::now() + idle::MOST_SETTLING;
        let is_settling =
            |live: &mut OpenSource| live.source.gpu_meters().is_some_and(|meters| meters.is_settling());
        while self.live.iter_mut().any(is_settling) && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(idle::STEP_MS)).await;
        }
    }

    /// Lets every source that can read its meters quickly do so meanwhile, on threads of their own.
    fn start_calibrations(&mut self, over: Duration) -> Vec<(usize, oneshot::Receiver<Vec<idle::Track>>)> {
        let able = self.live.iter_mut().enumerate();
        let able = able.filter_map(|(place, live)| Some((place, live.source.gpu_meters()?.calibrator())));
        // Without a thread a meter is as if it could not be read quickly.
        able.filter_map(|(place, calibrator)| {
            Some((place, on_thread("energy-meter", move || calibrator(over)).ok()?))
        })
        .collect()
    }

    /// Hands what was read to its source, and what that has learned to the report and the baselines. Returns the domains that were in use.
    async fn finish_calibrations(
        &mut self,
        calibrations: Vec<(usize, oneshot::Receiver<Vec<idle::Track>>)>,
        origin: &IdleOrigin,
    ) -> Vec<(DomainId, InUse)> {
        let mut in_use = Vec::new();
        for (place, reading) in calibrations {
            let (Ok(tracks), Some(live)) = (reading.await, self.live.get_mut(place)) else { continue };
            let Some(meters) = live.source.gpu_meters() else { continue };
            let learned = meters.learn(tracks);
            add_notes(&mut self.sources, &live.id, learned.notes);
            let found = live.domains.iter().zip(learned.in_use);
            in_use.extend(found.filter_map(|((id, _), by)| Some((*id, by?))));
            for ((id, _), power) in live.domains.iter().zip(learned.idle) {
                let domain = self.domains.get_mut(id.index()).filter(|d| d.idle.is_none());
                if let (Some(domain), Some(power)) = (domain, power) {
                    domain.idle = Some(IdleBaseline { power, origin: origin.clone() });
                }
            }
        }
        in_use
    }

    /// What domains drew that were in use is no idle power.
    fn withdraw_idle(&mut self, in_use: Vec<(DomainId, InUse)>) {
        for (id, by) in in_use {
            let Some(domain) = self.domains.get_mut(id.index()) else { continue };
            let measured =
                domain.idle.as_ref().filter(|idle| matches!(idle.origin, IdleOrigin::Measured { .. }));
            let power = measured.map_or(MicroWatts::default(), |idle| idle.power);
            domain.idle = Some(IdleBaseline { power, origin: IdleOrigin::InUse(by) });
        }
    }

    /// Watches the meters that can be read quickly for a moment, and returns the sources with notes on them, and the remarks.
    pub(super) fn examine(mut self, over: Duration) -> (Vec<Source>, Vec<PowerDiagnostic>) {
        for live in &mut self.live {
            let Some(meters) = live.source.gpu_meters() else { continue };
            let tracks = meters.calibrator()(over);
            let notes = meters.learn(tracks).notes;
            add_notes(&mut self.sources, &live.id, notes);
        }
        (self.sources, self.of_devices)
    }

    fn checked(&mut self) -> Option<(&mut OpenSource, &mut CrossCheck)> {
        let (place, check) = self.check.as_mut()?;
        Some((self.live.get_mut(*place)?, check))
    }

    /// Says in the source's notes how well perf agrees with powercap, and warns where it does not.
    fn finish_check(&mut self) {
        let Some((live, check)) = self.checked() else { return };
        let agreements = check.compare(live.source.as_mut());
        let id = live.id.clone();
        for agreement in &agreements {
            let (domain, permille) = (agreement.domain.clone(), agreement.permille());
            if agreement.is_broken() {
                self.disagreements.push(PowerDiagnostic::SourcesDisagree { domain, permille });
            } else if let Some(source) = self.sources.iter_mut().find(|source| source.id == id) {
                source.notes.push(SourceNote::PerfAgainstPowercap { domain, permille });
            }
        }
        self.check = None;
    }

    fn lacks_idle(&self, live: &OpenSource) -> bool {
        live.domains.iter().any(|(id, _)| self.domains.get(id.index()).is_some_and(|d| d.idle.is_none()))
    }

    fn set_idle(&mut self, tracks: &[Vec<idle::Track>], loads: &[idle::Load], over_ns: u64) {
        for (live, tracks) in self.live.iter().zip(tracks) {
            for ((id, _), track) in live.domains.iter().zip(tracks) {
                if let Some(domain) = self.domains.get_mut(id.index()).filter(|d| d.idle.is_none()) {
                    let is_of = |cpu| covers(domain.scope, &self.sockets, cpu);
                    let measured = idle::baseline_at_rest(track, loads, &is_of);
                    domain.idle = measured.map(|(power, busy_percent)| IdleBaseline {
                        power,
                        origin: IdleOrigin::Measured { over_ns, busy_percent },
                    });
                }
            }
        }
    }
}

/// Whether a domain's power is that of a CPU; where it is not known which socket that is in, it may be.
fn covers(scope: Scope, sockets: &BTreeMap<CpuId, SocketId>, cpu: CpuId) -> bool {
    match scope {
        Scope::Socket(socket) => sockets.get(&cpu).is_none_or(|of| *of == socket),
        Scope::Core(first, last) => cpu == first || cpu == last,
        Scope::Machine => true,
        Scope::Gpu(_) => false,
    }
}

/// Whether a domain's energy is counted, and CPUs draw it.
fn counts_cpus(domain: &Domain) -> bool {
    matches!(domain.origin, Origin::Counter { .. }) && !matches!(domain.scope, Scope::Gpu(_))
}

/// Whether nothing is missed on a processor that has no RAPL.
const fn is_without_rapl(reason: &IgnoredReason) -> bool {
    matches!(reason, IgnoredReason::NoDriver { .. } | IgnoredReason::NoZones { .. })
}

fn is_estimate(kind: &SourceKind) -> bool {
    kind.quality == Quality::Estimated
}

/// Gives what was learned to its source.
fn add_notes(sources: &mut [Source], id: &SourceId, notes: Vec<SourceNote>) {
    if let Some(source) = sources.iter_mut().find(|source| source.id == *id) {
        source.notes.extend(notes);
    }
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
