//! A process whose first thread has ended while others run (`pthread_exit` in `main`): what `/proc/PID` says of memory, files and roots is
//! empty then, and another thread's number gives it.
//!
//! Leaves out threads one by one: what they share is asked for.

use energy_trace_model::ids::Pid;
use std::fs::{read_dir, read_to_string};
use std::io;
use std::path::Path;

/// Threads that are looked at: those that have ended leave the list at once, but for the first.
const MOST: usize = 8;

/// Reads something that the threads of a process share: by the process's number, else by that of a thread that lives.
///
/// # Errors
/// Those of the first try, where there is no such thread.
pub fn of_living<T>(pid: Pid, read: impl Fn(Pid) -> io::Result<T>) -> io::Result<T> {
    read(pid).or_else(|error| living_thread(pid).map_or(Err(error), read))
}

/// A thread that lives of a process whose first one has ended; `None` where that lives, or nobody does.
pub fn living_thread(pid: Pid) -> Option<Pid> {
    living_thread_at(Path::new("/proc"), pid)
}

/// The same below the place of `/proc`.
pub fn living_thread_at(proc: &Path, pid: Pid) -> Option<Pid> {
    let folder = proc.join(pid.to_string());
    if !has_ended(&folder) {
        return None;
    }
    let entries = read_dir(folder.join("task")).ok()?.flatten().take(MOST);
    let threads = entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    let living = threads.filter(|(tid, path)| *tid != pid.get() && !has_ended(path));
    living.map(|(tid, _)| Pid::new(tid)).next()
}

/// Whether the thread of this folder below `/proc` has ended: its state is Z or X (proc_pid_stat(5)), behind a name in parentheses that may hold some itself.
pub fn has_ended(thread: &Path) -> bool {
    let stat = read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::{living_thread, living_thread_at};
    use energy_trace_model::ids::Pid;

    /// The first thread that lives stands for one that has ended; for one that lives, and where nobody does, there is none.
    #[test]
    fn another_stands_for_the_first() {
        let proc = tempfile::tempdir().unwrap();
        let put = |at: &str, state: &str| {
            std::fs::create_dir_all(proc.path().join(at)).unwrap();
            std::fs::write(proc.path().join(at).join("stat"), format!("7 (a) b) {state} 1 7 7")).unwrap();
        };
        let of = |pid| living_thread_at(proc.path(), Pid::new(pid));
        put("7", "Z");
        put("7/task/7", "Z");
        assert_eq!(of(7), None);
        put("7/task/9", "S");
        assert_eq!(of(7), Some(Pid::new(9)));
        put("7", "R");
        assert_eq!((of(7), of(8)), (None, None));
        assert_eq!(living_thread(Pid::new(std::process::id())), None);
    }
}
