//! Code objects that a CPU's samples, or its waits, held before, and what tells user space which ones those were that none held.
//!
//! A code object may be freed and another put in its place before user space comes to read it. So the first sample that holds one brings
//! along what tells it from others (`code_check`), and what is read later counts for that sample only where that is the same. For a while
//! after, as in an import, every sample brings that of all its code objects: one that is remembered may be another by now, which is new then. User
//! space is woken, soon, for new ones only: that costs the target several microseconds, an interrupt that the CPU sends to itself. What is
//! remembered wrongly all the same user space finds at its next look, a tenth of a second later at most; where the process is gone by then, its
//! last word is that of the last sample that brought all along, which one does a hundred times a second. Of new ones name, file and line come
//! along too: they are what is known of a code object that is gone before it is read.

use super::rings::{NO_WAKEUP, Ring, output};
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use core::arch::asm;
use tracer_ebpf::code_check::{
    CheckPlaces, FIELDS, Fields, HEAD_BYTES, LastFile, Said, Text, Words, code_check, own_check, read_text,
};
use tracer_ebpf::memory::{FRAME_WORDS, Memory};
use tracer_ebpf::wire::{CODE_WORDS, EventHead, MAX_FRESH_CODES, MAX_TOLD_CODES, ToldCode, kind};

/// Code objects that are kept: a power of two.
const SLOTS: usize = 2048;
/// Places that a code object may have, next to each other.
const WAYS: usize = 4;
/// Code objects that are kept where every sample passes by anyway: a power of two.
const RECENT: usize = 64;
/// A per-CPU map takes values of up to 32 KiB (`PCPU_MIN_UNIT_SIZE`).
const _: () = assert!(size_of::<SeenCodes>() <= 32 << 10);
const _: () = assert!(SLOTS.is_power_of_two() && WAYS.is_power_of_two() && RECENT.is_power_of_two());
/// How long nothing is taken to be as it was after something new.
const RESTLESS_NS: u64 = 50_000_000;
/// How often a sample looks whether its code objects are those that are remembered, by their own fields: a read of memory for each.
const LOOK_EVERY_NS: u64 = 10_000_000;
/// How often a sample brings all its code objects along, whatever is remembered of them: three reads for each, and an event.
const ALL_EVERY_NS: u64 = 100_000_000;
/// How often a sample looks at the classes of all first variables, whoever asked for them: each costs two reads of memory.
const CLASSES_EVERY_NS: u64 = 100_000_000;
/// User space is woken so often at most: code objects may be freed soon after they ran (modules while they are imported), and must be read
/// before. Every few milliseconds is enough, and costs little at any sampling rate.
const WAKE_EVERY_NS: u64 = 3_000_000;

/// What every sample touches of this: few bytes, beside what else it does.
#[repr(C)]
pub(crate) struct RecentCodes {
    /// How many code objects the sample in the making brings along.
    fresh: u64,
    /// Of how many of them the texts.
    told: u64,
    /// 1: one of them was not remembered.
    new: u64,
    /// When that last was so.
    new_ns: u64,
    /// What is believed of what is remembered: see `trust`.
    trust: u64,
    /// 1: one of them was looked at.
    looked: u64,
    /// When the sample in the making began, when one last looked at its code objects, and when one last brought all along.
    now_ns: u64,
    looked_ns: u64,
    all_ns: u64,
    /// When a sample last looked at all classes for no other reason.
    classes_ns: u64,
    /// When user space was last woken for one. Here, and not with what a switch writes: a sample may come in the middle of that.
    woke_ns: u64,
    /// Which of its places the next new one takes.
    turn: u64,
    /// Of the code object that this sample brought along last.
    last_file: LastFile,
    /// Some of what is remembered: a place has one of the code objects that could have it, the latest.
    latest: [u64; RECENT],
    /// When a sample last brought that one along: a function that calls itself a thousand times is brought along once a sample, and leaves
    /// room for its callers.
    brought_ns: [u64; RECENT],
}

/// The code objects that one CPU remembers.
#[repr(C)]
pub(crate) struct SeenCodes {
    /// Half of each is where it was, the other half what told it from others there.
    slots: [u64; SLOTS],
    /// What is sent of new ones: a head, then address, what tells it from others, and globals of each.
    head: EventHead,
    words: [u64; MAX_FRESH_CODES * CODE_WORDS],
    /// The one that is looked at, what is read of it, and what tells it from others by that.
    code: u64,
    read: Words,
    check: [u64; 2],
    /// What is read of a string, and what it says.
    text: Words,
    said: Said,
    /// What is sent of those that are new: a head, then what they say.
    told_head: EventHead,
    told: [ToldCode; MAX_TOLD_CODES],
}

