//! How long answers about a user's processes are waited for.
//!
//! Each answer that does not come halves the time for the next one of the same user, and four that are awaited are enough at once. A user whose
//! processes were given up too often is asked about no more. What others do shortens nobody's time below a millisecond. Answers that come cost time as
//! well: while other users' files are asked for, one user's may take a part of the time and waits then. Leaves out the waiting.

use super::client::Unanswered;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Answers of one user that may be awaited at once, and processes that may be given up for one user.
const MOST_AWAITED: u32 = 4;
const MOST_GIVEN_UP: u32 = 8;
/// Halvings at the most; those of all users together count a quarter.
const MOST_HALVINGS: u32 = 5;

/// What one user's files may take before they wait for those of others, and the part of the time that they may take from then on.
const CREDIT: Duration = Duration::from_millis(500);
const SHARE: u32 = 4;
/// So long after another user's files were asked for there is another user.
const BESIDE: Duration = Duration::from_secs(1);

/// What one user's files took.
#[derive(Clone, Copy, Debug)]
struct UserCost {
    time: Duration,
    /// When the user's files were asked for first, and last.
    since: Instant,
    asked: Instant,
}

/// What one user's processes have cost.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    awaited: u32,
    given_up: u32,
}

/// The users whose processes let somebody wait.
#[derive(Debug, Default)]
pub(super) struct Owners {
    records: HashMap<u32, Record>,
    taken: HashMap<u32, UserCost>,
}

impl Owners {
    /// Nobody let anybody wait: nobody's owner need be looked up.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How long an answer is waited for that is worth so much.
    ///
    /// # Errors
    /// Where it is not asked for: now, or any more.
    pub(super) fn patience(&self, owner: u32, worth: Duration) -> Result<Duration, Unanswered> {
        let own = self.records.get(&owner).copied().unwrap_or_default();
        if own.given_up >= MOST_GIVEN_UP {
            return Err(Unanswered::Refused);
        }
        if own.awaited >= MOST_AWAITED {
            return Err(Unanswered::Late);
        }
        let awaited: u32 = self.records.values().map(|record| record.awaited).sum();
        let halvings = (own.awaited + own.given_up).max(awaited / 4).min(MOST_HALVINGS);
        Ok(worth / (1 << halvings))
    }

    /// Whether a user's files have to wait for those of others `now`. Notes that they were asked for.
    pub(super) fn has_to_wait(&mut self, owner: u32, now: Instant) -> bool {
        let others =
            self.taken.iter().filter(|&(&other, taken)| other != owner && now < taken.asked + BESIDE);
        let is_alone = others.count() == 0;
        let own =
            self.taken.entry(owner).or_insert(UserCost { time: Duration::ZERO, since: now, asked: now });
        own.asked = now;
        !is_alone && own.time > CREDIT + now.saturating_duration_since(own.since) / SHARE
    }

    /// A user's file took so long.
    pub(super) fn took(&mut self, owner: u32, time: Duration) {
        if let Some(own) = self.taken.get_mut(&owner) {
            own.time += time;
        }
    }

    /// An answer did not come in time.
    pub(super) fn await_one(&mut self, owner: u32) {
        self.records.entry(owner).or_default().awaited += 1;
    }

    /// It came after all.
    pub(super) fn came(&mut self, owner: u32) {
        if let Some(record) = self.records.get_mut(&owner) {
            record.awaited = record.awaited.saturating_sub(1);
            if record.awaited + record.given_up == 0 {
                self.records.remove(&owner);
            }
        }
    }

    /// It will not come.
    pub(super) fn gave_up(&mut self, owner: u32) {
        let record = self.records.entry(owner).or_default();
        record.awaited = record.awaited.saturating_sub(1);
        record.given_up += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{BESIDE, CREDIT, Owners, SHARE, Unanswered};
    use std::time::{Duration, Instant};

    const WORTH: Duration = Duration::from_millis(32);

    /// A user whose processes hang costs twice the first wait in all, and then nothing; others are waited for as before.
    #[test]
    fn a_user_costs_a_stated_time() {
        let mut owners = Owners::default();
        let (mut waited, mut asked) = (Duration::ZERO, 0);
        while let Ok(patience) = owners.patience(7, WORTH) {
            waited += patience;
            asked += 1;
            owners.await_one(7);
            owners.gave_up(7);
        }
        assert_eq!(asked, 8);
        assert!(waited < 3 * WORTH, "{waited:?}");
        assert_eq!(owners.patience(8, WORTH), Ok(WORTH));
    }

    /// Four unanswered questions are enough for one user at a time; answers that come late leave no mark.
    #[test]
    fn late_answers_are_forgiven() {
        let mut owners = Owners::default();
        for _ in 0..4 {
            assert!(owners.patience(7, WORTH).is_ok());
            owners.await_one(7);
        }
        assert_eq!(owners.patience(7, WORTH), Err(Unanswered::Late));
        assert!(owners.patience(8, WORTH).is_ok_and(|patience| patience < WORTH));
        (0..4).for_each(|_| owners.came(7));
        assert!(owners.is_empty());
        assert_eq!(owners.patience(7, WORTH), Ok(WORTH));
    }

    /// Whose files took more than a part of the time waits for others while there are any, and not longer; the others do not wait.
    #[test]
    fn files_of_one_user_wait_for_others() {
        let (mut owners, start) = (Owners::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert!(!owners.has_to_wait(7, start));
        owners.took(7, CREDIT + WORTH);
        assert!(!owners.has_to_wait(7, at(1)), "there is nobody else");
        assert!(!owners.has_to_wait(8, at(2)));
        assert!(owners.has_to_wait(7, at(3)));
        assert!(!owners.has_to_wait(8, at(4)));
        let (later, share) = (at(4) + BESIDE, WORTH * SHARE);
        assert!(!owners.has_to_wait(7, later), "nobody else asked lately");
        owners.took(7, BESIDE);
        owners.has_to_wait(8, later);
        assert!(owners.has_to_wait(7, later));
        let rested = later + BESIDE * SHARE + share;
        owners.has_to_wait(8, rested);
        assert!(!owners.has_to_wait(7, rested), "its part of the time has come");
    }

    /// Users without number that each hang once take a millisecond each: a newcomer is still waited for.
    #[test]
    fn many_users() {
        let mut owners = Owners::default();
        (0..1000).for_each(|uid| owners.await_one(uid));
        assert_eq!(owners.patience(2000, WORTH), Ok(WORTH / 32));
    }
}
