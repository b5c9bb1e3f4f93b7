//! What waits to be sent to a collector, and when: one message, as profiles of a minute ago are worth more
//! than all of an hour.
//!
//! Answers are those of OTLP over HTTP: 200 is taken, 429, 502, 503 and 504 are asked again (after
//! `Retry-After` where the collector says so), as is what found nobody; 400 and others that say that profiles
//! of this version are not taken there end it for good; anything else loses its message. Times are those of a
//! clock that the caller has. Leaves out sending, and the clock.

use std::time::Duration;

/// The first distance of two attempts, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// A collector may not ask for more: who is told to wait for ever waits so long.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A status, and after how long to try again, where that was said.
    Status(u16, Option<Duration>),
    /// No answer, and why: nobody there, none in time, or it hung up.
    None(String),
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing waits.
    Idle,
    /// Send this, and say what came of it.
    Send(Vec<u8>),
    /// Wait until then.
    WaitUntil(Duration),
}

/// Why nothing is sent now, nothing any more, or a message was lost; said once for each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nobody answers.
    #[error("the collector does not answer: {0}")]
    Silent(String),
    /// It will not now.
    #[error("the collector is busy (status {0})")]
    Busy(u16),
    /// It takes no such profiles.
    #[error("the collector takes no profiles of this version (status {0})")]
    Off(u16),
    /// It took none of this message.
    #[error("the collector did not take profiles (status {0}), which are lost")]
    Lost(u16),
}

impl Refused {
    /// Whether the same message is sent again.
    pub const fn is_for_now(&self) -> bool {
        matches!(self, Self::Silent(_) | Self::Busy(_))
    }
}

/// Messages for one collector.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Option<Vec<u8>>,
    is_off: bool,
    attempts: u32,
    not_before: Duration,
    /// Statuses that were spoken of; 0: none.
    said: Vec<u16>,
    /// Thousandths that are added to each distance: hosts of a fleet do not come back together.
    spread: u32,
    /// Messages that were taken.
    pub sent: u64,
    /// Messages that were lost: newer ones came first, or the collector refused them.
    pub dropped: u64,
}

impl Outbox {
    /// Nothing waits. `spread`: any number of the host's own.
    pub fn new(spread: u32) -> Self {
        Self { spread: spread % 1_000, ..Self::default() }
    }

    /// Whether it sends nothing any more.
    pub const fn is_off(&self) -> bool {
        self.is_off
    }

    /// A message is there; an older one that still waits is dropped.
    pub fn put(&mut self, message: Vec<u8>) {
        if self.is_off || self.waiting.replace(message).is_some() {
            self.dropped += 1;
        }
        if self.is_off {
            self.waiting = None;
        }
    }

    /// What to do at this time.
    pub fn next(&self, now: Duration) -> Next {
        match &self.waiting {
            None => Next::Idle,
            Some(_) if now < self.not_before => Next::WaitUntil(self.not_before),
            Some(message) => Next::Send(message.clone()),
        }
    }

    /// What came of the message that was to be sent, and what to say about it.
    pub fn answered(&mut self, answer: Answer, now: Duration) -> Option<Refused> {
        match answer {
            Answer::Status(200..=299, _) => {
                self.done();
                self.sent += 1;
                None
            }
            Answer::Status(status @ (429 | 502..=504), after) => {
                self.again(after, now);
                self.once(Refused::Busy(status), status)
            }
            Answer::None(why) => {
                self.again(None, now);
                self.once(Refused::Silent(why), 0)
            }
            Answer::Status(status @ (400 | 404 | 405 | 415 | 501), _) => {
                self.is_off = true;
                self.lose(Refused::Off(status), status)
            }
            Answer::Status(status, _) => self.lose(Refused::Lost(status), status),
        }
    }

    fn done(&mut self) {
        self.waiting = None;
        (self.attempts, self.not_before) = (0, Duration::ZERO);
    }

    fn lose(&mut self, why: Refused, status: u16) -> Option<Refused> {
        self.done();
        self.dropped += 1;
        self.once(why, status)
    }

    fn once(&mut self, why: Refused, status: u16) -> Option<Refused> {
        if self.said.contains(&status) {
            return None;
        }
        self.said.push(status);
        Some(why)
    }

