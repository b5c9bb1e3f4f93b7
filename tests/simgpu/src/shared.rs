//! The devices as all processes of a run share them: what runs when, how much energy it takes, and which process it belongs to. A mapped file.
//!
//! Work is scheduled when it is launched: its start and its end are known from then on and never change. On one device kernels run side by
//! side as long as their shares of the multiprocessors sum up to at most one, else the later launch waits; each of the two copy engines does
//! one thing at a time. Power adds up. Energy is kept in buckets of a millisecond, in picojoules, so that any meter can look back; between
//! their edges it is interpolated. Leaves out idle power (`Place::energy_uj`) and streams (`world`).

use crate::clock::now_ns;
use memmap2::MmapRaw;
use std::cell::UnsafeCell;
use std::fs::OpenOptions;
use std::io::{Error, Result};
use std::mem::size_of;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The length of a bucket of energy.
pub const BUCKET_NS: u64 = 1_000_000;
/// The length of a slot of a process's busy time.
pub const SLOT_NS: u64 = 100_000_000;
/// A whole device, as a share.
pub const WHOLE: u32 = 1_000_000;

/// The longest run, in buckets: an hour.
const BUCKETS: usize = 3_600_000;
const SLOTS: usize = 36_000;
/// Launches that have not ended, and processes, of one device.
const PENDING: usize = 4096;
const PROCESSES: usize = 64;
/// Buckets between two sums that are remembered.
const STRIDE: usize = 1024;
/// Buckets are final when they are this old: whoever schedules may be held up for a while.
const FINAL_NS: u64 = 2_000_000_000;
const MAGIC: u64 = 0x7369_6d67_7075_3032;

/// What works on a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Engine {
    /// The multiprocessors.
    Compute,
    /// The engine for copies from the host.
    CopyIn,
    /// The engine for copies to the host.
    CopyOut,
}

/// Something for a device to do.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Not before this moment.
    pub ready_ns: u64,
    /// How long it takes.
    pub duration_ns: u64,
    /// What works on it.
    pub engine: Engine,
    /// Its share of the engine, of `WHOLE`.
    pub share: u32,
    /// Power above idle in microwatts.
    pub microwatts: u64,
    /// The process that it belongs to.
    pub pid: u32,
}

#[repr(C)]
struct Head {
    magic: u64,
    start_ns: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Pending {
    start_ns: u64,
    end_ns: u64,
    share: u32,
    engine: u32,
}

/// One device in the file; all zeros is a device that never worked, but for the lock.
#[repr(C)]
struct Block {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    pending: UnsafeCell<[Pending; PENDING]>,
    pending_length: UnsafeCell<usize>,
    /// When the first context was made; 0 before.
    entered_ns: AtomicU64,
    pids: [AtomicU32; PROCESSES],
    energy_pj: [AtomicU64; BUCKETS],
    busy_ns: [[AtomicU32; SLOTS]; PROCESSES],
}

const HEAD_BYTES: usize = 4096;

/// The mapped file.
pub struct Shared {
    map: MmapRaw,
    devices: usize,
    /// For each device the sums of energy up to each stride, as far as they are final.
    sums: Mutex<Vec<Vec<u64>>>,
}

impl Shared {
    pub(crate) fn create(path: &Path, devices: usize, start_ns: u64) -> Result<()> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len((HEAD_BYTES + devices * size_of::<Block>()) as u64)?;
        let shared = Self { map: MmapRaw::map_raw(&file)?, devices, sums: Mutex::default() };
        for device in 0..devices {
            let block = shared.block(device).ok_or_else(|| Error::other("no block"))?;
            init_lock(block.lock.get())?;
        }
        let head = Head { magic: MAGIC, start_ns };
        // SAFETY: the map is longer than a head and aligned to a page, and nobody else has it yet.
        unsafe { shared.map.as_mut_ptr().cast::<Head>().write(head) };
        Ok(())
    }

