//! How a workload tells the simulator what its threads do. Leaves out the other end (`powercap::channel`).

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The environment variable with the channel's path.
pub const SOCKET_VARIABLE: &str = "POWER_SIM_SOCKET";

/// One thread's connection to the simulator.
pub struct Declaration {
    connection: BufReader<UnixStream>,
}

impl Declaration {
    /// Connects the calling thread to the channel of the environment; `None` where there is none, so that a workload also runs alone.
    ///
    /// # Errors
    /// When there is a channel and it refuses.
    pub fn connect() -> io::Result<Option<Self>> {
        std::env::var_os(SOCKET_VARIABLE).map(|path| Self::connect_to(Path::new(&path))).transpose()
    }

    /// Connects the calling thread to a channel.
    ///
    /// # Errors
    /// When the channel is not there or refuses.
    pub fn connect_to(path: &Path) -> io::Result<Self> {
        let connection = BufReader::new(UnixStream::connect(path)?);
        let mut this = Self { connection };
        // SAFETY: gettid takes nothing and always succeeds.
        let tid = unsafe { libc::gettid() };
        this.say(&format!("thread {tid}"))?;
        Ok(this)
    }

    /// Declares a function's power on one CPU.
    ///
    /// # Errors
    /// When the channel is closed or refuses.
    pub fn function(&mut self, name: &str, watts: f64) -> io::Result<()> {
        self.say(&format!("function {name} {watts}"))
    }

    /// The thread is in `name` from now on.
    ///
    /// # Errors
    /// When the channel is closed or refuses.
    pub fn enter(&mut self, name: &str) -> io::Result<()> {
        self.say(&format!("enter {name} {}", thread_cpu_ns()))
    }

    /// The thread is in no function from now on.
    ///
    /// # Errors
    /// When the channel is closed or refuses.
    pub fn leave(&mut self) -> io::Result<()> {
        self.say(&format!("leave {}", thread_cpu_ns()))
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        self.connection.get_ref().write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        self.connection.read_line(&mut answer)?;
        match answer.trim_end() {
            "ok" => Ok(()),
            wrong => Err(io::Error::other(format!("`{line}` was answered `{wrong}`"))),
        }
    }
}

/// The calling thread's own CPU clock in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec, and every thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
