//! Listening to CUPTI: the calls of launches, and the records of what they did. Leaves out what becomes of the sums (`ship`).

use crate::calls::{self, Role};
use crate::cupti::{CallbackData, Code, Cupti, TAKEN};
use crate::records::{CONCURRENT_KERNEL, COPY, SET, decode};
use crate::shared::Shared;
use crate::tally::Tally;
use crate::{energy_trace_launched, guarded, is_forked, names, nodes};
use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// `CUPTI_CB_DOMAIN_DRIVER_API`.
const DRIVER: u32 = 1;

/// A buffer of records: 256 KiB hold 1,200 kernels.
const BUFFER: Layout = match Layout::from_size_align(256 * 1024, 8) {
    Ok(layout) => layout,
    Err(_) => Layout::new::<u64>(),
};
/// More memory is never given to buffers: records are dropped, and counted, instead.
const MOST_BUFFERS: u64 = 256;

static CUPTI: OnceLock<Cupti> = OnceLock::new();
static SUBSCRIBER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Set where other profilers may listen as well.
static BESIDE: AtomicBool = AtomicBool::new(false);
/// Set where records are on a clock that is not ours to choose, and by how much it is ahead of `CLOCK_MONOTONIC`.
static OTHER_CLOCK: AtomicBool = AtomicBool::new(false);
static AHEAD_NS: AtomicI64 = AtomicI64::new(0);
/// The kinds of records that are asked for.
const KINDS: [u32; 3] = [CONCURRENT_KERNEL, COPY, SET];
static TALLY: Mutex<Tally> = Mutex::new(Tally::new());
static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
static BUFFERS: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds that all of this took so far, but for callbacks; one callback in so many is timed, and stands for those that are not.
static COST_NS: AtomicU64 = AtomicU64::new(0);
const TIMED_EACH: u64 = 8;
static TIMED: AtomicU64 = AtomicU64::new(0);
static TIMED_NS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
    /// Whether this thread is in `ship`, whose time is counted there.
    static SHIPPING: Cell<bool> = const { Cell::new(false) };
}

/// Runs something on the sender's thread and counts the CPU time that it takes.
pub(crate) fn counted(run: impl FnOnce()) {
    let began = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    SHIPPING.set(true);
    run();
    SHIPPING.set(false);
    let took = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(began);
    COST_NS.fetch_add(took, Relaxed);
}

/// The sums so far.
pub(crate) fn tally() -> MutexGuard<'static, Tally> {
    TALLY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens CUPTI and begins. The version, or why nothing is recorded.
pub(crate) fn start() -> Result<u32, String> {
    let cupti = Cupti::open()?;
    let cupti = CUPTI.get_or_init(|| cupti);
    let subscriber = match start_beside(cupti) {
        Some(subscriber) => subscriber,
        None => start_alone(cupti)?,
    };
    for call in calls::all() {
        // A call that this version does not know is not made either.
        (cupti.enable_callback)(1, subscriber, DRIVER, call);
    }
    for what in nodes::TOLD {
        (cupti.enable_callback)(1, subscriber, nodes::DOMAIN, what);
    }
    Ok(cupti.version)
}

/// Begins beside other profilers; `None` where that is not to be had, and nothing is begun.
fn start_beside(cupti: &Cupti) -> Option<*mut c_void> {
    let (subscriber, shared) = cupti.subscribe_beside(on_call)?;
    BESIDE.store(true, Relaxed);
    SUBSCRIBER.store(subscriber, Relaxed);
    if !shared.set_clock(subscriber, monotonic_ns) {
        OTHER_CLOCK.store(true, Relaxed);
        compare_clocks(&shared, subscriber);
    }
    let begun = (shared.register)(subscriber, on_own_request, on_own_complete) == 0
        && KINDS.iter().all(|&kind| shared.enable(subscriber, kind, true) == 0);
    if begun {
        return Some(subscriber);
    }
    stop();
    BESIDE.store(false, Relaxed);
    OTHER_CLOCK.store(false, Relaxed);
    AHEAD_NS.store(0, Relaxed);
    None
}

/// By how much the clock of records is ahead: two readings of ours with one of that in between.
fn compare_clocks(shared: &Shared, subscriber: *mut c_void) {
    let before = monotonic_ns();
    let Some(there) = shared.now(subscriber) else { return };
    let here = before + (monotonic_ns() - before) / 2;
    AHEAD_NS.store(there.wrapping_sub(here).cast_signed(), Relaxed);
}

