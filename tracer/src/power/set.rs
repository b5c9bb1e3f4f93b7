//! Choosing the sources: what `auto` takes, what was asked for by name, and how they become one list of domains.
//!
//! Leaves out how each source reads its hardware, and the reading itself (`reader.rs`).

use super::plan::{PowerPlan, SourceChoice};
use super::reader::{Live, LiveReplay, PowerTask};
use super::replay::{Replay, ReplayError};
use super::{PowerSource, idle, model, nvml, powercap, reader};
use crate::ids::DomainId;
use crate::profile::record::{Domain, DomainClass, IdleBaseline, Origin, Record, Source};
use crate::units::MicroWatts;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Why a run cannot have the power sources that were asked for.
#[derive(Debug, thiserror::Error)]
pub enum PowerError {
    /// `none` beside other words.
    #[error("--power none means no energy at all; leave out `none`, or the other --power options")]
    NoneWithOthers,
    /// A known word whose source is not built yet.
    #[error(
        "--power {0} is not in this version, which has powercap, nvml, model and replay:FILE; `energy-trace doctor` shows what is here"
    )]
    NotYet(SourceChoice),
    /// A source that was asked for by name and is not there.
    #[error("--power {name} was asked for and gives no counter: {why}")]
    Missing {
        /// The source.
        name: &'static str,
        /// Why, with the fix.
        why: String,
    },
    /// `--nvml-lib` names a library that does not work.
    #[error("--nvml-lib was given and does not work: {why}")]
    NvmlLibrary {
        /// Why, with the fix.
        why: String,
    },
    /// `--measured-only` together with the model.
    #[error("--power model estimates, and --measured-only refuses estimates; leave out one of them")]
    ModelWithMeasuredOnly,
    /// `--measured-only` on a machine without counters.
    #[error("--measured-only refuses to estimate, and no energy counter can be read here: {why}")]
    NothingMeasured {
        /// Why each source gives nothing, with fixes.
        why: String,
    },
    /// A log that cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Two sources offer one domain.
    #[error(
        "`{domain}` comes from {first} and from {second}; choose one of them with --power, or rename the column of the log"
    )]
    Clash {
        /// The domain.
        domain: String,
        /// The source that has it.
        first: String,
        /// The source that has it too.
        second: String,
    },
}

/// Power sources, open and ready to be read.
pub struct PowerSet {
    sources: Vec<Source>,
    domains: Vec<Domain>,
    live: Vec<Live>,
    replays: Vec<LiveReplay>,
    period: Duration,
}

/// Opens what the plan asks for.
///
/// `auto` takes every counter that can be read (powercap, and NVML unless GPUs are off), and the model where no counter covers the CPUs,
/// unless estimates are refused. What a source offers and is not used is in its `ignored`, with the reason.
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
    if let Some(later) = plan.choices.iter().find(|c| matches!(c, SourceChoice::Perf | SourceChoice::Hwmon)) {
        return Err(PowerError::NotYet(later.clone()));
    }
    if asked(&SourceChoice::Model) && plan.measured_only {
        return Err(PowerError::ModelWithMeasuredOnly);
    }
    if auto || asked(&SourceChoice::Powercap) {
        set.add_powercap(plan, asked(&SourceChoice::Powercap))?;
    }
    if (auto && plan.gpu) || asked(&SourceChoice::Nvml) {
        set.add_nvml(plan, asked(&SourceChoice::Nvml))?;
    }
    for choice in &plan.choices {
        if let SourceChoice::Replay(file) = choice {
            set.add_replay(Replay::open(file)?)?;
        }
    }
    let no_cpu_counter = !set.domains.iter().any(|d| d.class == DomainClass::Package);
    if asked(&SourceChoice::Model) || (auto && no_cpu_counter && !plan.measured_only) {
        set.add_model(plan)?;
    }
    if plan.measured_only && set.domains.is_empty() {
        return Err(PowerError::NothingMeasured { why: ignored_reasons(&set.sources) });
    }
    if let Some(power) = plan.idle {
        set.give_idle(power);
    }
    Ok(set)
}

impl PowerSet {
    const fn empty(period: Duration) -> Self {
        Self { sources: Vec::new(), domains: Vec::new(), live: Vec::new(), replays: Vec::new(), period }
    }

    /// The sources that were looked at: taken, ignored, and why.
    pub fn sources(&self) -> Vec<Source> {
        self.sources.clone()
    }

    /// The domains, each at the position of its id.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// Measures the idle power of every counter that has none yet, over a period before the run starts. Returns at once when there is
    /// none. Needs a tokio runtime.
    pub async fn measure_idle(&mut self, over: Duration) {
        if over.is_zero() || !self.live.iter().any(|live| self.lacks_idle(live)) {
            return;
        }
        let mut tracks: Vec<Vec<idle::Track>> =
            self.live.iter().map(|live| vec![idle::Track::new(); live.domains.len()]).collect();
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
        let mut how = format!("measured over {:.1} s before the start", over.as_secs_f64());
        if let Some((before, after)) = ticks_before.zip(idle::read_cpu_ticks()) {
            how.push_str(&busy_remark(idle::busy_percent(before, after)));
        }
        self.set_idle(&tracks, &how);
    }

