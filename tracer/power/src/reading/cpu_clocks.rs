//! How fast CPUs' clocks run, as cpufreq tells it: read ten times a second beside the counters, and handed on where it moved.
//!
//! One file is kept open and read again for each group of CPUs that share a clock (`cpufreq/affected_cpus`). On x86 since Linux 5.18 the
//! kernel answers from what the CPU's last tick left (`arch_freq_get_on_cpu`, arch/x86/kernel/cpu/aperfmperf.c), without asking the CPU;
//! elsewhere it is the driver's or the governor's value. On a machine without cpufreq, as most virtual ones are, nothing is read.
//!
//! A clock is handed on when it has moved by more than one part in a hundred since it was last, and with it the reading before: a line
//! between two entries is never further off. Leaves out what clocks mean for power (`attribution/frequency.rs`).

use crate::counter_file::CounterFile;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::CpuId;
use energy_trace_model::recording::record::{Frequencies, Record};
use energy_trace_model::units::KiloHertz;
use energy_trace_system::host::topology::{parse_cpu_list, read_sockets_at, tree_of_cpus};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Time between two rounds. A reading is one system call of about a microsecond: 64 clocks take less than a thousandth of a CPU.
const PERIOD: Duration = Duration::from_millis(100);
/// A clock has moved when it differs by more than one part in so many.
const MOVED: u32 = 100;

/// The clocks of this machine, open and ready to be read.
pub(crate) struct Clocks {
    clocks: Vec<Clock>,
    /// When they were last read.
    read_at: KtimeNs,
}

/// One clock, and the CPUs that it drives.
struct Clock {
    cpus: Vec<CpuId>,
    file: CounterFile,
    /// What was handed on last, and what was read since.
    known: Option<KiloHertz>,
    held: Option<KiloHertz>,
}

impl Clocks {
    /// The clocks of all CPUs that are online; `None` where there is no cpufreq.
    pub(crate) fn open_at(sysfs: &Path) -> Option<Self> {
        let sysfs = tree_of_cpus(sysfs);
        let (mut clocks, mut seen) = (Vec::new(), BTreeSet::new());
        for cpu in read_sockets_at(sysfs).into_keys() {
            if seen.contains(&cpu) {
                continue;
            }
            let folder = sysfs.join(format!("devices/system/cpu/cpu{}/cpufreq", cpu.get()));
            let Ok(file) = CounterFile::open(folder.join("scaling_cur_freq")) else { continue };
            let together = fs::read_to_string(folder.join("affected_cpus")).unwrap_or_default();
            let mut cpus = parse_affected(&together);
            cpus.insert(cpu);
            seen.extend(cpus.iter().copied());
            clocks.push(Clock { cpus: cpus.into_iter().collect(), file, known: None, held: None });
        }
        (!clocks.is_empty()).then(|| Self { clocks, read_at: energy_trace_system::clock::now() })
    }

    /// Reads until it is told to stop, and once more then. Needs tokio's timers.
    pub(crate) async fn run(mut self, records: Sender<Record>, mut stopped: watch::Receiver<bool>) {
        let mut interval = tokio::time::interval(PERIOD);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let last = tokio::select! {
                biased;
                _ = stopped.changed() => true,
                _ = interval.tick() => false,
            };
            // Where the writer has ended, the session knows why.
            self.round(energy_trace_system::clock::now()).into_iter().for_each(|moved| {
                let _ = records.send(Record::Frequencies(moved));
            });
            if last {
                break;
            }
        }
    }

    /// Reads every clock once: what has moved, and for that what was read before.
    fn round(&mut self, now: KtimeNs) -> Vec<Frequencies> {
        let mut held = Frequencies { at: std::mem::replace(&mut self.read_at, now), of: Vec::new() };
        let mut moved = Frequencies { at: now, of: Vec::new() };
        for clock in &mut self.clocks {
            // A CPU that was switched off has no clock; nothing is known of it until it is back.
            let Some(read) = clock.read() else { continue };
            if clock.known.is_some_and(|known| is_near(known, read)) {
                clock.held = Some(read);
                continue;
            }
            let all = |frequency| clock.cpus.iter().map(move |&cpu| (cpu, frequency));
            held.of.extend(clock.held.into_iter().flat_map(all));
            moved.of.extend(all(read));
            (clock.known, clock.held) = (Some(read), None);
        }
        [held, moved].into_iter().filter(|some| !some.of.is_empty()).collect()
    }
}

