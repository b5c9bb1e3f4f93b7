//! The kernel's side: version, BTF, BPF, privileges, perf settings, a trial load, tracefs, pid namespace.

use super::finding::{DoctorPlan, Finding};
use energy_trace_probe::event::{EventChoice, Machine, decide};
use energy_trace_probe::{Rate, TraceConfig, Tracer, rate_fix, read_limit_at, read_ticks};
use energy_trace_system::host::kernel::{is_first_pid_namespace_at, read_kernel_at, shows_kernel_symbols_at};
use energy_trace_system::privileges::{Privileges, cap_add_advice, setcap_advice};
use std::path::Path;

/// Maps of unwind tables differ in size, which Linux allows from 5.10 on (`BPF_F_INNER_MAP`); all else that has no other way is older.
const OLDEST_KERNEL: (u32, u32) = (5, 10);

/// All findings about the kernel, in the order in which a recording needs them.
pub(super) fn examine(plan: &DoctorPlan) -> Vec<Finding> {
    let root = &plan.rootfs;
    let mut findings = vec![version(&read_kernel_at(root))];
    match Privileges::read_at(root) {
        Ok(privileges) => {
            findings.push(btf(&privileges, root));
            findings.push(bpf(&privileges));
            findings.push(rights(&privileges));
            findings.push(trial(plan, &privileges));
            findings.push(perf(&privileges));
        }
        Err(error) => {
            findings.push(Finding::fail("privileges", error.to_string(), "mount -t proc proc /proc"));
        }
    }
    findings.push(sampling_event(root));
    findings.push(sample_rate(root));
    findings.push(kernel_symbols(root));
    findings.push(tracefs(root));
    findings.push(pid_namespace(root));
    findings
}

fn version(release: &str) -> Finding {
    let text = format!("Linux {release}");
    match parse_release(release) {
        Some(version) if version >= OLDEST_KERNEL => Finding::ok("kernel", text),
        Some(_) => Finding::fail(
            "kernel",
            text,
            "energy-trace needs Linux 5.10 or newer (Debian 11 has it, Ubuntu 22.04 has 5.15)",
        ),
        None => Finding::warn(
            "kernel",
            format!("unknown version {release:?}"),
            "energy-trace needs Linux 5.10 or newer",
        ),
    }
}

/// `6.1.0-28-amd64` is (6, 1).
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn btf(privileges: &Privileges, root: &Path) -> Finding {
    let path = root.join("sys/kernel/btf/vmlinux");
    if privileges.btf {
        return Finding::ok("btf", format!("BTF type information at {}", path.display()));
    }
    Finding::fail(
        "btf",
        format!("{} is missing", path.display()),
        "use a kernel built with CONFIG_DEBUG_INFO_BTF=y (Debian 12, Ubuntu 22.04 and Fedora have one); in a container, mount the \
         host's /sys",
    )
}

fn bpf(privileges: &Privileges) -> Finding {
    match privileges.unprivileged_bpf_disabled {
        Some(setting) => Finding::ok(
            "bpf",
            format!(
                "the bpf system call is available (kernel.unprivileged_bpf_disabled = {setting} does not limit CAP_BPF)"
            ),
        ),
        None if privileges.bpf => Finding::ok("bpf", "the bpf system call is available"),
        None => Finding::fail(
            "bpf",
            "the kernel has no bpf system call",
            "use a kernel built with CONFIG_BPF_SYSCALL=y (gVisor and WSL 1 have none)",
        ),
    }
}

fn rights(privileges: &Privileges) -> Finding {
    let missing = privileges.missing();
    if missing.is_empty() {
        return Finding::ok(
            "privileges",
            "CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH are available",
        );
    }
    let advice = if privileges.is_root {
        cap_add_advice(&missing)
    } else {
        let program = std::env::current_exe().unwrap_or_else(|_| "energy-trace".into());
        format!("run energy-trace with sudo, or grant the capabilities once: {}", setcap_advice(&program))
    };
    let each =
        missing.iter().map(|c| format!("{} ({})", c.name.to_uppercase(), c.purpose)).collect::<Vec<_>>();
    Finding::fail("privileges", format!("missing: {}", each.join(", ")), advice)
}

/// Loads the programs and drops them again.
fn trial(plan: &DoctorPlan, privileges: &Privileges) -> Finding {
    if let Err(error) = privileges.check(&plan.typed) {
        let first = error.to_string().lines().next().unwrap_or_default().to_owned();
        return Finding::fail(
            "bpf programs",
            format!("not tried: {first}"),
            "fix the items above and run doctor again",
        );
    }
    match Tracer::load(&TraceConfig::least(plan.rootfs.clone())) {
        Ok(_) => Finding::ok("bpf programs", "loaded and verified"),
        Err(error) => {
            let fix = error.advice().unwrap_or_else(|| {
                "run doctor again with -v to see the verifier's log, and report it".into()
            });
            Finding::fail("bpf programs", error.to_string(), fix)
        }
    }
}

fn perf(privileges: &Privileges) -> Finding {
    match privileges.perf_event_paranoid {
        Some(level) => {
            Finding::ok("perf", format!("kernel.perf_event_paranoid = {level} (does not limit CAP_PERFMON)"))
        }
        None if privileges.perf => Finding::ok("perf", "perf events are available"),
        None => Finding::fail(
            "perf",
            "the kernel has no perf events",
            "use a kernel built with CONFIG_PERF_EVENTS=y; sampling needs perf events",
        ),
    }
}

/// What `record` would sample by, as the same function decides.
fn sampling_event(root: &Path) -> Finding {
    let decision = decide(EventChoice::Auto, Machine::read_at(root));
    Finding::ok("sampling", format!("{}, {}", decision.event, decision.why))
}

