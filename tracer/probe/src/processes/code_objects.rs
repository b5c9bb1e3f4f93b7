//! The code objects of one program: what was read of each, and of which samples that is true.
//!
//! A code object may be freed and another put in its place, before it is read as well as after. A check tells one from another. The
//! probes send that of each that a sample holds for the first time; user space reads them again for every sample that it looks at. What
//! was read is true from the first moment at which its check was seen to the last one, and of no sample outside. Leaves out the
//! reading (`python_frames.rs`).

use super::object_names::ObjectNames;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::CalledOn;
use energy_trace_unwind::cpython::code::CodeObject;
use energy_trace_unwind::cpython::code_check::Check;
use foldhash::HashMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;

/// So long after a sample held a code object it is likely that one does again.
const RECENT_NS: u64 = 250_000_000;
/// Code objects that are looked at together at the most.
const MOST_RECENT: usize = 256;
/// Those that were replaced and are remembered at the most.
const MOST_REPLACED: usize = 1024;

/// Copies of the probes that are remembered at the most, as hashes.
const MOST_TOLD: usize = 4096;

/// What one is, and from when to when that is known.
#[derive(Clone)]
struct Known {
    object: Arc<CodeObject>,
    /// When a sample last held it.
    used: KtimeNs,
    /// The globals that it was read with; 0: none were known.
    globals: u64,
    since: KtimeNs,
    until: KtimeNs,
    /// Another was seen in its place: what is seen of it later says nothing of the time between.
    has_ended: bool,
}

/// What the probes saw of one that was not read yet.
struct UnreadCode {
    at: KtimeNs,
    check: Check,
    globals: u64,
}

/// Of name, file and line.
fn hash_of(object: &CodeObject) -> u64 {
    foldhash::fast::FixedState::default().hash_one(object.said())
}

impl Known {
    fn holds(&self, at: KtimeNs) -> bool {
        self.since <= at && at <= self.until
    }

    /// One that is only told of ran with these globals: with others it may be of another module.
    fn ran_with(&mut self, globals: u64) {
        if self.object.is_told() && self.globals != globals {
            self.globals = globals;
            Arc::make_mut(&mut self.object).module = None;
        }
    }
}

/// All that were met.
#[derive(Default)]
pub(crate) struct CodeObjects {
    known: HashMap<u64, Known>,
    /// What was at an address before, where a look found it gone: samples and sights from before are still to come.
    former: HashMap<u64, Known>,
    seen: HashMap<u64, UnreadCode>,
    /// Those in whose place another was seen, by address and what tells them: some take turns there, and who comes back need not be read again.
    replaced: HashMap<(u64, Check), Known>,
    /// Hashes of name, file and line as the probes copied them.
    told: HashMap<(u64, Check), u64>,
    /// One of them came back.
    takes_turns: bool,
    /// Guessed names of methods with their classes, by code object and class.
    methods: HashMap<(u64, u64), String>,
    /// On what functions were called, by code object and what the probes sent of their first variable.
    called_on: HashMap<(u64, u64), Option<CalledOn>>,
    /// Of those that are called on objects with a name.
    pub(crate) names: ObjectNames,
    /// Those that samples held lately.
    recent: Vec<u64>,
    /// Bytes of those that are known.
    bytes: usize,
}

impl CodeObjects {
    /// The probes saw this check in a sample, in which it ran with these globals. One that was only seen asleep is read again with them. True: it
    /// is still to be read.
    pub(crate) fn see(&mut self, address: u64, (check, globals): (Check, u64), at: KtimeNs) -> bool {
        self.end_others(address, &check, at);
        if let Some(known) = self.known.get_mut(&address) {
            if known.object.is_still(&check) && (known.globals != 0 || globals == 0) {
                (known.since, known.until) = (known.since.min(at), known.until.max(at));
                return false;
            }
            if self.was_still(address, (&check, globals), at) {
                return false;
            }
            self.give_way(address, &check, at);
        } else if self.was_still(address, (&check, globals), at) {
            return false;
        }
        if self.came_back(address, (check, globals), at) {
            return false;
        }
        self.seen.entry(address).or_insert(UnreadCode { at, check, globals });
        true
    }

