//! Functions in which a pool's threads and processes wait for something to do: what runs below them was asked for by somebody else.
//!
//! Checked on CPython 3.8 to 3.15, torch 1.13 and 2.x, joblib 1.x. Threads without Python frames need no entry here: that they work for
//! others is seen from their having none.

use energy_trace_model::recording::record::{Frame, FrameKind};

/// End of the file's path, and the function's name without its class.
const LOOPS: [(&str, &str); 14] = [
    ("concurrent/futures/thread.py", "_worker"),
    ("concurrent/futures/process.py", "_process_worker"),
    ("concurrent/futures/process.py", "_queue_management_worker"),
    ("concurrent/futures/process.py", "run"),
    ("multiprocessing/pool.py", "worker"),
    ("multiprocessing/pool.py", "_handle_workers"),
    ("multiprocessing/pool.py", "_handle_tasks"),
    ("multiprocessing/pool.py", "_handle_results"),
    ("multiprocessing/queues.py", "_feed"),
    ("torch/utils/data/_utils/worker.py", "_worker_loop"),
    ("torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop"),
    ("joblib/externals/loky/process_executor.py", "_process_worker"),
    ("joblib/externals/loky/process_executor.py", "run"),
    ("joblib/externals/loky/backend/queues.py", "_feed"),
];

/// Whether a frame is one of them.
pub(crate) fn is_pool_loop(frame: &Frame) -> bool {
    let name = frame.name.rsplit('.').next().unwrap_or_default();
    let fits = |(file, function): &(&str, &str)| name == *function && frame.file.ends_with(file);
    frame.kind == FrameKind::Python && LOOPS.iter().any(fits)
}

#[cfg(test)]
mod tests {
    use super::is_pool_loop;
    use energy_trace_model::recording::record::{Frame, FrameKind};

    fn frame(file: &str, name: &str) -> Frame {
        let (name, file, module) = (name.to_owned(), file.to_owned(), String::new());
        Frame { kind: FrameKind::Python, name, module, file, line: 90, first_line: 70, address: 0 }
    }

    /// File and name must both fit; a class before the name does not matter, since CPython before 3.11 does not record it.
    #[test]
    fn loops_are_known_by_file_and_name() {
        assert!(is_pool_loop(&frame("/usr/lib/python3.11/concurrent/futures/thread.py", "_worker")));
        assert!(is_pool_loop(&frame("/usr/lib/python3.11/multiprocessing/queues.py", "Queue._feed")));
        assert!(!is_pool_loop(&frame("/home/me/thread.py", "_worker")));
        assert!(!is_pool_loop(&frame("/usr/lib/python3.11/concurrent/futures/thread.py", "submit")));
    }
}
