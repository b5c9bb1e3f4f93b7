//! CUPTI 13.0, of 13.2 that subscribers have names, and of 13.3 that there may be several: the functions of `libcupti.so.13` that a tracer of kernels
//! needs, each under `simgpu_` and its name.
//!
//! One subscriber at a time, unless all want others beside them (`several`). Records are made when the work is launched, as start and end are known then, and handed out
//! when it has ended (`records`, `delivery`). Leaves out events and metrics, callbacks about
//! resources but for nodes of graphs that are made and copied and the end of graphs, and records of API calls.

mod delivery;
mod nodes;
mod records;
mod several;

use crate::raw::{Handle, Out, handle, number};
use crate::world::{self, CURRENT, Outcome};
use delivery::of_client;
pub(crate) use nodes::{NodeEvent, OfNode, tell_node};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `CUptiResult`.
type Code = c_int;

const SUCCESS: Code = 0;
const INVALID_PARAMETER: Code = 1;
const MAX_LIMIT_REACHED: Code = 12;
const NOT_COMPATIBLE: Code = 14;
const INVALID_KIND: Code = 21;
const MULTIPLE_SUBSCRIBERS: Code = 39;

/// `CUpti_CallbackDomain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Domain {
    Driver = 1,
    Runtime = 2,
}

/// `CUpti_CallbackFunc`.
type Callback = extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// `CUpti_CallbackData`.
#[repr(C)]
struct CallbackData {
    /// 0 on entry, 1 on exit.
    site: u32,
    function_name: *const c_char,
    parameters: *const c_void,
    return_value: *const c_void,
    symbol_name: *const c_char,
    context: Handle,
    context_number: u32,
    correlation_data: *mut u64,
    correlation: u32,
}

#[derive(Clone)]
struct Subscriber {
    callback: Callback,
    user: usize,
    enabled: BTreeSet<(u32, u32)>,
    domains: BTreeSet<u32>,
    name: String,
    /// Whether it lets others be beside it.
    shares: bool,
}

/// `CUpti_SubscriberParams`.
#[derive(Clone, Copy)]
#[repr(C)]
struct SubscriberParams {
    size: usize,
    name: *const c_char,
    other: *mut c_char,
    other_size: usize,
    allow_multiple: u8,
    padding: [u8; 7],
}

type Subscribers = BTreeMap<u64, Subscriber>;

static SUBSCRIBERS: Mutex<Subscribers> = Mutex::new(Subscribers::new());
/// Whether anybody listens at all: launches look here first.
static LISTENING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is in a callback, whose own calls are not told of.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn subscribers() -> MutexGuard<'static, Subscribers> {
    SUBSCRIBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of the only client's delivery.
const ALONE: u64 = 0;

/// Refuses functions of the old form while subscribers are beside each other.
fn alone(run: impl FnOnce()) -> Code {
    if subscribers().values().any(|subscriber| subscriber.shares) {
        return NOT_COMPATIBLE;
    }
    run();
    SUCCESS
}

/// A call that is told of, from its entry to its exit.
pub(crate) struct Told<'a> {
    pub(crate) domain: Domain,
    pub(crate) cbid: u32,
    pub(crate) function: &'a CStr,
    pub(crate) symbol: Option<&'a CStr>,
    /// Its arguments, where they are words; empty: they are not shown.
    pub(crate) parameters: &'a [usize],
    pub(crate) correlation: u32,
}

impl Told<'_> {
    /// Runs the call and tells of it, before and after.
    pub(crate) fn around(&self, run: impl FnOnce() -> Code) -> Code {
        let mut own = 0;
        self.tell(None, &mut own);
        let code = run();
        self.tell(Some(&code), &mut own);
        code
    }

    /// Tells subscribers of the entry (`None`) or of the exit with this result.
    fn tell(&self, returned: Option<&Code>, own: &mut u64) {
        let null = std::ptr::null::<c_void>();
        let data = CallbackData {
            site: u32::from(returned.is_some()),
            function_name: self.function.as_ptr(),
            parameters: if self.parameters.is_empty() { null } else { self.parameters.as_ptr().cast() },
            return_value: returned.map_or(null, |code| (&raw const *code).cast()),
            symbol_name: self.symbol.map_or(std::ptr::null(), CStr::as_ptr),
            context: handle(CURRENT.get()),
            context_number: 1,
            correlation_data: own,
            correlation: self.correlation,
        };
        tell((self.domain as u32, self.cbid), (&raw const data).cast());
    }
}

