//! What the BPF side logs, with `--verbose`.
//!
//! Leaves out what it says.

use super::object::Object;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that passes on what the BPF side logs.
pub struct LogPump {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LogPump {
    /// Passes on what the object logs; `None` where it cannot.
    pub fn start(object: &mut Object) -> Option<Self> {
        let mut logger = object.logger()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            while !stopped.load(Ordering::Relaxed) {
                logger.flush();
                std::thread::sleep(Duration::from_millis(100));
            }
            logger.flush();
        };
        let thread = std::thread::Builder::new().name("energy-log".into()).spawn(run).ok()?;
        Some(Self { stop, thread: Some(thread) })
    }
}

impl Drop for LogPump {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
