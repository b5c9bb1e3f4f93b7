//! What was found when a recording was held against what the kernel says of the program and of the machine. Part of what a recording holds
//! (`record`).
//!
//! Leaves out the sentences, which the report makes.

use serde::{Deserialize, Serialize};

/// A finding about what a recording lacks, or has too much of, by the kernel's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountDiagnostic {
    /// The recorded CPU time differs from the kernel's account.
    CpuTime {
        /// CPU time of the recording's slices, in nanoseconds.
        recorded_ns: u64,
        /// By the kernel's account.
        kernel_ns: u64,
        /// Why, as far as is known.
        cause: TimeDifference,
    },
    /// Processes that the command started ran on when it had ended.
    StillRunning {
        /// How many.
        processes: u64,
        /// The name of one, the one that had most CPU time.
        name: String,
        /// Its number.
        pid: u32,
    },
    /// The program hardly ran, while a process that is none of its own worked, which had not before.
    WorkedElsewhere {
        /// CPU time of the program, in nanoseconds.
        own_ns: u64,
        /// Length of the recording.
        of_ns: u64,
        /// The name of the process.
        name: String,
        /// Its number.
        pid: u32,
        /// Its CPU time.
        other_ns: u64,
    },
    /// The thread that reads events waited long for a CPU that others had.
    RecorderStarved {
        /// The longest wait, in nanoseconds.
        longest_ns: u64,
    },
    /// Files of the kernel that a container hides, so that something is not known.
    Hidden {
        /// Which.
        files: Vec<HiddenFile>,
    },
}

/// Why recorded CPU time is not the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeDifference {
    /// Slices were lost.
    SlicesLost,
    /// Processes were not followed, as too many were.
    NotFollowed,
    /// The recorder may not run on some CPUs: slices there end late, and the last ones never.
    CpusOutOfReach,
    /// The recorder waited for a CPU.
    Starved,
    /// Time that the program did not run though it had a CPU: the host had taken it.
    Stolen,
    /// Nothing that was noticed explains it.
    Unknown,
}

/// A file of the kernel that recording uses where it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HiddenFile {
    /// `/proc/kallsyms`.
    KernelSymbols,
    /// `/proc/stat`.
    CpuTimes,
    /// `/proc/cpuinfo`.
    CpuModel,
    /// `/proc/sys/kernel`.
    KernelSettings,
    /// `/sys/devices/system/cpu`.
    CpuList,
}

impl AccountDiagnostic {
    /// A stable word for scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::CpuTime { .. } => "cpu-time-differs",
            Self::StillRunning { .. } => "still-running",
            Self::WorkedElsewhere { .. } => "worked-elsewhere",
            Self::RecorderStarved { .. } => "recorder-starved",
            Self::Hidden { .. } => "kernel-files-hidden",
        }
    }
}

impl HiddenFile {
    /// Its path.
    pub const fn path(self) -> &'static str {
        match self {
            Self::KernelSymbols => "/proc/kallsyms",
            Self::CpuTimes => "/proc/stat",
            Self::CpuModel => "/proc/cpuinfo",
            Self::KernelSettings => "/proc/sys/kernel",
            Self::CpuList => "/sys/devices/system/cpu",
        }
    }

    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::KernelSymbols, Self::CpuTimes, Self::CpuModel, Self::KernelSettings, Self::CpuList];
}
