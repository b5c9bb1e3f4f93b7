//! Limits of the process (`ulimit`) that leave too little to record with, found before anything is set up.
//!
//! What cannot be had later ends in an error where it is needed; memory is the exception, without which a program ends by a signal.
//! Leaves out the size of files, which is met like a full disk (`tracee::signals`), and the number of processes, which a try finds out.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::error::Error;
use std::io;

/// A limit is too low.
#[derive(Debug, thiserror::Error)]
#[error(
    "the limit on {what} is {limit} (ulimit {flag}), but recording needs at least {needed}: raise it in the shell that starts energy-trace, with \
     `ulimit {flag} {raised}`"
)]
pub struct LimitError {
    what: &'static str,
    flag: &'static str,
    limit: String,
    needed: String,
    raised: &'static str,
}

/// Files that are open in a recording of a shell on one CPU, measured: 64 that stay, and those that come and go while it begins (77 on two CPUs at
/// the most). Libraries of targets stay open beside them where the limit lets them.
const FILES: u64 = 80;
/// Address space that a recording reserves, measured: 540 MiB, most of it thread stacks and heaps that are never touched.
const ADDRESS_SPACE: u64 = 1 << 30;
/// What the first thread's stack may take, measured: 512 KiB are too few in one of two starts without optimisation, 600 are enough.
const STACK: u64 = 1 << 20;
/// Memory that a recording of a large program takes.
const DATA: u64 = 1 << 29;

/// Whether the limits leave enough to record with.
///
/// # Errors
/// The first that does not.
pub fn check(cpus: usize) -> Result<(), LimitError> {
    // An event on each CPU, and its frequency.
    let files = FILES + 2 * cpus as u64;
    let plain = |number: u64| number.to_string();
    check_one(Resource::RLIMIT_NOFILE, files, plain, ("open files", "-n", "1024"))?;
    check_one(Resource::RLIMIT_AS, ADDRESS_SPACE, mebibytes, ("address space", "-v", "unlimited"))?;
    check_one(Resource::RLIMIT_DATA, DATA, mebibytes, ("memory", "-d", "unlimited"))
}

/// Whether the first thread's stack may grow enough.
///
/// # Errors
/// When it may not.
pub fn check_stack() -> Result<(), LimitError> {
    let kibibytes = |bytes: u64| format!("{} KiB", bytes >> 10);
    check_one(Resource::RLIMIT_STACK, STACK, kibibytes, ("stacks", "-s", "8192"))
}

fn check_one(
    resource: Resource,
    needed: u64,
    show: impl Fn(u64) -> String,
    (what, flag, raised): (&'static str, &'static str, &'static str),
) -> Result<(), LimitError> {
    // A limit that cannot be read is taken for none.
    let limit = getrlimit(resource).map_or(RLIM_INFINITY, |(soft, _)| soft);
    if limit >= needed {
        return Ok(());
    }
    Err(LimitError { what, flag, limit: show(limit), needed: show(needed), raised })
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// What the system's word for a limit means, wherever it was met.
pub fn advise(error: &(dyn Error + 'static)) -> Option<String> {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let code = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error()).last()?;
    let (resource, what, flag, unit) = match code {
        libc::EFBIG => (Resource::RLIMIT_FSIZE, "the size of files", "-f", " bytes"),
        libc::EAGAIN => (Resource::RLIMIT_NPROC, "processes and threads of a user", "-u", ""),
        libc::EMFILE => (Resource::RLIMIT_NOFILE, "open files", "-n", ""),
        _ => return None,
    };
    let (limit, _) = getrlimit(resource).ok()?;
    let limit = if limit == RLIM_INFINITY { "none".to_owned() } else { format!("{limit}{unit}") };
    Some(format!(
        "the limit on {what} (ulimit {flag}) is {limit}; recording takes 15 processes and threads, 100 open files and a file of 100 KiB a \
         second or more: raise the limit in the shell that starts energy-trace"
    ))
}
