//! Work by a page of metrics: of a server that tells the truth, and of servers that do not.

use super::{assert_joules, json, place, record_units, simulation, spent, work};
use energy_trace_tests::place::{assert_code, assert_says};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A server of pages, with how often the page was asked for that redirections lead to.
struct Server {
    address: SocketAddr,
    elsewhere: Arc<AtomicU64>,
    true_pages: Arc<AtomicU64>,
}

impl Server {
    /// One that tells the number in a file as `tokens_total`.
    fn start(count: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let [elsewhere, true_pages] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let counts = [Arc::clone(&elsewhere), Arc::clone(&true_pages)];
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (count, counts) = (count.clone(), counts.clone());
                std::thread::spawn(move || answer(connection, &count, &counts));
            }
        });
        Self { address, elsewhere, true_pages }
    }

    fn page(&self, name: &str, path: &str) -> String {
        format!("--work={name}=prometheus:http://{}/{path}#tokens_total{{model=\"a\"}}", self.address)
    }
}

/// Answers of two servers that take turns.
static TURN: AtomicU64 = AtomicU64::new(0);

/// Answers one request after the other, by its path. Who asks may be gone at any time.
fn answer(mut connection: TcpStream, count: &PathBuf, [elsewhere, true_pages]: &[Arc<AtomicU64>; 2]) {
    let mut requests = BufReader::new(connection.try_clone().unwrap());
    let mut line = String::new();
    while requests.read_line(&mut line).is_ok_and(|read| read > 0) {
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        while line.trim() != "" {
            line.clear();
            if requests.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
        }
        line.clear();
        let page = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answer = match path.as_str() {
            "/metrics" => {
                true_pages.fetch_add(1, Ordering::Relaxed);
                let done = std::fs::read_to_string(count).unwrap_or_else(|_| "0".into());
                page(&format!(
                    "# TYPE tokens_total counter\ntokens_total{{model=\"b\"}} 7\ntokens_total{{model=\"a\"}} {done}\n"
                ))
            }
            "/redirect" => {
                "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
            "/elsewhere" => {
                elsewhere.fetch_add(1, Ordering::Relaxed);
                page("tokens_total{model=\"a\"} 1\n")
            }
            "/garbage" => "\u{0}\u{1}\u{2}\r\n\r\n".to_owned(),
            "/nan" => page("tokens_total{model=\"a\"} NaN\n"),
            "/turns" => {
                let turn = TURN.fetch_add(1, Ordering::Relaxed);
                page(&format!(
                    "tokens_total{{model=\"a\"}} {}\n",
                    turn + if turn.is_multiple_of(2) { 5_000 } else { 70 }
                ))
            }
            "/other" => page("tokens_total{model=\"b\"} 1\n"),
            "/hang" => {
                let _gone = requests.read_line(&mut line);
                return;
            }
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n".to_owned(),
        };
        if connection.write_all(answer.as_bytes()).is_err() {
            return;
        }
        let endless = vec![b'#'; 1 << 20];
        if path == "/gigabyte" {
            while connection.write_all(&endless).is_ok() {}
            return;
        }
    }
}

/// A server's counter is read as it is, ten times a second at the most; what hangs, has no end, leads elsewhere or makes no sense is said by its
/// kind and keeps nobody waiting, and so are two that answer in turn.
#[test]
fn a_server_and_hostile_ones() {
    let (place, simulation) = (place(), simulation());
    let server = Server::start(place.path("done"));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = format!("--work=closed=prometheus:http://{closed}/metrics#tokens_total");
    let hostile = ["hang", "gigabyte", "redirect", "garbage", "nan", "other"];
    // Of a page that has several numbers all are taken at once.
    let mut words = vec![
        server.page("token", "metrics"),
        server.page("again", "metrics"),
        server.page("turns", "turns"),
        closed,
    ];
    words.extend(hostile.map(|name| server.page(name, name)));
    let options: Vec<&str> = words.iter().map(String::as_str).collect();
    record_units(&place, &simulation, &options, "20");
    let report = json(&place, &[]);
    let token = work(&report, "token");
    assert_eq!(token["units"].as_f64(), Some(20.0), "{token}");
    assert_joules(&token, spent(&simulation) / 20.0, 3.0);
    let readings = |name: &str| work(&report, name)["over_time"].clone();
    assert_eq!(readings("again"), readings("token"));
    let run_s = report["meta"]["duration_ns"].as_f64().unwrap() / 1e9;
    let asked = server.true_pages.load(Ordering::Relaxed) as f64;
    assert!(asked <= 10.0 * run_s + 3.0, "{asked} times in {run_s} s");
    let failure = |name: &str| work(&report, name)["failure"].as_str().unwrap_or_default().to_owned();
    let found = ["closed", "redirect", "nan", "other"].map(failure);
    assert_eq!(found, ["missing", "status", "no-number", "no-metric"]);
    let turns = work(&report, "turns");
    assert_eq!(
        (turns["units"].as_f64().unwrap_or(0.0), turns["failure"].as_str()),
        (0.0, Some("system")),
        "{turns}"
    );
    assert_eq!(server.elsewhere.load(Ordering::Relaxed), 0);
    // A machine that is busy may not get to the limit within a second.
    assert!(["too-long", "timed-out"].contains(&failure("gigabyte").as_str()), "{}", failure("gigabyte"));
    assert_eq!(failure("hang"), "timed-out");
    for name in hostile {
        assert_eq!(
            (&work(&report, name)["readings"], failure(name).is_empty()),
            (&0.into(), false),
            "{name}"
        );
    }
}

/// Another machine's page is read only where that was said; what is no page of metrics is refused before anything runs.
#[test]
fn pages_of_others() {
    let place = place();
    let run = |word: &str, more: &[&str]| {
        let word = format!("--work=x={word}");
        place
            .run(&[&["record", "--power", "none", "--no-svg", &word], more, &["--", "touch", "ran"]].concat())
    };
    let there = "prometheus:http://192.0.2.1:9/metrics#x";
    let refused = run(there, &[]);
    assert_code(&refused, 2);
    assert_says(&refused, &["192.0.2.1", "--work-allow-remote"]);
    for wrong in ["prometheus:https://localhost/#x", "prometheus:http://localhost/metrics", "prometheus:x#y"]
    {
        assert_code(&run(wrong, &[]), 2);
    }
    assert!(!place.path("ran").exists());
    assert_code(&run(there, &["--work-allow-remote"]), 0);
    assert!(place.path("ran").exists());
}