/// Tells each subscriber of what it has enabled.
fn tell((domain, what): (u32, u32), data: *const c_void) {
    if !LISTENING.load(Relaxed) || INSIDE.get() {
        return;
    }
    let wants = |s: &&Subscriber| s.domains.contains(&domain) || s.enabled.contains(&(domain, what));
    let listeners: Vec<Subscriber> = subscribers().values().filter(wants).cloned().collect();
    INSIDE.set(true);
    for Subscriber { callback, user, .. } in listeners {
        callback(std::ptr::without_provenance_mut(user), domain, what, data);
    }
    INSIDE.set(false);
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiGetGraphNodeId(node: Handle, id: Out<u64>) -> Code {
    id.put(number(node));
    SUCCESS
}

/// Takes what a call has made the device do.
pub(crate) fn record(graph: u32, outcomes: &[Outcome]) {
    delivery::record(graph, outcomes);
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiGetVersion(version: Out<u32>) -> Code {
    // CUPTI_ERROR_NOT_INITIALIZED
    let Some(world) = world::open() else { return 15 };
    version.put(world.place.scenario.cupti);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiGetTimestamp(timestamp: Out<u64>) -> Code {
    timestamp.put(of_client(ALONE, |client| client.stamp()));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiGetResultString(code: Code, text: Out<*const c_char>) -> Code {
    let known: &CStr = match code {
        SUCCESS => c"CUPTI_SUCCESS",
        INVALID_PARAMETER => c"CUPTI_ERROR_INVALID_PARAMETER",
        NOT_COMPATIBLE => c"CUPTI_ERROR_NOT_COMPATIBLE",
        MAX_LIMIT_REACHED => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        INVALID_KIND => c"CUPTI_ERROR_INVALID_KIND",
        MULTIPLE_SUBSCRIBERS => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        _ => c"CUPTI_ERROR_UNKNOWN",
    };
    text.put(known.as_ptr());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiSubscribe(out: Out<Handle>, callback: Option<Callback>, user: Handle) -> Code {
    subscribe(&out, callback, user, (String::new(), false)).err().unwrap_or(SUCCESS)
}

/// Takes a place, the only one or one beside others; the error is CUPTI's, and says nothing of who is there.
fn subscribe(
    out: &Out<Handle>,
    callback: Option<Callback>,
    user: Handle,
    (name, shares): (String, bool),
) -> Result<(), Code> {
    let callback = callback.ok_or(INVALID_PARAMETER)?;
    let mut current = subscribers();
    if (shares && !several::is_there()) || current.values().any(|other| !(shares && other.shares)) {
        return Err(MULTIPLE_SUBSCRIBERS);
    }
    let (enabled, domains) = (BTreeSet::new(), BTreeSet::new());
    let number = world::next_number();
    current.insert(number, Subscriber { callback, user: user.addr(), enabled, domains, name, shares });
    LISTENING.store(true, Relaxed);
    out.put(handle(number));
    Ok(())
}

/// As `cuptiSubscribe`, under a name, and with the name of who is there already.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiSubscribe_v2(
    out: Out<Handle>,
    callback: Option<Callback>,
    user: Handle,
    params: Out<SubscriberParams>,
) -> Code {
    let Some(params) = params.get().filter(|params| params.size == size_of::<SubscriberParams>()) else {
        return INVALID_PARAMETER;
    };
    // SAFETY: the caller's name is null or has its zero.
    let name = (!params.name.is_null()).then(|| unsafe { CStr::from_ptr(params.name) });
    let name = name.map(|name| format!("CUPTI for {}", name.to_string_lossy())).unwrap_or_default();
    let other = subscribers().values().next().map(|other| other.name.clone()).unwrap_or_default();
    let room = params.other_size.saturating_sub(1).min(other.len());
    if !params.other.is_null() && params.other_size > 0 {
        // SAFETY: the caller gives room for so many bytes.
        unsafe {
            params.other.copy_from_nonoverlapping(other.as_ptr().cast(), room);
            params.other.add(room).write(0);
        }
    }
    subscribe(&out, callback, user, (name, params.allow_multiple != 0)).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiUnsubscribe(subscriber: Handle) -> Code {
    let mut current = subscribers();
    if current.remove(&number(subscriber)).is_some_and(|gone| gone.shares) {
        delivery::forget(number(subscriber));
    }
    LISTENING.store(!current.is_empty(), Relaxed);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiEnableCallback(enable: u32, subscriber: Handle, domain: u32, cbid: u32) -> Code {
    let mut current = subscribers();
    let Some(listener) = current.get_mut(&number(subscriber)) else { return INVALID_PARAMETER };
    match enable {
        0 => drop(listener.enabled.remove(&(domain, cbid))),
        _ => drop(listener.enabled.insert((domain, cbid))),
    }
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiEnableDomain(enable: u32, subscriber: Handle, domain: u32) -> Code {
    let mut current = subscribers();
    let Some(listener) = current.get_mut(&number(subscriber)) else { return INVALID_PARAMETER };
    match enable {
        0 => drop(listener.domains.remove(&domain)),
        _ => drop(listener.domains.insert(domain)),
    }
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityRegisterCallbacks(
    request: Option<delivery::Request>,
    complete: Option<delivery::Complete>,
) -> Code {
    let (Some(request), Some(complete)) = (request, complete) else { return INVALID_PARAMETER };
    let callbacks = delivery::Callbacks::Plain(request, complete);
    alone(|| of_client(ALONE, |client| client.set_callbacks(callbacks)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityRegisterTimestampCallback(clock: Option<delivery::Clock>) -> Code {
    let Some(clock) = clock else { return INVALID_PARAMETER };
    alone(|| of_client(ALONE, |client| client.set_clock(clock)))
}

/// Copies (1), sets (2), kernels (3 and 10).
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityEnable(kind: u32) -> Code {
    if !records::KINDS.contains(&kind) {
        return INVALID_KIND;
    }
    delivery::start_worker();
    alone(|| of_client(ALONE, |client| client.enable(kind, true)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityDisable(kind: u32) -> Code {
    alone(|| of_client(ALONE, |client| client.enable(kind, false)))
}

/// With flag 1 (forced) work that has not ended is handed out without times.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityFlushAll(flag: u32) -> Code {
    delivery::flush(flag & 1 == 1);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityFlushPeriod(milliseconds: u32) -> Code {
    alone(|| of_client(ALONE, |client| client.set_period(milliseconds)))
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityGetNextRecord(buffer: Handle, valid: usize, record: Out<Handle>) -> Code {
    match records::next(buffer, valid, record.get().unwrap_or(std::ptr::null_mut())) {
        Some(found) => {
            record.put(found);
            SUCCESS
        }
        None => MAX_LIMIT_REACHED,
    }
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivityGetNumDroppedRecords(
    _context: Handle,
    _stream: u32,
    dropped: Out<usize>,
) -> Code {
    alone(|| dropped.put(of_client(ALONE, |client| client.take_dropped())))
}

/// Attributes are taken and change nothing.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiActivitySetAttribute(_attribute: u32, _size: Handle, _value: Handle) -> Code {
    SUCCESS
}

/// Records carry no thread here; the choice is taken and changes nothing.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuptiSetThreadIdType(_kind: u32) -> Code {
    SUCCESS
}
