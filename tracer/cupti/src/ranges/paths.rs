//! Numbers of labels and of paths of ranges, each told to the probe once.
//!
//! A number is a hash of the names, so that it is the same in all processes. There are so many in a process; a name beyond that is `MORE`, and
//! what runs in it is seen as such. Leaves out which path a thread is in (`thread`).

use super::label::{Label, MORE};
use super::{energy_trace_range, lock, tell};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Mutex;

/// Labels and paths of a process, each.
const MOST: usize = 4096;
/// The numbers that a thread has last seen told: a power of two.
const CACHED: usize = 256;
/// Below it numbers mean something else.
const FIRST: u64 = 16;
/// No number has it: by it the probes tell ranges between static probes apart (`tracer-ebpf`, `marks::MARKED`).
const MARKED: u64 = 1 << 63;
/// The constant of `FxHash` (Firefox, rustc).
const MULTIPLIER: u64 = 0x51_7c_c1_b7_27_22_0a_95;

/// What was told, by its number: names, and paths by the one around and the name.
#[derive(Clone, Default)]
struct Told {
    labels: HashMap<u64, Label>,
    paths: HashMap<u64, [u64; 2]>,
}

static TOLD: Mutex<Option<Told>> = Mutex::new(None);

thread_local! {
    static CACHE: [Cell<u64>; CACHED] = const { [const { Cell::new(0) }; CACHED] };
}

/// The number of a label: that of `MORE` where it finds no room.
pub(super) fn number_of(label: &Label) -> u64 {
    let number = label_number(label);
    let tell = |label: &Label| tell_label(number, label);
    let known = is_cached(number) || is_told(number, *label, |told| &mut told.labels, tell);
    if known { number } else { more() }
}

/// The number of the path of a label's range within another path (0: none); that of `MORE` alone where it finds no room.
pub(super) fn path_of(around: u64, label: u64) -> u64 {
    let path = path_number(around, label);
    let tell = |of: &[u64; 2]| tell_path(path, *of);
    let known = is_cached(path) || is_told(path, [around, label], |told| &mut told.paths, tell);
    if known { path } else { path_of_more() }
}

/// Tells all of it to a recording that has begun since.
pub(super) fn tell_again() {
    // Others are not kept waiting meanwhile: what they add is heard as it comes.
    let Some(told) = lock(&TOLD).and_then(|told| told.clone()) else { return };
    told.labels.iter().for_each(|(&number, label)| tell_label(number, label));
    told.paths.iter().for_each(|(&path, &of)| tell_path(path, of));
    let more = Label::new(MORE.as_bytes());
    let number = label_number(&more);
    tell_label(number, &more);
    tell_path(path_number(0, number), [0, number]);
}

/// The label that stands for others. It is told whatever the room.
pub(super) fn more() -> u64 {
    let label = Label::new(MORE.as_bytes());
    let number = label_number(&label);
    if !is_cached(number) {
        tell_label(number, &label);
        cache(number);
    }
    number
}

fn path_of_more() -> u64 {
    let label = more();
    let path = path_number(0, label);
    if !is_cached(path) {
        tell_path(path, [0, label]);
        cache(path);
    }
    path
}

fn tell_label(number: u64, label: &Label) {
    energy_trace_range(tell::LABEL, number, label.address(), 0);
}

fn tell_path(path: u64, [around, label]: [u64; 2]) {
    energy_trace_range(tell::PATH, path, around, label);
}

/// Whether a number was told, now or before; not where there is no room, or nobody can say.
fn is_told<T>(
    number: u64,
    what: T,
    of: impl FnOnce(&mut Told) -> &mut HashMap<u64, T>,
    tell: impl FnOnce(&T),
) -> bool {
    let Some(mut all) = lock(&TOLD) else { return false };
    let numbers = of(all.get_or_insert_with(Told::default));
    if !numbers.contains_key(&number) {
        if numbers.len() >= MOST {
            return false;
        }
        tell(numbers.entry(number).or_insert(what));
    }
    cache(number);
    true
}

/// Whether this thread knows that a number was told.
fn is_cached(number: u64) -> bool {
    CACHE.try_with(|cache| cache.get(place(number)).is_some_and(|cell| cell.get() == number)).unwrap_or(false)
}

fn cache(number: u64) {
    let _ended = CACHE.try_with(|cache| cache.get(place(number)).map(|cell| cell.set(number)));
}

const fn place(number: u64) -> usize {
    number as usize % CACHED
}

fn label_number(label: &Label) -> u64 {
    finish(label.bytes().chunks(8).fold(MULTIPLIER, |hash, bytes| mix(hash, word(bytes))))
}

fn path_number(around: u64, label: u64) -> u64 {
    finish(mix(mix(MULTIPLIER.rotate_left(1), around), label))
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER)
}

/// The high bits go into the low ones, which tell numbers apart in tables. The highest tells ranges between probes apart.
fn finish(hash: u64) -> u64 {
    let number = (hash ^ hash >> 32) & !MARKED;
    if number < FIRST { number + FIRST } else { number }
}

#[cfg(test)]
mod tests {
    use super::{FIRST, Label, MARKED, MOST, more, number_of, path_number, path_of};
    use std::collections::HashSet;

    /// Names and places have numbers of their own, the same each time, up to a limit; what lies beyond it has one for all.
    #[test]
    fn numbers() {
        let [a, b] = ["a", "b"].map(|name| number_of(&Label::new(name.as_bytes())));
        let some = [path_of(0, a), path_of(0, b), path_of(path_of(0, a), b), path_of(path_of(0, b), a), a, b];
        assert_eq!(some.iter().collect::<HashSet<_>>().len(), some.len());
        assert!(some.iter().all(|&number| number >= FIRST));
        let all = (0..64).map(|label| path_number(0, label));
        assert!(all.into_iter().all(|number| number & MARKED == 0));
        assert_eq!(number_of(&Label::new(b"a")), a);
        let many = || (0..2 * MOST).map(|number| number_of(&Label::new(number.to_string().as_bytes())));
        let first: Vec<u64> = many().collect();
        assert_eq!(first, many().collect::<Vec<_>>(), "a name keeps its number");
        assert!(first.iter().collect::<HashSet<_>>().len() <= MOST + 1);
        assert_eq!(first.last(), Some(&more()));
        let paths: HashSet<u64> = (0..2 * MOST as u64).map(|around| path_of(around + FIRST, a)).collect();
        assert!(paths.len() <= MOST + 1, "{}", paths.len());
        assert_eq!(path_of(0, a), some[0], "what has room keeps it");
    }
}
