//! The sampler: one perf event on each CPU that is online, and no CPU twice.
//!
//! Leaves out which event and which rate are wanted (`event`, `rate`), and when CPUs are looked at (`watch`).

use super::cpus::Cpus;
use super::event::{Decision, SampleEvent};
use super::rate::{NEAR_DRAWS, Rate};
use super::tick::{TickEvent, TickRate};
use crate::error::ProbeError;
use crate::per_cpu;
use aya::Ebpf;
use aya::programs::{PerfEvent, ProgramError};
use energy_trace_model::ids::CpuId;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};

/// At so many CPUs a look draws periods anew: each is an interrupt there.
const AT_ONCE: usize = 16;

/// The events that are open.
pub struct Sampler {
    ebpf: Arc<Mutex<Ebpf>>,
    cpus: Cpus,
    event: SampleEvent,
    rate: Rate,
    ticking: BTreeMap<CpuId, TickEvent>,
    /// The event beside it, where there is one.
    near: BTreeMap<CpuId, TickEvent>,
    /// How many CPUs' periods were drawn anew so far: whose turn it is.
    drawn: usize,
    /// How often some were: the events beside are drawn anew more seldom.
    draws: usize,
    /// It was stopped: no CPU is sampled again.
    is_over: bool,
}

/// A sampler that runs, and what happened on the way.
pub struct Started {
    /// What samples.
    pub sampler: Sampler,
    /// What drives it.
    pub event: SampleEvent,
    /// How often.
    pub rate: Rate,
    /// Why the event is not the one that was decided for.
    pub refused: Option<String>,
}

impl Sampler {
    /// Opens the event on all CPUs that are online, or another one where that may take its place. `rate` says what can be had with an event.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn start(
        ebpf: &Arc<Mutex<Ebpf>>,
        cpus: Cpus,
        decision: Decision,
        rate: impl Fn(SampleEvent) -> Rate,
    ) -> Result<Started, ProbeError> {
        let open = |event| {
            let rate = rate(event);
            let mut sampler = Self {
                ebpf: Arc::clone(ebpf),
                cpus,
                event,
                rate,
                ticking: BTreeMap::new(),
                near: BTreeMap::new(),
                drawn: 0,
                draws: 0,
                is_over: false,
            };
            sampler.set_countdown()?;
            // Where a later CPU's is refused the sampler is dropped, and those of earlier CPUs with it: else they were sampled twice.
            cpus.online().into_iter().try_for_each(|cpu| match sampler.open(cpu) {
                Err(error) if is_gone(&error) => Ok(()),
                opened => opened,
            })?;
            Ok::<_, io::Error>(Started { sampler, event, rate, refused: None })
        };
        match open(decision.event) {
            Ok(started) => Ok(started),
            Err(error) if decision.event == SampleEvent::Cycles => {
                let refused = ProbeError::cycles(&error);
                if !decision.may_fall_back {
                    return Err(refused);
                }
                let started =
                    open(SampleEvent::CpuClock).map_err(|e| ProbeError::attach("the CPU clock", &e))?;
                Ok(Started { refused: Some(refused.to_string()), ..started })
            }
            Err(error) => Err(ProbeError::attach("the CPU clock", &error)),
        }
    }

    /// The CPUs that there are.
    pub(crate) const fn cpus(&self) -> Cpus {
        self.cpus
    }

    /// How often there is anything to see to.
    pub(crate) fn look_every_ns(&self) -> u64 {
        self.rate.drawn_every_ns()
    }

    /// Samples the CPUs that are online and no others; which ones came.
    pub(crate) fn follow(&mut self) -> Vec<CpuId> {
        if self.is_over {
            return Vec::new();
        }
        let online = self.cpus.online();
        // The kernel takes the event of a CPU that goes offline out of use for good.
        self.ticking.retain(|cpu, _| online.contains(cpu));
        self.near.retain(|cpu, _| online.contains(cpu));
        let new: Vec<CpuId> = online.iter().copied().filter(|cpu| !self.ticking.contains_key(cpu)).collect();
        new.into_iter()
            .filter(|&cpu| {
                let opened = self.open(cpu).inspect_err(|e| log::debug!("CPU {cpu} is not sampled yet: {e}"));
                opened.is_ok()
            })
            .collect()
    }

    /// Closes all events: no sample comes after this.
    pub fn stop(&mut self) {
        self.is_over = true;
        self.ticking.clear();
        self.near.clear();
    }

    /// Draws the period of CPUs' ticks anew, of some at each call: what keeps step with ticks loses it. Nothing to do by cycles, nor where
    /// samples come evenly.
    pub(crate) fn draw_periods(&mut self) {
        if self.event == SampleEvent::Cycles || !self.rate.is_jittered() {
            return;
        }
        let count = self.ticking.len();
        for (cpu, tick) in self.ticking.iter().cycle().skip(self.drawn).take(count.min(AT_ONCE)) {
            set_tick_rate(*cpu, tick, self.rate.tick_rate(self.event, random()));
        }
        self.drawn = (self.drawn + AT_ONCE) % count.max(1);
        self.draws += 1;
        if self.draws.is_multiple_of(NEAR_DRAWS) {
            self.draw_near();
        }
    }

    /// Draws the periods of the events beside anew.
    fn draw_near(&self) {
        for (cpu, tick) in &self.near {
            self.rate.near_rate(random()).into_iter().for_each(|rate| set_tick_rate(*cpu, tick, rate));
        }
    }

    /// Goes on at another rate.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        if let Err(error) = self.set_countdown() {
            log::debug!("samples go on as they came: {error}");
        }
        for (cpu, tick) in &self.ticking {
            set_tick_rate(*cpu, tick, self.rate.tick_rate(self.event, random()));
        }
        if self.rate.near_rate(0).is_none() {
            self.near.clear();
        }
        self.draw_near();
        let cpus: Vec<CpuId> = self.ticking.keys().copied().collect();
        for cpu in cpus {
            if let Err(error) = self.open_near(cpu) {
                log::debug!("CPU {cpu} has one sample in ten less: {error}");
            }
        }
    }

    /// Tells the programs which ticks are samples.
    fn set_countdown(&self) -> io::Result<()> {
        let ebpf = self.ebpf.lock().unwrap_or_else(PoisonError::into_inner);
        let map = ebpf.map("COUNTDOWN").ok_or(io::ErrorKind::NotFound)?;
        per_cpu::write(map, 0, &[self.rate.countdown().as_word()], self.cpus.bound())
    }

    fn open(&mut self, cpu: CpuId) -> io::Result<()> {
        let tick = self.open_event(cpu, self.rate.tick_rate(self.event, random()))?;
        self.open_near(cpu)?;
        self.ticking.insert(cpu, tick);
        Ok(())
    }

    /// Opens the event beside, where there is to be one and none is.
    fn open_near(&mut self, cpu: CpuId) -> io::Result<()> {
        let rate = self.rate.near_rate(random()).filter(|_| !self.near.contains_key(&cpu));
        let near = rate.map(|rate| self.open_event(cpu, rate)).transpose()?;
        self.near.extend(near.map(|near| (cpu, near)));
        Ok(())
    }

    fn open_event(&self, cpu: CpuId, rate: TickRate) -> io::Result<TickEvent> {
        // What a panic on another thread left behind is whole: every change is one call.
        let ebpf = self.ebpf.lock().unwrap_or_else(PoisonError::into_inner);
        let program = ebpf.program("on_sample").ok_or(ProgramError::NotLoaded);
        let program = program.and_then(<&PerfEvent>::try_from).map_err(io::Error::other)?;
        let program = program.fd().map_err(io::Error::other)?;
        TickEvent::open(program.as_fd(), self.event, cpu, rate)
    }
}