    /// Twice as long each time, or as long as was asked for.
    fn again(&mut self, after: Option<Duration>, now: Duration) {
        let doubled = FIRST.saturating_mul(1 << self.attempts.min(16)).min(LONGEST);
        let spread = doubled.saturating_mul(self.spread) / 1_000;
        let distance = after.map_or(doubled, |after| after.clamp(FIRST, LONGEST_ASKED));
        self.attempts = self.attempts.saturating_add(1);
        self.not_before = now.saturating_add(distance).saturating_add(spread);
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Next, Outbox, Refused};
    use std::time::Duration;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn with(message: u8) -> Outbox {
        let mut outbox = Outbox::new(0);
        outbox.put(vec![message]);
        outbox
    }

    /// What is taken is gone; of two that wait the newer one is kept, and the loss is counted.
    #[test]
    fn one_waits() {
        let mut outbox = with(1);
        outbox.put(vec![2]);
        assert_eq!((outbox.next(s(0)), outbox.dropped), (Next::Send(vec![2]), 1));
        assert_eq!(outbox.answered(Answer::Status(200, None), s(0)), None);
        assert_eq!((outbox.next(s(0)), outbox.sent), (Next::Idle, 1));
    }

    fn nobody() -> Answer {
        Answer::None("refused".to_owned())
    }

    /// Whoever is busy or away is asked again, after twice as long each time and at most five minutes, or
    /// after as long as was asked for; either is said once.
    #[test]
    fn again() {
        let mut outbox = with(1);
        let first = [Some(Refused::Silent("refused".to_owned())), Some(Refused::Busy(503))];
        let mut said = first.into_iter().chain(std::iter::repeat(None));
        for (attempt, distance) in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].into_iter().enumerate() {
            let answer = if attempt % 2 == 0 { nobody() } else { Answer::Status(503, None) };
            assert_eq!(Some(outbox.answered(answer, s(1_000))), said.next());
            assert_eq!(outbox.next(s(1_000)), Next::WaitUntil(s(1_000 + distance)));
        }
        assert_eq!(outbox.next(s(1_300)), Next::Send(vec![1]));
        outbox.answered(Answer::Status(429, Some(s(7))), s(0));
        assert_eq!(outbox.next(s(0)), Next::WaitUntil(s(7)));
        outbox.answered(Answer::Status(503, Some(s(0))), s(0));
        assert_eq!(outbox.next(s(0)), Next::WaitUntil(s(1)));
        outbox.answered(Answer::Status(503, Some(Duration::MAX)), s(0));
        assert_eq!(outbox.next(s(0)), Next::WaitUntil(s(3_600)));
        outbox.answered(Answer::Status(200, None), s(0));
        outbox.put(vec![2]);
        outbox.answered(nobody(), s(0));
        assert_eq!(outbox.next(s(0)), Next::WaitUntil(s(1)));
    }

    /// Who takes no such profiles is asked once, and it is said once; what came later is counted.
    #[test]
    fn off() {
        let mut outbox = with(1);
        assert_eq!(outbox.answered(Answer::Status(400, Some(s(1))), s(0)), Some(Refused::Off(400)));
        outbox.put(vec![2]);
        assert_eq!((outbox.next(s(9)), outbox.is_off(), outbox.dropped), (Next::Idle, true, 2));
    }

    /// Anything else loses its message alone, a redirection too, and is said once.
    #[test]
    fn lost() {
        let mut outbox = with(1);
        assert_eq!(outbox.answered(Answer::Status(302, None), s(0)), Some(Refused::Lost(302)));
        for status in [302, 500] {
            outbox.put(vec![2]);
            let said = outbox.answered(Answer::Status(status, None), s(0));
            assert_eq!(said, (status == 500).then_some(Refused::Lost(500)));
        }
        assert_eq!((outbox.next(s(0)), outbox.dropped, outbox.is_off()), (Next::Idle, 3, false));
    }

    /// Hosts come back apart.
    #[test]
    fn spread() {
        let mut outbox = Outbox::new(1_500);
        outbox.put(vec![1]);
        outbox.answered(nobody(), s(0));
        assert_eq!(outbox.next(s(0)), Next::WaitUntil(Duration::from_millis(1_500)));
    }
}
