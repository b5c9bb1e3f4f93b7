//! The target's own CUPTI, by name: which library, which version, and the functions that are used. Leaves out what they are used for (`listen`).
//!
//! CUPTI must match the program's CUDA, so one that is mapped already comes first, then those that the loader and the toolkit's folder have,
//! that of the runtime library's major version before others. Versions: 12.x count
//! `CUPTI_API_VERSION` from 18 on, 13.x say 130000 and more (cupti_version.h); what is used here has had the same layouts in both.

use crate::shared::{SINCE, Shared};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// `CUptiResult`.
pub(crate) type Code = c_int;

/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
pub(crate) const TAKEN: Code = 39;

/// `CUpti_CallbackFunc`.
pub(crate) type Callback = extern "C" fn(*mut c_void, u32, u32, *const CallbackData);
/// `CUpti_BuffersCallbackRequestFunc`.
pub(crate) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// `CUpti_BuffersCallbackCompleteFunc`.
pub(crate) type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// `CUpti_CallbackData`, as in 12.0 to 13.5.
#[repr(C)]
pub(crate) struct CallbackData {
    /// 0 on entry, 1 on exit.
    pub(crate) site: u32,
    pub(crate) function_name: *const c_char,
    pub(crate) parameters: *const c_void,
    pub(crate) return_value: *const c_void,
    pub(crate) symbol_name: *const c_char,
    pub(crate) context: *mut c_void,
    pub(crate) context_number: u32,
    pub(crate) correlation_data: *mut u64,
    pub(crate) correlation: u32,
}

type Subscribe = extern "C" fn(*mut *mut c_void, Callback, *mut c_void) -> Code;
type SubscribeAs = extern "C" fn(*mut *mut c_void, Callback, *mut c_void, *mut Subscriber) -> Code;
type Unsubscribe = extern "C" fn(*mut c_void) -> Code;
type EnableCallback = extern "C" fn(u32, *mut c_void, u32, u32) -> Code;
type RegisterCallbacks = extern "C" fn(Request, Complete) -> Code;
type Number = extern "C" fn(u32) -> Code;
/// `cuptiActivityGetNextRecord`.
pub(crate) type NextRecord = extern "C" fn(*mut u8, usize, *mut *mut u8) -> Code;
type Dropped = extern "C" fn(*mut c_void, u32, *mut usize) -> Code;
type NodeNumber = extern "C" fn(*mut c_void, *mut u64) -> Code;
type RegisterClock = extern "C" fn(extern "C" fn() -> u64) -> Code;

/// `CUpti_SubscriberParams`, from 13.2 on.
#[repr(C)]
struct Subscriber {
    size: usize,
    name: *const c_char,
    /// Where the name of who is there already goes.
    other: *mut c_char,
    other_size: usize,
    allow_multiple: u8,
    padding: [u8; 7],
}

/// The functions.
#[derive(Clone, Copy)]
pub(crate) struct Cupti {
    pub(crate) version: u32,
    subscribe: Subscribe,
    /// From 13.2 on.
    subscribe_as: Option<SubscribeAs>,
    /// From 13.3 on.
    pub(crate) shared: Option<Shared>,
    pub(crate) unsubscribe: Unsubscribe,
    pub(crate) enable_callback: EnableCallback,
    pub(crate) register_callbacks: RegisterCallbacks,
    pub(crate) enable: Number,
    pub(crate) disable: Number,
    pub(crate) next_record: NextRecord,
    pub(crate) flush_all: Number,
    pub(crate) dropped: Dropped,
    pub(crate) register_clock: RegisterClock,
    node_number: Option<NodeNumber>,
}

