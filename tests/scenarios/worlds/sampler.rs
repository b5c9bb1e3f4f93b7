//! What the recorder sees: a sampling timer on each CPU, and the kernel's account of switches.
//!
//! While a CPU is taken away its timer is silent; one sample comes late, when it is back. Leaves out who runs (`schedule.rs`).

use super::schedule::{Piece, Who};
use super::stacks::Stacks;
use super::{BOOT, SECOND, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{BackgroundKey, CpuId, ThreadKey};
use energy_trace_model::recording::record::{CpuOwner, Sample, Slice, StackStatus, Unsampled};
use energy_trace_tests::random::Random;

/// One in ten samples comes whenever the others do, as the product's by the clock.
const NEAR: f64 = 0.1;

/// How the timer samples.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    pub hz: u64,
    /// How far a period strays, in periods: 0.5 for half to one and a half.
    pub jitter: f64,
    /// How many samples get lost, in percent.
    pub lost_percent: u64,
}

impl Sampler {
    /// To the next tick of the event that takes most samples, or of the one beside it.
    fn period(self, near: bool, random: &mut Random) -> u64 {
        let part = if near { self.near() } else { 1.0 - self.near() };
        let period = SECOND as f64 / (self.hz as f64 * part);
        (period * (1.0 + self.jitter * (2.0 * random.unit() - 1.0))) as u64 + random.below(2_000)
    }

    /// Which part of samples an event takes whose time has nothing to do with the others'.
    fn near(self) -> f64 {
        if self.jitter > 0.0 { NEAR } else { 0.0 }
    }

    /// All samples of the target, in order. `pieces` are ordered by CPU and time.
    pub fn samples(self, pieces: &[Piece], stacks: &Stacks, random: &mut Random) -> Vec<Sample> {
        let mut samples = vec![];
        for of_cpu in pieces.chunk_by(|a, b| a.cpu == b.cpu) {
            let first = (SECOND as f64 / self.hz as f64 * random.unit()) as u64;
            let mut dues = [first, if self.near() > 0.0 { self.period(true, random) } else { u64::MAX }];
            let mut late = false;
            for piece in of_cpu {
                let due = |dues: &[u64; 2]| dues[0].min(dues[1]);
                let step = |dues: &mut [u64; 2], random: &mut Random| {
                    let near = dues[1] < dues[0];
                    dues[usize::from(near)] += self.period(near, random);
                };
                if piece.stolen {
                    late |= due(&dues) < piece.to;
                    while due(&dues) < piece.to {
                        step(&mut dues, random);
                    }
                    continue;
                }
                if std::mem::take(&mut late) {
                    self.see(piece, piece.from + 20_000, stacks, random, &mut samples);
                }
                while due(&dues) < piece.to {
                    self.see(piece, due(&dues), stacks, random, &mut samples);
                    step(&mut dues, random);
                }
            }
        }
        samples.sort_by_key(|sample| sample.at);
        samples
    }

    fn see(self, piece: &Piece, at: u64, stacks: &Stacks, random: &mut Random, samples: &mut Vec<Sample>) {
        let lost = random.below(100) < self.lost_percent;
        let Who::Thread(thread) = piece.who else { return };
        if lost || at < piece.from || at >= piece.to {
            return;
        }
        samples.push(Sample {
            at: KtimeNs::from_ns(BOOT + at),
            cpu: CpuId::new(piece.cpu),
            thread: ThreadKey::new(thread),
            stack: stacks.stack(piece.path, random.next_word() >> 8),
            status: StackStatus::Complete,
        });
    }
}

/// On-CPU time as switches show it: from one path to the next is no switch, and neither is a CPU that is taken away.
pub fn slices(pieces: &[Piece]) -> Vec<Slice> {
    let mut slices: Vec<Slice> = vec![];
    for piece in pieces {
        let who = match piece.who {
            Who::Thread(thread) => CpuOwner::Target(ThreadKey::new(thread)),
            Who::Stranger(key) => CpuOwner::Background(BackgroundKey::new(key)),
        };
        let (start, end) = (KtimeNs::from_ns(BOOT + piece.from), KtimeNs::from_ns(BOOT + piece.to));
        let cpu = CpuId::new(piece.cpu);
        match slices.last_mut() {
            Some(before) if (before.cpu, before.end, before.who) == (cpu, start, who) => before.end = end,
            _ => slices.push(Slice { cpu, who, start, end }),
        }
    }
    slices
}

/// What the recorder marks as unseen of one slice: a quarter of a second and twenty periods without a sample; a period on both sides is seen.
pub fn unsampled(slices: &[Slice], samples: &[Sample], hz: u64) -> Vec<Unsampled> {
    let period = SECOND / hz;
    let far = (20 * period).max(SECOND / 4);
    let mut by_cpu: Vec<Vec<u64>> = vec![];
    for sample in samples {
        let cpu = sample.cpu.get() as usize;
        by_cpu.resize_with(by_cpu.len().max(cpu + 1), Vec::new);
        by_cpu[cpu].push(sample.at.as_ns());
    }
    let none = vec![];
    let mut unseen = vec![];
    for slice in slices.iter().filter(|slice| matches!(slice.who, CpuOwner::Target(_))) {
        let span = Span { start: slice.start.as_ns(), end: slice.end.as_ns() };
        let seen = by_cpu.get(slice.cpu.get() as usize).unwrap_or(&none);
        let first = seen.partition_point(|at| *at < span.start);
        let last = seen.partition_point(|at| *at < span.end);
        for pair in seen[first..last].windows(2).filter(|pair| pair[1] - pair[0] >= far) {
            let (start, end) = (KtimeNs::from_ns(pair[0] + period), KtimeNs::from_ns(pair[1] - period));
            unseen.push(Unsampled { cpu: slice.cpu, start, end });
        }
    }
    unseen
}