fn set_tick_rate(cpu: CpuId, tick: &TickEvent, rate: TickRate) {
    if let Err(error) = tick.set_tick_rate(rate) {
        log::debug!("{cpu:?} goes on ticking as it did: {error}");
    }
}

/// A random number, of the hasher that is seeded by the system.
fn random() -> u32 {
    let bits = RandomState::new().build_hasher().finish();
    u32::try_from(bits >> 32).unwrap_or(0)
}

/// Whether a CPU went offline since it was listed.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::{Cpus, Rate, Sampler};
    use crate::config::TraceConfig;
    use crate::object::Object;
    use crate::sampling::event::{EventChoice, Machine, SampleEvent, decide};

    /// A rate that first came evenly has its second event once it is so low that it comes at random distances, and none where that ends again; both on
    /// each CPU, once. Needs root and BPF.
    #[test]
    fn the_event_beside_comes_later() {
        let cpus = Cpus::find().unwrap();
        let object = Object::load(&TraceConfig::least("/".into()), cpus.bound(), 1).unwrap();
        let decision = decide(EventChoice::CpuClock, Machine::read_at("/".as_ref()));
        let rate = |hz| Rate::under(Some(500), 250, SampleEvent::CpuClock, hz);
        let mut sampler = Sampler::start(object.programs(), cpus, decision, |_| rate(999)).unwrap().sampler;
        let count = sampler.ticking.len();
        assert!(count > 0 && sampler.near.is_empty());
        for (hz, beside) in [(60, count), (50, count), (999, 0), (60, count)] {
            sampler.set_rate(rate(hz));
            assert_eq!(sampler.near.len(), beside, "{hz}");
        }
    }
}