    /// The probes saw this check at `at`: of another one, which a look or a sight found there before and after, nothing is known from then on.
    fn end_others(&mut self, address: u64, check: &Check, at: KtimeNs) {
        if self.seen.get(&address).is_some_and(|sight| sight.check != *check) {
            self.seen.remove(&address);
        }
        for other in [self.known.get_mut(&address), self.former.get_mut(&address)].into_iter().flatten() {
            if other.since <= at && !other.object.is_still(check) {
                other.has_ended = true;
                other.until = other.until.min(KtimeNs::from_ns(at.as_ns().saturating_sub(1)));
            }
        }
    }

    /// The probes saw this check at `at`: what is known is another one, or the same without its globals, which is to be read again.
    fn give_way(&mut self, address: u64, check: &Check, at: KtimeNs) {
        let Some(known) = self.forget(address) else { return };
        if known.object.is_still(check) {
            let (since, until) = (known.since.min(at), known.until.max(at));
            self.put_former(address, Known { since, until, ..known });
        } else {
            self.remember(address, known);
        }
    }

    /// Whether the one with this check, which the probes saw at `at`, was there before another one and was read then. What the probes alone told of
    /// it is its name, and it is still to be read.
    fn came_back(&mut self, address: u64, (check, globals): (Check, u64), at: KtimeNs) -> bool {
        let is_it = |former: &&Known| former.object.is_still(&check) && !former.holds(at);
        let former = self.former.get(&address).filter(is_it).cloned();
        let Some(before) = self.forget_replaced(address, check).or(former) else { return false };
        self.takes_turns = true;
        let mut known = Known { since: at, until: at, has_ended: false, ..before };
        if known.object.is_told() {
            known.ran_with(globals);
            self.put_former(address, known);
            return false;
        }
        if known.globals == 0 && globals != 0 {
            self.put_former(address, known); // Its name is known, and its module is still to be read.
            return false;
        }
        self.bytes += known.object.size();
        self.known.insert(address, known);
        true
    }

    /// Whether some code objects take turns in one place.
    pub(crate) const fn take_turns(&self) -> bool {
        self.takes_turns
    }

