//! What this process may do and what the kernel offers, before anything is tried.
//!
//! The facts come from `/proc` and `/sys` below a root that can be given, so that a kernel without BTF can be put on a table. Leaves out
//! whether the BPF programs really load: `probe/` tries, and its error is the last word.

use nix::unistd::{geteuid, getuid};
use std::path::{Path, PathBuf};

/// A capability that recording uses: its bit (include/uapi/linux/capability.h, v6.1), its name, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    bit: u8,
    /// As `setcap` writes it.
    pub name: &'static str,
    /// What energy-trace does with it.
    pub purpose: &'static str,
}

const CAP_DAC_READ_SEARCH: Capability =
    Capability { bit: 2, name: "cap_dac_read_search", purpose: "read tracefs and the powercap counters" };
const CAP_SYS_PTRACE: Capability = Capability {
    bit: 19,
    name: "cap_sys_ptrace",
    purpose: "read memory maps and interpreters of other processes",
};
const CAP_SYS_ADMIN: Capability = Capability { bit: 21, name: "cap_sys_admin", purpose: "" };
const CAP_SETGID: Capability = Capability { bit: 6, name: "cap_setgid", purpose: "become other users" };
const CAP_SETUID: Capability = Capability { bit: 7, name: "cap_setuid", purpose: "become other users" };
const CAP_PERFMON: Capability = Capability { bit: 38, name: "cap_perfmon", purpose: "sample on every CPU" };
const CAP_BPF: Capability = Capability { bit: 39, name: "cap_bpf", purpose: "load BPF programs" };

/// Everything recording uses, in the order in which messages name it.
const USED: [Capability; 4] = [CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH];
/// What root needs beside it: its helpers give up root.
const USED_BY_ROOT: [Capability; 2] = [CAP_SETGID, CAP_SETUID];

/// Why a recording cannot start. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// Not root, and without the capabilities that would do instead.
    #[error(
        "recording needs root or capabilities that this process lacks: {}\n  \
         run it as root:      {sudo}\n  \
         or grant them once:  {}",
        list(missing),
        setcap_advice(program)
    )]
    Missing {
        /// What is missing.
        missing: Vec<Capability>,
        /// The same command line under sudo.
        sudo: String,
        /// The program that `setcap` would be run on.
        program: PathBuf,
    },
    /// Root, whom a container or a service leaves too few of root's capabilities.
    #[error("this root lacks capabilities that recording needs: {}\n  {}", list(.0), cap_add_advice(.0))]
    RootLacks(Vec<Capability>),
    /// The caller's privileges are the program's, and this option would let the caller use them for something else.
    #[error(
        "{option} is refused, because this program has capabilities that its caller lacks (setcap, or ambient ones): the option would \
         let the caller read files or run code with them; use it as root (sudo), or with a copy of the program without capabilities"
    )]
    Lent {
        /// The option.
        option: &'static str,
    },
    /// Installed setuid root.
    #[error(
        "{program} is installed setuid root, which lets everyone who may run it act as root: remove that bit (sudo chmod u-s {program}) and \
         use sudo, or capabilities for a group, as `energy-trace doctor` says"
    )]
    Setuid {
        /// The program.
        program: String,
    },
    /// The kernel has no type information.
    #[error(
        "this kernel has no BTF ({0} is missing), which the BPF programs need: use a kernel built with \
         CONFIG_DEBUG_INFO_BTF=y (Debian 12, Ubuntu 22.04 and Fedora have one)"
    )]
    NoBtf(PathBuf),
    /// The kernel's type information is not shown here.
    #[error(
        "{0} cannot be read here, which the BPF programs need: this container hides parts of /sys; mount the host's over it (docker: \
         -v /sys/kernel/btf:/sys/kernel/btf:ro), or run energy-trace on the host"
    )]
    HiddenBtf(PathBuf),
    /// The kernel has no BPF.
    #[error(
        "this kernel has no BPF (the system call is missing): use a kernel built with CONFIG_BPF_SYSCALL=y (not gVisor or WSL 1)"
    )]
    NoBpf,
    /// `/proc` cannot be read.
    #[error("cannot read {path}: {source}; is /proc mounted?")]
    Proc {
        /// What was read.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// Effective capabilities, one bit each.
    effective: u64,
    /// Whether this is root.
    pub is_root: bool,
    /// `kernel.perf_event_paranoid`, where the kernel has perf events and shows it.
    pub perf_event_paranoid: Option<i64>,
    /// Whether the kernel has perf events.
    pub perf: bool,
    /// `kernel.unprivileged_bpf_disabled`; `None`: the kernel has no BPF, or a container hides the file.
    pub unprivileged_bpf_disabled: Option<i64>,
    /// Whether the kernel has BPF.
    pub bpf: bool,
    /// Whether `/sys/kernel/btf/vmlinux` exists.
    pub btf: bool,
    root: PathBuf,
}

