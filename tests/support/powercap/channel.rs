//! The channel over which a workload says what its threads do: a Unix socket, one connection for each thread, one line for each message,
//! one line of answer.
//!
//! ```text
//! thread TID              this connection speaks for the thread TID           → ok
//! function NAME WATTS     the power of a function on one CPU                  → ok
//! enter NAME CPU_NS       the thread is now in NAME; its CPU clock shows this → ok
//! leave CPU_NS            the thread is in no function now                    → ok
//! truth                   what was really spent                              → a line of JSON
//! ```
//!
//! A wrong line is answered `error …`. The workload waits for the answer, so the thread is off the CPU while its clock is read, and no
//! counter is read between a change of function and its message.

use super::meter::{Meter, lock};
use super::thread_clock::TaskClock;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Opens the channel and answers on threads of its own, for as long as the process lives.
///
/// # Errors
/// When the socket cannot be made.
pub fn serve(path: &Path, meter: &Arc<Mutex<Meter>>) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    // The command under test may run as another user than the simulator.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    let meter = Arc::clone(meter);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let meter = Arc::clone(&meter);
            std::thread::spawn(move || {
                let mut thread = None;
                // A workload that ends in the middle of a line has nothing more to say.
                let _ = answer_all(&connection, &meter, &mut thread);
                if let Some(thread) = thread {
                    lock(&meter).forget(thread);
                }
            });
        }
    });
    Ok(())
}

fn answer_all(connection: &UnixStream, meter: &Mutex<Meter>, thread: &mut Option<u64>) -> io::Result<()> {
    let mut out = connection;
    for line in BufReader::new(connection).lines() {
        let answer = answer(&line?, meter, thread).unwrap_or_else(|why| format!("error {why}"));
        out.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

fn answer(line: &str, meter: &Mutex<Meter>, thread: &mut Option<u64>) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
    let mine = |thread: &Option<u64>| thread.ok_or_else(|| "say `thread TID` first".to_owned());
    match *words.as_slice() {
        ["thread", tid] => {
            let tid = tid.parse().map_err(|_| format!("`{tid}` is not a thread"))?;
            let clock =
                TaskClock::open(tid).map_err(|e| format!("cannot count thread {tid}: {e} (run as root)"))?;
            *thread = Some(lock(meter).follow(Box::new(clock)));
        }
        ["function", name, watts] => {
            let watts = watts.parse().map_err(|_| format!("`{watts}` is not a power"))?;
            lock(meter).declare(name, watts);
        }
        ["enter", name, cpu_ns] => lock(meter).switch(mine(thread)?, Some(name), number(cpu_ns)?)?,
        ["leave", cpu_ns] => lock(meter).switch(mine(thread)?, None, number(cpu_ns)?)?,
        ["truth"] => return serde_json::to_string(&lock(meter).truth()).map_err(|e| e.to_string()),
        _ => return Err(format!("`{line}` is not a message")),
    }
    Ok("ok".to_owned())
}
