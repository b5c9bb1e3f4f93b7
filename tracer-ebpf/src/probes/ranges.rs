//! Ranges that a program marks: where each thread's word is, what the numbers in it mean, and what it says now.
//!
//! The sampler looks one thread up and reads one word of its memory. All is written by a probe that a thread, a path and a label meet once, and
//! taken away with the thread. Leaves out what a program hands over (`energy-trace-cupti`).

use super::gpu_arguments::register_of;
use super::maps::{count, current, is_target, settings};
use super::user_memory::UserMemory;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::{bpf_get_attach_cookie, bpf_probe_read_user_str};
use aya_ebpf::macros::map;
use aya_ebpf::maps::HashMap;
use aya_ebpf::programs::ProbeContext;
use tracer_ebpf::arch::register;
use tracer_ebpf::memory::Memory as _;
use tracer_ebpf::ranges::marks::{MARKED, Marks};
use tracer_ebpf::ranges::{LABEL_BYTES, Path, UNREADABLE, tell};
use tracer_ebpf::wire::lost;

/// Where the word of each thread lies. User space makes the three larger where ranges are recorded.
#[map]
static RANGE_WORDS: HashMap<u32, u64> = HashMap::with_max_entries(1, 0);

#[map]
static RANGE_PATHS: HashMap<u64, Path> = HashMap::with_max_entries(1, 0);

#[map]
static RANGE_LABELS: HashMap<u64, [u8; LABEL_BYTES]> = HashMap::with_max_entries(1, 0);

/// Ranges between probes, of the threads that are in any. User space makes it larger where there are such probes.
#[map]
static RANGE_MARKS: HashMap<u32, Marks> = HashMap::with_max_entries(1, 0);

/// Of something that is there already another word is not believed.
const IF_NEW: u64 = 1;
/// `-EEXIST`.
const THERE: i32 = -17;

/// The number of the path that a thread, which is here, is in; 0: none.
#[inline(always)]
pub(super) fn path_of(tid: u32) -> u64 {
    if settings().ranges == 0 {
        return 0;
    }
    // SAFETY: the value is copied at once.
    match unsafe { RANGE_WORDS.get(&tid) } {
        Some(&path) if path & MARKED != 0 => path,
        Some(&word) => UserMemory.read_word(word).unwrap_or(UNREADABLE),
        None => 0,
    }
}

/// A thread is gone, or another program's.
#[inline(always)]
pub(super) fn forget(tid: u32) {
    if settings().ranges != 0 {
        let _absent = RANGE_WORDS.remove(&tid);
        let _absent = RANGE_MARKS.remove(&tid);
    }
}

/// A thread passes a probe that begins a range, or ends one.
#[inline(always)]
pub(crate) fn passed(ctx: &ProbeContext) {
    // SAFETY: the helper reads the context.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    let (pid, tid) = current();
    if !is_target(pid) {
        return;
    }
    let (pair, ends) = (cookie >> 1, cookie & 1 == 1);
    let Some(place) = RANGE_MARKS.get_ptr_mut(&tid) else {
        if !ends {
            begin_first(tid, pair);
        }
        return;
    };
    // SAFETY: the thread's own entry, and the thread is here.
    let marks = unsafe { &mut *place };
    if ends {
        marks.end(pair);
    } else {
        marks.begin(pair);
    }
    if marks.is_over() {
        let word = marks.word;
        let _kept = if word == 0 { RANGE_WORDS.remove(&tid) } else { RANGE_WORDS.insert(&tid, &word, 0) };
        let _absent = RANGE_MARKS.remove(&tid);
    } else {
        let _kept = RANGE_WORDS.insert(&tid, &marks.shown(), 0);
    }
}

#[inline(always)]
fn begin_first(tid: u32, pair: u64) {
    // SAFETY: the value is copied at once.
    let word = unsafe { RANGE_WORDS.get(&tid) }.copied().filter(|word| word & MARKED == 0);
    let mut marks = Marks::new(word.unwrap_or(0));
    marks.begin(pair);
    let kept = RANGE_MARKS.insert(&tid, &marks, 0).and_then(|()| RANGE_WORDS.insert(&tid, &marks.shown(), 0));
    if kept.is_err() {
        count(lost::RANGES);
    }
}

/// Where a thread's word lies; 0: it has none any more. One that is told between probes is the thread's own afterwards.
#[inline(always)]
fn keep_word(tid: u32, word: u64) {
    if word & MARKED != 0 {
        return;
    }
    if let Some(marks) = RANGE_MARKS.get_ptr_mut(&tid) {
        // SAFETY: the thread's own entry, and the thread is here.
        unsafe { (*marks).word = word };
    } else if word == 0 {
        let _absent = RANGE_WORDS.remove(&tid);
    } else if RANGE_WORDS.insert(&tid, &word, 0).is_err() {
        count(lost::RANGES);
    }
}

/// A program tells of a thread, a path or a label.
#[inline(always)]
pub(crate) fn told(ctx: &ProbeContext) {
    let (pid, tid) = current();
    if !is_target(pid) {
        return;
    }
    let [what, number, second, third, ..] = register::ARGUMENTS.map(|word| register_of(ctx, word));
    if what == tell::THREAD {
        return keep_word(tid, number);
    }
    let kept = match what {
        tell::PATH => RANGE_PATHS.insert(&number, &[second, third], IF_NEW),
        tell::LABEL => keep_label(number, second),
        _ => Ok(()),
    };
    if kept.is_err_and(|error| error != THERE) {
        count(lost::RANGES);
    }
}

#[inline(always)]
fn keep_label(number: u64, at: u64) -> Result<(), i32> {
    let mut text = [0_u8; LABEL_BYTES];
    // SAFETY: the helper checks the user address and fails rather than faults; `text` has room for so many bytes.
    let read =
        unsafe { bpf_probe_read_user_str(text.as_mut_ptr().cast(), LABEL_BYTES as u32, at as *const _) };
    if read < 0 {
        return Err(read as i32);
    }
    RANGE_LABELS.insert(&number, &text, IF_NEW)
}