impl Privileges {
    /// Reads all of it below `root` (`/` but in tests).
    pub fn read_at(root: &Path) -> Result<Self, PrivilegeError> {
        let path = root.join("proc/self/status");
        let status = std::fs::read_to_string(&path)
            .map_err(|source| PrivilegeError::Proc { path: path.clone(), source })?;
        let effective = parse_effective(&status).ok_or_else(|| PrivilegeError::Proc {
            path,
            source: std::io::Error::new(std::io::ErrorKind::InvalidData, "no line CapEff"),
        })?;
        let unprivileged_bpf_disabled = read_number(&root.join("proc/sys/kernel/unprivileged_bpf_disabled"));
        let perf_event_paranoid = read_number(&root.join("proc/sys/kernel/perf_event_paranoid"));
        // Below another root is another kernel.
        let is_here = root == Path::new("/");
        Ok(Self {
            effective,
            is_root: is_root(&status),
            perf_event_paranoid,
            perf: perf_event_paranoid.is_some() || is_here && has(libc::SYS_perf_event_open),
            unprivileged_bpf_disabled,
            bpf: unprivileged_bpf_disabled.is_some() || is_here && has(libc::SYS_bpf),
            btf: root.join("sys/kernel/btf/vmlinux").exists(),
            root: root.to_owned(),
        })
    }

    /// Whether a recording can be tried. `command_line` is what the user typed, program first: the advice repeats it under sudo.
    pub fn check(&self, command_line: &[std::ffi::OsString]) -> Result<(), PrivilegeError> {
        if !self.bpf {
            return Err(PrivilegeError::NoBpf);
        }
        if !self.btf {
            return Err(self.without_btf());
        }
        let missing = self.missing();
        // Without the last one some files cannot be read, which those who read them say; without the others nothing works.
        if missing.iter().all(|&capability| capability == CAP_DAC_READ_SEARCH) {
            return Ok(());
        }
        if self.is_root {
            return Err(PrivilegeError::RootLacks(missing));
        }
        let words = command_line.iter().map(|word| shell_word(Path::new(word)));
        let sudo = std::iter::once("sudo".to_owned()).chain(words).collect::<Vec<_>>().join(" ");
        let program = std::env::current_exe().unwrap_or_else(|_| "energy-trace".into());
        Err(PrivilegeError::Missing { missing, sudo, program })
    }

    /// A kernel without BTF shows a number of its other files beside it (Documentation/ABI/testing/sysfs-kernel-btf, v6.1).
    fn without_btf(&self) -> PrivilegeError {
        let btf = self.root.join("sys/kernel/btf/vmlinux");
        let is_shown = ["notes", "mm"].iter().all(|name| self.root.join("sys/kernel").join(name).exists());
        // With BTF in the kernel the folder is there, whatever is in it.
        if is_shown && !self.root.join("sys/kernel/btf").exists() {
            PrivilegeError::NoBtf(btf)
        } else {
            PrivilegeError::HiddenBtf(btf)
        }
    }