    /// Takes in one in whose place another is; what was read of it counts more than what the probes told.
    fn remember(&mut self, address: u64, known: Known) {
        if self.replaced.len() >= MOST_REPLACED {
            let bytes: usize = self.replaced.drain().map(|(_, known)| known.object.size()).sum();
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        let key = (address, known.object.check());
        if known.object.is_told() && self.replaced.contains_key(&key) {
            return;
        }
        self.forget_replaced(address, key.1);
        self.bytes += known.object.size();
        self.replaced.insert(key, known);
    }

    fn forget_replaced(&mut self, address: u64, check: Check) -> Option<Known> {
        let known = self.replaced.remove(&(address, check))?;
        self.bytes = self.bytes.saturating_sub(known.object.size());
        Some(known)
    }

    /// Whether what a look found gone was still there at `at`, as its check says, which the probes read then.
    fn was_still(&mut self, address: u64, (check, globals): (&Check, u64), at: KtimeNs) -> bool {
        let since = self.known.get(&address).map(|known| known.since);
        let former = self.former.get_mut(&address);
        let former = former.filter(|former| former.object.is_still(check) && !former.has_ended);
        let former = former.filter(|former| former.since <= at);
        let former = former.filter(|_| since.is_none_or(|since| at < since));
        former.is_some_and(|former| {
            former.until = former.until.max(at);
            former.ran_with(globals);
            !former.object.is_told()
        })
    }

    /// What the one that was seen at `at` says of itself, where nothing of it was read: if it is gone before that, this is its name.
    pub(crate) fn tell(&mut self, address: u64, object: CodeObject, at: KtimeNs) {
        if self.told.len() >= MOST_TOLD {
            self.told.clear();
        }
        self.told.insert((address, object.check()), hash_of(&object));
        let is_known = |known: Option<&Known>| {
            known.is_some_and(|known| known.object.is_still(&object.check()) && !known.has_ended)
        };
        if is_known(self.known.get(&address)) || is_known(self.former.get(&address)) {
            return;
        }
        let sight = self.seen.get(&address).filter(|sight| object.is_still(&sight.check));
        let globals = sight.map_or(0, |sight| sight.globals);
        let (object, used) = (Arc::new(object), KtimeNs::default());
        self.put_former(address, Known { object, used, globals, since: at, until: at, has_ended: false });
    }

    /// Names the module of a text in a stack of `at` that the probes alone told of, where a function in that stack (`all`) runs with the same
    /// globals and was read.
    pub(crate) fn name_told(&mut self, address: u64, all: impl Iterator<Item = u64>, at: KtimeNs) {
        let is_nameless = |known: &&Known| known.object.is_told() && known.object.module.is_none();
        let Some(told) = self.known_at(address, at).filter(is_nameless) else { return };
        let globals = told.globals;
        let has_them = |known: &&Known| globals != 0 && known.globals == globals;
        let mut beside = all.filter_map(|code| self.known_at(code, at)).filter(has_them);
        let named = beside.find_map(|known| told.object.told_beside(&known.object));
        if let (Some(named), Some(former)) = (named, self.former.get_mut(&address)) {
            former.object = Arc::new(named);
        }
    }

    /// The globals that the one at this address ran with, before it is read; 0: not known.
    pub(crate) fn globals(&self, address: u64) -> u64 {
        self.seen.get(&address).map_or(0, |sight| sight.globals)
    }

    /// Whether the one at this address is known and this check, read at `now`, is still its own.
    pub(crate) fn is_still(&mut self, address: u64, check: &Check, now: KtimeNs) -> bool {
        let known = self.known.get_mut(&address).filter(|known| known.object.is_still(check));
        known.map(|known| known.until = known.until.max(now)).is_some()
    }

    /// What was read at `now`, or that there was nothing to read: what was known of the address before is no longer so.
    /// What says something else than the probes copied was read in part of what came to lie there.
    pub(crate) fn put(&mut self, address: u64, object: Option<CodeObject>, now: KtimeNs) {
        let object = object.filter(|object| self.is_as_told(address, object));
        self.replace(address);
        let Some(mut object) = object else { return };
        self.takes_turns |= self.forget_replaced(address, object.check()).is_some();
        let sight = self.seen.remove(&address);
        if sight.as_ref().is_some_and(|sight| !object.is_still(&sight.check)) {
            object.module = None; // It was read with the globals of the one that was seen.
        }
        let sight = sight.filter(|sight| object.is_still(&sight.check));
        let (since, globals) = sight.map_or((now, 0), |sight| (sight.at, sight.globals));
        self.bytes += object.size();
        let used = KtimeNs::default();
        let object = Arc::new(object);
        self.known.insert(address, Known { object, used, globals, since, until: now, has_ended: false });
    }

    /// Whether it says what the probes copied, as far as that is remembered: whoever reads from outside may come while it is freed, and sees the same
    /// check before and after where the same is made there again and again.
    fn is_as_told(&self, address: u64, object: &CodeObject) -> bool {
        let told = self.told.get(&(address, object.check()));
        told.is_none_or(|told| *told == hash_of(object))
    }

    /// A sample of `at` holds the one at an address: whether it has to be looked at for that.
    pub(crate) fn must_look(&mut self, address: u64, at: KtimeNs) -> bool {
        if let Some(known) = self.known.get_mut(&address) {
            if at.ns_since(known.used) > RECENT_NS {
                self.recent.push(address);
            }
            known.used = known.used.max(at);
        }
        self.seen.contains_key(&address) || self.at(address, at).is_none_or(|object| object.is_told())
    }

    /// Those that samples of about `at` hold, each once: to look at them with others costs less than to look at each when its turn comes.
    pub(crate) fn recent(&mut self, at: KtimeNs) -> &[u64] {
        let known = &self.known;
        // One that was replaced was added again.
        self.recent.sort_unstable();
        self.recent.dedup();
        self.recent.retain(|code| known.get(code).is_some_and(|known| at.ns_since(known.used) <= RECENT_NS));
        self.recent.get(..MOST_RECENT).unwrap_or(&self.recent)
    }

    /// The same code object, more of it read.
    pub(crate) fn improve(&mut self, address: u64, object: CodeObject) {
        if let Some(known) = self.known.get_mut(&address) {
            self.bytes = (self.bytes + object.size()).saturating_sub(known.object.size());
            known.object = Arc::new(object);
        }
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.names.bytes()
    }

    /// Forgets all that was read. Functions that run on are read again.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn forget(&mut self, address: u64) -> Option<Known> {
        let known = self.known.remove(&address)?;
        self.bytes = self.bytes.saturating_sub(known.object.size());
        self.methods.retain(|&(code, _), _| code != address);
        self.called_on.retain(|&(code, _), _| code != address);
        self.names.forget(address);
        Some(known)
    }

