//! A page of metrics over plain HTTP, from this machine.
//!
//! One GET at a time, for all metrics that are wanted of it, without redirects, proxies, cookies or
//! compression, and with a limit on time and on bytes, of which few are kept. Leaves out what the page says
//! (`exposition.rs`).

use super::exposition::{Metric, Search};
use super::series::Sum;
use crate::plain_http::{client, host};
use energy_trace_model::recording::record::{WorkFailure, WorkUnits};
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use ureq::http::Uri;
use ureq::{Agent, Error};

/// Bytes of a page that are read.
pub(super) const MOST: u64 = 8 << 20;
/// Bytes of the head of an answer.
const MOST_HEAD: usize = 64 << 10;
/// How long an answer may take, all of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a page can be read: plain HTTP, and from this machine unless others are allowed.
pub(crate) fn check(url: &str, allows_remote: bool) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    if uri.scheme_str() != Some("http") {
        return Err("the page is read over plain http://".to_owned());
    }
    let host = host(&uri).ok_or("a page is http://HOST:PORT/PATH")?;
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    let refused = "is not this machine, of which alone the energy is measured: --work-allow-remote reads it all the same";
    if is_here || allows_remote { Ok(()) } else { Err(format!("{host} {refused}")) }
}

/// A page that is read again and again.
pub(super) struct Page {
    agent: Agent,
    url: String,
    metrics: Vec<Metric>,
    sums: Vec<Sum>,
}

impl Page {
    pub(super) fn new(url: &str, metrics: Vec<Metric>, patience: Duration) -> Self {
        let sums = metrics.iter().map(|_| Sum::default()).collect();
        Self { agent: client(patience, MOST_HEAD), url: url.to_owned(), metrics, sums }
    }

    /// Each metric now.
    pub(super) fn look(&mut self) -> Vec<Result<WorkUnits, WorkFailure>> {
        self.read().unwrap_or_else(|failure| vec![Err(failure); self.metrics.len()])
    }

    fn read(&mut self) -> Result<Vec<Result<WorkUnits, WorkFailure>>, WorkFailure> {
        let mut answer = self.agent.get(&self.url).call().map_err(|error| failure(&error))?;
        if answer.status() != 200 {
            return Err(WorkFailure::Status(answer.status().as_u16()));
        }
        let mut search = Search::new(&self.metrics);
        let mut page = answer.body_mut().with_config().limit(MOST).reader();
        io::copy(&mut page, &mut search).map_err(|error| failure(&Error::from(error)))?;
        let found = search.end().into_iter().zip(&mut self.sums);
        Ok(found.map(|(found, sum)| sum.take(&found?)).collect())
    }
}

fn failure(error: &Error) -> WorkFailure {
    match error {
        Error::Io(error) => super::file::failure(error),
        Error::Timeout(_) => WorkFailure::TimedOut,
        Error::BodyExceedsLimit(_) => WorkFailure::TooLong { most: MOST },
        Error::LargeResponseHeader(..) => WorkFailure::TooLong { most: MOST_HEAD as u64 },
        Error::HostNotFound | Error::ConnectionFailed => WorkFailure::Missing,
        error => WorkFailure::System { error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, MOST, Metric, Page, WorkFailure, WorkUnits, check};
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    /// This machine by name or number, over plain HTTP; others when they are allowed; nothing with a password.
    #[test]
    fn pages() {
        for here in [
            "http://localhost:8000/metrics",
            "http://127.0.0.1/",
            "http://127.9.9.9:1/x?y",
            "http://[::1]:80/m",
        ] {
            assert_eq!(check(here, false), Ok(()), "{here}");
        }
        for there in [
            "http://10.0.0.1/",
            "http://example.org/metrics",
            "http://localhost.example.org/",
            "http://[::2]/",
        ] {
            assert!(check(there, false).unwrap_err().contains("--work-allow-remote"), "{there}");
            assert_eq!(check(there, true), Ok(()), "{there}");
        }
        for wrong in [
            "",
            "localhost:8000",
            "https://localhost/",
            "ftp://localhost/",
            "http://",
            "/metrics",
            "http://u:p@localhost/",
        ] {
            assert!(check(wrong, true).is_err(), "{wrong}");
        }
    }

    /// A server that answers each connection so.
    fn look_at(answer: impl Fn(&mut TcpStream) + Send + 'static) -> Result<WorkUnits, WorkFailure> {
        look_for(Duration::from_mins(1), answer)
    }

    fn look_for(
        patience: Duration,
        answer: impl Fn(&mut TcpStream) + Send + 'static,
    ) -> Result<WorkUnits, WorkFailure> {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", server.local_addr().unwrap());
        std::thread::spawn(move || {
            for connection in server.incoming() {
                let mut connection = connection.unwrap();
                let _ = connection.read(&mut [0; 1024]);
                answer(&mut connection);
            }
        });
        Page::new(&url, vec![Metric::parse("tokens").unwrap()], patience).look().pop().unwrap()
    }

    fn says(head: &'static str, body: &'static [u8]) -> impl Fn(&mut TcpStream) + Send + 'static {
        move |to| {
            let _ = write!(to, "{head}\r\n\r\n").and_then(|()| to.write_all(body));
        }
    }

    /// A page is read; whatever else a server answers is said by its kind.
    #[test]
    fn answers() {
        let ok = "HTTP/1.1 200 OK\r\nConnection: close";
        assert_eq!(look_at(says(ok, b"tokens 42\n")), Ok(WorkUnits::whole(42)));
        assert_eq!(look_at(says(ok, b"other 42\n")), Err(WorkFailure::NoMetric));
        assert_eq!(look_at(says(ok, b"tokens nan\n")), Err(WorkFailure::NoNumber));
        assert_eq!(
            look_at(says("HTTP/1.1 503 Busy\r\nContent-Length: 0", b"")),
            Err(WorkFailure::Status(503))
        );
        let elsewhere = "HTTP/1.1 302 Found\r\nLocation: http://10.255.255.1/\r\nContent-Length: 0";
        assert_eq!(look_at(says(elsewhere, b"")), Err(WorkFailure::Status(302)));
        assert!(look_at(says("garbage", b"\xff\xff")).is_err());
        assert!(look_at(|_| ()).is_err());
    }

    /// A page without an end is read up to the limit, and a server that says nothing, or a little now and then, is waited for no longer than
    /// was said.
    #[test]
    fn pages_without_an_end() {
        let endless = look_at(|to| {
            let _ = to.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            let some = "x\n".repeat(1 << 15);
            while to.write_all(some.as_bytes()).is_ok() {}
        });
        assert_eq!(endless, Err(WorkFailure::TooLong { most: MOST }));
        let short = Duration::from_millis(50);
        let silent = look_for(short, |to| while to.read(&mut [0; 1]).is_ok_and(|read| read > 0) {});
        let slow = look_for(short, |to| {
            let _ = to.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while to.write_all(b"x").is_ok() {}
        });
        assert_eq!(silent, Err(WorkFailure::TimedOut));
        assert!(matches!(slow, Err(WorkFailure::TimedOut | WorkFailure::TooLong { .. })), "{slow:?}");
    }
}
