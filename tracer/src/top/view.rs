//! Reads the recording through a pipe while it is made, attributes a window of time after the other, and draws what they have together.
//!
//! Leaves out the terminal itself and what a screen says.

use super::terminal::{self, Terminal};
use crate::live::{LAG, PIECE, Pipe, Watcher};
use energy_trace_attribution::{attribute_over_time_owned, attribute_owned};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::{Options, OverTime};
use energy_trace_model::recording::live::IncrementalReader;
use energy_trace_report::top::{Screen, Section, Totals};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a window is.
const WINDOW: Duration = Duration::from_secs(2);
/// Milliseconds between two looks at the terminal's size.
const LOOK_MS: u16 = 250;

/// Who looks: from the pipe's making to the terminal as it was.
pub(crate) struct View {
    color: bool,
    pipe: Pipe,
    thread: Option<JoinHandle<io::Result<Totals>>>,
}

impl View {
    /// Makes the pipe. Nothing is drawn yet.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(crate) fn new(color: bool) -> io::Result<Self> {
        Ok(Self { color, pipe: Pipe::new()?, thread: None })
    }
}

impl Watcher for View {
    fn take_writing_end(&mut self) -> Option<OwnedFd> {
        self.pipe.writing.take()
    }

    /// Begins to draw.
    fn begin(&mut self) {
        let (Some(pipe), color) = (self.pipe.reading.take(), self.color) else { return };
        self.thread = std::thread::Builder::new().name("screen".into()).spawn(move || look(pipe, color)).ok();
    }

    /// Waits for the end of the recording, or takes what there is where somebody has had enough; says what was used in a line.
    fn end(&mut self) -> Result<(), String> {
        self.pipe.close();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let line = match thread.join() {
            Ok(Ok(totals)) if !totals.is_empty() => totals.last_line(),
            Ok(Ok(_)) => {
                "energy-trace: too short to show anything; `energy-trace record` shows short runs".into()
            }
            Ok(Err(error)) => format!("energy-trace: the screen ended: {error}"),
            Err(_) => "energy-trace: the screen ended: an error in energy-trace".into(),
        };
        let _ = writeln!(io::stderr(), "{line}");
        Ok(())
    }
}

/// What is shown now, and since when.
struct Looking {
    live: IncrementalReader,
    totals: Totals,
    section: Section,
    color: bool,
    drawn: Option<(u16, u16)>,
    looked: Instant,
}

/// Looks until the recording ends or somebody has had enough.
fn look(mut pipe: File, color: bool) -> io::Result<Totals> {
    let terminal = Terminal::take()?;
    let (live, totals, section) = (IncrementalReader::default(), Totals::default(), Section::All);
    let mut looking = Looking { live, totals, section, color, drawn: None, looked: Instant::now() };
    let mut piece = vec![0; PIECE];
    loop {
        looking.draw(&terminal)?;
        let (has_bytes, has_keys) = match terminal::wait(pipe.as_fd(), LOOK_MS) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            waited => waited?,
        };
        if has_keys {
            let keys = terminal::keys();
            // No key though there was something: the terminal was closed.
            if keys.is_empty() || !keys.into_iter().all(|key| looking.key(key)) {
                return Ok(looking.totals);
            }
        }
        if has_bytes {
            let read = pipe.read(&mut piece)?;
            if read == 0 {
                let end = looking.live.last();
                looking.window(end);
                return Ok(looking.totals);
            }
            looking.live.push(piece.get(..read).unwrap_or_default()).map_err(io::Error::other)?;
        }
        if looking.looked.elapsed() >= WINDOW {
            looking.looked = Instant::now();
            let last = looking.live.last().as_ns();
            looking.window(KtimeNs::from_ns(last.saturating_sub(u64::try_from(LAG.as_nanos()).unwrap_or(0))));
        }
    }
}

impl Looking {
    /// Whether to go on.
    fn key(&mut self, key: u8) -> bool {
        self.section = match key {
            b'q' | b'Q' => return false,
            b'p' => Section::Processes,
            b'a' => Section::Calls,
            b'f' => Section::Functions,
            b's' => Section::All,
            b'r' => {
                self.totals.reset();
                self.section
            }
            _ => self.section,
        };
        self.drawn = None;
        true
    }

    fn window(&mut self, until: KtimeNs) {
        if let Some(window) = self.live.window(until) {
            let options = Options::logical();
            // When energy was used matters for units of work alone.
            let (profile, over_time) = match window.work.is_empty() {
                true => (attribute_owned(window, &options), OverTime::default()),
                false => attribute_over_time_owned(window, &options),
            };
            self.totals.add(&profile, &over_time);
            self.drawn = None;
        }
    }

    /// Draws where there is something new, or the terminal has another size.
    fn draw(&mut self, terminal: &Terminal) -> io::Result<()> {
        let size = terminal.size();
        if self.drawn == Some(size) {
            return Ok(());
        }
        self.drawn = Some(size);
        let screen = Screen { size, color: self.color, section: self.section };
        if self.totals.is_empty() {
            return terminal
                .draw(&["energy-trace: measuring, the first window takes some seconds; q quits".to_owned()]);
        }
        terminal.draw(&self.totals.lines(&screen))
    }
}