    /// What recording uses and this process lacks. CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON (capabilities(7)).
    pub fn missing(&self) -> Vec<Capability> {
        let stands_in = self.has(CAP_SYS_ADMIN);
        let lacks = |c: &Capability| !(self.has(*c) || stands_in && matches!(*c, CAP_BPF | CAP_PERFMON));
        let of_root = USED_BY_ROOT.into_iter().filter(|_| self.is_root);
        USED.into_iter().chain(of_root).filter(lacks).collect()
    }

    const fn has(&self, capability: Capability) -> bool {
        self.effective >> capability.bit & 1 == 1
    }
}

/// How a program is given what recording uses, and what that means. The order matters: a change of group takes capabilities away.
pub fn setcap_advice(program: &Path) -> String {
    let program = shell_word(program);
    format!(
        "sudo chgrp tracers {program}; sudo chmod 0750 {program}; sudo setcap {}+ep {program} \
         (for a group `tracers` of people who are trusted with root: whoever may run the program then can read the memory of any \
         process and any file, which equals root)",
        names(&USED)
    )
}

/// How a root that is in a container, or a service, is given what it lacks.
pub fn cap_add_advice(missing: &[Capability]) -> String {
    let add = |c: &Capability| format!("--cap-add {}", c.name.trim_start_matches("cap_").to_uppercase());
    let add: Vec<String> = missing.iter().map(add).collect();
    format!(
        "give them to its container (docker: {}; Kubernetes: securityContext.capabilities.add) or service (systemd: \
         CapabilityBoundingSet=)",
        add.join(" ")
    )
}