    /// Forgets it, but that it was there.
    fn replace(&mut self, address: u64) {
        if let Some(known) = self.forget(address) {
            self.put_former(address, known);
        }
    }

    fn put_former(&mut self, address: u64, known: Known) {
        self.bytes += known.object.size();
        if let Some(older) = self.former.insert(address, known) {
            self.bytes = self.bytes.saturating_sub(older.object.size());
            self.remember(address, older);
        }
    }

    /// The one at an address, as it was last read.
    pub(crate) fn last(&self, address: u64) -> Option<&Arc<CodeObject>> {
        self.known.get(&address).map(|known| &known.object)
    }

    /// The one of a sample that was taken at `at`: `None` where another may have been in its place then.
    pub(crate) fn at(&self, address: u64, at: KtimeNs) -> Option<&Arc<CodeObject>> {
        self.known_at(address, at).map(|known| &known.object)
    }

    fn known_at(&self, address: u64, at: KtimeNs) -> Option<&Known> {
        let known = self.known.get(&address).filter(|known| known.holds(at));
        known.or_else(|| self.former.get(&address).filter(|known| known.holds(at)))
    }

    /// Whether what the probes saw at an address is this code object, or they saw nothing.
    pub(crate) fn agrees(&self, address: u64, object: &CodeObject) -> bool {
        self.seen.get(&address).is_none_or(|sight| object.is_still(&sight.check))
    }

    /// The name of a method with its class, if one was found.
    pub(crate) fn method(&self, address: u64, class: u64) -> Option<&String> {
        self.methods.get(&(address, class))
    }

    /// Takes in that name.
    pub(crate) fn put_method(&mut self, address: u64, class: u64, name: String) {
        self.methods.insert((address, class), name);
    }

    /// On what it was called, where that tells something; `None` where nobody looked yet.
    pub(crate) fn called_on(&self, address: u64, first: u64) -> Option<Option<&CalledOn>> {
        self.called_on.get(&(address, first)).map(Option::as_ref)
    }

    /// Takes in what was found of that.
    pub(crate) fn put_called_on(&mut self, address: u64, first: u64, on: Option<CalledOn>) {
        if self.called_on.insert((address, first), on).is_none() {
            self.bytes += size_of::<((u64, u64), Option<CalledOn>)>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Check, CodeObjects};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_unwind::cpython::code::CodeObject;
    use energy_trace_unwind::cpython::layout::KNOWN;
    use energy_trace_unwind::cpython::memory::Source;
    use proptest::prelude::*;
    use tracer_ebpf::wire::ToldCode;

    const PLACE: u64 = 0x4000;

    /// Memory with a code object of 3.12 whose name is `number`.
    struct Program {
        number: u8,
    }

    impl Source for Program {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            let code = KNOWN[6].code;
            let string = 0x10_0000 + u64::from(self.number) * 0x1000;
            let words = [
                (PLACE, 1),
                (PLACE + 8, 0x30_0000),
                (PLACE + code.qualname, string),
                (PLACE + code.filename, string),
                (PLACE + code.linetable, 0x20_0000),
                (0x20_0000 + code.bytes_size, 0),
                (string + code.string.length, 1),
                (string + code.string.state, 1 << 2 | 1 << 5 | 1 << 6),
                (string + code.string.ascii_data, u64::from(self.number)),
            ];
            for (place, byte) in (address..).zip(out) {
                let word = words.iter().find(|(at, _)| (*at..*at + 8).contains(&place));
                *byte = word.map_or(0, |(at, word)| word.to_le_bytes()[(place - at) as usize]);
            }
            Some(())
        }
    }

    fn object(number: u8) -> CodeObject {
        CodeObject::read(&Program { number }, &KNOWN[6].code, PLACE, 0).unwrap()
    }

    fn check(number: u8) -> Check {
        object(number).check()
    }

    /// What the probes tell of it.
    fn told(number: u8) -> CodeObject {
        let mut text = [0; 384];
        // One letter of one byte, compact and ASCII, behind length, hash and state.
        (text[0], text[16], text[24]) = (1, 1 << 2 | 1 << 5 | 1 << 6, number);
        let name = *text.first_chunk().unwrap();
        let told = ToldCode { address: PLACE, check: check(number), line: 0, name, file: text };
        CodeObject::told(&KNOWN[6].code, &told).unwrap()
    }