    /// Takes the first readings and keeps reading on tokio tasks until `PowerTask::stop`. Needs a tokio runtime.
    pub fn start(self, records: Sender<Record>) -> PowerTask {
        reader::start(self.live, self.replays, self.period, records)
    }

    fn lacks_idle(&self, live: &Live) -> bool {
        live.domains.iter().any(|(id, _)| self.domains.get(id.index()).is_some_and(|d| d.idle.is_none()))
    }

    fn set_idle(&mut self, tracks: &[Vec<idle::Track>], how: &str) {
        for (live, tracks) in self.live.iter().zip(tracks) {
            for ((id, _), track) in live.domains.iter().zip(tracks) {
                if let Some(domain) = self.domains.get_mut(id.index()).filter(|d| d.idle.is_none()) {
                    domain.idle =
                        idle::baseline(track).map(|power| IdleBaseline { power, how: how.to_owned() });
                }
            }
        }
    }

    /// `--idle-watts` is the power of all sockets together.
    fn give_idle(&mut self, power: MicroWatts) {
        let is_counter = |d: &Domain| matches!(d.origin, Origin::Counter { .. });
        let packages: Vec<&mut Domain> =
            self.domains.iter_mut().filter(|d| d.class == DomainClass::Package && is_counter(d)).collect();
        let parts = model::split(power, &vec![1; packages.len()]);
        for (domain, power) in packages.into_iter().zip(parts) {
            domain.idle = Some(IdleBaseline { power, how: "--idle-watts".to_owned() });
        }
    }

    fn add_powercap(&mut self, plan: &PowerPlan, asked: bool) -> Result<(), PowerError> {
        let found = powercap::find(&plan.sysfs, plan.period);
        match found.powercap {
            Some(powercap) => self.add_live(Box::new(powercap), found.source),
            None if asked => Err(missing(powercap::NAME, &found.source)),
            None => {
                self.sources.push(found.source);
                Ok(())
            }
        }
    }

    fn add_nvml(&mut self, plan: &PowerPlan, asked: bool) -> Result<(), PowerError> {
        let found = nvml::find(plan.nvml_lib.as_deref(), plan.period);
        match found.gpus {
            Some(gpus) => self.add_live(Box::new(gpus), found.source),
            None if asked => Err(missing(nvml::NAME, &found.source)),
            None if plan.nvml_lib.is_some() => {
                Err(PowerError::NvmlLibrary { why: ignored_reasons(std::slice::from_ref(&found.source)) })
            }
            None => {
                self.sources.push(found.source);
                Ok(())
            }
        }
    }

    fn add_live(&mut self, hardware: Box<dyn PowerSource>, source: Source) -> Result<(), PowerError> {
        let ids = self.add_domains(hardware.domains(), &source)?;
        let domains = ids.into_iter().zip(hardware.domains()).map(|(id, d)| (id, d.name.clone())).collect();
        let only_psys = hardware.domains().iter().all(|d| d.class == DomainClass::Psys);
        let shown = hardware.domains().iter().map(|d| only_psys || d.class != DomainClass::Psys).collect();
        self.live.push(Live { source: hardware, domains, shown });
        self.sources.push(source);
        Ok(())
    }

    fn add_replay(&mut self, replay: Replay) -> Result<(), PowerError> {
        let source = replay.describe();
        let ids = self.add_domains(&replay.domains, &source)?;
        self.replays.push(LiveReplay { replay, ids });
        self.sources.push(source);
        Ok(())
    }

    fn add_model(&mut self, plan: &PowerPlan) -> Result<(), PowerError> {
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
                let (domain, first, second) = (domain.name.clone(), first.name.clone(), source.name.clone());
                return Err(PowerError::Clash { domain, first, second });
            }
            let id = DomainId::new(u32::try_from(self.domains.len()).unwrap_or(u32::MAX));
            self.domains.push(Domain { id, ..domain.clone() });
            ids.push(id);
        }
        Ok(ids)
    }
}

fn missing(name: &'static str, source: &Source) -> PowerError {
    PowerError::Missing { name, why: ignored_reasons(std::slice::from_ref(source)) }
}

fn ignored_reasons(sources: &[Source]) -> String {
    let reasons = sources.iter().flat_map(|s| &s.ignored).map(|i| format!("{}: {}", i.domain, i.why));
    reasons.collect::<Vec<_>>().join("; ")
}

/// What a baseline is worth that was measured on CPUs this busy; a tenth is what a desktop does at rest.
fn busy_remark(percent: u64) -> String {
    if percent < 10 {
        return String::new();
    }
    format!(", while the CPUs were {percent} % busy: too high, so stop other work or give --idle-watts")
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