    pub(crate) fn open(path: &Path, devices: usize) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let expected = HEAD_BYTES + devices * size_of::<Block>();
        let shared =
            Self { map: MmapRaw::map_raw(&file)?, devices, sums: Mutex::new(vec![vec![0]; devices]) };
        if shared.map.len() != expected || shared.head().magic != MAGIC {
            return Err(Error::other(format!("{} is no device file of this version", path.display())));
        }
        Ok(shared)
    }

    fn head(&self) -> &Head {
        // SAFETY: the map is at least a head long and aligned to a page; the head is written once, before anybody opens the file.
        unsafe { &*self.map.as_ptr().cast::<Head>() }
    }

    fn block(&self, device: usize) -> Option<&Block> {
        if device >= self.devices {
            return None;
        }
        let offset = HEAD_BYTES + device * size_of::<Block>();
        // SAFETY: the file has as many blocks behind its head as there are devices, aligned to eight bytes, and every pattern of bits is
        // valid in atomics; what is no atomic lies in cells and is touched under the lock only.
        Some(unsafe { &*self.map.as_ptr().add(offset).cast::<Block>() })
    }

    /// When the machine was made; counters begin here.
    pub fn start_ns(&self) -> u64 {
        self.head().start_ns
    }

    /// Schedules a job and returns its start and end; `None` when that is after the longest run.
    pub fn schedule(&self, device: usize, job: &Job) -> Option<(u64, u64)> {
        let block = self.block(device)?;
        let process = block.process(job.pid);
        loop {
            let lock = Lock::take(block);
            let now = now_ns();
            if let Some(start) = lock.place(&Job { ready_ns: job.ready_ns.max(now), ..*job }, now) {
                let end = start + job.duration_ns;
                let last = end.saturating_sub(self.start_ns()) / BUCKET_NS;
                if last as usize >= BUCKETS {
                    return None;
                }
                lock.push(Pending {
                    start_ns: start,
                    end_ns: end,
                    share: job.share,
                    engine: job.engine as u32,
                });
                self.spend(block, start, end, job.microwatts);
                if let (Some(process), Engine::Compute) = (process, job.engine) {
                    self.occupy(&block.busy_ns[process], start, end);
                }
                return Some((start, end));
            }
            drop(lock);
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }

    fn spend(&self, block: &Block, start: u64, end: u64, microwatts: u64) {
        for (bucket, ns) in pieces(start - self.start_ns(), end - self.start_ns(), BUCKET_NS) {
            // Microwatts times nanoseconds are femtojoules.
            block.energy_pj[bucket].fetch_add(microwatts * ns / 1000, Relaxed);
        }
    }

    fn occupy(&self, slots: &[AtomicU32; SLOTS], start: u64, end: u64) {
        for (slot, ns) in pieces(start - self.start_ns(), end - self.start_ns(), SLOT_NS) {
            slots[slot].fetch_add(u32::try_from(ns).unwrap_or(u32::MAX), Relaxed);
        }
    }

    /// Energy above idle from the start to a moment, in microjoules.
    pub fn active_uj(&self, device: usize, at_ns: u64) -> f64 {
        let Some(block) = self.block(device) else { return 0.0 };
        let at = at_ns.saturating_sub(self.start_ns());
        let whole = usize::try_from(at / BUCKET_NS).unwrap_or(BUCKETS).min(BUCKETS - 1);
        let (from, sum) = self.sum_before(device, block, whole);
        let read = |bucket: usize| block.energy_pj[bucket].load(Relaxed);
        let sum_pj = sum + (from..whole).map(read).sum::<u64>();
        #[expect(
            clippy::cast_precision_loss,
            reason = "2⁵³ pJ are 9 kJ; beyond, the loss is far below a microjoule"
        )]
        let pj = |number: u64| number as f64;
        (pj(sum_pj) + pj(read(whole)) * pj(at % BUCKET_NS) / pj(BUCKET_NS)) / 1e6
    }

    /// The last remembered sum before a bucket: the bucket that it reaches to, and the sum.
    fn sum_before(&self, device: usize, block: &Block, bucket: usize) -> (usize, u64) {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sums) = sums.get_mut(device) else { return (0, 0) };
        let last_final = now_ns().saturating_sub(FINAL_NS).saturating_sub(self.start_ns()) / BUCKET_NS;
        while sums.len() * STRIDE <= last_final as usize && sums.len() * STRIDE <= BUCKETS {
            let from = (sums.len() - 1) * STRIDE;
            let more: u64 = block.energy_pj[from..from + STRIDE].iter().map(|b| b.load(Relaxed)).sum();
            sums.push(sums.last().copied().unwrap_or(0) + more);
        }
        let place = (bucket / STRIDE).min(sums.len() - 1);
        (place * STRIDE, sums[place])
    }

    /// The processes that ever used a device, and how long each kept its multiprocessors busy between two moments, in whole slots.
    pub fn busy(&self, device: usize, from_ns: u64, to_ns: u64) -> Vec<(u32, u64)> {
        let Some(block) = self.block(device) else { return Vec::new() };
        let slot = |ns: u64| (ns.saturating_sub(self.start_ns()) / SLOT_NS) as usize;
        let range = slot(from_ns).min(SLOTS)..slot(to_ns).min(SLOTS);
        let pids = block.pids.iter().map(|pid| pid.load(Relaxed)).take_while(|&pid| pid != 0);
        pids.zip(&block.busy_ns)
            .map(|(pid, slots)| {
                let slots = slots.get(range.clone()).unwrap_or_default();
                (pid, slots.iter().map(|ns| u64::from(ns.load(Relaxed))).sum())
            })
            .collect()
    }

    /// Notes that a process uses a device, from its first context on.
    pub fn enter(&self, device: usize, pid: u32) {
        let Some(block) = self.block(device) else { return };
        block.process(pid);
        // Whoever was first stays first.
        let _ = block.entered_ns.compare_exchange(0, now_ns(), Relaxed, Relaxed);
    }

    /// How long a device has had a context at a moment, in nanoseconds.
    pub fn entered_for_ns(&self, device: usize, at_ns: u64) -> u64 {
        let entered = self.block(device).map_or(0, |block| block.entered_ns.load(Relaxed));
        if entered == 0 { 0 } else { at_ns.saturating_sub(entered) }
    }
}