impl Clock {
    fn read(&mut self) -> Option<KiloHertz> {
        let khz = u32::try_from(self.file.read().ok()?).ok()?;
        Some(khz).filter(|khz| *khz > 0).map(KiloHertz::from_khz)
    }
}

fn is_near(known: KiloHertz, read: KiloHertz) -> bool {
    known.as_khz().abs_diff(read.as_khz()) <= known.as_khz() / MOVED
}

/// The CPUs that share a clock: cpufreq lists them with blanks between them.
fn parse_affected(text: &str) -> BTreeSet<CpuId> {
    text.split_whitespace().flat_map(parse_cpu_list).map(CpuId::new).fill_set()
}

#[cfg(test)]
mod tests {
    use super::{Clocks, CpuId, Frequencies, KiloHertz, KtimeNs};
    use std::fs;
    use std::path::Path;

    /// A tree of four CPUs: 0 and 1 share a clock, 2 has its own, 3 has none.
    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let cpus = tree.path().join("devices/system/cpu");
        for (cpu, affected) in [(0, Some("0 1\n")), (1, Some("0 1\n")), (2, Some("2\n")), (3, None)] {
            fs::create_dir_all(cpus.join(format!("cpu{cpu}/cpufreq"))).unwrap();
            let Some(affected) = affected else { continue };
            fs::write(cpus.join(format!("cpu{cpu}/cpufreq/affected_cpus")), affected).unwrap();
            set(tree.path(), cpu, "3000000\n");
        }
        fs::write(cpus.join("online"), "0-3\n").unwrap();
        tree
    }

    fn set(tree: &Path, cpu: u32, text: &str) {
        let file = format!("devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        fs::write(tree.join(file), text).unwrap();
    }

    fn entry(at: u64, of: &[(u32, u32)]) -> Frequencies {
        let of = of.iter().map(|&(cpu, mhz)| (CpuId::new(cpu), KiloHertz::from_khz(mhz * 1000)));
        Frequencies { at: KtimeNs::from_ns(at), of: of.collect() }
    }

    /// All clocks are handed on at first, then those alone that have moved, with what was read before; each stands for all of its CPUs.
    #[test]
    fn what_moves_is_handed_on() {
        let tree = tree();
        let mut clocks = Clocks::open_at(tree.path()).unwrap();
        let mut round = |at| clocks.round(KtimeNs::from_ns(at));
        assert_eq!(round(1), [entry(1, &[(0, 3000), (1, 3000), (2, 3000)])]);
        assert_eq!(round(2), []);
        set(tree.path(), 0, "3020000\n");
        assert_eq!(round(3), []);
        set(tree.path(), 0, "1500000\n");
        assert_eq!(round(4), [entry(3, &[(0, 3020), (1, 3020)]), entry(4, &[(0, 1500), (1, 1500)])]);
        set(tree.path(), 2, "800000\n");
        set(tree.path(), 0, "1600000\n");
        let moved = entry(5, &[(0, 1600), (1, 1600), (2, 800)]);
        assert_eq!(round(5), [entry(4, &[(2, 3000)]), moved]);
    }

    /// What is no frequency is left out, and the clock goes on when it is one again; a tree without cpufreq has no clocks.
    #[test]
    fn nonsense_is_left_out() {
        let tree = tree();
        let mut clocks = Clocks::open_at(tree.path()).unwrap();
        clocks.round(KtimeNs::from_ns(1));
        for nonsense in ["<unknown>\n", "0\n", "99999999999\n", ""] {
            set(tree.path(), 2, nonsense);
            assert_eq!(clocks.round(KtimeNs::from_ns(2)), [], "{nonsense}");
        }
        set(tree.path(), 2, "2000000\n");
        assert_eq!(clocks.round(KtimeNs::from_ns(3)).last(), Some(&entry(3, &[(2, 2000)])));
        let bare = tempfile::tempdir().unwrap();
        fs::create_dir_all(bare.path().join("devices/system/cpu")).unwrap();
        fs::write(bare.path().join("devices/system/cpu/online"), "0-1\n").unwrap();
        assert!(Clocks::open_at(bare.path()).is_none());
    }
}
