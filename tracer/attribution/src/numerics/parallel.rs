//! The same work for each of many things, on all CPUs.
//!
//! Results come in the order of the things, whoever did them and when, so that nothing depends on the machine. Leaves out work that is shared
//! unevenly: whoever is done takes the next one.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, available_parallelism, scope};

/// Less work than so many steps is done sooner than another thread starts.
const WORTH_IT: usize = 20_000;

thread_local! {
    /// Whether this thread is one of several.
    static ONE_OF_SEVERAL: Cell<bool> = const { Cell::new(false) };
}

/// What `of` makes of each of the things, in their order; `steps` is about how much work all of it is, in steps of some ten nanoseconds.
pub(crate) fn map<T: Sync, R: Send>(things: &[T], steps: usize, of: impl Fn(&T) -> R + Sync) -> Vec<R> {
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

#[cfg(test)]
mod tests {
    use super::map;

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