    /// What a look gives the sample of that moment, as the recorder does it.
    fn name_of(codes: &mut CodeObjects, at: u64, now: u64, truth_now: u8) -> Option<String> {
        let now = KtimeNs::from_ns(now);
        if !codes.is_still(PLACE, &check(truth_now), now) {
            codes.put(PLACE, Some(object(truth_now)), now);
        }
        codes.at(PLACE, KtimeNs::from_ns(at)).map(|code| code.qualname.clone())
    }

    /// A function that another one replaced before it was read has no name, with the probes' word and without.
    #[test]
    fn replaced_before_it_was_read() {
        let mut codes = CodeObjects::default();
        codes.see(PLACE, (check(b'a'), 0), KtimeNs::from_ns(10));
        assert_eq!(name_of(&mut codes, 10, 20, b'b'), None);
        assert_eq!(name_of(&mut codes, 30, 40, b'b'), Some("b".to_owned()));
        assert_eq!(name_of(&mut codes, 50, 60, b'c'), None);
    }

    /// What the probes saw holds from that sample on, not from the reading on.
    #[test]
    fn seen_and_read_late() {
        let mut codes = CodeObjects::default();
        codes.see(PLACE, (check(b'a'), 0), KtimeNs::from_ns(10));
        assert_eq!(name_of(&mut codes, 10, 1_000_000_000, b'a'), Some("a".to_owned()));
        codes.see(PLACE, (check(b'b'), 0), KtimeNs::from_ns(1_000_000_001));
        assert_eq!(codes.at(PLACE, KtimeNs::from_ns(1_000_000_001)), None);
        assert_eq!(name_of(&mut codes, 1_000_000_001, 1_000_000_002, b'b'), Some("b".to_owned()));
        assert_eq!(codes.at(PLACE, KtimeNs::from_ns(10)), None);
    }

    /// A function that was gone when somebody looked was there as long as probes read its check: samples from before keep its name, and the
    /// one that took its place has none of them.
    #[test]
    fn gone_before_a_later_look() {
        let (mut codes, at) = (CodeObjects::default(), KtimeNs::from_ns);
        assert_eq!(name_of(&mut codes, 10, 10, b'a'), Some("a".to_owned()));
        assert_eq!(name_of(&mut codes, 20, 90, b'b'), None);
        assert!(!codes.see(PLACE, (check(b'a'), 0), at(30)));
        assert_eq!(name_of(&mut codes, 25, 91, b'b'), Some("a".to_owned()));
        assert_eq!(name_of(&mut codes, 35, 92, b'b'), None);
        assert!(!codes.see(PLACE, (check(b'b'), 0), at(50)));
        assert_eq!(name_of(&mut codes, 60, 93, b'b'), Some("b".to_owned()));
        assert_eq!(name_of(&mut codes, 28, 94, b'b'), Some("a".to_owned()));
    }

    /// One that was gone before anybody read it has the name that the probes copied, for as long as samples held it; where it is read after all, it is that.
    #[test]
    fn gone_before_it_was_read() {
        let (mut codes, at) = (CodeObjects::default(), KtimeNs::from_ns);
        assert!(codes.see(PLACE, (check(b'a'), 0), at(10)));
        codes.tell(PLACE, told(b'a'), at(10));
        assert!(codes.see(PLACE, (check(b'a'), 0), at(12)) && codes.must_look(PLACE, at(12)));
        assert_eq!(name_of(&mut codes, 10, 20, b'b'), Some("a".to_owned()));
        assert_eq!(name_of(&mut codes, 12, 20, b'b'), Some("a".to_owned()));
        assert_eq!(name_of(&mut codes, 14, 20, b'b'), None);
        // Another was seen in its place: the next sight of it says nothing of the time between.
        let mut between = CodeObjects::default();
        between.tell(PLACE, told(b'a'), at(10));
        between.see(PLACE, (check(b'd'), 0), at(15));
        between.see(PLACE, (check(b'a'), 0), at(20));
        assert!(between.at(PLACE, at(20)).is_some() && between.at(PLACE, at(14)).is_none());
        codes.see(PLACE, (check(b'c'), 0), at(30));
        codes.tell(PLACE, told(b'c'), at(30));
        assert_eq!(name_of(&mut codes, 30, 40, b'c'), Some("c".to_owned()));
        assert!(!codes.at(PLACE, at(30)).unwrap().is_told());
    }

