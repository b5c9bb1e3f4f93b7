//! The page over HTTP/1.1: `GET /metrics`, one request a connection.
//!
//! Whoever asks may be slow or mean harm: there are so many connections at a time and no more, each lives for so long at the most, and a
//! request's head has a limit; others wait in the kernel's queue. A page is made once a window, not for each who asks. Leaves out TLS and
//! passwords, which a proxy before it has.

use energy_trace_report::agent_page::Format;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections at a time.
const MOST_CONNECTIONS: usize = 128;
/// How long a request may take to come.
const HEAD_WITHIN: Duration = Duration::from_secs(2);
/// How long a connection may last.
const ALL_WITHIN: Duration = Duration::from_secs(10);
/// Bytes that are kept of a request's head.
const MOST_HEAD: usize = 16 << 10;
/// After an error of the system: no more files, no memory.
const PAUSE: Duration = Duration::from_millis(100);

/// The newest page, in both formats.
#[derive(Clone, Default)]
pub(super) struct Pages(Arc<Mutex<(Bytes, Bytes)>>);

impl Pages {
    /// Puts a newer one into its place.
    pub(super) fn set(&self, open_metrics: String, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (open_metrics.into(), text.into());
    }

    fn get(&self, format: Format) -> Bytes {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match format {
            Format::OpenMetrics => pages.0.clone(),
            Format::Text => pages.1.clone(),
        }
    }
}

/// A socket that listens, and what waits for it.
pub(super) struct Listener {
    socket: TcpListener,
    runtime: Runtime,
}

impl Listener {
    /// Before the sandbox, in which there are no new sockets.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn new(socket: TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { socket, runtime })
    }

    /// Answers for ever, on this thread.
    pub(super) fn serve(self, pages: &Pages) -> io::Result<()> {
        self.runtime.block_on(serve(self.socket, pages))
    }
}

async fn serve(socket: TcpListener, pages: &Pages) -> io::Result<()> {
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let place = Arc::clone(&connections).acquire_owned().await.map_err(io::Error::other)?;
        let Ok((connection, _)) = socket.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            // Whoever asked and went away is nobody's concern.
            let _ = timeout(ALL_WITHIN, answer(connection, pages)).await;
            drop(place);
        });
    }
}

async fn answer(connection: TcpStream, pages: Pages) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let response = respond(&request, &pages);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MOST_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(connection), service)
        .await
}

fn respond(request: &Request<Incoming>, pages: &Pages) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
            let format = Format::accepted(accept.unwrap_or_default());
            let mut response = Response::new(Full::new(pages.get(format)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
            response
        }
        (&Method::GET | &Method::HEAD, "/") => said(StatusCode::OK, "energy-trace agent: /metrics\n"),
        (&Method::GET | &Method::HEAD, _) => said(StatusCode::NOT_FOUND, "there is /metrics alone\n"),
        _ => {
            let mut response = said(StatusCode::METHOD_NOT_ALLOWED, "GET /metrics\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            response
        }
    }
}

fn said(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::{Listener, MOST_CONNECTIONS, Pages};
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    fn listen() -> (SocketAddr, Pages) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let pages = Pages::default();
        pages.set("open\n# EOF\n".into(), "text\n".into());
        let (listener, served) = (Listener::new(socket).unwrap(), pages.clone());
        std::thread::spawn(move || listener.serve(&served));
        (address, pages)
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut connection = TcpStream::connect(address).unwrap();
        // It may be closed before all is sent.
        let _cut = connection.write_all(request.as_bytes());
        let mut answer = String::new();
        let _cut = connection.read_to_string(&mut answer);
        answer
    }

    const GET: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n";

    /// Each format for those who ask for it, the newest page, and what is no page.
    #[test]
    fn pages() {
        let (address, pages) = listen();
        let open = ask(address, &format!("{GET}Accept: application/openmetrics-text\r\n\r\n"));
        assert!(open.starts_with("HTTP/1.1 200") && open.ends_with("\r\n\r\nopen\n# EOF\n"), "{open}");
        assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
        let text = ask(address, &format!("{GET}\r\n"));
        assert!(text.contains("text/plain; version=0.0.4") && text.ends_with("\r\n\r\ntext\n"), "{text}");
        pages.set(String::new(), "newer\n".into());
        assert!(ask(address, &format!("{GET}\r\n")).ends_with("newer\n"));
        for (request, status) in [
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET /other HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "405"),
            ("nonsense\r\n\r\n", "400"),
            (&format!("{GET}X: {}\r\n\r\n", "x".repeat(1 << 20)), "431"),
        ] {
            let answer = ask(address, request);
            let said = answer.starts_with(&format!("HTTP/1.1 {status}"));
            // Of a head that is too long the answer may be lost with the rest.
            assert!(said || status == "431" && answer.is_empty(), "{status}: {answer}");
        }
    }

    /// A hundred that say nothing keep nobody waiting, and are sent away; more than there may be make others wait no longer than that.
    #[test]
    fn slow_and_many() {
        let (address, _) = listen();
        let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
        let began = Instant::now();
        assert!(ask(address, &format!("{GET}\r\n")).ends_with("text\n"));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        let more: Vec<TcpStream> =
            (0..MOST_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(ask(address, &format!("{GET}\r\n")).ends_with("text\n"));
        for mut connection in silent.into_iter().chain(more) {
            connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let _answer = connection.read_to_end(&mut Vec::new()).unwrap();
        }
    }
}
