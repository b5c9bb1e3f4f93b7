//! The module that counts calls of Python functions in a command: its folder, the socket that it tells its counts to, the variables that name both.
//!
//! Python loads it as `sitecustomize`, by `PYTHONPATH`; it runs with the command's own rights. What it tells is kept as bytes, which a
//! resolver's worker reads. Leaves out the module itself (`data/count_python_calls.py`) and what it tells (`symbolize/python_calls.rs`).

use super::named_folder::{Holds, NamedFolder};
use energy_trace_foreign::files::install::{
    SOCKET_FILE, by_descriptor, listen_in, open_socket_to, open_to_all, put,
};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::sockopt::{PassCred, PeerCredentials};
use nix::sys::socket::{getsockopt, setsockopt};
use nix::unistd::{Uid, geteuid};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MODULE: &str = concat!(
    include_str!("../../data/next_sitecustomize.py"),
    include_str!("../../data/count_python_calls.py")
);
/// Where Python looks for modules.
const PATH: &str = "PYTHONPATH";
/// The socket for units of work, in the same folder.
const UNITS: &str = "units";
/// What it loads where sizes of arguments are wanted.
const SIZES: &str = include_str!("../../data/python_input_sizes.py");
/// How an interpreter begins that does not report calls, and what is said as the first one starts, when its user can still choose another.
const OLD: &[u8] = b"O\t";
const NOT_COUNTED: &str =
    "calls of Python functions cannot be counted here: this Python does not report them (3.12 and later do)";
/// Milliseconds after which it is looked whether the recording has ended.
const LOOK_MS: u16 = 200;
/// How long a process may take to tell, and all that have not been heard at the end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes that a process may tell, and all together.
const MOST: u64 = 8 << 20;
const MOST_IN_ALL: usize = 64 << 20;

/// The module where the command finds it, and who listens to it.
#[derive(Debug)]
pub struct PythonCounting {
    folder: NamedFolder,
    names: Vec<String>,
    /// Names that are units of work, by number, and where these are told over time.
    units: Vec<String>,
    told: Option<UnixDatagram>,
    sizes: bool,
    listener: UnixListener,
    user: Uid,
    stop: Arc<AtomicBool>,
    is_old: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<u8>>>,
}

impl PythonCounting {
    /// Puts the module in place, for processes of this user; `None`: of the one who runs this. It notes the sizes of arguments where they are
    /// wanted, and tells calls of these units of work over time.
    ///
    /// # Errors
    /// When there is no folder or socket to be had.
    pub fn prepare(
        (names, units): (Vec<String>, Vec<String>),
        sizes: bool,
        user: Option<Uid>,
    ) -> io::Result<Self> {
        let folder = NamedFolder::make(Holds::Text)?;
        for (name, text) in [("sitecustomize.py", MODULE), ("energy_trace_input_sizes.py", SIZES)] {
            put(folder.open(), name.as_ref(), &mut text.as_bytes(), 0o644)?;
        }
        let listener = listen_in(folder.open())?;
        listener.set_nonblocking(true)?;
        let (stop, user) = (Arc::new(AtomicBool::new(false)), user.unwrap_or_else(geteuid));
        let told = if units.is_empty() { None } else { Some(socket_of_units(folder.open(), user)?) };
        open_to_all(folder.open())?;
        let is_old = Arc::default();
        Ok(Self { folder, names, units, told, sizes, listener, user, stop, is_old, thread: None })
    }

