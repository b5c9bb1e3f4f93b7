//! What of the machine changes a study: governor, turbo, temperatures, what else runs, and versions. Leaves out power (`power/`).

use crate::sentences;
use energy_trace_model::collections::Fill as _;
use energy_trace_system::host::cpu_model::read_cpu_model_at;
use energy_trace_system::host::kernel::read_kernel_at;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

/// What is written beside each run: CPU, kernel, this program's version, and the commit of the folder in which programs run.
pub(super) fn facts() -> BTreeMap<String, String> {
    let root = Path::new("/");
    let known = [
        ("cpu", Some(read_cpu_model_at(root))),
        ("kernel", Some(read_kernel_at(root))),
        ("energy_trace", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("git_commit", git_commit()),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.filter(|(_, value)| !value.is_empty()).fill_map()
}

/// The commit of the current folder, with `-dirty` where files were changed since; `None` outside a repository and without git.
fn git_commit() -> Option<String> {
    let words = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"];
    let output = Command::new("git").args(words).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}

/// What should be said of this machine before a study.
pub(super) fn notes(sysfs: &Path) -> Vec<String> {
    let cpus = sysfs.join("devices/system/cpu");
    let governors: BTreeSet<String> =
        (0..4_096).map_while(|cpu| word(&cpus.join(format!("cpu{cpu}/cpufreq/scaling_governor")))).fill_set();
    let turbo = match (word(&cpus.join("intel_pstate/no_turbo")), word(&cpus.join("cpufreq/boost"))) {
        (Some(off), _) => Some(off == "0"),
        (None, boost) => boost.map(|on| on == "1"),
    };
    sentences::machine_notes(&governors.into_iter().collect::<Vec<_>>(), turbo)
}

fn word(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The highest plausible temperature that a sensor shows, in degrees Celsius.
pub(super) fn celsius(sysfs: &Path) -> Option<f64> {
    let folders =
        ["class/hwmon", "class/thermal"].into_iter().filter_map(|of| std::fs::read_dir(sysfs.join(of)).ok());
    let devices = folders.flatten().flatten().filter_map(|device| std::fs::read_dir(device.path()).ok());
    let is_sensor = |name: &str| name == "temp" || (name.starts_with("temp") && name.ends_with("_input"));
    let sensors = devices.flatten().flatten().filter(|file| file.file_name().to_str().is_some_and(is_sensor));
    let degrees = sensors.filter_map(|file| Some(word(&file.path())?.parse::<f64>().ok()? / 1e3));
    degrees.filter(|degrees| (1.0..150.0).contains(degrees)).reduce(f64::max)
}

/// CPU seconds that all programs have used, in ticks of the kernel, and in sum with idle ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    busy: f64,
    all: f64,
    cpus: f64,
}

impl Load {
    /// As of now; `None` where /proc/stat cannot be read.
    pub(super) fn now() -> Option<Self> {
        Self::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn of(text: &str) -> Option<Self> {
        let mut numbers =
            text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(str::parse::<f64>);
        let mut next = || numbers.next()?.ok();
        // user nice system idle iowait irq softirq steal (proc(5)).
        let (user, nice, system, idle, iowait) = (next()?, next()?, next()?, next()?, next()?);
        let rest: f64 = [next(), next(), next()].into_iter().flatten().sum();
        let is_cpu = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|of| of.starts_with(|c: char| c.is_ascii_digit()))
        };
        let busy = user + nice + system + rest;
        Some(Self { busy, all: busy + idle + iowait, cpus: text.lines().filter(is_cpu).count() as f64 })
    }

    /// How many CPUs were busy since then; `None` where no time has passed.
    pub(super) fn busy_since(self, before: Self) -> Option<f64> {
        let all = self.all - before.all;
        (all > 0.0).then(|| self.cpus * (self.busy - before.busy) / all)
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, celsius, notes};

    /// Two CPUs, one of them busy half of the time.
    #[test]
    fn load() {
        let stat = |user: u32, idle: u32| {
            format!("cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 0\ncpu1 1 0\nintr 5\n")
        };
        let (before, after) = (Load::of(&stat(10, 10)).unwrap(), Load::of(&stat(35, 85)).unwrap());
        assert_eq!(after.busy_since(before), Some(0.5));
        assert!(
            before.busy_since(before).is_none() && Load::of("cpu 1 2").is_none() && Load::of("").is_none()
        );
    }

    /// A machine that changes its clocks is named; one without such files is not.
    #[test]
    fn files() {
        let sys = tempfile::tempdir().unwrap();
        assert!(notes(sys.path()).is_empty() && celsius(sys.path()).is_none());
        for (file, text) in [
            ("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("class/hwmon/hwmon0/temp1_input", "41000\n"),
            ("class/hwmon/hwmon0/temp2_input", "-1\n"),
            ("class/thermal/thermal_zone0/temp", "52500\n"),
        ] {
            let path = sys.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let said = notes(sys.path()).join("\n");
        assert!(said.contains("powersave") && said.contains("turbo"), "{said}");
        assert_eq!(celsius(sys.path()), Some(52.5));
    }
}