/// What a sample believes of what is remembered.
mod trust {
    /// All.
    pub(super) const ALL: u64 = 0;
    /// What looks the same by its own fields.
    pub(super) const LOOKED_AT: u64 = 1;
    /// Nothing: all are brought along.
    pub(super) const NONE: u64 = 2;
}

impl RecentCodes {
    /// A sample begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self, now: u64) {
        if self.fresh != 0 && self.trust == trust::NONE {
            self.all_ns = self.now_ns;
        }
        if self.looked != 0 {
            self.looked_ns = self.now_ns;
        }
        (self.fresh, self.told, self.looked) = (0, 0, 0);
        self.last_file = LastFile::default();
        if self.new != 0 {
            self.new_ns = now;
        }
        self.new = 0;
        let is_due = now.wrapping_sub(self.all_ns) >= ALL_EVERY_NS;
        self.trust = if is_due || now.wrapping_sub(self.new_ns) < RESTLESS_NS {
            trust::NONE
        } else if now.wrapping_sub(self.looked_ns) >= LOOK_EVERY_NS {
            trust::LOOKED_AT
        } else {
            trust::ALL
        };
        self.now_ns = now;
    }

    /// The sample that began brings all along, if `all` is true, whatever is remembered.
    #[inline(always)]
    pub(crate) fn bring_all(&mut self, all: bool) {
        if all {
            self.trust = trust::NONE;
        }
    }

    /// 1: the sample that begins is to look at the classes of all first variables: something was new lately, or the last time is long ago.
    #[inline(always)]
    pub(crate) fn looks_at_classes(&mut self) -> u64 {
        let is_due = self.now_ns.wrapping_sub(self.classes_ns) >= CLASSES_EVERY_NS;
        if is_due {
            self.classes_ns = self.now_ns;
        }
        u64::from(is_due || self.now_ns.wrapping_sub(self.new_ns) < RESTLESS_NS)
    }

    /// Whether user space is to be woken: the sample held a new one, and the last time is long enough ago.
    #[inline(always)]
    pub(crate) fn wakes(&mut self, now: u64) -> bool {
        let wakes = self.new != 0 && now.wrapping_sub(self.woke_ns) >= WAKE_EVERY_NS;
        if wakes {
            self.woke_ns = now;
        }
        wakes
    }

    /// Remembers a code object of a program (`program`) in a process, which runs with these globals. `is_same` has `SeenCodes::is_same` done
    /// for it, `look` `SeenCodes::look`, `tell` `SeenCodes::tell`.
    #[inline(always)]
    pub(crate) fn add(
        &mut self,
        seen: &mut SeenCodes,
        (code, globals): (u64, u64),
        (pid, program): (u32, u32),
        (is_same, look, tell): (impl FnOnce(u64, u32) -> bool, impl FnOnce(u64), impl FnOnce()),
    ) {
        if code == 0 {
            return; // A shim.
        }
        let key = key_of(code, (pid, program));
        let mixed = mix(key);
        let recent = recent_place(mixed);
        if *at(&mut self.latest, recent) == key
            && (self.trust == trust::ALL || *at(&mut self.brought_ns, recent) == self.now_ns)
        {
            return;
        }
        let (place, known) = seen.place(mixed, self.turn);
        if known {
            *at(&mut self.latest, recent) = key;
        }
        if known && self.trust != trust::NONE {
            self.looked |= self.trust;
            if self.trust == trust::ALL || is_same(code, *seen.slot(place) as u32) {
                *at(&mut self.brought_ns, recent) = self.now_ns;
                return;
            }
        }
        let Some(check) = self.keep(seen, (code, globals), look) else { return };
        *at(&mut self.latest, recent) = key;
        *at(&mut self.brought_ns, recent) = self.now_ns;
        let slot = seen.slot(place);
        let now = mixed >> 32 << 32 | u64::from(check);
        if *slot == now {
            return;
        }
        *slot = now;
        self.turn += 1;
        self.new = 1;
        tell();
    }

    /// What is remembered of a code object after `add`: where it is, and what tells it from others there. Of one for which there was no room: the
    /// time, as it may be any.
    #[inline(always)]
    pub(crate) fn identity(&self, seen: &mut SeenCodes, code: u64, process: (u32, u32)) -> u64 {
        if code == 0 {
            return 0;
        }
        match seen.place(mix(key_of(code, process)), self.turn) {
            (place, true) => *seen.slot(place),
            (_, false) => self.now_ns,
        }
    }

    /// Takes a new one along, and gives what tells it from others; `None` where there is no room left: a later sample brings it.
    #[inline(always)]
    fn keep(
        &mut self,
        seen: &mut SeenCodes,
        (code, globals): (u64, u64),
        look: impl FnOnce(u64),
    ) -> Option<u32> {
        let mut at = self.fresh;
        if at >= MAX_FRESH_CODES as u64 {
            return None;
        }
        look(code);
        // SAFETY: a field of its own; volatile, for the function wrote it behind the back of any reference.
        let check = unsafe { core::ptr::read_volatile(&raw const seen.check) };
        // SAFETY: a mask that changes nothing; hidden from the compiler so that it stays where the verifier needs it.
        unsafe { asm!("{0} &= 127", inout(reg) at) };
        // SAFETY: the mask keeps it below MAX_FRESH_CODES.
        let place = unsafe { seen.words.as_mut_ptr().add(at as usize * CODE_WORDS) };
        // SAFETY: the place has room for CODE_WORDS words.
        unsafe { place.cast::<[u64; CODE_WORDS]>().write([code, check[0], check[1], globals]) };
        self.fresh += 1;
        Some(short_check(check))
    }

    /// Sends what was taken along, before its sample; what finds no room is counted as `what`.
    #[inline(always)]
    pub(crate) fn send<R: Ring>(&self, seen: &mut SeenCodes, sample: EventHead, what: u32) {
        if self.fresh == 0 {
            return;
        }
        seen.head = EventHead { kind: kind::CODES, ..sample };
        let words = self.fresh * CODE_WORDS as u64 & 1023;
        let bytes = size_of::<EventHead>() as u64 + words * 8;
        if bytes > (size_of::<EventHead>() + MAX_FRESH_CODES * CODE_WORDS * 8) as u64 {
            return;
        }
        // SAFETY: head and words lie next to each other in the map's value, and hold `bytes`.
        unsafe { output::<R>((&raw mut seen.head).cast(), bytes, NO_WAKEUP, what) };
        self.send_told::<R>(seen, what);
    }

    /// A function of its own, for the stack of who walks.
    #[inline(never)]
    fn send_told<R: Ring>(&self, seen: &mut SeenCodes, what: u32) {
        if self.told == 0 {
            return;
        }
        seen.told_head = EventHead { kind: kind::TOLD, ..seen.head };
        let mut bytes = size_of::<EventHead>() as u64 + self.told * size_of::<ToldCode>() as u64;
        // SAFETY: a mask that changes nothing, for the verifier; hidden from the compiler, which knows that.
        unsafe { asm!("{0} &= 16383", inout(reg) bytes) };
        if bytes > (size_of::<EventHead>() + MAX_TOLD_CODES * size_of::<ToldCode>()) as u64 {
            return;
        }
        // SAFETY: as above.
        unsafe { output::<R>((&raw mut seen.told_head).cast(), bytes, NO_WAKEUP, what) };
    }
}