    /// A text that is gone has the module of a function that runs with the same globals in its stack, and of no other; made again with others, it has
    /// none.
    #[test]
    fn a_text_and_its_module() {
        const CALLER: u64 = PLACE + 0x100;
        let (mut codes, at) = (CodeObjects::default(), KtimeNs::from_ns);
        let mut caller = object(b'm');
        caller.own_name = Some("__main__".to_owned());
        codes.see(CALLER, (check(b'm'), 7), at(5));
        codes.put(CALLER, Some(caller), at(9));
        let mut module = |globals: u64, start: u64| {
            codes.see(CALLER, (check(b'm'), 7), at(start));
            codes.see(PLACE, (check(b'<'), globals), at(start));
            codes.tell(PLACE, told(b'<'), at(start));
            codes.name_told(PLACE, [PLACE, CALLER].into_iter(), at(start));
            codes.at(PLACE, at(start)).unwrap().module.clone()
        };
        let main = Some("__main__".to_owned());
        assert_eq!(
            [(7, 10), (7, 20), (8, 30), (7, 40)].map(|(globals, start)| module(globals, start)),
            [main.clone(), main.clone(), None, main]
        );
        assert_eq!(module(0, 50), None);
    }

    /// What was read while it was freed, and has the check of the one that is made in its place again and again, is not believed: what the probes
    /// copied is its name, and it is read once more.
    #[test]
    fn read_while_it_was_freed() {
        let (mut codes, at) = (CodeObjects::default(), KtimeNs::from_ns);
        codes.see(PLACE, (check(b'a'), 0), at(10));
        codes.tell(PLACE, told(b'a'), at(10));
        let mut torn = object(b'a');
        torn.file = "None\0\x7f".to_owned();
        codes.put(PLACE, Some(torn), at(20));
        assert_eq!(codes.at(PLACE, at(10)).map(|code| &*code.file), Some("a"));
        assert!(codes.must_look(PLACE, at(10)));
        codes.put(PLACE, Some(object(b'a')), at(30));
        assert!(!codes.at(PLACE, at(20)).unwrap().is_told());
    }

    /// Two that take turns in one place, on two CPUs each of which tells of its own once: every sample has its own name, also where the look that
    /// follows finds the other, and from then on every sample is to bring the probes' word.
    #[test]
    fn two_take_turns() {
        for told_only in [false, true] {
            let (mut codes, at) = (CodeObjects::default(), KtimeNs::from_ns);
            for (number, start) in [(b'a', 10), (b'b', 20)] {
                codes.see(PLACE, (check(number), 7), at(start));
                codes.tell(PLACE, told(number), at(start));
                let looked_at = if told_only { b'c' } else { number };
                assert_eq!(name_of(&mut codes, start, start + 1, looked_at), Some((number as char).into()));
            }
            for turn in 0..20 {
                let (number, start) = (b'a' + turn % 2, 100 + 10 * u64::from(turn));
                codes.see(PLACE, (check(number), 7), at(start));
                let there = if told_only { b'c' } else { b'b' - turn % 2 };
                let name = name_of(&mut codes, start, start + 1, there);
                assert_eq!(name, Some((number as char).into()), "{turn}");
            }
            assert!(codes.take_turns());
        }
        let mut one_after_another = CodeObjects::default();
        for number in b'a'..=b'z' {
            one_after_another.see(PLACE, (check(number), 7), KtimeNs::from_ns(u64::from(number)));
            one_after_another.put(PLACE, Some(object(number)), KtimeNs::from_ns(u64::from(number)));
        }
        assert!(!one_after_another.take_turns());
    }

    /// A function that nobody could read has no time before another one came back to its place, also where it is read later.
    #[test]
    fn read_after_another_came_back() {
        let (mut codes, at) = (CodeObjects::default(), KtimeNs::from_ns);
        codes.see(PLACE, (check(b'a'), 7), at(10));
        codes.put(PLACE, Some(object(b'a')), at(11));
        codes.see(PLACE, (check(b'b'), 7), at(20));
        codes.put(PLACE, None, at(21));
        codes.see(PLACE, (check(b'a'), 7), at(30));
        codes.put(PLACE, Some(object(b'b')), at(40));
        assert_eq!(codes.at(PLACE, at(30)).map(|code| &*code.qualname), Some("a"));
    }

