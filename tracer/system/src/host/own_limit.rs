//! Limits (`ulimit`) that this program raises for itself alone: what it starts has those that were.
//!
//! Leaves out which leave too little, whatever is done (`limits.rs`).

use super::open_files::WANTED;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io;
use std::sync::OnceLock;

/// Files that are open, and how far the first thread's stack may grow: as far as most shells let it, and far more than it does. The kernel
/// asks when it grows.
static FILES: OwnLimit = OwnLimit::new(Resource::RLIMIT_NOFILE, WANTED);
static STACK: OwnLimit = OwnLimit::new(Resource::RLIMIT_STACK, 8 << 20);

/// A limit, and what it was.
struct OwnLimit {
    resource: Resource,
    wanted: u64,
    before: OnceLock<u64>,
}

impl OwnLimit {
    /// One of which so much is of use.
    const fn new(resource: Resource, wanted: u64) -> Self {
        Self { resource, wanted, before: OnceLock::new() }
    }

    fn raise(&self) {
        let Ok((soft, hard)) = getrlimit(self.resource) else { return };
        self.before.get_or_init(|| soft);
        let raised = hard.min(self.wanted).max(soft);
        if let Err(error) = setrlimit(self.resource, raised, hard) {
            log::debug!("the limit {:?} stays {soft}: {error}", self.resource);
        }
    }

    fn restore(&self) -> io::Result<()> {
        let Some(&soft) = self.before.get() else { return Ok(()) };
        let (_, hard) = getrlimit(self.resource)?;
        Ok(setrlimit(self.resource, soft.min(hard), hard)?)
    }
}

/// Raises soft limits as far as the hard ones let, and it is of use. Programs are started with those that were (`restore`).
pub fn raise() {
    FILES.raise();
    STACK.raise();
}

/// Gives this process, which is about to execute a program, the limits that were. Makes system calls only.
///
/// # Errors
/// When the system refuses.
pub fn restore() -> io::Result<()> {
    FILES.restore()?;
    STACK.restore()
}
