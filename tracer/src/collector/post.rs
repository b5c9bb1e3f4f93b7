//! One POST of profiles to a collector, as OTLP over HTTP has it: without redirects, proxies and compression,
//! and with a limit on time.
//!
//! The answer's body is not read: a status says all that is needed. Leaves out what the answer means
//! (`outbox.rs`), and TLS, which a collector on the same machine needs not.

use super::outbox::Answer;
use crate::plain_http::{client, host};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::{Duration, SystemTime};
use std::{fmt, io};
use ureq::Agent;
use ureq::http::uri::PathAndQuery;
use ureq::http::{Response, Uri};

/// Where collectors take profiles.
const PATH: &str = "/v1development/profiles";
/// Which format of profiles this is (opentelemetry-proto, pull request 857); what is incompatible will have
/// another number.
const VERSION: (&str, &str) = ("OTLP-Profiles-Development-Version", "1");
const TYPE: (&str, &str) = ("Content-Type", "application/x-protobuf");
/// Bytes of the head of an answer.
const MOST_HEAD: usize = 16 << 10;
/// How long an answer may take, all of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A collector's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: String,
    /// Its host and port as they were named, where the address has taken their place.
    named: Option<String>,
}

impl Endpoint {
    /// With the address that its host has now, for who cannot look it up later.
    ///
    /// # Errors
    /// When it has none.
    pub fn looked_up(&self) -> io::Result<Self> {
        let uri: Uri = self.url.parse().map_err(io::Error::other)?;
        let authority = uri.authority().ok_or(io::ErrorKind::NotFound)?;
        let host = authority.host().trim_matches(['[', ']']);
        let found: Vec<SocketAddr> = (host, self.port()).to_socket_addrs()?.collect();
        // Who listens for the other family alone is rarer.
        let address = found.iter().find(|address| address.is_ipv4()).or(found.first());
        let address = address.ok_or(io::ErrorKind::NotFound)?;
        let rest = uri.path_and_query().map_or(PATH, PathAndQuery::as_str);
        Ok(Self { url: format!("http://{address}{rest}"), named: Some(authority.as_str().to_owned()) })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.url.parse().ok().and_then(|uri: Uri| uri.port_u16()).unwrap_or(80)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl std::str::FromStr for Endpoint {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        if uri.scheme_str() != Some("http") || host(&uri).is_none() {
            return Err(
                "a collector is http://HOST:PORT, without TLS, such as http://localhost:4318".to_owned()
            );
        }
        let has_path = !matches!(uri.path(), "" | "/");
        let url = if has_path { url.to_owned() } else { format!("{}{PATH}", url.trim_end_matches('/')) };
        Ok(Self { url, named: None })
    }
}

/// A collector that is sent to.
#[derive(Debug)]
pub struct Collector {
    agent: Agent,
    endpoint: Endpoint,
    patience: Duration,
}

impl Collector {
    /// At this address.
    pub fn new(endpoint: Endpoint) -> Self {
        Self::with_patience(endpoint, PATIENCE)
    }

    fn with_patience(endpoint: Endpoint, patience: Duration) -> Self {
        Self { agent: client(patience, MOST_HEAD), endpoint, patience }
    }

