//! The meter: who spent what, exactly.
//!
//! Time of a function is the difference of its thread's CPU clock between entering and leaving, as the thread itself read it. Between two
//! messages the open stretch is taken from the simulator's own clock of the thread, and replaced by the exact one with the next message.
//! All sums are integers in microwatts × nanoseconds (10⁻¹⁵ J). Leaves out where messages come from and where counters are shown.

use super::Options;
use super::thread_clock::CpuClock;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// 1 µJ in microwatts × nanoseconds.
const UJ: u128 = 1_000_000_000;

/// What was really spent.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Truth {
    /// Time since the tree was mounted, in nanoseconds.
    pub time_ns: u64,
    /// Everything since then, in microjoules.
    pub total_uj: u64,
    /// The idle part of it.
    pub idle_uj: u64,
    /// Number of times that a counter was read.
    pub reads: u64,
    /// Each function.
    pub functions: BTreeMap<String, FunctionTruth>,
}

/// What one function really spent, in all threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FunctionTruth {
    /// Its declared power on one CPU.
    pub watts: f64,
    /// Its energy above idle, in microjoules.
    pub uj: u64,
    /// Its time on a CPU in nanoseconds.
    pub cpu_ns: u64,
    /// How often it was entered.
    pub entries: u64,
}

#[derive(Default)]
struct Function {
    power_uw: u64,
    cpu_ns: u128,
    energy: u128,
    entries: u64,
}

struct Thread {
    clock: Box<dyn CpuClock>,
    function: Option<String>,
    /// The thread's own CPU clock at its last message.
    since_ns: u64,
    /// The simulator's clock at the same moment, for each socket.
    base_ns: Vec<u64>,
}

/// All sockets and threads.
pub struct Meter {
    started: Instant,
    first_read: Option<Instant>,
    first_work: Option<Instant>,
    idle_uw: u64,
    sockets: usize,
    functions: BTreeMap<String, Function>,
    threads: BTreeMap<u64, Thread>,
    next_thread: u64,
    /// Energy of closed stretches, for each socket.
    closed: Vec<u128>,
    /// What was shown last of each socket's active energy. A counter never goes back by itself.
    shown: Vec<u128>,
    /// Each socket's active energy when functions last changed or counters were read; between two of these power was the same.
    past: VecDeque<(u64, Vec<u128>)>,
    update_ns: u64,
    reads: u64,
}

/// A reading of all sockets at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Energy {
    /// Idle energy of each socket in microjoules.
    pub idle_uj: u64,
    /// Energy of the functions on each socket in microjoules.
    pub active_uj: Vec<u64>,
}

