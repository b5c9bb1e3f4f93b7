//! Profiles of windows to a collector, on a thread of its own: a collector that is slow, away or hostile
//! holds up nobody.
//!
//! One message waits, the newest; what is lost is counted, and said once. Leaves out answers and when to try
//! again (`collector`).

use crate::collector::{Answer, Collector, Next, Outbox};
use energy_trace_report::agent_page::SenderCounts;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For so long the last message is waited for at the end.
const AT_THE_END: Duration = Duration::from_secs(3);
/// Between two looks whether there is anything to do: who is waked needs none.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// What the thread and the others have together.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    message: Option<Vec<u8>>,
    /// Messages so far.
    came: u64,
    /// Messages that a newer one took the place of before the thread saw them.
    replaced: u64,
    counts: SenderCounts,
    is_closed: bool,
    is_done: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for as long, or until something changes; who was waked for nothing waits again later.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, longest: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The way to a collector.
pub(super) struct Sender(Arc<Shared>);

impl Sender {
    /// # Errors
    /// When there is no thread for it.
    pub(super) fn start(collector: Collector) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("collector".into()).spawn(move || {
            Sending { shared: &theirs, collector, outbox: Outbox::new(std::process::id()) }.run();
        })?;
        Ok(Self(shared))
    }

    /// A message is there. Waits for nobody.
    pub(super) fn put(&self, message: Vec<u8>) {
        let mut state = self.0.state();
        state.came += 1;
        state.replaced += u64::from(state.message.replace(message).is_some());
        self.0.changed.notify_all();
    }

    pub(super) fn counts(&self) -> SenderCounts {
        let state = self.0.state();
        SenderCounts { dropped: state.counts.dropped + state.replaced, ..state.counts }
    }

    /// Nothing comes any more: what waits has a moment to be sent, and is lost then.
    pub(super) fn end(self) -> SenderCounts {
        let until = Instant::now() + AT_THE_END;
        let mut state = self.0.state();
        state.is_closed = true;
        self.0.changed.notify_all();
        while !state.is_done && Instant::now() < until {
            state = self.0.wait(state, until.saturating_duration_since(Instant::now()));
        }
        let sent = state.counts.sent;
        SenderCounts { sent, dropped: state.came.saturating_sub(sent) }
    }
}

/// The thread's side.
struct Sending<'a> {
    shared: &'a Shared,
    collector: Collector,
    outbox: Outbox,
}

impl Sending<'_> {
    fn run(mut self) {
        let start = Instant::now();
        while !self.is_done() {
            match self.outbox.next(start.elapsed()) {
                Next::Idle => self.take(LOOK_AGAIN),
                Next::WaitUntil(then) => self.take(then.saturating_sub(start.elapsed())),
                Next::Send(message) => {
                    let answer = self.collector.send(&message);
                    self.answered(answer, start.elapsed());
                    self.take(Duration::ZERO);
                }
            }
        }
        self.shared.state().is_done = true;
        self.shared.changed.notify_all();
    }

    /// Nothing comes any more, and what was there was tried once.
    fn is_done(&self) -> bool {
        let state = self.shared.state();
        state.is_closed
            && state.message.is_none()
            && !matches!(self.outbox.next(Duration::ZERO), Next::Send(_))
    }

    /// Takes in a message, if one comes within this time.
    fn take(&mut self, within: Duration) {
        let mut state = self.shared.state();
        if state.message.is_none() && !state.is_closed {
            state = self.shared.wait(state, within);
        }
        state.message.take().into_iter().for_each(|message| self.outbox.put(message));
        state.counts = SenderCounts { sent: self.outbox.sent, dropped: self.outbox.dropped };
    }

    fn answered(&mut self, answer: Answer, now: Duration) {
        let Some(why) = self.outbox.answered(answer, now) else { return };
        if why.is_for_now() {
            let endpoint = self.collector.endpoint();
            log::warn!("{why}; {endpoint} is asked again, and profiles that are lost are counted");
        } else {
            log::warn!("{why}; it is counted how many");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Collector, Duration, Instant, Sender, SenderCounts};
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, channel};

    /// A collector that says these one after the other, then nothing more; what it was sent.
    fn collector(answers: &'static [&'static str]) -> (Sender, Receiver<Vec<u8>>) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", server.local_addr().unwrap()).parse().unwrap();
        let (sent, messages) = channel();
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for (number, connection) in server.incoming().enumerate() {
                let mut connection = connection.unwrap();
                let _ = sent.send(body(&mut connection));
                match answers.get(number) {
                    Some(answer) => drop(connection.write_all(answer.as_bytes())),
                    None => silent.push(connection),
                }
            }
        });
        (Sender::start(Collector::new(endpoint)).unwrap(), messages)
    }

    fn body(connection: &mut TcpStream) -> Vec<u8> {
        let mut request = Vec::new();
        let mut byte = [0; 1];
        while !request.ends_with(b"\r\n\r\n") && connection.read(&mut byte).unwrap() > 0 {
            request.extend(byte);
        }
        let head = String::from_utf8(request).unwrap().to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        connection.read_exact(&mut body).unwrap();
        body
    }

    fn until(sender: &Sender, counts: SenderCounts) {
        let end = Instant::now() + Duration::from_secs(20);
        while sender.counts() != counts {
            assert!(Instant::now() < end, "{:?}", sender.counts());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    const NO: &str = "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n";

    /// Messages are taken in their order; one that a collector is too busy for is sent again when it has
    /// said.
    #[test]
    fn taken() {
        let (sender, messages) = collector(&[OK, BUSY, OK]);
        sender.put(vec![1]);
        until(&sender, SenderCounts { sent: 1, dropped: 0 });
        sender.put(vec![2]);
        until(&sender, SenderCounts { sent: 2, dropped: 0 });
        assert_eq!(messages.try_iter().collect::<Vec<_>>(), [[1], [2], [2]]);
    }

    /// Who takes no such profiles gets one, and all are counted; the last message of all is sent before the
    /// end.
    #[test]
    fn refused() {
        let (sender, messages) = collector(&[NO]);
        sender.put(vec![1]);
        until(&sender, SenderCounts { sent: 0, dropped: 1 });
        sender.put(vec![2]);
        until(&sender, SenderCounts { sent: 0, dropped: 2 });
        assert_eq!(messages.try_iter().count(), 1);
        let (sender, messages) = collector(&[OK]);
        sender.put(vec![3]);
        assert_eq!(sender.end(), SenderCounts { sent: 1, dropped: 0 });
        assert_eq!(messages.try_iter().collect::<Vec<_>>(), [[3]]);
    }

    /// A collector that never answers holds up nobody: of many messages the newest waits, the others are
    /// counted; nor does the end wait for it.
    #[test]
    fn hanging() {
        let (sender, messages) = collector(&[]);
        sender.put(vec![0]);
        assert_eq!(messages.recv().unwrap(), [0]);
        let began = Instant::now();
        (1..=100).for_each(|number| sender.put(vec![number]));
        assert!(began.elapsed() < Duration::from_secs(1));
        assert_eq!(sender.counts(), SenderCounts { sent: 0, dropped: 99 });
        assert_eq!(sender.end(), SenderCounts { sent: 0, dropped: 101 });
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
