//! Where the program's code comes from: the folder in which it started, and the Git repository in which that lies. Part of what a recording holds (`record`).
//!
//! Leaves out how it is found (`tracer/src/finisher/project.rs`), and whether files differ from the commit: nobody looked.

use serde::{Deserialize, Serialize};

/// The program's folder and repository, as far as they are known; what is not is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// The folder in which the command started.
    pub folder: String,
    /// The folder at the repository's root.
    pub root: String,
    /// The address of its remote `origin`, without a user's name or password.
    pub repository: String,
    /// The branch that was checked out.
    pub branch: String,
    /// The commit, in hex.
    pub commit: String,
    /// When it was committed: seconds since 1970.
    pub committed_s: Option<i64>,
}