/// Locks the meter; a thread that panicked while it held it leaves sums that are still whole.
pub fn lock(meter: &Mutex<Meter>) -> MutexGuard<'_, Meter> {
    meter.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Meter {
    /// A meter that starts now.
    pub fn new(options: &Options) -> Self {
        let sockets = options.sockets as usize;
        Self {
            started: Instant::now(),
            first_read: None,
            first_work: None,
            idle_uw: microwatts(options.idle_watts),
            sockets,
            functions: BTreeMap::new(),
            threads: BTreeMap::new(),
            next_thread: 0,
            closed: vec![0; sockets],
            shown: vec![0; sockets],
            past: VecDeque::from([(0, vec![0; sockets])]),
            update_ns: options.update_us.saturating_mul(1000),
            reads: 0,
        }
    }

    /// Declares a function's power on one CPU.
    pub fn declare(&mut self, name: &str, watts: f64) {
        self.functions.entry(name.to_owned()).or_default().power_uw = microwatts(watts);
    }

    /// Begins to follow a thread; the number stands for it from now on.
    pub fn follow(&mut self, mut clock: Box<dyn CpuClock>) -> u64 {
        let key = self.next_thread;
        self.next_thread += 1;
        let base_ns = clock.on_cpu_ns(self.sockets);
        self.threads.insert(key, Thread { clock, function: None, since_ns: 0, base_ns });
        key
    }

    /// The thread enters `function` (`None`: leaves the one it is in) when its own CPU clock shows `cpu_ns`.
    ///
    /// # Errors
    /// When the function was not declared or the thread is not followed.
    pub fn switch(&mut self, key: u64, function: Option<&str>, cpu_ns: u64) -> Result<(), String> {
        if let Some(name) = function {
            self.first_work.get_or_insert_with(Instant::now);
            self.functions
                .get_mut(name)
                .ok_or_else(|| format!("function {name} was not declared"))?
                .entries += 1;
        }
        let Some(mut thread) = self.threads.remove(&key) else { return Err("no such thread".to_owned()) };
        let now = thread.clock.on_cpu_ns(self.sockets);
        let exact_ns = cpu_ns.saturating_sub(thread.since_ns);
        self.close(&thread, &now, exact_ns);
        let function = function.map(str::to_owned);
        self.threads.insert(key, Thread { function, since_ns: cpu_ns, base_ns: now, ..thread });
        let (active, _) = self.active();
        self.remember(elapsed_ns(self.started), active);
        Ok(())
    }

    /// The thread is gone; an open function ends with what the simulator's clock shows.
    pub fn forget(&mut self, key: u64) {
        if let Some(mut thread) = self.threads.remove(&key) {
            let now = thread.clock.on_cpu_ns(self.sockets);
            let ran_ns = now.iter().zip(&thread.base_ns).map(|(n, b)| n.saturating_sub(*b)).sum();
            self.close(&thread, &now, ran_ns);
        }
    }

    /// Books a stretch of `exact_ns`, split over the sockets as the simulator's clock saw it.
    fn close(&mut self, thread: &Thread, now_ns: &[u64], exact_ns: u64) {
        let Some(function) = thread.function.as_ref().and_then(|name| self.functions.get_mut(name)) else {
            return;
        };
        let energy = u128::from(function.power_uw) * u128::from(exact_ns);
        function.cpu_ns += u128::from(exact_ns);
        function.energy += energy;
        let seen: Vec<u128> =
            now_ns.iter().zip(&thread.base_ns).map(|(n, b)| u128::from(n.saturating_sub(*b))).collect();
        let all: u128 = seen.iter().sum();
        let mut left = energy;
        for (closed, seen) in self.closed.iter_mut().zip(&seen).skip(1) {
            let part = (energy / all.max(1)) * seen + (energy % all.max(1)) * seen / all.max(1);
            *closed += part;
            left -= part;
        }
        if let Some(first) = self.closed.first_mut() {
            *first += left;
        }
    }

    /// Each socket's active energy now, and what is open of it by function.
    fn active(&mut self) -> (Vec<u128>, BTreeMap<String, u128>) {
        let (mut sockets, mut open) = (self.closed.clone(), BTreeMap::<String, u128>::new());
        for thread in self.threads.values_mut() {
            let Some(name) = &thread.function else { continue };
            let Some(function) = self.functions.get(name) else { continue };
            let now = thread.clock.on_cpu_ns(self.sockets);
            for ((socket, now), base) in sockets.iter_mut().zip(now).zip(&thread.base_ns) {
                let ran_ns = u128::from(now.saturating_sub(*base));
                *socket += ran_ns * u128::from(function.power_uw);
                *open.entry(name.clone()).or_default() += ran_ns;
            }
        }
        (sockets, open)
    }

    /// What the hardware shows now.
    pub fn read(&mut self) -> Energy {
        self.reads += 1;
        self.first_read.get_or_insert_with(Instant::now);
        let (active, _) = self.active();
        let now_ns = elapsed_ns(self.started);
        self.remember(now_ns, active);
        let at_ns = now_ns - now_ns.checked_rem(self.update_ns).unwrap_or(0);
        let active = self.active_at(at_ns);
        self.shown = active.iter().zip(&self.shown).map(|(new, old)| *new.max(old)).collect();
        let idle = u128::from(self.idle_uw) * u128::from(at_ns) / self.sockets as u128;
        Energy { idle_uj: to_uj(idle), active_uj: self.shown.iter().copied().map(to_uj).collect() }
    }

    /// Keeps what an update needs: all since the last one, and what was before it.
    fn remember(&mut self, now_ns: u64, active: Vec<u128>) {
        self.past.push_back((now_ns, active));
        while self.past.get(1).is_some_and(|(at_ns, _)| at_ns + self.update_ns < now_ns) {
            self.past.pop_front();
        }
    }

    /// Each socket's active energy at a moment since the last update but one.
    fn active_at(&self, at_ns: u64) -> Vec<u128> {
        let behind = self.past.partition_point(|(past_ns, _)| *past_ns < at_ns).min(self.past.len() - 1);
        let (to_ns, to) = &self.past[behind];
        let (from_ns, from) = &self.past[behind.saturating_sub(1)];
        let (part, whole) =
            (u128::from(at_ns.saturating_sub(*from_ns)), u128::from((to_ns - from_ns).max(1)));
        let line = |(to, from): (&u128, &u128)| from + to.saturating_sub(*from) * part.min(whole) / whole;
        to.iter().zip(from).map(line).collect()
    }

    /// Seconds since the first read of a counter; 0 before.
    pub fn since_first_read_s(&self) -> f64 {
        self.first_read.map_or(0.0, |first| first.elapsed().as_secs_f64())
    }

    /// Seconds since a workload entered its first function; `None` before.
    pub fn since_first_work_s(&self) -> Option<f64> {
        self.first_work.map(|first| first.elapsed().as_secs_f64())
    }

    /// What was really spent up to now, open stretches included.
    pub fn truth(&mut self) -> Truth {
        let (_, open) = self.active();
        let time_ns = elapsed_ns(self.started);
        let idle = u128::from(self.idle_uw) * u128::from(time_ns);
        let mut total = idle;
        let mut functions = BTreeMap::new();
        for (name, f) in &self.functions {
            let open_ns = open.get(name).copied().unwrap_or(0);
            let energy = f.energy + open_ns * u128::from(f.power_uw);
            total += energy;
            let cpu_ns = u64::try_from(f.cpu_ns + open_ns).unwrap_or(u64::MAX);
            let watts = f64::from(u32::try_from(f.power_uw).unwrap_or(u32::MAX)) / 1e6;
            functions
                .insert(name.clone(), FunctionTruth { watts, uj: to_uj(energy), cpu_ns, entries: f.entries });
        }
        Truth { time_ns, total_uj: to_uj(total), idle_uj: to_uj(idle), reads: self.reads, functions }
    }
}

