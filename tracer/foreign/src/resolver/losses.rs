//! What files have cost, by whose they are: who makes workers wait or die has less of their time, and nobody else has.
//!
//! Leaves out the asking (`worker.rs`).

use energy_trace_model::collections::Order as _;
use energy_trace_model::recording::names::cut;
use energy_trace_model::recording::record::{OfOwners, Owner, ReadFailure};
use std::collections::BTreeMap;
use std::time::Duration;

/// Workers that the files of one owner may end: after that none of them is asked about any more.
const MOST_LOST: u32 = 64;
/// The time that may be waited in vain for files of one owner.
const MOST_WAITED: Duration = Duration::from_secs(120);
/// What is waited for an answer in any case.
pub(super) const SHORTEST: Duration = Duration::from_secs(1);
/// Files of one owner whose names are kept for a warning.
const MOST_NAMED: usize = 64;

/// Of all owners.
#[derive(Debug, Default)]
pub(super) struct Losses(BTreeMap<Owner, Loss>);

/// Of one owner.
#[derive(Debug, Default)]
struct Loss {
    /// Workers that are gone, and what was waited for them.
    workers: u32,
    waited: Duration,
    /// Questions that were not asked.
    refused: u64,
    /// What became of files, and of how many more.
    files: BTreeMap<String, ReadFailure>,
    more: u64,
    /// How long workers took in all.
    spent: Duration,
}

impl Losses {
    /// How long an answer about a file of this owner may take where it is worth so much; `None`: it is not asked for, which is counted.
    pub(super) fn patience(&mut self, owner: Owner, worth: Duration) -> Option<Duration> {
        let loss = self.0.entry(owner).or_default();
        if loss.workers >= MOST_LOST || loss.waited >= MOST_WAITED {
            loss.refused += 1;
            return None;
        }
        // Whoever makes it wait has less of its time the next time.
        Some((worth / (1 << loss.workers.min(6))).max(SHORTEST))
    }

    /// A worker is gone over a file of this owner.
    pub(super) fn lose(&mut self, owner: Owner, waited: Duration) {
        let loss = self.0.entry(owner).or_default();
        loss.workers += 1;
        loss.waited += waited;
    }

    /// A worker took so long over a file of this owner.
    pub(super) fn spend(&mut self, owner: Owner, took: Duration) {
        self.0.entry(owner).or_default().spent += took;
    }

    /// How long workers took over files of this owner.
    pub(super) fn spent(&self, owner: Owner) -> Duration {
        self.0.get(&owner).map_or(Duration::ZERO, |loss| loss.spent)
    }

    /// What became of a file.
    pub(super) fn note(&mut self, owner: Owner, label: &str, failure: ReadFailure) {
        let loss = self.0.entry(owner).or_default();
        if loss.files.len() < MOST_NAMED || loss.files.contains_key(label) {
            loss.files.insert(cut(label.to_owned()), failure);
        } else {
            loss.more += 1;
        }
    }

    /// So many of the files, in turn one of each owner's, and how many there are beside them.
    pub(super) fn files(&self, most: usize) -> (Vec<(String, ReadFailure)>, u64) {
        let mut in_turn: Vec<(usize, (&String, &ReadFailure))> =
            self.0.values().flat_map(|loss| loss.files.iter().enumerate()).collect();
        in_turn.order_by_key(|(place, _)| *place);
        let all = in_turn.len() as u64 + self.0.values().map(|loss| loss.more).sum::<u64>();
        let named: Vec<_> =
            in_turn.into_iter().take(most).map(|(_, (file, failure))| (file.clone(), *failure)).collect();
        let more = all - named.len() as u64;
        (named, more)
    }

    /// Whose files were not asked about any more, and how many questions these were; the most first.
    pub(super) fn refused(&self) -> OfOwners {
        let refused = self.0.iter().map(|(owner, loss)| (*owner, loss.refused));
        let mut refused: OfOwners = refused.filter(|(_, questions)| *questions > 0).collect();
        refused.order_by_key(|(owner, questions)| (std::cmp::Reverse(*questions), *owner));
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::{Losses, MOST_LOST, Owner, ReadFailure, SHORTEST};
    use std::time::Duration;

    const ONE: Owner = Owner::User(1);
    const WORTH: Duration = Duration::from_secs(60);

    /// However many workers the files of one user cost, those of others have all the time that they are worth; who has cost too much is not
    /// asked about any more, and that is counted.
    #[test]
    fn each_pays_for_their_own() {
        let mut losses = Losses::default();
        let mut patience = Vec::new();
        while let Some(next) = losses.patience(ONE, WORTH) {
            patience.push(next);
            losses.lose(ONE, Duration::ZERO);
        }
        assert_eq!(patience.len(), MOST_LOST as usize);
        assert_eq!((patience[0], patience[1], patience[63]), (WORTH, WORTH / 2, SHORTEST));
        assert_eq!(losses.patience(ONE, WORTH), None);
        assert_eq!(losses.refused(), [(ONE, 2)]);
        for other in [Owner::Root, Owner::User(2), Owner::Several] {
            assert_eq!(losses.patience(other, WORTH), Some(WORTH));
        }
    }

    /// Time that was waited in vain has a limit too, however few files took it.
    #[test]
    fn time_has_a_limit() {
        let mut losses = Losses::default();
        losses.lose(ONE, Duration::from_secs(119));
        assert!(losses.patience(ONE, WORTH).is_some());
        losses.lose(ONE, Duration::from_secs(1));
        assert_eq!(losses.patience(ONE, WORTH), None);
    }

    /// A user with thousands of bad files does not hide the one of another, wherever their paths stand in order.
    #[test]
    fn nobody_hides_others() {
        let mut losses = Losses::default();
        for number in 0..5_000 {
            losses.note(ONE, &format!("/home/a/{number}"), ReadFailure::Died);
        }
        losses.note(Owner::User(2), "/srv/z", ReadFailure::TooLarge);
        let (named, more) = losses.files(5);
        assert!(named.contains(&("/srv/z".to_owned(), ReadFailure::TooLarge)), "{named:?}");
        assert_eq!((named.len(), more), (5, 4_996));
    }
}
