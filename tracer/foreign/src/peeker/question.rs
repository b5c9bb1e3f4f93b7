//! What can be asked about a target, and the answers. One message each.

use energy_trace_unwind::address_space::Mapping;
use energy_trace_unwind::cpython::code::CodeObject;
use energy_trace_unwind::cpython::code_check::Check;
use energy_trace_unwind::cpython::layout::CodeLayout;
use energy_trace_unwind::cpython::receiver::Named;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a target's memory that one question may want.
pub(super) const MOST_BYTES: u64 = 1 << 20;
/// Bytes of code objects in one answer: more of them are asked for again.
pub(super) const MOST_CODE_BYTES: usize = 8 << 20;
/// Files that are opened for one question.
pub(super) const MOST_OPEN: usize = 16;
/// Bytes of a command line that are read.
pub(super) const MOST_COMMAND: usize = 4096;
/// Bytes of an environment that are searched, and of a value that is taken from it.
pub(super) const MOST_ENVIRONMENT: usize = 128 << 10;
pub(super) const LONGEST_VALUE: usize = 4096;

/// A question about one process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// This stretch of memory: `Option<Vec<u8>>`.
    Bytes { from: u64, length: u64 },
    /// Whether this stretch of memory has these bytes: `bool`.
    IsStill { from: u64, length: u64, digest: u64 },
    /// Code objects: `Vec<Seen>`, as many or fewer.
    Codes { layout: CodeLayout, known: Vec<Known> },
    /// The name of a method with its class: `Option<MethodName>`.
    MethodName { layout: CodeLayout, code: u64, class: u64, name: String },
    /// On what a function was called: `Option<CalledOn>`. Of the code object name and file count.
    CalledOn { layout: CodeLayout, code: CodeObject, first: u64 },
    /// What an object runs: `Option<Named>`.
    Named { layout: CodeLayout, code: CodeObject, object: u64 },
    /// Whether it still runs that: `bool`.
    IsStillNamed { layout: CodeLayout, code: CodeObject, named: Named },
    /// Who it is: `Program`.
    Program,
    /// What these variables were when it started: `Option<Vec<Option<String>>>`; nothing where that cannot be read.
    Variables { names: Vec<String> },
    /// Its code mappings, where one of all its mappings holds the address: `Option<AddressSpace>`.
    Mappings { holding: Option<u64> },
    /// The file behind a mapping: `Result<FileFacts, NotOpened>`, with the file. `or_here`: where the process is gone, by the path below our root.
    Open { mapping: Mapping, or_here: bool },
    /// Those of these files that there are, below the process's root, where `below` says so, else below ours: `Vec<(u32, FileFacts)>` by place in the
    /// list, with the files.
    OpenSome { paths: Vec<PathBuf>, below: bool },
    /// The context that it publishes (OTEP 4719): `Option<Vec<u8>>`.
    Context,
    /// Its root folder: `Option<RootFacts>`, with the folder as a place.
    Root,
}

impl Question {
    /// How long the answer is waited for. What reads memory takes microseconds, what opens files may have to ask a disk.
    pub(super) const fn patience(&self) -> Duration {
        let opens = self.is_of_many() || matches!(self, Self::OpenSome { .. } | Self::Root);
        Duration::from_millis(if opens { 100 } else { 30 })
    }

    /// Whether it is about mappings, of which a process may have any number.
    pub(super) const fn is_of_many(&self) -> bool {
        matches!(self, Self::Mappings { .. } | Self::Open { .. } | Self::Context)
    }
}

/// A code object that is asked about.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Known {
    /// Where it is.
    pub address: u64,
    /// What told it from others when it was read; `None`: it was not.
    pub check: Option<Check>,
    /// The globals that it ran with; 0: not known.
    pub globals: u64,
}

/// What is at the address of a code object.
#[derive(Debug, Serialize, Deserialize)]
pub enum Seen {
    /// Nothing that can be read.
    Unread,
    /// The one that is known.
    Same,
    /// Another one; `None`: none.
    Other(Option<Box<CodeObject>>),
}

/// Who a process is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The user that it belongs to.
    pub owner: Option<u32>,
    /// Its command line, as far as it is read.
    pub command: Vec<String>,
    /// Whether there is more.
    pub is_cut: bool,
    /// Device and inode of the file that it runs.
    pub file: Option<(u64, u64)>,
}

/// Why a file was not opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NotOpened {
    /// It is gone, or cannot be opened.
    Because(String),
    /// A copy of it is being made: it may be asked for again.
    Yet,
    /// Root may not read it, and nor did its user.
    NotRoots {
        /// That user.
        user: u32,
    },
}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> Self {
        Self::Because(error.to_string())
    }
}

/// What the system says of a file that was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileFacts {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) owner: u32,
    pub(super) links: u64,
    pub(super) is_copy: bool,
}

/// A target's file, open for reading: one that lies where reading, asking and closing wait for nobody but a disk or a server of the machine's owner.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file, or a copy of it in memory.
    pub file: File,
    /// Its device and inode.
    pub identity: (u64, u64),
    /// The user that it belongs to.
    pub owner: u32,
    /// Its names.
    pub links: u64,
    /// It is a copy.
    pub is_copy: bool,
}

impl FileFacts {
    /// The file that this is said of.
    pub(super) const fn of(self, file: File) -> OpenedFile {
        let Self { device, inode, owner, links, is_copy } = self;
        OpenedFile { file, identity: (device, inode), owner, links, is_copy }
    }
}

/// What tells a process's root from others, and where it lies in its mount namespace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RootFacts {
    pub(super) namespace: PathBuf,
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) place: PathBuf,
}

/// Sixty-four bits that tell memory from other memory; whoever makes two that are alike fools themselves.
pub fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