    /// Begins to listen, on a thread of its own; what is told before waits.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(&mut self) -> io::Result<()> {
        let (listener, user, stop) = (self.listener.try_clone()?, self.user, Arc::clone(&self.stop));
        let is_old = Arc::clone(&self.is_old);
        let listen = move || listen(&listener, user, &stop, &is_old);
        self.thread = Some(std::thread::Builder::new().name("energy-counts".into()).spawn(listen)?);
        Ok(())
    }

    /// Whether a Python was started that reports no calls.
    pub fn is_old(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_old)
    }

    /// Where units of work are told.
    pub fn take_told(&mut self) -> Option<OwnedFd> {
        self.told.take().map(OwnedFd::from)
    }

    /// Sets what belongs into the command's environment.
    pub fn set_in(&self, environment: &mut Vec<(&'static str, OsString)>) {
        load_first(environment, self.folder.path());
        let socket = self.folder.path().join(SOCKET_FILE).into_os_string();
        environment.push(("ENERGY_TRACE_COUNT", socket));
        environment.push(("ENERGY_TRACE_COUNT_NAMES", self.names.join(",").into()));
        if !self.units.is_empty() {
            environment.push(("ENERGY_TRACE_UNITS", self.folder.path().join(UNITS).into_os_string()));
            environment.push(("ENERGY_TRACE_UNIT_NAMES", self.units.join(",").into()));
        }
        environment.extend(self.sizes.then(|| ("ENERGY_TRACE_INPUT_SIZES", "1".into())));
    }

    /// What was told, with what has not been heard yet.
    pub fn finish(self) -> Vec<u8> {
        self.stop.store(true, Ordering::Release);
        self.thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// A socket in a folder to which this user may send, and which tells who did: whoever else sent would keep the user's own from being heard.
fn socket_of_units(folder: &File, user: Uid) -> io::Result<UnixDatagram> {
    let told = UnixDatagram::bind(by_descriptor(folder).join(UNITS))?;
    setsockopt(&told, PassCred, &true)?;
    open_socket_to(folder, UNITS, user)?;
    Ok(told)
}

/// Has Python look into this folder first: before others of ours, and those of the user. Each `sitecustomize` loads the next one.
pub(super) fn load_first(environment: &mut Vec<(&'static str, OsString)>, folder: &Path) {
    let ours = environment.iter().position(|(name, _)| *name == PATH).map(|at| environment.remove(at).1);
    let mut path = folder.as_os_str().to_owned();
    if let Some(next) = ours.or_else(|| std::env::var_os(PATH)).filter(|next| !next.is_empty()) {
        path.push(":");
        path.push(next);
    }
    environment.push((PATH, path));
}

fn listen(listener: &UnixListener, user: Uid, stop: &AtomicBool, was_said: &AtomicBool) -> Vec<u8> {
    let mut told = Vec::new();
    let mut since: Option<Instant> = None;
    loop {
        if stop.load(Ordering::Acquire) && since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return told;
        }
        match listener.accept() {
            Ok((from, _)) => {
                let begin = told.len();
                let _unheard = hear(&from, user, &mut told);
                let is_old = told.get(begin..).is_some_and(|told| told.starts_with(OLD));
                if is_old && !was_said.swap(true, Ordering::Relaxed) {
                    log::warn!("{NOT_COUNTED}");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if since.is_some() {
                    return told;
                }
                let mut ready = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                let _woken = poll(&mut ready, LOOK_MS);
            }
            // Nobody is waited for where no descriptor is left.
            Err(_) => std::thread::sleep(Duration::from_millis(LOOK_MS.into())),
        }
    }
}

/// Takes in what a process tells.
fn hear(from: &UnixStream, user: Uid, told: &mut Vec<u8>) -> io::Result<()> {
    let peer = getsockopt(from, PeerCredentials)?;
    if peer.uid() != user.as_raw() || told.len() >= MOST_IN_ALL {
        return Ok(());
    }
    let (until, mut block, mut left) = (Instant::now() + PATIENCE, vec![0; 64 << 10], MOST);
    from.set_nonblocking(false)?;
    while left > 0 {
        let patience = until.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            break;
        }
        from.set_read_timeout(Some(patience))?;
        let mut from = from;
        let read = from.read(&mut block)?;
        if read == 0 {
            break;
        }
        told.extend(block.get(..read).unwrap_or_default());
        left = left.saturating_sub(read as u64);
    }
    // What another process tells begins a line.
    told.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PythonCounting, load_first};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    /// What processes tell is kept, each on lines of its own, also what comes as the recording ends; the folder goes.
    #[test]
    fn what_is_told_is_kept() {
        let mut counting = PythonCounting::prepare((vec!["f".into()], vec![]), false, None).unwrap();
        counting.start().unwrap();
        let mut environment = Vec::new();
        counting.set_in(&mut environment);
        let socket = environment.iter().find(|(name, _)| *name == "ENERGY_TRACE_COUNT").unwrap().1.clone();
        for text in ["S\n", "F\tcut"] {
            UnixStream::connect(&socket).unwrap().write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(counting.finish(), b"S\n\nF\tcut\n");
        assert!(!std::path::Path::new(&socket).exists());
    }

    /// Of several folders all are there, the last one first.
    #[test]
    fn modules_of_several() {
        let mut environment = vec![("A", "b".into()), ("PYTHONPATH", "/ranges:/own".into())];
        load_first(&mut environment, "/counts".as_ref());
        assert_eq!(environment, [("A", "b".into()), ("PYTHONPATH", "/counts:/ranges:/own".into())]);
    }
}