/// Refuses options of a caller who has privileges only through this program. Each is an option and whether it was given.
///
/// # Errors
/// The first that was given, and that the program is setuid root.
pub fn refuse_what_lends(options: &[(&'static str, bool)]) -> Result<(), PrivilegeError> {
    if geteuid().is_root() && !getuid().is_root() {
        let program = std::env::current_exe().unwrap_or_else(|_| "energy-trace".into());
        return Err(PrivilegeError::Setuid { program: shell_word(&program) });
    }
    match options.iter().find(|(_, given)| *given) {
        Some(&(option, _)) if are_lent() => Err(PrivilegeError::Lent { option }),
        _ => Ok(()),
    }
}

/// Whether this process may do what its caller may not: it is not root and has capabilities, or the kernel says so (getauxval(3),
/// `AT_SECURE`).
pub fn are_lent() -> bool {
    // SAFETY: takes a number.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // What cannot be read is taken for the worse.
    let capable = caps::read(None, caps::CapSet::Effective).map_or(true, |held| !held.is_empty());
    (secure || !geteuid().is_root()) && capable
}

/// A word as a shell reads it back.
pub fn shell_word(word: &Path) -> String {
    let text = word.to_string_lossy();
    // Only a NUL cannot be quoted, and no argument holds one.
    shlex::try_quote(&text).map_or_else(|_| text.clone().into_owned(), std::borrow::Cow::into_owned)
}

/// Whether the kernel has a system call that begins with a number and a place: where it is there it refuses what it is given here, or this
/// process.
fn has(call: libc::c_long) -> bool {
    const NONE: libc::c_long = -1;
    // SAFETY: a place that cannot be read, of no length.
    let done = unsafe { libc::syscall(call, NONE, NONE, 0, NONE, NONE, 0) };
    done >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

fn names(capabilities: &[Capability]) -> String {
    capabilities.iter().map(|c| c.name).collect::<Vec<_>>().join(",")
}

fn list(capabilities: &[Capability]) -> String {
    let each = |c: &Capability| format!("{} ({})", c.name.to_uppercase(), c.purpose);
    capabilities.iter().map(each).collect::<Vec<_>>().join(", ")
}

fn parse_effective(status: &str) -> Option<u64> {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

/// By the effective user, the second number.
fn is_root(status: &str) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.and_then(|users| users.split_whitespace().nth(1)) == Some("0")
}

fn read_number(path: &Path) -> Option<i64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{PrivilegeError, Privileges};
    use std::path::Path;

    /// A root with everything a recording needs and the effective capabilities `effective`.
    fn machine(effective: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("proc/self/status", &format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{effective}\n"));
        put("proc/sys/kernel/unprivileged_bpf_disabled", "2\n");
        put("proc/sys/kernel/perf_event_paranoid", "3\n");
        put("sys/kernel/btf/vmlinux", "");
        root
    }

    fn check(root: &Path) -> Result<(), PrivilegeError> {
        Privileges::read_at(root).unwrap().check(&["energy-trace".into(), "--".into(), "a b".into()])
    }

    /// Root, the four capabilities, and CAP_SYS_ADMIN with CAP_SYS_PTRACE all do.
    #[test]
    fn enough() {
        for effective in ["000001ffffffffff", "000000c000080004", "0000000000280000"] {
            check(machine(effective).path()).unwrap();
        }
    }

    /// The message names exactly what is missing, repeats the command line under sudo, quoted, and gives the setcap form.
    #[test]
    fn the_message_says_what_to_do() {
        let text = check(machine("0000008000000000").path()).unwrap_err().to_string();
        assert!(text.contains("CAP_PERFMON (sample"), "{text}");
        assert!(!text.contains("CAP_BPF ("), "{text}");
        assert!(text.contains("sudo energy-trace -- 'a b'"), "{text}");
        assert!(
            text.contains("setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep /"),
            "{text}"
        );
    }

    /// A root in a container that lacks some is not told to become root, and needs those by which its helpers give it up.
    #[test]
    fn a_root_that_lacks_some() {
        let check_root = |effective: &str| {
            let root = machine(effective);
            let status = format!("Name:\tx\nUid:\t1000\t0\t0\t0\nCapEff:\t{effective}\n");
            std::fs::write(root.path().join("proc/self/status"), status).unwrap();
            check(root.path())
        };
        check_root("000000c0000800c4").unwrap();
        let text = check_root("00000080000800c4").unwrap_err().to_string();
        assert!(text.contains("CAP_PERFMON (sample") && text.contains("--cap-add PERFMON;"), "{text}");
        assert!(!text.contains("sudo") && !text.contains("BPF"), "{text}");
        let text = check_root("000000c000080004").unwrap_err().to_string();
        assert!(text.contains("--cap-add SETGID --cap-add SETUID;"), "{text}");
    }

    /// Without CAP_DAC_READ_SEARCH alone a recording may be tried.
    #[test]
    fn reading_rights_are_judged_where_they_are_used() {
        check(machine("000000c000080000").path()).unwrap();
    }

    /// A kernel without BTF or without BPF is named as such, root or not; and where a container hides `/sys`, that is said, not that the kernel
    /// lacks something.
    #[test]
    fn kernels_without_btf_or_bpf() {
        let root = machine("000001ffffffffff");
        std::fs::remove_file(root.path().join("sys/kernel/btf/vmlinux")).unwrap();
        for name in ["notes", "mm"] {
            std::fs::write(root.path().join("sys/kernel").join(name), "").unwrap();
        }
        let refused = check(root.path()).unwrap_err().to_string();
        assert!(refused.contains("hides") && refused.contains("sys/kernel/btf/vmlinux"), "{refused}");
        std::fs::remove_dir(root.path().join("sys/kernel/btf")).unwrap();
        assert!(check(root.path()).unwrap_err().to_string().contains("CONFIG_DEBUG_INFO_BTF"));
        std::fs::remove_file(root.path().join("proc/sys/kernel/unprivileged_bpf_disabled")).unwrap();
        assert!(check(root.path()).unwrap_err().to_string().contains("CONFIG_BPF_SYSCALL"));
    }

    /// Whether there is a system call is known without files.
    #[test]
    fn system_calls_are_asked_for() {
        assert!(super::has(libc::SYS_bpf) && super::has(libc::SYS_perf_event_open));
        assert!(!super::has(0x0fff_ffff));
    }
}
