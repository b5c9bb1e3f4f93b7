//! Work on a thread of its own, for whoever waits on tokio: where no thread can be had that is an error, not tokio's panic.
//!
//! Leaves out what is done.

use std::io;
use tokio::sync::oneshot;

/// Does this on a new thread of this name. The receiver learns what came of it, or by an error of its own that the thread panicked.
///
/// # Errors
/// When no thread can be had.
pub fn on_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (sender, done) = oneshot::channel();
    std::thread::Builder::new().name(name.into()).spawn(move || {
        // Nobody may listen any more.
        let _ = sender.send(work());
    })?;
    Ok(done)
}

/// Runs a future to its end on a new thread of this name, with timers.
///
/// # Errors
/// When no thread can be had, or none of what timers need.
pub fn run_on_thread<T: Send + 'static>(
    name: &str,
    future: impl Future<Output = T> + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    on_thread(name, move || runtime.block_on(future))
}