/// A moment of a record on `CLOCK_MONOTONIC`; 0, which is none, stays.
fn on_our_clock(at_ns: u64) -> u64 {
    if at_ns == 0 { 0 } else { at_ns.wrapping_sub(AHEAD_NS.load(Relaxed).cast_unsigned()) }
}

/// Begins as the only listener.
fn start_alone(cupti: &Cupti) -> Result<*mut c_void, String> {
    let subscriber = cupti.subscribe(on_call).map_err(|(code, other)| match (code, other.as_str()) {
        (TAKEN, "") => {
            "another profiler has CUPTI's only slot (torch.profiler, Nsight, a debugger): switch it off, or use --gpu launch".to_owned()
        }
        (TAKEN, other) => {
            format!("another profiler has CUPTI's only slot, {other}: switch it off, or use --gpu launch")
        }
        (wrong, _) => format!("cuptiSubscribe says error {wrong}"),
    })?;
    SUBSCRIBER.store(subscriber, Relaxed);
    expect("cuptiActivityRegisterTimestampCallback", (cupti.register_clock)(monotonic_ns))?;
    expect("cuptiActivityRegisterCallbacks", (cupti.register_callbacks)(on_request, on_complete))?;
    for kind in KINDS {
        expect("cuptiActivityEnable", (cupti.enable)(kind))?;
    }
    Ok(subscriber)
}

/// Nobody listens any more: the program gets rid of what this costs.
pub(crate) fn stop() {
    let subscriber = SUBSCRIBER.swap(std::ptr::null_mut(), Relaxed);
    let Some(cupti) = CUPTI.get().filter(|_| !subscriber.is_null()) else { return };
    for kind in KINDS {
        match beside(cupti) {
            Some(shared) => shared.enable(subscriber, kind, false),
            None => (cupti.disable)(kind),
        };
    }
    (cupti.unsubscribe)(subscriber);
}

/// The functions for a subscriber among several, where this one is.
fn beside(cupti: &Cupti) -> Option<Shared> {
    cupti.shared.filter(|_| BESIDE.load(Relaxed))
}

fn expect(name: &str, code: Code) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{name} says error {code}")) }
}

/// Makes CUPTI hand out what has ended; `forced`, everything. Never from a callback.
pub(crate) fn flush(forced: bool) {
    let Some(cupti) = CUPTI.get() else { return };
    let subscriber = SUBSCRIBER.load(Relaxed);
    let shared = beside(cupti).filter(|_| !subscriber.is_null());
    if let Some(shared) = shared.filter(|_| OTHER_CLOCK.load(Relaxed)) {
        compare_clocks(&shared, subscriber);
    }
    (cupti.flush_all)(u32::from(forced));
    let own = shared.and_then(|shared| shared.dropped(subscriber));
    let all = || {
        let mut dropped = 0;
        let code = (cupti.dropped)(std::ptr::null_mut(), 0, &raw mut dropped);
        if code == 0 { dropped as u64 } else { 0 }
    };
    DROPPED.fetch_add(own.unwrap_or_else(all), Relaxed);
}

/// Launches that were reported, records that CUPTI dropped, and nanoseconds that all of this took.
pub(crate) fn counts() -> (u64, u64, u64) {
    let launches = LAUNCHES.load(Relaxed);
    let each = TIMED_NS.load(Relaxed) / TIMED.load(Relaxed).max(1);
    (launches, DROPPED.load(Relaxed), COST_NS.load(Relaxed).saturating_add(each.saturating_mul(launches)))
}

/// `CLOCK_MONOTONIC`: CUPTI puts its records on this clock.
pub(crate) extern "C" fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable, and the clocks that are asked for exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.cast_unsigned())
}

extern "C" fn on_call(_user: *mut c_void, domain: u32, call: u32, data: *const CallbackData) {
    guarded(|| {
        if is_forked() || data.is_null() {
            return;
        }
        if domain == nodes::DOMAIN {
            // SAFETY: in this domain CUPTI's data has another form, which is read there.
            CUPTI.get().into_iter().for_each(|cupti| unsafe { nodes::note(cupti, call, data.cast()) });
            return;
        }
        let Some(role) = calls::role(call) else { return };
        // SAFETY: not null, and CUPTI's for the length of the callback.
        let (site, correlation) = unsafe { ((*data).site, (*data).correlation) };
        match (site, role) {
            (0, _) => nodes::begin(role == Role::Instantiate),
            // A call inside a call has the same number and is the same launch.
            (1, Role::Launch) if LAST.replace(correlation) != correlation => {
                // SAFETY: as above; the name of what is launched has its zero, or is null.
                launched(correlation, call, unsafe { (*data).symbol_name });
            }
            (1, Role::Launch) => {}
            // SAFETY: the exit of a call of such a role.
            (1, _) => unsafe { built(role, call, data) },
            _ => {}
        }
    });
}