fn to_uj(energy: u128) -> u64 {
    u64::try_from(energy / UJ).unwrap_or(u64::MAX)
}

fn elapsed_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Up to 4 kW, which is more than any function and any idle machine here.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a u32's range")]
fn microwatts(watts: f64) -> u64 {
    (watts * 1e6).round().clamp(0.0, f64::from(u32::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::super::thread_clock::CpuClock;
    use super::Meter;
    use std::sync::{Arc, Mutex};

    /// A clock that shows what the test says.
    struct Fake(Arc<Mutex<Vec<u64>>>);

    impl CpuClock for Fake {
        fn on_cpu_ns(&mut self, _sockets: usize) -> Vec<u64> {
            self.0.lock().unwrap().clone()
        }
    }

    fn meter(sockets: u32) -> Meter {
        let mut meter = Meter::new(&Options { idle_watts: 0.0, sockets, ..Options::default() });
        meter.declare("hot", 40.0);
        meter.declare("cool", 5.0);
        meter
    }

    /// An open stretch is shown from the simulator's clock and booked from the thread's own.
    #[test]
    fn open_and_closed_stretches() {
        let clock = Arc::new(Mutex::new(vec![0]));
        let mut meter = meter(1);
        let thread = meter.follow(Box::new(Fake(Arc::clone(&clock))));
        meter.switch(thread, Some("hot"), 0).unwrap();
        *clock.lock().unwrap() = vec![1_000_000_000];
        assert_eq!(meter.read().active_uj, [40_000_000]);
        assert_eq!(meter.truth().functions["hot"].cpu_ns, 1_000_000_000);
        // The thread says that it was 990 ms: the counter waits, the truth is what the thread says.
        meter.switch(thread, Some("cool"), 990_000_000).unwrap();
        assert_eq!(meter.read().active_uj, [40_000_000]);
        assert_eq!(meter.truth().functions["hot"].uj, 39_600_000);
        *clock.lock().unwrap() = vec![2_000_000_000];
        meter.switch(thread, None, 1_990_000_000).unwrap();
        *clock.lock().unwrap() = vec![9_000_000_000];
        let truth = meter.truth();
        assert_eq!(truth.functions["cool"].uj, 5_000_000);
        assert_eq!((truth.total_uj, truth.functions["cool"].entries), (44_600_000, 1));
        assert_eq!(meter.read().active_uj, [44_600_000]);
    }

    /// What the hardware showed at its last update: on straight lines between the moments at which functions changed.
    #[test]
    fn energy_at_an_update() {
        let mut meter = meter(1);
        meter.update_ns = 1_000;
        for (at_ns, energy) in [(400, 0), (2_400, 2_000), (2_900, 2_000)] {
            meter.remember(at_ns, vec![energy]);
        }
        assert_eq!(
            [1_400, 2_400, 2_600, 2_900].map(|at_ns| meter.active_at(at_ns)[0]),
            [1_000, 2_000, 2_000, 2_000]
        );
        meter.remember(9_000, vec![2_000]);
        assert_eq!(meter.past.len(), 2);
    }

    /// A thread that moves between sockets pays on each what it ran there, and nothing is lost in the split.
    #[test]
    fn sockets_share() {
        let clock = Arc::new(Mutex::new(vec![0, 0]));
        let mut meter = meter(2);
        let thread = meter.follow(Box::new(Fake(Arc::clone(&clock))));
        meter.switch(thread, Some("hot"), 0).unwrap();
        *clock.lock().unwrap() = vec![1_000_000, 3_000_000];
        meter.switch(thread, None, 4_000_000).unwrap();
        assert_eq!(meter.read().active_uj, [40_000, 120_000]);
    }

    /// A thread that ends without a word has still spent what it ran.
    #[test]
    fn gone_threads() {
        let clock = Arc::new(Mutex::new(vec![0]));
        let mut meter = meter(1);
        let thread = meter.follow(Box::new(Fake(Arc::clone(&clock))));
        meter.switch(thread, Some("cool"), 0).unwrap();
        *clock.lock().unwrap() = vec![1_000_000];
        meter.forget(thread);
        assert_eq!(meter.truth().functions["cool"].uj, 5_000);
        assert!(meter.switch(thread, None, 0).is_err());
        assert!(meter.switch(thread, Some("unknown"), 0).is_err());
    }
}