/// The names by which CUPTI is looked for, in this order.
const NAMES: [&CStr; 3] = [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so"];

impl Cupti {
    /// Opens it, or says why there is none.
    pub(crate) fn open() -> Result<Self, String> {
        let library = find().ok_or_else(|| {
            format!(
                "no libcupti was found: install CUPTI for the program's CUDA (pip install nvidia-cuda-cupti-cu12), or name it in {}",
                crate::LIBRARY
            )
        })?;
        let version = version_of(library)?;
        if !(18..100).contains(&version) && !(130_000..140_000).contains(&version) {
            return Err(format!("CUPTI says version {version}, and 12.x and 13.x are known"));
        }
        /// Casts an address to the type of the field that it is for.
        macro_rules! function {
            ($kind:ty, $name:literal) => {{
                let address = symbol(library, $name)?;
                // SAFETY: the function of this name in cupti_activity.h or cupti_callbacks.h takes and returns what the field says.
                unsafe { std::mem::transmute::<*mut c_void, $kind>(address) }
            }};
        }
        Ok(Self {
            version,
            subscribe: function!(Subscribe, c"cuptiSubscribe"),
            // SAFETY: as above; older libraries do not have it.
            subscribe_as: symbol(library, c"cuptiSubscribe_v2")
                .ok()
                .filter(|_| version >= 130_200)
                .map(|address| unsafe { std::mem::transmute::<*mut c_void, SubscribeAs>(address) }),
            shared: Shared::find(library, version),
            unsubscribe: function!(Unsubscribe, c"cuptiUnsubscribe"),
            enable_callback: function!(EnableCallback, c"cuptiEnableCallback"),
            register_callbacks: function!(RegisterCallbacks, c"cuptiActivityRegisterCallbacks"),
            enable: function!(Number, c"cuptiActivityEnable"),
            disable: function!(Number, c"cuptiActivityDisable"),
            next_record: function!(NextRecord, c"cuptiActivityGetNextRecord"),
            flush_all: function!(Number, c"cuptiActivityFlushAll"),
            dropped: function!(Dropped, c"cuptiActivityGetNumDroppedRecords"),
            register_clock: function!(RegisterClock, c"cuptiActivityRegisterTimestampCallback"),
            // SAFETY: `CUptiResult cuptiGetGraphNodeId(CUgraphNode, uint64_t *)` (cupti_callbacks.h).
            node_number: symbol(library, c"cuptiGetGraphNodeId")
                .ok()
                .map(|address| unsafe { std::mem::transmute::<*mut c_void, NodeNumber>(address) }),
        })
    }
}

impl Cupti {
    /// The number of a graph's node, by which records name it; 0 where CUPTI does not say.
    pub(crate) fn node_number(&self, node: *mut c_void) -> u64 {
        let mut number = 0;
        match self.node_number.map(|ask| ask(node, &raw mut number)) {
            Some(0) => number,
            _ => 0,
        }
    }
}

/// Room for a name (`CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN` is less).
const NAME_BYTES: usize = 256;

impl Cupti {
    /// Takes a place beside others, where all that are there already and the driver have it; `None` where they have not.
    pub(crate) fn subscribe_beside(&self, callback: Callback) -> Option<(*mut c_void, Shared)> {
        let shared = self.shared.filter(|_| self.version >= SINCE)?;
        self.subscribe_with(callback, 1).ok().map(|subscriber| (subscriber, shared))
    }

    /// Takes the only place for a listener. The other one has it where this fails with `TAKEN`: its name, where CUPTI says it.
    pub(crate) fn subscribe(&self, callback: Callback) -> Result<*mut c_void, (Code, String)> {
        self.subscribe_with(callback, 0)
    }

    fn subscribe_with(&self, callback: Callback, allow_multiple: u8) -> Result<*mut c_void, (Code, String)> {
        let mut subscriber = std::ptr::null_mut();
        let mut other = [0_u8; NAME_BYTES];
        let code = match self.subscribe_as {
            Some(subscribe_as) => {
                let mut params = Subscriber {
                    size: size_of::<Subscriber>(),
                    name: c"energy-trace".as_ptr(),
                    other: other.as_mut_ptr().cast(),
                    other_size: NAME_BYTES,
                    allow_multiple,
                    padding: [0; 7],
                };
                subscribe_as(&raw mut subscriber, callback, std::ptr::null_mut(), &raw mut params)
            }
            None => (self.subscribe)(&raw mut subscriber, callback, std::ptr::null_mut()),
        };
        let name = CStr::from_bytes_until_nul(&other).map(|name| name.to_string_lossy().into_owned());
        if code == 0 { Ok(subscriber) } else { Err((code, name.unwrap_or_default())) }
    }
}

fn find() -> Option<*mut c_void> {
    let open = |name: &CStr, flags: c_int| {
        // SAFETY: the text has its zero; CUPTI's own start-up code is what the program would run as well.
        let library = unsafe { libc::dlopen(name.as_ptr(), flags) };
        (!library.is_null()).then_some(library)
    };
    if let Some(given) = std::env::var(crate::LIBRARY).ok().and_then(|path| CString::new(path).ok()) {
        return open(&given, libc::RTLD_NOW);
    }
    let mapped = |name: &CStr| open(name, libc::RTLD_NOW | libc::RTLD_NOLOAD);
    if let Some(library) = NAMES.iter().find_map(|name| mapped(name)) {
        return Some(library);
    }
    let mut names = NAMES;
    if mapped(c"libcudart.so.12").is_some() {
        names.swap(0, 1);
    }
    let found = names.iter().find_map(|name| open(name, libc::RTLD_NOW));
    found.or_else(|| names.iter().find_map(|name| open(&in_toolkit(name)?, libc::RTLD_NOW)))
}

/// A file of CUPTI in the toolkit that `CUDA_HOME` or `CUDA_PATH` names, else in the usual one.
fn in_toolkit(name: &CStr) -> Option<CString> {
    let home = ["CUDA_HOME", "CUDA_PATH"].into_iter().find_map(|variable| std::env::var(variable).ok());
    let home = home.unwrap_or_else(|| "/usr/local/cuda".to_owned());
    CString::new(format!("{home}/extras/CUPTI/lib64/{}", name.to_str().ok()?)).ok()
}

/// The address of a function in a library.
pub(crate) fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the library is open and never closed, and the name has its zero.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    match address.is_null() {
        true => Err(format!("this CUPTI has no {}: it is too old", name.to_string_lossy())),
        false => Ok(address),
    }
}

fn version_of(library: *mut c_void) -> Result<u32, String> {
    let address = symbol(library, c"cuptiGetVersion")?;
    // SAFETY: `CUptiResult cuptiGetVersion(uint32_t *)` (cupti_version.h).
    let ask = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(*mut u32) -> Code>(address) };
    let mut version = 0;
    match ask(&raw mut version) {
        0 => Ok(version),
        wrong => Err(format!("CUPTI does not say its version (error {wrong})")),
    }
}
