//! The same work for each of many things, on all CPUs; and two pieces of work side by side.
//!
//! Results come in the order of the things, whoever did them and when, so that nothing depends on the
//! machine. Leaves out work that is shared unevenly: whoever is done takes the next one.

use std::cell::Cell;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, available_parallelism, scope};

/// Less work than so many steps is done sooner than another thread starts.
const WORTH_IT: usize = 20_000;

thread_local! {
    /// Whether this thread is one of several.
    static ONE_OF_SEVERAL: Cell<bool> = const { Cell::new(false) };
}

/// What `of` makes of each of the things, in their order; `steps` is about how much work all of it is, in
/// steps of some ten nanoseconds.
pub fn map<'t, T: Sync, R: Send>(things: &'t [T], steps: usize, of: impl Fn(&'t T) -> R + Sync) -> Vec<R> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(things.len());
    if threads < 2 || steps < WORTH_IT || ONE_OF_SEVERAL.get() {
        return things.iter().map(of).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(things.len()));
    let work = || {
        ONE_OF_SEVERAL.set(true);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(number) else { break };
            let made = of(thing);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, made));
        }
        ONE_OF_SEVERAL.set(false);
    };
    scope(|scope| {
        for _ in 1..threads {
            // Where no thread can be had, this one does all.
            drop(Builder::new().spawn_scoped(scope, work));
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}

/// The same for each of many ranges of this length, or shorter, of the numbers below `count`.
pub fn map_ranges<R: Send>(
    count: usize,
    length: usize,
    steps: usize,
    of: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let firsts: Vec<usize> = (0..count).step_by(length.max(1)).collect();
    map(&firsts, steps, |&first| of(first..count.min(first + length)))
}

/// What two pieces of work that know nothing of each other make, side by side; each may spread over all CPUs.
pub fn both<A: Send, B>(one: impl Fn() -> A + Sync, other: impl FnOnce() -> B) -> (A, B) {
    if available_parallelism().map_or(1, NonZero::get) < 2 || ONE_OF_SEVERAL.get() {
        return (one(), other());
    }
    scope(|scope| match Builder::new().spawn_scoped(scope, &one) {
        Ok(beside) => {
            let made = other();
            (beside.join().unwrap_or_else(|panic| resume_unwind(panic)), made)
        }
        // Where no thread can be had, this one does both.
        Err(_) => (one(), other()),
    })
}

#[cfg(test)]
mod tests {
    use super::{both, map};

    /// Each gives what it makes, in its place, also beside others and within work on all CPUs.
    #[test]
    fn side_by_side() {
        let squares = |until: u64| map(&(0..until).collect::<Vec<_>>(), usize::MAX, |x| x * x);
        let (of_few, (of_more, nothing)) = both(|| squares(3), || both(|| squares(5), || ()));
        assert_eq!((of_few, of_more, nothing), (vec![0, 1, 4], vec![0, 1, 4, 9, 16], ()));
        let within = map(&[1_u64, 2], usize::MAX, |x| both(|| x + 1, || x + 2));
        assert_eq!(within, [(2, 3), (3, 4)]);
    }

    /// Results come in the order of the things, also of work within work, and of nothing nothing comes.
    #[test]
    fn in_order() {
        let things: Vec<u64> = (0..1_000).collect();
        let squares = map(&things, usize::MAX, |&thing| map(&[thing], usize::MAX, |thing| thing * thing)[0]);
        assert!(squares.iter().zip(&things).all(|(square, thing)| *square == thing * thing));
        assert_eq!(squares.len(), 1_000);
        assert!(map(&things[..0], usize::MAX, |thing| *thing).is_empty());
    }
}
