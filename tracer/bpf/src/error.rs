//! Why the probes cannot run, and what to do about it.

use super::btf::BtfError;
use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use energy_trace_system::privileges::setcap_advice;
use std::io;
use thiserror::Error;

/// Why the probes cannot run.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The kernel's types are not to be had.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The kernel does not take the programs or their maps.
    #[error("the BPF programs cannot be loaded: {text}")]
    Load {
        /// What the kernel says.
        text: String,
        /// The system's error, where there is one.
        errno: Option<i32>,
    },
    /// The verifier refuses a program.
    #[error("the kernel's verifier refuses the BPF program {program}: {text}")]
    Verify {
        /// The program.
        program: String,
        /// The end of the verifier's log.
        text: String,
        /// The system's error, where there is one.
        errno: Option<i32>,
    },
    /// A program cannot be attached.
    #[error("cannot attach to {place}: {text}")]
    Attach {
        /// Where.
        place: String,
        /// What the system says.
        text: String,
        /// The system's error, where there is one.
        errno: Option<i32>,
    },
    /// Hardware cycles cannot be had.
    #[error("stacks cannot be sampled by hardware cycles: {text}")]
    Cycles {
        /// What the system says.
        text: String,
        /// The system's error, where there is one.
        errno: Option<i32>,
    },
    /// The object is not the one that this program was built for.
    #[error("the BPF object of this build is damaged: {0}")]
    Object(String),
    /// A thread cannot be started, a descriptor cannot be had.
    #[error("the reader of the BPF events cannot be started: {0}")]
    Reader(#[from] io::Error),
}

impl ProbeError {
    pub(crate) fn load(error: &EbpfError) -> Self {
        Self::Load { text: chain(error), errno: errno(error) }
    }

    pub(crate) fn verify(program: &str, error: &ProgramError) -> Self {
        let text = match error {
            ProgramError::LoadError { io_error, verifier_log } => {
                let log = verifier_log.to_string();
                let lines: Vec<&str> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(12)..].join("\n  ");
                format!("{io_error}\n  {tail}")
            }
            other => chain(other),
        };
        Self::Verify { program: program.into(), text, errno: errno(error) }
    }

    pub(crate) fn attach(place: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Attach { place: place.into(), text: chain(error), errno: errno(error) }
    }

    pub(crate) fn cycles(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Cycles { text: chain(error), errno: errno(error) }
    }

    /// What the user can do, where something can be done.
    pub fn advice(&self) -> Option<String> {
        let permitted = || {
            let program = std::env::current_exe().unwrap_or_else(|_| "energy-trace".into());
            let capabilities = setcap_advice(&program);
            format!(
                "run it as root (sudo energy-trace -- COMMAND…), or give the binary the capabilities: {capabilities}"
            )
        };
        match self {
            Self::Btf(_) => Some(
                "energy-trace needs a kernel built with CONFIG_DEBUG_INFO_BTF=y (Debian's, Ubuntu's and Fedora's are, from \
                 5.10, 20.10 and 31 on); in a container, mount the host's /sys"
                    .into(),
            ),
            Self::Load { errno, .. } | Self::Verify { errno, .. } | Self::Attach { errno, .. } => match *errno {
                Some(libc::EPERM | libc::EACCES) => Some(permitted()),
                Some(libc::ENOSYS) => Some("this kernel was built without the bpf system call (CONFIG_BPF_SYSCALL)".into()),
                Some(libc::EINVAL) => Some("energy-trace needs Linux 5.10 or newer".into()),
                _ => None,
            },
            Self::Cycles { errno: Some(libc::EPERM | libc::EACCES), .. } => Some(permitted()),
            Self::Cycles { errno: Some(libc::EBUSY), .. } => Some(
                "another program has the CPU's counters (a second profiler, the NMI watchdog: sudo sysctl kernel.nmi_watchdog=0); or leave \
                 --sample-event cycles out: the CPU clock always works"
                    .into(),
            ),
            Self::Cycles { .. } => Some(
                "this machine has no hardware counters for it, as is usual on virtual ones: leave --sample-event cycles out, or say \
                 --sample-event cpu-clock"
                    .into(),
            ),
            Self::Object(_) => Some("build it again: cargo xtask build".into()),
            Self::Reader(_) => None,
        }
    }
}

impl From<MapError> for ProbeError {
    fn from(error: MapError) -> Self {
        Self::Load { text: chain(&error), errno: errno(&error) }
    }
}

/// The error and its causes in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// The system's error number at the bottom of the chain.
fn errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut at = Some(error);
    while let Some(inner) = at {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return io.raw_os_error();
        }
        if let Some(ProgramError::LoadError { io_error, .. }) = inner.downcast_ref() {
            return io_error.raw_os_error();
        }
        at = inner.source();
    }
    None
}
