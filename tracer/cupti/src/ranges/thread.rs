//! The ranges that each thread is in, and the word that says so.
//!
//! Ranges of one thread form one path, in the order in which they began, whatever their domains: the innermost one is the last that began and
//! has not ended. A range that any thread may end (`start`) counts for the thread that began it. Leaves out names (`label`, `paths`).

use super::label::Label;
use super::paths::{more, number_of, path_of};
use super::{energy_trace_range, lock, tell};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Ranges that a thread may be in: those deeper are one.
const MOST_OPEN: usize = 64;
/// Of these, those that were started to be ended by anybody: the oldest gives way.
const MOST_STARTED: usize = 32;

/// A range that has not ended.
#[derive(Clone, Copy)]
struct Open {
    domain: usize,
    /// Its number, where anybody may end it; 0: the innermost one is ended first.
    started: u64,
    label: u64,
    /// The path that ends with it.
    path: u64,
}

/// What a thread is in.
#[derive(Default)]
struct Ranges {
    /// The number of the innermost range's path, 0: none. What the sampler reads.
    current: AtomicU64,
    open: Mutex<Stack>,
}

#[derive(Default)]
struct Stack {
    ranges: Vec<Open>,
    /// Ranges within those for which there is room.
    deeper: u64,
}

/// The threads of ranges that anybody may end.
static STARTED: Mutex<Option<HashMap<u64, Arc<Ranges>>>> = Mutex::new(None);
/// The number of the next one.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Recordings that began later than the library.
static RECORDINGS: AtomicU64 = AtomicU64::new(0);

/// A thread's own, and the recording that was told of it; it goes with the thread.
struct Own(Arc<Ranges>, Cell<u64>);

thread_local! {
    static OWN: Own = Own::new();
}

impl Own {
    fn new() -> Self {
        let own = Self(Arc::default(), Cell::new(RECORDINGS.load(Relaxed)));
        own.tell();
        own
    }

    fn ranges(&self) -> &Arc<Ranges> {
        let recording = RECORDINGS.load(Relaxed);
        if self.1.replace(recording) != recording {
            self.tell();
        }
        &self.0
    }

    fn tell(&self) {
        energy_trace_range(tell::THREAD, std::ptr::from_ref(&self.0.current) as u64, 0, 0);
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        energy_trace_range(tell::THREAD, 0, 0, 0);
        let ranges = lock(&self.0.open).map(|mut open| std::mem::take(&mut open.ranges)).unwrap_or_default();
        ranges.iter().for_each(|range| drop(forget(range.started)));
    }
}

/// A recording has begun: each thread tells it of itself when it next begins or ends a range.
pub(super) fn next_recording() {
    RECORDINGS.fetch_add(1, Relaxed);
}

/// Tells once more where this thread's word is: it is another thread after a fork.
pub(super) fn tell() {
    let _ended = OWN.try_with(Own::tell);
}

/// The calling thread begins a range; in how many it was.
pub(super) fn push(domain: usize, label: &Label) -> Option<usize> {
    OWN.try_with(|own| own.ranges().begin(domain, 0, label)).ok().flatten()
}

/// It ends the innermost one of this domain; in how many it is. `None`: it was in none.
pub(super) fn pop(domain: usize) -> Option<usize> {
    OWN.try_with(|own| own.ranges().pop(domain)).ok().flatten()
}

/// The calling thread begins a range that any thread may end by its number.
pub(super) fn start(domain: usize, label: &Label) -> u64 {
    let number = NEXT.fetch_add(1, Relaxed);
    let _ended = OWN.try_with(|own| {
        let ranges = own.ranges();
        if let Some(mut started) = lock(&STARTED) {
            started.get_or_insert_with(HashMap::new).insert(number, Arc::clone(ranges));
        }
        ranges.make_room();
        if ranges.begin(domain, number, label).is_none() {
            forget(number);
        }
    });
    number
}

/// Ends such a range.
pub(super) fn end(number: u64) {
    if let Some(ranges) = forget(number) {
        ranges.end(|open| open.started == number);
    }
}

/// Whose range it was, if it had not ended.
fn forget(number: u64) -> Option<Arc<Ranges>> {
    if number == 0 {
        return None;
    }
    lock(&STARTED)?.as_mut()?.remove(&number)
}

impl Ranges {
    fn begin(&self, domain: usize, started: u64, label: &Label) -> Option<usize> {
        let label = number_of(label);
        let mut open = lock(&self.open)?;
        let around = open.ranges.last().map_or(0, |last| last.path);
        let depth = open.ranges.len();
        if depth >= MOST_OPEN {
            if started != 0 {
                return None;
            }
            open.deeper += 1;
            self.current.store(path_of(around, more()), Relaxed);
            return Some(depth);
        }
        let path = path_of(around, label);
        open.ranges.push(Open { domain, started, label, path });
        self.current.store(path, Relaxed);
        Some(depth)
    }