    /// What samples held lately is named once, also where another object took its place, and not for long.
    #[test]
    fn recent_ones() {
        let (mut codes, at) = (CodeObjects::default(), |ms: u64| KtimeNs::from_ns(ms * 1_000_000));
        for ms in [1000, 1100, 1200] {
            codes.put(PLACE, Some(object(1)), at(ms));
            assert!(!codes.must_look(PLACE, at(ms)) && codes.must_look(PLACE, at(ms + 50)));
        }
        assert!(codes.must_look(PLACE + 8, at(1250)));
        assert_eq!(codes.recent(at(1300)), [PLACE]);
        assert!(codes.recent(at(2000)).is_empty());
    }

    /// One that is read with the globals of another, which the probes saw in its place, has no module by these.
    #[test]
    fn read_with_anothers_globals() {
        let (mut codes, at) = (CodeObjects::default(), KtimeNs::from_ns);
        let of = |number| {
            let mut object = object(number);
            object.module = Some("m".to_owned());
            object
        };
        for (seen, read, module) in [(b'a', b'b', None), (b'c', b'c', Some("m"))] {
            codes.see(PLACE, (check(seen), 7), at(10));
            codes.put(PLACE, Some(of(read)), at(11));
            assert_eq!(codes.last(PLACE).unwrap().module.as_deref(), module);
        }
    }

    /// One that was known from a sleeping thread alone is read again once its globals are known, and only then.
    #[test]
    fn read_again_with_its_globals() {
        let mut codes = CodeObjects::default();
        let time = KtimeNs::from_ns;
        codes.put(PLACE, Some(object(b'a')), time(5));
        codes.see(PLACE, (check(b'a'), 0), time(10));
        assert!(codes.last(PLACE).is_some());
        codes.see(PLACE, (check(b'a'), 0x7000), time(20));
        assert_eq!((codes.last(PLACE).is_none(), codes.globals(PLACE)), (true, 0x7000));
        codes.put(PLACE, Some(object(b'a')), time(30));
        codes.see(PLACE, (check(b'a'), 0x8000), time(40));
        assert!(codes.at(PLACE, time(20)).is_some() && codes.at(PLACE, time(40)).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        /// However often functions come back to one place and however late anybody looks, where every sample brings the probes' word and none of them
        /// tells a name: no sample gets another function's.
        #[test]
        fn never_the_name_of_one_that_comes_back(
            many in 2_u64..5,
            turn in 1_u64..30,
            mut samples in proptest::collection::vec((0_u64..1000, 0_u64..200), 1..80),
        ) {
            let truth = |at: u64| b'a' + (at / turn % many) as u8;
            samples.sort_unstable();
            let (mut codes, mut looked) = (CodeObjects::default(), 0);
            for (at, late) in samples {
                codes.see(PLACE, (check(truth(at)), 7), KtimeNs::from_ns(at));
                looked = (at + late).max(looked);
                let name = match codes.must_look(PLACE, KtimeNs::from_ns(at)) {
                    true => name_of(&mut codes, at, looked, truth(looked)),
                    false => codes.at(PLACE, KtimeNs::from_ns(at)).map(|code| code.qualname.clone()),
                };
                prop_assert!(name.clone().is_none_or(|name| name.as_bytes() == [truth(at)]), "{name:?} at {at}");
            }
        }

        /// However often functions replace each other and however late anybody looks: no sample gets another function's name.
        #[test]
        fn never_anothers_name(
            changes in proptest::collection::btree_set(0_u64..1000, 0..6),
            mut samples in proptest::collection::vec((0_u64..1000, 0_u64..200, any::<bool>()), 1..40),
        ) {
            let truth = |at: u64| b'a' + changes.range(..=at).count() as u8;
            samples.sort_unstable();
            let mut codes = CodeObjects::default();
            let mut looked = 0;
            for (at, late, fresh) in samples {
                if fresh {
                    codes.see(PLACE, (check(truth(at)), 0), KtimeNs::from_ns(at));
                }
                looked = (at + late).max(looked);
                let name = name_of(&mut codes, at, looked, truth(looked));
                prop_assert!(name.is_none_or(|name| name.as_bytes() == [truth(at)]));
            }
        }
    }
}