    /// Its address.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a message; what came of it.
    pub fn send(&self, message: &[u8]) -> Answer {
        let request = self.agent.post(&self.endpoint.url).header(VERSION.0, VERSION.1).header(TYPE.0, TYPE.1);
        let request = match &self.endpoint.named {
            Some(named) => request.header("Host", named),
            None => request,
        };
        match request.send(message) {
            Ok(answer) => Answer::Status(answer.status().as_u16(), retry_after(&answer)),
            Err(ureq::Error::Timeout(_)) => {
                Answer::None(format!("nothing came within {} s", self.patience.as_secs_f64()))
            }
            Err(why) => Answer::None(why.to_string()),
        }
    }
}

/// Seconds, or a date by this machine's clock; one that is over says nothing.
fn retry_after<T>(answer: &Response<T>) -> Option<Duration> {
    let said = answer.headers().get("Retry-After")?.to_str().ok()?.trim();
    let until = || httpdate::parse_http_date(said).ok();
    match said.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => until()?.duration_since(SystemTime::now()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Collector, Endpoint};
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::{Duration, SystemTime};

    /// What a collector that answers so was sent, and what came of it.
    fn sent_to(answer: impl Into<String>) -> (Answer, Receiver<String>) {
        let answer = answer.into();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://localhost:{}", server.local_addr().unwrap().port());
        let endpoint: Endpoint = url.parse().unwrap();
        let (asked, questions) = channel();
        std::thread::spawn(move || {
            let (mut connection, _) = server.accept().unwrap();
            let mut question = Vec::new();
            while !question.ends_with(b"profiles!") {
                let mut piece = [0; 1024];
                let read = connection.read(&mut piece).unwrap();
                question.extend(&piece[..read]);
            }
            let _ = asked.send(String::from_utf8(question).unwrap());
            let _ = connection.write_all(answer.as_bytes());
            // Says nothing more, and does not hang up.
            std::thread::sleep(Duration::from_secs(5));
        });
        let found = endpoint.looked_up().unwrap();
        assert_eq!(
            (found.url, found.named),
            (url.replace("localhost", "127.0.0.1") + super::PATH, Some(url[7..].into()))
        );
        let collector = Collector::with_patience(endpoint.looked_up().unwrap(), Duration::from_secs(1));
        (collector.send(b"profiles!"), questions)
    }

    /// A message goes where collectors take profiles, with its version; the answer's status and wait are
    /// told.
    #[test]
    fn answers() {
        let (answer, questions) = sent_to("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(answer, Answer::Status(200, None));
        let question = questions.recv().unwrap().to_lowercase();
        assert_eq!(question.matches("\r\nhost:").count(), 1, "{question}");
        assert!(question.starts_with("post /v1development/profiles http/1.1\r\n"), "{question}");
        for header in [
            "\r\nhost: localhost:",
            "otlp-profiles-development-version: 1",
            "content-type: application/x-protobuf",
        ] {
            assert!(question.contains(header), "{question}");
        }
        let elsewhere = "HTTP/1.1 302 Found\r\nLocation: http://10.255.255.1/\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(sent_to(elsewhere).0, Answer::Status(302, None));
    }

    /// How long to wait comes in seconds or as a date.
    #[test]
    fn waits() {
        let of = |when: &str| {
            let busy = format!("HTTP/1.1 503 Busy\r\nRetry-After: {when}\r\nContent-Length: 0\r\n\r\n");
            let Answer::Status(503, after) = sent_to(busy).0 else { panic!("another answer") };
            after
        };
        assert_eq!(of("7"), Some(Duration::from_secs(7)));
        let later = SystemTime::now() + Duration::from_hours(10);
        let left = of(&httpdate::fmt_http_date(later)).unwrap().as_secs();
        // The test itself may be held up for as long as it likes.
        assert!((1..=36_000).contains(&left), "{left}");
        assert_eq!(["Sun, 06 Nov 1994 08:49:37 GMT", "soon"].map(of), [None; 2]);
    }

    /// An endless answer is not read, and one that never comes, or is none, is no answer.
    #[test]
    fn hostile_answers() {
        let endless = "HTTP/1.1 400 Bad Request\r\nContent-Length: 99999999999\r\n\r\nno";
        assert_eq!(sent_to(endless).0, Answer::Status(400, None));
        let Answer::None(why) = sent_to("").0 else { panic!("it answers") };
        assert_eq!(why, "nothing came within 1 s");
        for none in ["garbage\r\n\r\n", "HTTP/1.1 200"] {
            assert!(matches!(sent_to(none).0, Answer::None(_)), "{none}");
        }
        let nobody: Endpoint = "http://127.0.0.1:1".parse().unwrap();
        let Answer::None(why) = Collector::new(nobody).send(b"x") else { panic!("somebody answers") };
        assert!(why.contains("refused"), "{why}");
    }

    /// Addresses are of plain HTTP; a path of one's own is kept.
    #[test]
    fn addresses() {
        let of = |url: &str| url.parse::<Endpoint>().map(|endpoint| endpoint.to_string());
        assert_eq!(of("http://a:4318/"), Ok("http://a:4318/v1development/profiles".to_owned()));
        assert_eq!(of("http://a/x"), Ok("http://a/x".to_owned()));
        assert_eq!(
            ["http://a", "http://[::1]:7/x"].map(|url| url.parse::<Endpoint>().unwrap().port()),
            [80, 7]
        );
        let local = "http://[::1]:7/x?y".parse::<Endpoint>().unwrap().looked_up().unwrap();
        assert_eq!(local.to_string(), "http://[::1]:7/x?y");
        for wrong in ["", "a", "https://a", "http://", "ftp://a", "http://u:p@a/"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