    fn pop(&self, domain: usize) -> Option<usize> {
        let mut open = lock(&self.open)?;
        if open.deeper > 0 {
            open.deeper -= 1;
            if open.deeper == 0 {
                self.current.store(open.ranges.last().map_or(0, |last| last.path), Relaxed);
            }
            return Some(MOST_OPEN);
        }
        drop(open);
        self.end(|range| range.started == 0 && range.domain == domain)
    }

    /// Ends the last range of which this is true.
    fn end(&self, is_it: impl Fn(&Open) -> bool) -> Option<usize> {
        let mut open = lock(&self.open)?;
        let at = open.ranges.iter().rposition(is_it)?;
        open.ranges.remove(at);
        // The paths of those within it are others now.
        let mut path =
            at.checked_sub(1).and_then(|around| open.ranges.get(around)).map_or(0, |range| range.path);
        for range in open.ranges.iter_mut().skip(at) {
            path = path_of(path, range.label);
            range.path = path;
        }
        if open.deeper == 0 {
            self.current.store(path, Relaxed);
        }
        Some(open.ranges.len())
    }

    /// Ends the oldest range that was started, where there are as many as there may be.
    fn make_room(&self) {
        let oldest = lock(&self.open).and_then(|open| {
            let mut started = open.ranges.iter().map(|range| range.started).filter(|started| *started != 0);
            let oldest = started.next();
            oldest.filter(|_| started.count() + 1 >= MOST_STARTED)
        });
        if let Some(oldest) = oldest {
            end(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Label, MOST_OPEN, MOST_STARTED, OWN, STARTED, end, pop, push, start};
    use crate::ranges::paths::{more, number_of, path_of};
    use std::sync::atomic::Ordering::Relaxed;

    fn label(name: &str) -> Label {
        Label::new(name.as_bytes())
    }

    fn path(names: &[&str]) -> u64 {
        names.iter().fold(0, |around, name| path_of(around, number_of(&label(name))))
    }

    fn current() -> u64 {
        OWN.with(|own| own.0.current.load(Relaxed))
    }

    /// Runs on a thread of its own: ranges are a thread's.
    fn on_a_thread(run: impl FnOnce() + Send + 'static) {
        std::thread::spawn(run).join().unwrap();
    }

    /// Ranges nest, those of several domains in one path; one that ends within another leaves that one where it is. What was not begun does not end.
    #[test]
    fn nested() {
        on_a_thread(|| {
            assert_eq!((current(), pop(0)), (0, None));
            assert_eq!(
                [push(0, &label("a")), push(7, &label("b")), push(0, &label("c"))],
                [0, 1, 2].map(Some)
            );
            assert_eq!(current(), path(&["a", "b", "c"]));
            assert_eq!((pop(7), current()), (Some(2), path(&["a", "c"])));
            assert_eq!((pop(7), pop(9)), (None, None));
            assert_eq!((pop(0), current()), (Some(1), path(&["a"])));
            assert_eq!((pop(0), pop(0), current()), (Some(0), None, 0));
        });
    }

    /// A range that another thread ends is the one's that began it; ranges may overlap. A second end is none's.
    #[test]
    fn started() {
        on_a_thread(|| {
            let [a, b] = ["a", "b"].map(|name| start(0, &label(name)));
            push(0, &label("c"));
            assert_eq!(current(), path(&["a", "b", "c"]));
            on_a_thread(move || {
                push(0, &label("other"));
                end(a);
                assert_eq!(current(), path(&["other"]));
            });
            assert_eq!(current(), path(&["b", "c"]));
            end(a);
            assert_eq!(pop(0), Some(1), "a pop ends no range that was started");
            assert_eq!((pop(0), current()), (None, path(&["b"])));
            end(b);
            end(0);
            assert_eq!(current(), 0);
        });
    }

    /// Ranges that never end: what is deeper than there is room for is one, and ends as it began; of those that were started the last ones count, and nothing is
    /// kept of a thread that is gone.
    #[test]
    fn endless() {
        on_a_thread(|| {
            (0..MOST_OPEN + 100).for_each(|_| assert!(push(0, &label("a")).is_some()));
            let deepest = path(&["a"; MOST_OPEN]);
            assert_eq!(current(), path_of(deepest, more()));
            (0..100).for_each(|_| assert_eq!(pop(0), Some(MOST_OPEN)));
            assert_eq!(current(), deepest);
            (0..MOST_OPEN).for_each(|_| assert!(pop(0).is_some()));
            assert_eq!((current(), pop(0)), (0, None));
        });
        let kept = |numbers: &[u64]| {
            let started = STARTED.lock().unwrap();
            numbers.iter().filter(|number| started.as_ref().unwrap().contains_key(number)).count()
        };
        let numbers = std::thread::spawn(move || {
            let numbers: Vec<u64> = (0..1000).map(|_| start(0, &label("a"))).collect();
            assert_eq!(kept(&numbers), MOST_STARTED);
            assert_eq!(current(), path(&["a"; MOST_STARTED]));
            numbers
        });
        assert_eq!(kept(&numbers.join().unwrap()), 0);
    }
}
