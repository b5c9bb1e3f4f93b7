//! Choosing the sources: what `auto` takes, what was asked for by name, and how they become one list of domains.
//!
//! Before the start it also learns what the meters are worth: idle power, how they step and lag, and whether two drivers agree. Leaves out
//! how each source reads its hardware (`sources/`) and the reading of the run (`reading/`).

use super::error::PowerError;
use super::idle;
use super::plan::{PowerPlan, SourceChoice};
use super::reading::{self, Clocks, CrossCheck, Live, LiveReplay, PowerTask};
use super::source::PowerSource;
use super::sources::replay::Replay;
use super::sources::{amdgpu, hwmon, model, nvml, perf, powercap, rapl_filter};
use crate::threads::on_thread;
use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::{
    Domain, DomainClass, IdleBaseline, IdleOrigin, Ignored, IgnoredReason, Origin, PowerDiagnostic, Record,
    Scope, Source, SourceKind, SourceNote,
};
use energy_trace_model::units::MicroWatts;
use energy_trace_report::sentences::ignored_reason;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::oneshot;

/// Power sources, open and ready to be read.
pub struct PowerSet {
    pub(super) sources: Vec<Source>,
    pub(super) domains: Vec<Domain>,
    pub(super) live: Vec<Live>,
    replays: Vec<LiveReplay>,
    /// The clocks of CPUs, where a counter shows what these draw.
    clocks: Option<Clocks>,
    period: Duration,
    /// A second reader of the counters of one live source, and that source's place.
    pub(super) check: Option<(usize, CrossCheck)>,
    /// What was found wrong before the start.
    pub(super) diagnostics: Vec<PowerDiagnostic>,
    /// What to know of devices before believing their numbers.
    pub(super) of_devices: Vec<PowerDiagnostic>,
}

