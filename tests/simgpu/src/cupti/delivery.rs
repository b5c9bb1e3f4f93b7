//! How records get to each client: into buffers that it gives, when their work has ended, from a thread of CUPTI's own or at a flush.
//!
//! The only client there is has number 0; clients beside each other (`several`) have their subscribers' numbers. Leaves out what the records hold
//! (`records`).

use super::records::{self, CONCURRENT_KERNEL, KERNEL, Waiting};
use crate::clock::now_ns;
use crate::raw::Handle;
use crate::world::Outcome;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// `CUpti_BuffersCallbackRequestFunc`: where to put the buffer, its size, and the most records in it (0: as many as fit).
pub(super) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// `CUpti_BuffersCallbackCompleteFunc`: context, stream, buffer, its size, how much of it is valid.
pub(super) type Complete = extern "C" fn(Handle, u32, *mut u8, usize, usize);
/// `CUpti_BuffersCallbackRequestFunc_v2`: the same, and CUPTI's word on it.
pub(super) type OwnRequest = extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *const RequestInfo);
/// `CUpti_BuffersCallbackCompleteFunc_v2`: buffer, its size, how much of it is valid, CUPTI's word on it.
pub(super) type OwnComplete = extern "C" fn(*mut u8, usize, usize, *const CompleteInfo);
/// `CUpti_TimestampCallbackFunc`.
pub(super) type Clock = extern "C" fn() -> u64;

/// `CUpti_BufferCallbackRequestInfo`.
#[repr(C)]
pub(super) struct RequestInfo {
    size: usize,
}

/// `CUpti_BufferCallbackCompleteInfo`.
#[repr(C)]
pub(super) struct CompleteInfo {
    size: usize,
    thread: u64,
    layouts: usize,
    count: usize,
}

/// A client's functions for buffers, of either form.
#[derive(Clone, Copy)]
pub(super) enum Callbacks {
    Plain(Request, Complete),
    Own(OwnRequest, OwnComplete),
}

/// Time between two looks of CUPTI's own thread.
const LOOK: Duration = Duration::from_millis(5);

/// A buffer of the client, as an address, and how much of it is filled.
struct Buffer {
    address: usize,
    size: usize,
    used: usize,
    count: usize,
    most: usize,
}

/// A buffer that goes back to the client.
pub(super) struct Full(Buffer, Callbacks);

#[derive(Default)]
pub(super) struct Delivery {
    callbacks: Option<Callbacks>,
    clock: Option<Clock>,
    kinds: BTreeSet<u32>,
    waiting: VecDeque<Waiting>,
    buffer: Option<Buffer>,
    dropped: usize,
    period_ns: u64,
    last_flush_ns: u64,
}

type Deliveries = BTreeMap<u64, Delivery>;

static DELIVERIES: Mutex<Deliveries> = Mutex::new(Deliveries::new());

fn deliveries() -> MutexGuard<'static, Deliveries> {
    DELIVERIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with a client's delivery.
pub(super) fn of_client<T>(client: u64, run: impl FnOnce(&mut Delivery) -> T) -> T {
    run(deliveries().entry(client).or_default())
}

/// Forgets a client.
pub(super) fn forget(client: u64) {
    deliveries().remove(&client);
}

/// Makes records of what was done, for each client.
pub(super) fn record(graph: u32, outcomes: &[Outcome]) {
    deliveries().values_mut().for_each(|delivery| delivery.record(graph, outcomes));
}

/// Hands everybody what has ended; `forced`, everything.
pub(super) fn flush(forced: bool) {
    let full: Vec<Full> = deliveries().values_mut().flat_map(|delivery| delivery.flush(forced)).collect();
    hand_out(full);
}

/// Starts CUPTI's own thread, once for a process.
pub(super) fn start_worker() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let work = || loop {
            std::thread::sleep(LOOK);
            let full: Vec<Full> = deliveries().values_mut().flat_map(Delivery::look).collect();
            hand_out(full);
        };
        // Without a thread records come with flushes only.
        let _ = std::thread::Builder::new().name("cupti".to_owned()).spawn(work);
    });
}

impl Delivery {
    pub(super) fn set_callbacks(&mut self, callbacks: Callbacks) {
        self.callbacks = Some(callbacks);
    }