/// A launch, or a captured one, is made: the device works already when its stack is taken.
fn launched(correlation: u32, call: u32, name: *const c_char) {
    let timed = LAUNCHES
        .fetch_add(1, Relaxed)
        .is_multiple_of(TIMED_EACH)
        .then(|| clock_ns(libc::CLOCK_THREAD_CPUTIME_ID));
    // SAFETY: the caller's word.
    let name = unsafe { names::number_of(name) };
    energy_trace_launched(correlation, call, name, nodes::made());
    if let Some(began) = timed {
        let took = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(began);
        TIMED.fetch_add(1, Relaxed);
        TIMED_NS.fetch_add(took, Relaxed);
    }
}

/// A call that builds graphs, or changes them, returns.
///
/// # Safety
/// `data` is CUPTI's at the exit of a call of this role, which launches nothing.
unsafe fn built(role: Role, call: u32, data: *const CallbackData) {
    // SAFETY: the caller's promise.
    let (Some(cupti), Some([first, second]), correlation) =
        (unsafe { (CUPTI.get(), calls::returned(data), (*data).correlation) })
    else {
        return;
    };
    let since = (correlation, monotonic_ns());
    let node = match role {
        Role::Add => nodes::made(),
        Role::Set => {
            nodes::set(first, cupti.node_number(std::ptr::with_exposed_provenance_mut(second)), since)
        }
        Role::Instantiate => {
            // SAFETY: the call has written what can be launched to its first argument.
            nodes::instantiated(unsafe { calls::written(first) });
            0
        }
        Role::Update => {
            nodes::nodes().update(first, second, since);
            0
        }
        Role::Launch => 0,
    };
    if node != 0 {
        energy_trace_launched(correlation, call, names::NAMELESS, node);
    }
}

extern "C" fn on_own_request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize, _info: *const c_void) {
    on_request(buffer, size, most);
}

extern "C" fn on_own_complete(buffer: *mut u8, size: usize, valid: usize, _info: *const c_void) {
    on_complete(std::ptr::null_mut(), 0, buffer, size, valid);
}

extern "C" fn on_request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    guarded(|| {
        let given = if is_forked() || BUFFERS.load(Relaxed) >= MOST_BUFFERS {
            std::ptr::null_mut()
        } else {
            // SAFETY: the layout's size is not zero.
            unsafe { alloc(BUFFER) }
        };
        if !given.is_null() {
            BUFFERS.fetch_add(1, Relaxed);
        }
        // SAFETY: CUPTI asks with three writable places.
        unsafe {
            buffer.write(given);
            size.write(if given.is_null() { 0 } else { BUFFER.size() });
            most.write(0);
        }
    });
}

extern "C" fn on_complete(_context: *mut c_void, _stream: u32, buffer: *mut u8, _size: usize, valid: usize) {
    guarded(|| {
        if buffer.is_null() {
            return;
        }
        let began = (!SHIPPING.get()).then(|| monotonic_ns());
        if let (Some(cupti), false) = (CUPTI.get(), is_forked()) {
            read(cupti, buffer, valid.min(BUFFER.size()));
        }
        if let Some(began) = began {
            COST_NS.fetch_add(monotonic_ns().saturating_sub(began), Relaxed);
        }
        // SAFETY: the buffer is one that `on_request` made with this layout, and CUPTI gives each back once.
        unsafe { dealloc(buffer, BUFFER) };
        BUFFERS.fetch_sub(1, Relaxed);
    });
}

fn read(cupti: &Cupti, buffer: *mut u8, valid: usize) {
    let (mut tally, nodes) = (tally(), nodes::nodes());
    let mut record = std::ptr::null_mut();
    let subscriber = SUBSCRIBER.load(Relaxed);
    let shared = beside(cupti).filter(|_| !subscriber.is_null());
    let next = |record: *mut *mut u8| match &shared {
        Some(shared) => shared.next(subscriber, (buffer, valid), record, cupti.next_record),
        None => (cupti.next_record)(buffer, valid, record),
    };
    while next(&raw mut record) == 0 && !record.is_null() {
        // SAFETY: the record is what CUPTI has just given, in a buffer that has not gone back.
        if let Some(mut activity) = unsafe { decode(record) } {
            activity.node = nodes.owner(activity.node, activity.correlation);
            activity.start_ns = on_our_clock(activity.start_ns);
            activity.end_ns = on_our_clock(activity.end_ns);
            tally.add(&activity);
        }
    }
}
