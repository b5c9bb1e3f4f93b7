//! Work of a thread in turns: of those for whom there is some, the one for whom it took the shortest time so far is next.
//!
//! However many files a user's programs map, and however long these take, the files of others wait for one of them at the most. Leaves out the
//! work.

use energy_trace_model::recording::record::Owner;
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Work that comes over a channel. It ends with the channel.
pub(crate) struct FairQueue<T, Of> {
    from: Receiver<T>,
    /// For whom some work is; `None`: for all, before anything else.
    owner_of: Of,
    waiting: BTreeMap<Option<Owner>, VecDeque<T>>,
    spent: BTreeMap<Option<Owner>, Duration>,
    /// For whom work is done, and since when.
    doing: Option<(Option<Owner>, Instant)>,
}

impl<T, Of: Fn(&T) -> Option<Owner>> FairQueue<T, Of> {
    pub(crate) const fn over(from: Receiver<T>, owner_of: Of) -> Self {
        Self { from, owner_of, waiting: BTreeMap::new(), spent: BTreeMap::new(), doing: None }
    }

    fn put(&mut self, work: T) {
        self.waiting.entry((self.owner_of)(&work)).or_default().push_back(work);
    }
}

impl<T, Of: Fn(&T) -> Option<Owner>> Iterator for FairQueue<T, Of> {
    type Item = T;

    /// The next piece. What is done until it is asked for again is done for its owner.
    fn next(&mut self) -> Option<T> {
        if let Some((owner, since)) = self.doing.take() {
            *self.spent.entry(owner).or_default() += since.elapsed();
        }
        while let Ok(work) = self.from.try_recv() {
            self.put(work);
        }
        if self.waiting.is_empty() {
            let work = self.from.recv().ok()?;
            self.put(work);
        }
        let spent = |owner: &Option<Owner>| (owner.is_some(), self.spent.get(owner).copied());
        let owner = self.waiting.keys().copied().min_by_key(spent)?;
        let work = self.waiting.get_mut(&owner)?;
        let next = work.pop_front();
        if work.is_empty() {
            self.waiting.remove(&owner);
        }
        self.doing = Some((owner, Instant::now()));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::{FairQueue, Owner};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const ALL: u32 = u32::MAX;

    /// Work for whom nothing was done yet comes before that of a user who has waited longer with more of it; nothing is left out, and what comes
    /// later has its turn.
    #[test]
    fn who_took_least_is_next() {
        let (to, from) = channel();
        let mut turns =
            FairQueue::over(from, |&(uid, _): &(u32, u32)| (uid != ALL).then(|| Owner::of_user(uid)));
        let send =
            |uid, numbers: std::ops::Range<u32>| numbers.for_each(|number| to.send((uid, number)).unwrap());
        send(1, 0..100);
        assert_eq!(turns.next(), Some((1, 0)));
        std::thread::sleep(Duration::from_millis(20));
        send(2, 0..1);
        assert_eq!(turns.next(), Some((2, 0)));
        send(0, 0..2);
        send(ALL, 0..1);
        assert_eq!([0, 1].map(|_| turns.next().unwrap().0), [ALL, 0]);
        drop(to);
        assert_eq!(turns.count(), 99 + 1);
    }
}