    pub(super) fn set_clock(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    pub(super) fn set_period(&mut self, milliseconds: u32) {
        self.period_ns = u64::from(milliseconds) * 1_000_000;
    }

    pub(super) fn enable(&mut self, kind: u32, on: bool) {
        match on {
            true => self.kinds.insert(kind),
            false => self.kinds.remove(&kind),
        };
    }

    pub(super) fn take_dropped(&mut self) -> usize {
        std::mem::take(&mut self.dropped)
    }

    /// Now, on CUPTI's clock: the client's, or `CLOCK_REALTIME`.
    pub(super) fn stamp(&self) -> u64 {
        self.clock.map_or_else(realtime_ns, |clock| clock())
    }

    /// Makes records of what was done, as far as their kinds are wanted.
    fn record(&mut self, graph: u32, outcomes: &[Outcome]) {
        if self.kinds.is_empty() {
            return;
        }
        let concurrent = self.kinds.contains(&CONCURRENT_KERNEL) || !self.kinds.contains(&KERNEL);
        let (now, stamp) = (now_ns(), self.stamp());
        for outcome in outcomes {
            let Outcome::Ran(launch, node) = outcome else { continue };
            let kind = records::kind(launch, concurrent);
            if self.kinds.contains(&kind) {
                let on_clock = |at_ns: u64| stamp.wrapping_add(at_ns.wrapping_sub(now));
                self.waiting.push_back(records::encode(launch, kind, (graph, *node), on_clock));
            }
        }
    }

    /// Puts what has ended into the buffer; buffers that are full, or older than the period, go back.
    fn look(&mut self) -> Vec<Full> {
        let now = now_ns();
        let mut full = self.fill(now, false);
        if self.period_ns > 0 && now.saturating_sub(self.last_flush_ns) >= self.period_ns {
            self.last_flush_ns = now;
            full.extend(self.take_buffer());
        }
        full
    }

    /// Everything that has ended; `forced`, everything.
    fn flush(&mut self, forced: bool) -> Vec<Full> {
        let mut full = self.fill(now_ns(), forced);
        full.extend(self.take_buffer());
        full
    }

    fn fill(&mut self, now: u64, forced: bool) -> Vec<Full> {
        let mut full = Vec::new();
        for mut record in std::mem::take(&mut self.waiting) {
            if record.end_ns > now {
                if !forced {
                    self.waiting.push_back(record);
                    continue;
                }
                records::without_times(&mut record.bytes);
            }
            full.extend(self.append(&record.bytes));
        }
        full
    }

    /// Appends a record; returns the buffer that was too full for it. Without a new one the record is dropped and counted.
    fn append(&mut self, bytes: &[u8]) -> Option<Full> {
        let fits = |b: &Buffer| b.used + bytes.len() <= b.size && (b.most == 0 || b.count < b.most);
        let full = if self.buffer.as_ref().is_some_and(fits) { None } else { self.take_buffer() };
        if self.buffer.is_none() {
            self.buffer = self.request();
        }
        match self.buffer.as_mut().filter(|buffer| fits(buffer)) {
            Some(buffer) => {
                let to = std::ptr::with_exposed_provenance_mut::<u8>(buffer.address + buffer.used);
                // SAFETY: the client gave a buffer of this size and has not got it back, and the record fits.
                unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                buffer.used += bytes.len();
                buffer.count += 1;
            }
            None => self.dropped += 1,
        }
        full
    }

    fn request(&self) -> Option<Buffer> {
        let (mut address, mut size, mut most) = (std::ptr::null_mut::<u8>(), 0, 0);
        match self.callbacks? {
            Callbacks::Plain(request, _) => request(&raw mut address, &raw mut size, &raw mut most),
            Callbacks::Own(request, _) => {
                let info = RequestInfo { size: size_of::<RequestInfo>() };
                request(&raw mut address, &raw mut size, &raw mut most, &raw const info);
            }
        }
        let address = address.expose_provenance();
        (address != 0).then_some(Buffer { address, size, used: 0, count: 0, most })
    }

    fn take_buffer(&mut self) -> Option<Full> {
        let callbacks = self.callbacks?;
        self.buffer.take().map(|buffer| Full(buffer, callbacks))
    }
}

/// Gives buffers back, outside the lock: the client may call CUPTI from there.
fn hand_out(full: Vec<Full>) {
    for Full(Buffer { address, size, used, .. }, callbacks) in full {
        let address = std::ptr::with_exposed_provenance_mut(address);
        match callbacks {
            Callbacks::Plain(_, complete) => complete(std::ptr::null_mut(), 0, address, size, used),
            Callbacks::Own(_, complete) => {
                let info = CompleteInfo { size: size_of::<CompleteInfo>(), thread: 0, layouts: 0, count: 0 };
                complete(address, size, used, &raw const info);
            }
        }
    }
}

fn realtime_ns() -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}