/// Opens what the plan asks for.
///
/// `auto` takes every counter that can be read: powercap; perf for what powercap lacks, and for the rest to compare with; GPUs by NVML, amdgpu and
/// hwmon unless they are off; hwmon's sockets where nothing else has them; and the model where no counter covers the CPUs, unless estimates
/// are refused. What a source offers and is not used is in its `ignored`, with the reason.
///
/// # Errors
/// When a source that was asked for by name is missing, a log is bad, or nothing is measured and estimates are refused.
pub fn open(plan: &PowerPlan) -> Result<PowerSet, PowerError> {
    let asked = |choice: &SourceChoice| plan.choices.contains(choice);
    let auto = plan.choices.is_empty() || asked(&SourceChoice::Auto);
    let mut set = PowerSet::empty(plan.period);
    if asked(&SourceChoice::None) {
        return if plan.choices.len() == 1 { Ok(set) } else { Err(PowerError::NoneWithOthers) };
    }
    if asked(&SourceChoice::Model) && plan.measured_only {
        return Err(PowerError::ModelWithMeasuredOnly);
    }
    if auto || asked(&SourceChoice::Powercap) {
        set.add_powercap(plan, asked(&SourceChoice::Powercap))?;
    }
    if auto || asked(&SourceChoice::Perf) {
        set.add_perf(plan, asked(&SourceChoice::Perf))?;
    }
    if (auto && plan.gpu) || asked(&SourceChoice::Nvml) {
        set.add_nvml(plan, asked(&SourceChoice::Nvml))?;
    }
    if (auto && plan.gpu) || asked(&SourceChoice::AmdGpu) {
        set.add_amdgpu(plan, asked(&SourceChoice::AmdGpu))?;
    }
    if auto || asked(&SourceChoice::Hwmon) {
        set.add_hwmon(plan, asked(&SourceChoice::Hwmon))?;
    }
    for choice in &plan.choices {
        if let SourceChoice::Replay(file) = choice {
            set.add_replay(Replay::open(file)?)?;
        }
    }
    if asked(&SourceChoice::Model) || (auto && set.why_no_model(plan).is_none()) {
        set.add_model(plan)?;
    }
    if plan.measured_only && set.domains.is_empty() {
        return Err(PowerError::NothingMeasured { why: ignored_reasons(&set.sources) });
    }
    if let Some(power) = plan.idle {
        set.give_idle(power);
    }
    if set.domains.iter().any(counts_cpus) {
        set.clocks = Clocks::open_at(&plan.sysfs);
    }
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
            period,
            check: None,
            diagnostics: Vec::new(),
            of_devices: Vec::new(),
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

    /// Takes the first readings and keeps reading on threads until `PowerTask::stop`.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(self, records: Sender<Record>) -> std::io::Result<PowerTask> {
        let diagnostics = self.diagnostics.into_iter().chain(self.of_devices).collect();
        reading::start(self.live, self.replays, self.clocks, self.period, diagnostics, records)
    }

    /// Adds a source that was looked at and gives nothing.
    pub(super) fn add_source(&mut self, source: Source) {
        self.sources.push(source);
    }

    /// Why `auto` leaves the model out; `None`: it takes it.
    pub(super) fn why_no_model(&self, plan: &PowerPlan) -> Option<IgnoredReason> {
        if self.domains.iter().any(|d| d.class == DomainClass::Package) {
            Some(IgnoredReason::CpusHaveCounter)
        } else if plan.measured_only {
            Some(IgnoredReason::EstimatesRefused)
        } else {
            None
        }
    }

    /// `--idle-watts` is the power of all sockets together.
    fn give_idle(&mut self, power: MicroWatts) {
        let is_counter = |d: &Domain| matches!(d.origin, Origin::Counter { .. });
        let packages: Vec<&mut Domain> =
            self.domains.iter_mut().filter(|d| d.class == DomainClass::Package && is_counter(d)).collect();
        let parts = model::split(power, &vec![1; packages.len()]);
        for (domain, power) in packages.into_iter().zip(parts) {
            domain.idle = Some(IdleBaseline { power, origin: IdleOrigin::Given });
        }
    }

    pub(super) fn add_powercap(&mut self, plan: &PowerPlan, asked: bool) -> Result<(), PowerError> {
        let mut found = powercap::find(&plan.sysfs, plan.period);
        if found.powercap.is_some() {
            found.source.notes.extend(rapl_filter::describe_here());
        }
        match found.powercap {
            Some(powercap) => self.add_live(Box::new(powercap), found.source),
            None => self.add_nothing(powercap::NAME, found.source, asked),
        }
    }

    /// What powercap reads already is compared with it and not read twice.
    pub(super) fn add_perf(&mut self, plan: &PowerPlan, asked: bool) -> Result<(), PowerError> {
        let perf::Found { perf, mut source } = perf::find(&plan.sysfs, plan.period);
        let Some(perf) = perf else {
            return self.add_nothing(perf::NAME, source, asked);
        };
        let known: Vec<String> = self.domains.iter().map(|d| d.name.clone()).collect();
        let (new, same) = perf.split(|domain| !known.contains(&domain.name));
        if let Some(same) = same {
            source.domains.retain(|name| !known.contains(name));
            for domain in same.domains() {
                let reason = IgnoredReason::ReadByPowercap;
                source.ignored.push(Ignored { domain: domain.name.clone(), reason });
            }
            let place = self
                .live
                .iter()
                .position(|live| live.source.domains().iter().any(|d| known.contains(&d.name)));
            self.check = place.map(|place| (place, CrossCheck::new(Box::new(same))));
        } else {
            source.notes.extend(rapl_filter::describe_here());
        }
        match new {
            Some(new) => self.add_live(Box::new(new), source),
            None => {
                self.sources.push(source);
                Ok(())
            }
        }
    }

    /// A machine without such a card has no line for it, unless it was asked for.
    pub(super) fn add_amdgpu(&mut self, plan: &PowerPlan, asked: bool) -> Result<(), PowerError> {
        let amdgpu::Found { gpus, mut source } = amdgpu::find(&plan.sysfs, self.next_gpu(), plan.period);
        match gpus {
            Some(gpus) => self.add_live(Box::new(gpus), source),
            None if source.ignored.is_empty() && !asked => Ok(()),
            None => {
                if source.ignored.is_empty() {
                    let path = plan.sysfs.join("class/drm").display().to_string();
                    let reason = IgnoredReason::NoCards { path };
                    source.ignored.push(Ignored { domain: amdgpu::NAME.to_owned(), reason });
                }
                self.add_nothing(amdgpu::NAME, source, asked)
            }
        }
    }

    /// The number of the next GPU: sources count on where others ended.
    fn next_gpu(&self) -> u32 {
        let gpus = self.domains.iter().filter(|d| d.class == DomainClass::Gpu).count();
        u32::try_from(gpus).unwrap_or(u32::MAX)
    }

    pub(super) fn add_hwmon(&mut self, plan: &PowerPlan, asked: bool) -> Result<(), PowerError> {
        let first = self.next_gpu();
        let hwmon::Found { hwmon, mut source } = hwmon::find(&plan.sysfs, first, plan.period);
        let has_package = self.domains.iter().any(|d| d.class == DomainClass::Package);
        let mut left_out = Vec::new();
        if has_package {
            left_out.push((DomainClass::Package, IgnoredReason::OtherSourceReadsSockets));
        }
        if !plan.gpu {
            left_out.push((DomainClass::Gpu, IgnoredReason::GpusOff));
        }
        let mut hwmon = hwmon;
        for (class, reason) in left_out {
            let gone = hwmon.iter().flat_map(|h| h.domains()).filter(|d| d.class == class);
            source.ignored.extend(gone.map(|d| Ignored { domain: d.name.clone(), reason: reason.clone() }));
            hwmon = hwmon.and_then(|h| h.without(class));
        }
        source.domains = hwmon.iter().flat_map(|h| h.domains()).map(|d| d.name.clone()).collect();
        match hwmon {
            Some(hwmon) => self.add_live(Box::new(hwmon), source),
            None => self.add_nothing(hwmon::NAME, source, asked),
        }
    }

    /// A source without a counter: an error where it was asked for by name, else a line in the report.
    fn add_nothing(&mut self, name: &'static str, source: Source, asked: bool) -> Result<(), PowerError> {
        if asked {
            return Err(missing(name, &source));
        }
        self.sources.push(source);
        Ok(())
    }

    pub(super) fn add_nvml(&mut self, plan: &PowerPlan, asked: bool) -> Result<(), PowerError> {
        let found = nvml::find(plan.nvml_lib.as_deref(), plan.period, plan.measured_only);
        self.of_devices.extend(found.remarks);
        match found.gpus {
            Some(gpus) => self.add_live(Box::new(gpus), found.source),
            None if asked => self.add_nothing(nvml::NAME, found.source, true),
            None if plan.nvml_lib.is_some() => {
                Err(PowerError::NvmlLibrary { why: ignored_reasons(std::slice::from_ref(&found.source)) })
            }
            None => self.add_nothing(nvml::NAME, found.source, false),
        }
    }

    fn add_live(&mut self, hardware: Box<dyn PowerSource>, source: Source) -> Result<(), PowerError> {
        let ids = self.add_domains(hardware.domains(), &source)?;
        let domains = ids.into_iter().zip(hardware.domains()).map(|(id, d)| (id, d.name.clone())).collect();
        let only_psys = hardware.domains().iter().all(|d| d.class == DomainClass::Psys);
        let shown = hardware.domains().iter().map(|d| only_psys || d.class.adds_up()).collect();
        self.live.push(Live { source: hardware, kind: source.kind.clone(), domains, shown });
        self.sources.push(source);
        Ok(())
    }

    pub(super) fn add_replay(&mut self, replay: Replay) -> Result<(), PowerError> {
        let source = replay.describe();
        let ids = self.add_domains(&replay.domains, &source)?;
        self.replays.push(LiveReplay { replay, ids });
        self.sources.push(source);
        Ok(())
    }

    pub(super) fn add_model(&mut self, plan: &PowerPlan) -> Result<(), PowerError> {
        let model = model::model_at(&plan.sysfs, plan.model_idle.or(plan.idle), plan.model_core);
        self.add_domains(&model.domains, &model.source)?;
        self.sources.push(model.source);
        Ok(())
    }

    /// Appends domains with their ids.
    fn add_domains(&mut self, domains: &[Domain], source: &Source) -> Result<Vec<DomainId>, PowerError> {
        let mut ids = Vec::new();
        for domain in domains {
            if let Some(first) = self.sources.iter().find(|s| s.domains.contains(&domain.name)) {
                let (domain, first, second) =
                    (domain.name.clone(), first.kind.to_string(), source.kind.to_string());
                return Err(PowerError::Clash { domain, first, second });
            }
            let id = DomainId::new(u32::try_from(self.domains.len()).unwrap_or(u32::MAX));
            self.domains.push(Domain { id, ..domain.clone() });
            ids.push(id);
        }
        Ok(ids)
    }

    /// Measures the idle power of every counter that has none yet, over a period before the run starts. Returns at once when there is
    /// none. Needs a tokio runtime.
    pub async fn measure_idle(&mut self, over: Duration) {
        if over.is_zero() || !self.live.iter().any(|live| self.lacks_idle(live)) {
            return;
        }
        let mut tracks: Vec<Vec<idle::Track>> =
            self.live.iter().map(|live| vec![idle::Track::new(); live.domains.len()]).collect();
        if let Some((live, check)) = self.checked() {
            check.begin(live.source.as_mut());
        }
        let calibrations = self.start_calibrations(over);
        let ticks_before = idle::read_cpu_ticks();
        let end = tokio::time::Instant::now() + over;
        let mut interval = tokio::time::interval(Duration::from_millis(idle::STEP_MS));
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while interval.tick().await < end {
            for (live, tracks) in self.live.iter_mut().zip(&mut tracks) {
                let mut attempts = Vec::new();
                live.source.read(&mut attempts);
                idle::extend(tracks, &attempts);
            }
        }
        let ticks = ticks_before.zip(idle::read_cpu_ticks());
        let origin = IdleOrigin::Measured {
            over_ns: u64::try_from(over.as_nanos()).unwrap_or(u64::MAX),
            busy_percent: ticks.map(|(before, after)| idle::busy_percent(before, after)),
        };
        self.finish_calibrations(calibrations, &origin).await;
        self.set_idle(&tracks, &origin);
        self.finish_check();
    }

    /// Lets every source that can read its meters quickly do so meanwhile, on threads of their own.
    fn start_calibrations(&self, over: Duration) -> Vec<(usize, oneshot::Receiver<Vec<idle::Track>>)> {
        let able = self.live.iter().enumerate();
        let able = able.filter_map(|(place, live)| Some((place, live.source.calibrator()?)));
        // Without a thread a meter is as if it could not be read quickly.
        able.filter_map(|(place, calibrator)| {
            Some((place, on_thread("energy-meter", move || calibrator(over)).ok()?))
        })
        .collect()
    }

    /// Hands what was read to its source, and what that has learned to the report and the baselines.
    async fn finish_calibrations(
        &mut self,
        calibrations: Vec<(usize, oneshot::Receiver<Vec<idle::Track>>)>,
        origin: &IdleOrigin,
    ) {
        for (place, reading) in calibrations {
            let (Ok(tracks), Some(live)) = (reading.await, self.live.get_mut(place)) else { continue };
            let learned = live.source.learn(tracks);
            add_notes(&mut self.sources, &live.kind, learned.notes);
            for ((id, _), power) in live.domains.iter().zip(learned.idle) {
                let domain = self.domains.get_mut(id.index()).filter(|d| d.idle.is_none());
                if let (Some(domain), Some(power)) = (domain, power) {
                    domain.idle = Some(IdleBaseline { power, origin: origin.clone() });
                }
            }
        }
    }

    /// Watches the meters that can be read quickly for a moment, and returns the sources with what can be said of them, and the remarks.
    pub(super) fn examine(mut self, over: Duration) -> (Vec<Source>, Vec<PowerDiagnostic>) {
        for live in &mut self.live {
            let Some(calibrator) = live.source.calibrator() else { continue };
            let notes = live.source.learn(calibrator(over)).notes;
            add_notes(&mut self.sources, &live.kind, notes);
        }
        (self.sources, self.of_devices)
    }

    fn checked(&mut self) -> Option<(&mut Live, &mut CrossCheck)> {
        let (place, check) = self.check.as_mut()?;
        Some((self.live.get_mut(*place)?, check))
    }

    /// Says in the source's notes how well perf agrees with powercap, and warns where it does not.
    fn finish_check(&mut self) {
        let Some((live, check)) = self.checked() else { return };
        let agreements = check.compare(live.source.as_mut());
        for agreement in &agreements {
            let (domain, permille) = (agreement.domain.clone(), agreement.permille());
            if agreement.is_broken() {
                self.diagnostics.push(PowerDiagnostic::SourcesDisagree { domain, permille });
            } else if let Some(source) = self.sources.iter_mut().find(|s| s.kind == SourceKind::Powercap) {
                source.notes.push(SourceNote::PerfAgainstPowercap { domain, permille });
            }
        }
        self.check = None;
    }

    fn lacks_idle(&self, live: &Live) -> bool {
        live.domains.iter().any(|(id, _)| self.domains.get(id.index()).is_some_and(|d| d.idle.is_none()))
    }

    fn set_idle(&mut self, tracks: &[Vec<idle::Track>], origin: &IdleOrigin) {
        for (live, tracks) in self.live.iter().zip(tracks) {
            for ((id, _), track) in live.domains.iter().zip(tracks) {
                if let Some(domain) = self.domains.get_mut(id.index()).filter(|d| d.idle.is_none()) {
                    domain.idle =
                        idle::baseline(track).map(|power| IdleBaseline { power, origin: origin.clone() });
                }
            }
        }
    }
}

/// Whether a domain's energy is counted, and CPUs draw it.
fn counts_cpus(domain: &Domain) -> bool {
    matches!(domain.origin, Origin::Counter { .. }) && !matches!(domain.scope, Scope::Gpu(_))
}

fn missing(name: &'static str, source: &Source) -> PowerError {
    PowerError::Missing { name, why: ignored_reasons(std::slice::from_ref(source)) }
}

fn ignored_reasons(sources: &[Source]) -> String {
    let reasons = sources
        .iter()
        .flat_map(|s| &s.ignored)
        .map(|i| format!("{}: {}", i.domain, ignored_reason(&i.reason)));
    reasons.collect::<Vec<_>>().join("; ")
}

/// Gives what was learned to the source of that kind.
fn add_notes(sources: &mut [Source], kind: &SourceKind, notes: Vec<SourceNote>) {
    if let Some(source) = sources.iter_mut().find(|source| source.kind == *kind) {
        source.notes.extend(notes);
    }
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