impl Block {
    /// The place of a process, which it gets at its first launch; `None` when there are too many.
    fn process(&self, pid: u32) -> Option<usize> {
        self.pids.iter().position(|slot| match slot.load(Relaxed) {
            0 => {
                slot.compare_exchange(0, pid, Relaxed, Relaxed).is_ok_and(|_| true)
                    || slot.load(Relaxed) == pid
            }
            known => known == pid,
        })
    }
}

/// A device's lock, held.
struct Lock<'a>(&'a Block);

impl<'a> Lock<'a> {
    fn take(block: &'a Block) -> Self {
        // SAFETY: the lock was initialised when the file was made. When its last holder was killed, what it protects is still a list of
        // launches, the last of them perhaps missing, so it may be declared consistent.
        unsafe {
            if libc::pthread_mutex_lock(block.lock.get()) == libc::EOWNERDEAD {
                libc::pthread_mutex_consistent(block.lock.get());
            }
        }
        Self(block)
    }

    fn pending(&self) -> &[Pending] {
        // SAFETY: the lock is held, so nobody else touches the list or its length; the length never exceeds the list's.
        unsafe {
            let length = (*self.0.pending_length.get()).min(PENDING);
            &(&*self.0.pending.get())[..length]
        }
    }

    /// Forgets what has ended and finds the earliest start of a job; `None` when the list is full.
    fn place(&self, job: &Job, now: u64) -> Option<u64> {
        self.retain(now);
        let pending = self.pending();
        if pending.len() == PENDING {
            return None;
        }
        let mut start = job.ready_ns;
        loop {
            let end = start + job.duration_ns;
            let beside = pending
                .iter()
                .filter(|p| p.engine == job.engine as u32 && p.end_ns > start && p.start_ns < end);
            let (mut sum, mut first_end) = (0_u32, u64::MAX);
            for other in beside {
                sum = sum.saturating_add(other.share);
                first_end = first_end.min(other.end_ns);
            }
            if first_end == u64::MAX || sum.saturating_add(job.share) <= WHOLE {
                return Some(start);
            }
            start = first_end;
        }
    }

    fn retain(&self, now: u64) {
        // SAFETY: the lock is held, and no reference from `pending` is alive during this call.
        unsafe {
            let list = &mut *self.0.pending.get();
            let length = &mut *self.0.pending_length.get();
            let mut kept = 0;
            for place in 0..(*length).min(PENDING) {
                if list[place].end_ns > now {
                    list[kept] = list[place];
                    kept += 1;
                }
            }
            *length = kept;
        }
    }

    fn push(&self, launch: Pending) {
        // SAFETY: the lock is held, `place` has said that there is room, and no reference from `pending` is alive.
        unsafe {
            let length = &mut *self.0.pending_length.get();
            (*self.0.pending.get())[*length] = launch;
            *length += 1;
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.lock.get()) };
    }
}

/// A lock that processes share, and that survives the death of its holder.
fn init_lock(lock: *mut libc::pthread_mutex_t) -> Result<()> {
    // SAFETY: all zeros is storage for an attribute object, which is initialised before it is used; `lock` points into the file.
    let wrong = unsafe {
        let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
        libc::pthread_mutexattr_init(&raw mut attributes)
            | libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED)
            | libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST)
            | libc::pthread_mutex_init(lock, &raw const attributes)
    };
    if wrong == 0 { Ok(()) } else { Err(Error::from_raw_os_error(wrong)) }
}

/// The pieces of a stretch of time that fall into each cell of a grid: the cell, and nanoseconds.
fn pieces(from: u64, to: u64, cell: u64) -> impl Iterator<Item = (usize, u64)> {
    (from / cell..=to.saturating_sub(1).max(from) / cell).map(move |place| {
        let ns = to.min((place + 1) * cell) - from.max(place * cell);
        (usize::try_from(place).unwrap_or(usize::MAX), ns)
    })
}