/// A code object of a program in a process.
#[inline(always)]
fn key_of(code: u64, (pid, program): (u32, u32)) -> u64 {
    code ^ u64::from(pid) << 44 ^ u64::from(program).rotate_right(12)
}

/// Its hash: 2^64 divided by the golden ratio (Knuth, TAOCP vol. 3, 6.4).
#[inline(always)]
fn mix(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What is remembered of what tells a code object from others: in its upper half what its own fields say.
#[inline(always)]
fn short_check([own, texts]: [u64; 2]) -> u32 {
    (own >> 48 << 16 | texts >> 48) as u32
}

/// The place of a code object among the latest.
#[inline(always)]
fn recent_place(mixed: u64) -> u64 {
    mixed >> (64 - RECENT.trailing_zeros())
}

/// What stands at a place of the latest.
#[inline(always)]
fn at(words: &mut [u64; RECENT], mut place: u64) -> &mut u64 {
    // SAFETY: a mask that changes nothing; hidden from the compiler so that it stays where the verifier needs it.
    unsafe { asm!("{0} &= {1}", inout(reg) place, const RECENT - 1) };
    // SAFETY: the mask keeps it below RECENT.
    unsafe { &mut *words.as_mut_ptr().add(place as usize) }
}

/// Copies a string from its length on, as much as there is room for; false where it cannot be read.
#[inline(always)]
fn copy_text<const ROOM: usize>(
    (places, memory): (CheckPlaces, &impl Memory),
    at: u64,
    head: &mut Words,
    out: &mut [u8; ROOM],
) -> bool {
    let from = at.wrapping_add(u64::from(places.text));
    if !memory.read_frame(from, HEAD_BYTES, head) {
        return false;
    }
    let all = Text::bytes(places, head);
    let mut bytes = if all > ROOM as u64 { ROOM as u64 } else { all };
    // SAFETY: a mask that changes nothing, for the verifier; hidden from the compiler, which knows that.
    unsafe { asm!("{0} &= 511", inout(reg) bytes) };
    if bytes > ROOM as u64 {
        return false;
    }
    // SAFETY: the helper checks the user address and fails rather than faults; `out` has room for `bytes`.
    unsafe { bpf_probe_read_user(out.as_mut_ptr().cast(), bytes as u32, from as *const _) == 0 }
}

impl SeenCodes {
    /// Whether the own fields of a code object say what is remembered of it (`short_check`).
    #[inline(always)]
    pub(crate) fn is_same(
        &mut self,
        code: u64,
        remembered: u32,
        (places, memory): (CheckPlaces, &impl Memory),
    ) -> bool {
        own_check(places, code, &mut self.read, memory)
            .is_some_and(|own| short_check([own, 0]) >> 16 == remembered >> 16)
    }

    /// Finds what tells a code object from others; what cannot be read is none. `say` has `say` below done for a string, and gives its answer.
    #[inline(always)]
    pub(crate) fn look(
        &mut self,
        recent: &mut RecentCodes,
        code: u64,
        (places, memory): (CheckPlaces, &impl Memory),
        say: impl Fn(u64) -> bool,
    ) {
        self.code = code;
        let said = &raw const self.said;
        // SAFETY: a field of its own; volatile, for the function wrote it behind the back of any reference.
        let say = |text| say(text).then(|| unsafe { core::ptr::read_volatile(said) });
        let read = (&mut self.read, &mut recent.last_file);
        self.check = code_check(places, code, read, memory, say).unwrap_or([0; 2]);
    }

    /// Finds what a string says; whether it could be read.
    #[inline(always)]
    pub(crate) fn say(&mut self, places: CheckPlaces, text: u64, memory: &impl Memory) -> bool {
        let said = read_text(places, text, &mut self.text, memory);
        said.map(|said| self.said = said).is_some()
    }

    /// Takes along what the code object says that `look` looked at last, where there is room.
    #[inline(always)]
    pub(crate) fn tell(&mut self, recent: &mut RecentCodes, (places, memory): (CheckPlaces, &impl Memory)) {
        let mut at = recent.told;
        if at >= MAX_TOLD_CODES as u64 || self.check == [0; 2] {
            return;
        }
        // SAFETY: a mask that changes nothing; hidden from the compiler so that it stays where the verifier needs it.
        unsafe { asm!("{0} &= {1}", inout(reg) at, const MAX_TOLD_CODES - 1) };
        // SAFETY: the mask keeps it below MAX_TOLD_CODES.
        let told = unsafe { &mut *self.told.as_mut_ptr().add(at as usize) };
        (told.address, told.check, told.line) = (self.code, self.check, Fields::line(places, &self.read));
        let file = self.read[usize::from(places.file >> 3) & (FRAME_WORDS - 1)];
        let read = copy_text((places, memory), self.read[FIELDS - 2], &mut self.text, &mut told.name)
            && copy_text((places, memory), file, &mut self.text, &mut told.file);
        recent.told += u64::from(read);
    }

    /// Where a code object is remembered, and true; else the place that is to be its own.
    #[inline(always)]
    fn place(&mut self, mixed: u64, turn: u64) -> (u64, bool) {
        let first = mixed >> (64 - SLOTS.trailing_zeros()) & !(WAYS as u64 - 1);
        for way in 0..WAYS as u64 {
            if *self.slot(first + way) >> 32 == mixed >> 32 {
                return (first + way, true);
            }
        }
        (first + (turn & (WAYS as u64 - 1)), false)
    }

    #[inline(always)]
    fn slot(&mut self, mut place: u64) -> &mut u64 {
        // SAFETY: a mask that changes nothing; hidden from the compiler so that it stays where the verifier needs it.
        unsafe { asm!("{0} &= {1}", inout(reg) place, const SLOTS - 1) };
        // SAFETY: the mask keeps it below SLOTS.
        unsafe { &mut *self.slots.as_mut_ptr().add(place as usize) }
    }
}
