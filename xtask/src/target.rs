//! The processors that the product is built for, and what cargo, Debian and the formats of packages call each.
//!
//! Leaves out what compiles for one that is not this machine's (`cross.rs`).

use std::env::consts::ARCH;

/// A processor, with Linux and the GNU C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// x86-64.
    #[value(name = "x86_64-unknown-linux-gnu", alias = "x86_64")]
    X86_64,
    /// 64-bit Arm.
    #[value(name = "aarch64-unknown-linux-gnu", alias = "aarch64")]
    Aarch64,
}

impl Target {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// This machine's.
    pub fn of_machine() -> Self {
        if ARCH == "aarch64" { Self::Aarch64 } else { Self::X86_64 }
    }

    /// What rustc, rpm and wheels call the processor.
    pub const fn arch(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// What rustc and cargo call it.
    pub const fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// What Debian calls the processor.
    pub const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// How Debian's folders of libraries, compilers and tools for it are called.
    pub const fn multiarch(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-linux-gnu",
            Self::Aarch64 => "aarch64-linux-gnu",
        }
    }

    /// The file of the dynamic loader, and the folder where programs look for it.
    pub const fn loader(self) -> (&'static str, &'static str) {
        match self {
            Self::X86_64 => ("ld-linux-x86-64.so.2", "lib64"),
            Self::Aarch64 => ("ld-linux-aarch64.so.1", "lib"),
        }
    }

    /// A tool of binutils or gcc for it.
    pub fn tool(self, name: &str) -> String {
        if self == Self::of_machine() { name.to_owned() } else { format!("{}-{name}", self.multiarch()) }
    }
}
