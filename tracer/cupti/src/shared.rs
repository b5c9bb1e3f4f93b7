//! CUPTI beside other profilers: where the library and the driver have it (CUDA 13.3, r610; CUPTI's documentation, "Multiple Subscribers"), each
//! subscriber has records of its own through functions of another form (`…_v2`).
//!
//! Every subscriber must ask for company; one that asks for the whole, or in the old way, keeps the others out. Leaves out graphs as wholes:
//! while another subscriber has these recorded, CUPTI records no nodes for anybody.

use crate::cupti::{Code, NextRecord, symbol};
use std::ffi::c_void;

/// The first version whose company is more than a trial.
pub(crate) const SINCE: u32 = 130_300;
/// The first version in which each subscriber has its own clock; before that one clock is everybody's.
const OWN_CLOCK_SINCE: u32 = 130_400;
/// `CUPTI_ACTIVITY_ATTR_TIMESTAMP_CALLBACK`.
const CLOCK: u32 = 22;

/// `CUpti_BuffersCallbackRequestFunc_v2`.
pub(crate) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *const c_void);
/// `CUpti_BuffersCallbackCompleteFunc_v2`.
pub(crate) type Complete = extern "C" fn(*mut u8, usize, usize, *const c_void);

type Register = extern "C" fn(*mut c_void, Request, Complete) -> Code;
type OfKind = extern "C" fn(*mut c_void, u32, *mut c_void) -> Code;
type OwnNextRecord = extern "C" fn(*mut c_void, *mut u8, usize, *mut *mut u8) -> Code;
type OwnDropped = extern "C" fn(*mut c_void, *mut c_void, u32, *mut usize) -> Code;
type SetAttribute = extern "C" fn(*mut c_void, u32, *mut usize, *mut c_void) -> Code;
type OwnTimestamp = extern "C" fn(*mut c_void, *mut u64) -> Code;
type Timestamp = extern "C" fn(*mut u64) -> Code;

/// The functions for a subscriber among several.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    version: u32,
    pub(crate) register: Register,
    enable: OfKind,
    disable: OfKind,
    next_record: Option<OwnNextRecord>,
    dropped: Option<OwnDropped>,
    set_attribute: SetAttribute,
    own_timestamp: Option<OwnTimestamp>,
    timestamp: Timestamp,
}

/// The function of this name, as the type of the field that it is for.
macro_rules! function {
    ($library:ident, $kind:ty, $name:literal) => {
        symbol($library, $name).ok().map(|address| {
            // SAFETY: the function of this name in cupti_activity.h of 13.2 to 13.5 takes and returns what the type says.
            unsafe { std::mem::transmute::<*mut c_void, $kind>(address) }
        })
    };
}

impl Shared {
    /// The functions of a library; `None` where it keeps everybody but one out.
    pub(crate) fn find(library: *mut c_void, version: u32) -> Option<Self> {
        let functions = Self {
            version,
            register: function!(library, Register, c"cuptiActivityRegisterCallbacks_v2")?,
            enable: function!(library, OfKind, c"cuptiActivityEnable_v2")?,
            disable: function!(library, OfKind, c"cuptiActivityDisable_v2")?,
            next_record: function!(library, OwnNextRecord, c"cuptiActivityGetNextRecord_v2"),
            dropped: function!(library, OwnDropped, c"cuptiActivityGetNumDroppedRecords_v2"),
            set_attribute: function!(library, SetAttribute, c"cuptiActivitySetAttribute_v2")?,
            own_timestamp: function!(library, OwnTimestamp, c"cuptiGetTimestamp_v2"),
            timestamp: function!(library, Timestamp, c"cuptiGetTimestamp")?,
        };
        (version >= SINCE).then_some(functions)
    }

    /// Asks for records of a kind, or no more for them.
    pub(crate) fn enable(&self, subscriber: *mut c_void, kind: u32, on: bool) -> Code {
        let ask = if on { self.enable } else { self.disable };
        ask(subscriber, kind, std::ptr::null_mut())
    }

    /// The record behind another one; `plain` where the library has no function for one subscriber.
    pub(crate) fn next(
        &self,
        subscriber: *mut c_void,
        (buffer, valid): (*mut u8, usize),
        record: *mut *mut u8,
        plain: NextRecord,
    ) -> Code {
        match self.next_record {
            Some(next) => next(subscriber, buffer, valid, record),
            None => plain(buffer, valid, record),
        }
    }

    /// How many of this subscriber's records were dropped since the last call; `None` where that is not known.
    pub(crate) fn dropped(&self, subscriber: *mut c_void) -> Option<u64> {
        let mut dropped = 0;
        let code = self.dropped?(subscriber, std::ptr::null_mut(), 0, &raw mut dropped);
        (code == 0).then_some(dropped as u64)
    }

    /// Puts this subscriber's records on a clock; false where there is one for all, which is not ours to change.
    pub(crate) fn set_clock(&self, subscriber: *mut c_void, mut clock: extern "C" fn() -> u64) -> bool {
        let mut size = size_of::<extern "C" fn() -> u64>();
        self.version >= OWN_CLOCK_SINCE
            && (self.set_attribute)(subscriber, CLOCK, &raw mut size, (&raw mut clock).cast()) == 0
    }

    /// Now, on the clock that records are on.
    pub(crate) fn now(&self, subscriber: *mut c_void) -> Option<u64> {
        let mut now = 0;
        let code = match self.own_timestamp {
            Some(own) => own(subscriber, &raw mut now),
            None => (self.timestamp)(&raw mut now),
        };
        (code == 0).then_some(now)
    }
}
