//! Units of work of an agent: a server that counts, ends and begins anew, a file, and what is never there.
//!
//! Leaves out hostile pages, which the same process reads (`work/pages.rs`).

use super::agent::{Agent, Page, Started, children_of, column, get, has_socket, spool, status};
use energy_trace_tests::process::python;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Counts what it is asked for (`/?7`), and tells how much that was.
const SERVER: &str = "
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
done = 0
class Pages(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        global done
        done += int(self.path.partition('?')[2] or 0)
        body = b'tokens_total{model=\"b\"} 9\\ntokens_total{model=\"a\"} %d\\n' % done
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Pages)
print(server.server_port, flush=True)
server.serve_forever()
";

struct Server {
    _process: Started,
    address: String,
}

impl Server {
    /// At a port, or at any.
    fn start(port: &str) -> Self {
        let mut command = Command::new(python());
        let mut process = command.args(["-c", SERVER, port]).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { _process: Started(process), address: format!("127.0.0.1:{}", port.trim()) }
    }

    /// Has it do so much. What it has done since its start.
    fn do_work(&self, units: u32) -> i64 {
        let page = get(&self.address, &format!("/?{units}"), "*/*");
        page.trim().rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// What was done, in whole units, where there is a series.
fn units(page: &Page, work: &str) -> Option<i64> {
    page.sample(&format!("energy_trace_work_units_total{{work=\"{work}\"}}")).map(|of| of / 1_000_000)
}

fn is(page: &Page, work: &str, state: &str) -> bool {
    page.sample(&format!("energy_trace_work_state{{work=\"{work}\",state=\"{state}\"}}")).is_some()
}

/// Who reads has no privileges and is a user of its own; the recorder has no socket of any network.
fn assert_privileges(recorder: u32) {
    let reader = children_of(recorder).into_iter().find(|pid| status(*pid, "Name") == "et-work").unwrap();
    let uid: u32 = status(reader, "Uid").split_whitespace().next().unwrap().parse().unwrap();
    assert!((60_706..61_184).contains(&uid), "{uid}");
    assert_eq!(status(reader, "CapEff").trim_start_matches('0'), "");
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let mut inodes = sockets.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9));
    assert!(!inodes.any(|inode| inode != "0" && has_socket(recorder, inode)));
}

/// The page has what the server has counted, over its restart, and what the file grew by; nothing of what is gone or
/// was never there, which the log says once each. Tables have the same units.
#[test]
fn a_server_and_a_file() {
    let (folder, tables) = (tempfile::tempdir().unwrap(), spool());
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let steps = folder.path().join("steps");
    std::fs::write(&steps, "5").unwrap();
    let server = Server::start("0");
    let page = format!("token=prometheus:http://{}/metrics#tokens_total{{model=\"a\"}}", server.address);
    let (file, place) = (format!("step=file:{}", steps.display()), tables.path().to_str().unwrap());
    let first = ["--window", "1s", "--power", "model", "--spool", place, "--work", &page, "--work", &file];
    let agent = Agent::with(&[&first, &["--work", "never=file:/none"][..]].concat());
    agent.page_with("numbers", |page| ["token", "step"].iter().all(|work| units(page, work) == Some(0)));
    assert_privileges(agent.pid());
    std::fs::write(&steps, "100005").unwrap();
    let done = (0..7).map(|_| server.do_work(100)).max();
    let is_counted = |page: &Page| units(page, "token") == done && units(page, "step") == Some(100_000);
    let page = agent.page_with("what was counted", is_counted);
    assert!(is(&page, "never", "missing") && units(&page, "never").is_none(), "{page:?}");
    let port = server.address.rsplit_once(':').unwrap().1.to_owned();
    drop(server);
    let page = agent.page_with("no server", |page| is(page, "token", "missing"));
    assert_eq!((units(&page, "token"), units(&page, "step")), (None, Some(100_000)));
    let server = Server::start(&port);
    agent.page_with("the server again", |page| units(page, "token") == Some(700));
    let done = server.do_work(40) + 700;
    let page = agent.page_with("what was done since", |page| units(page, "token") == Some(done));
    assert_eq!(page.sample("energy_trace_work_restarts_total{work=\"token\"}"), Some(1_000_000));
    let said = agent.said();
    for (of, words) in
        [("token", "is not"), ("token", "began anew"), ("never", "is not"), ("step", "stood still")]
    {
        let is_it = |line: &&str| line.contains(&format!("--work {of}: ")) && line.contains(words);
        assert_eq!(said.lines().filter(is_it).count(), 1, "{of} {words}: {said}");
    }
    assert_eq!(agent.end(), 0);
    // A window in which a busy machine kept the server from answering has no tokens.
    let sum: i64 = column(tables.path(), "work", "units").iter().sum();
    assert!((100_000..=100_000 + done).contains(&sum), "{sum}");
}
