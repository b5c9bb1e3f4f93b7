//! Control groups of the second version for a test, removed when it ends.
//!
//! Leaves out what a test does with them.

use crate::place::eventually;
use std::path::{Path, PathBuf};

/// A group.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// A group of this name and process; `None` where none can be made.
    pub fn new(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let root = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
        let folder = Path::new(root).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        Some(Self(folder))
    }

    /// A group within it.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn below(&self, name: &str) -> Self {
        let folder = self.0.join(name);
        assert!(std::fs::create_dir(&folder).is_ok(), "cannot make {}", folder.display());
        Self(folder)
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let is_removed = || std::fs::remove_dir(&self.0).is_ok();
        // Of a test that has failed already, only what can be; else those who ended are still in it for a moment.
        match std::thread::panicking() {
            true => _ = is_removed(),
            false => eventually("the group is empty", is_removed),
        }
    }
}