/// Rates that are checked: one for long programs, and the default.
const RATES: [u32; 2] = [99, 499];

/// What the kernel's limit lets come of samples.
fn sample_rate(root: &Path) -> Finding {
    let Some(limit) = read_limit_at(root) else {
        return Finding::warn(
            "sample rate",
            "kernel.perf_event_max_sample_rate cannot be read, so it is unknown whether the kernel limits the sample rate",
            "mount -t proc proc /proc",
        );
    };
    let event = decide(EventChoice::Auto, Machine::read_at(root)).event;
    let rates = RATES.map(|hz| Rate::under(Some(limit), read_ticks(), event, hz));
    let limited: Vec<String> = rates.iter().filter_map(|rate| rate.describe(limit)).collect();
    if limited.is_empty() {
        let text =
            format!("kernel.perf_event_max_sample_rate = {limit} allows 99 and 499 samples per second");
        return Finding::ok("sample rate", text);
    }
    let text = format!("the kernel limits the sample rate: {}", limited.join("; "));
    Finding::warn("sample rate", text, rate_fix(RATES[1]))
}

/// `kptr_restrict` 2 hides kernel addresses even from root (Documentation/admin-guide/sysctl/kernel.rst, v6.1).
fn kernel_symbols(root: &Path) -> Finding {
    let setting = std::fs::read_to_string(root.join("proc/sys/kernel/kptr_restrict")).unwrap_or_default();
    match setting.trim() {
        "2" => Finding::warn(
            "kernel symbols",
            "kernel.kptr_restrict = 2 hides the names of kernel functions",
            "sudo sysctl kernel.kptr_restrict=1",
        ),
        _ if shows_kernel_symbols_at(root) => {
            Finding::ok("kernel symbols", "kernel function names are readable")
        }
        _ => Finding::warn(
            "kernel symbols",
            "the names of kernel functions are hidden from this process (/proc/kallsyms)",
            "run it with sudo, or give it CAP_SYSLOG",
        ),
    }
}

fn tracefs(root: &Path) -> Finding {
    let places = ["sys/kernel/tracing", "sys/kernel/debug/tracing"].map(|place| root.join(place));
    match places.iter().find(|place| place.join("events/sched/sched_switch").exists()) {
        Some(place) => Finding::ok("tracefs", format!("tracepoints in {}", place.display())),
        None if places.iter().any(|place| is_closed(place)) => {
            Finding::warn("tracefs", "this user may not read /sys/kernel/tracing", "run doctor with sudo")
        }
        None => Finding::warn(
            "tracefs",
            "no tracepoints under /sys/kernel/tracing",
            "as root: mount -t tracefs tracefs /sys/kernel/tracing",
        ),
    }
}

/// Whether a folder is there that this user may not look into.
fn is_closed(folder: &Path) -> bool {
    let found = std::fs::metadata(folder.join("events/sched/sched_switch"));
    found.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

fn pid_namespace(root: &Path) -> Finding {
    if is_first_pid_namespace_at(root) {
        return Finding::ok("pid namespace", "the host's, so process ids match the kernel's");
    }
    Finding::fail(
        "pid namespace",
        "energy-trace runs in a container's pid namespace, where process ids differ from those that the kernel reports",
        "run it on the host, or start the container with --pid=host",
    )
}

#[cfg(test)]
mod tests {
    use super::{kernel_symbols, parse_release, sample_rate, sampling_event, tracefs, version};
    use crate::doctor::Level;

    /// Releases of distributions are understood, and one that is too old fails.
    #[test]
    fn releases() {
        assert_eq!(parse_release("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(parse_release("6.18-rc1"), Some((6, 18)));
        assert_eq!(parse_release("linux"), None);
        assert_eq!(version("5.4.0-91-generic").level, Level::Fail);
        assert_eq!(version("5.10.0-28-amd64").level, Level::Ok);
    }

    /// A guest is sampled by the CPU clock even where it has a PMU, as `record` does; a limit that the kernel lowered is a warning with its fix.
    #[test]
    fn sampling_is_predicted() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        std::fs::create_dir_all(root.path().join("sys/bus/event_source/devices/cpu")).unwrap();
        assert!(sampling_event(root.path()).text.starts_with("cycles, "));
        std::fs::write(root.path().join("proc/cpuinfo"), "flags\t: fpu hypervisor\n").unwrap();
        assert!(sampling_event(root.path()).text.starts_with("cpu-clock, "));
        let limit = root.path().join("proc/sys/kernel/perf_event_max_sample_rate");
        std::fs::write(&limit, "100000\n").unwrap();
        assert_eq!(sample_rate(root.path()).level, Level::Ok);
        std::fs::write(&limit, "50\n").unwrap();
        let found = sample_rate(root.path());
        assert_eq!(
            (found.level, found.text.contains("instead of 499")),
            (Level::Warn, true),
            "{}",
            found.text
        );
        assert_eq!(found.fix.as_deref(), Some("sudo sysctl kernel.perf_event_max_sample_rate=100000"));
    }

    /// On an empty tree tracefs is missed and says how to mount it; hidden kernel addresses say which sysctl.
    #[test]
    fn fixes_are_exact() {
        let root = tempfile::tempdir().unwrap();
        let found = tracefs(root.path());
        assert_eq!((found.level, found.fix.unwrap().contains("mount -t tracefs")), (Level::Warn, true));
        std::fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        std::fs::write(root.path().join("proc/sys/kernel/kptr_restrict"), "2\n").unwrap();
        assert_eq!(kernel_symbols(root.path()).fix.as_deref(), Some("sudo sysctl kernel.kptr_restrict=1"));
    }
}
