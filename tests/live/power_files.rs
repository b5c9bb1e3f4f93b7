//! Power sources against plain files that a thread keeps up to date as drivers do: joules against what was
//! drawn. No BPF, no FUSE.
//!
//! Power rises and falls in straight lines, so that a reading which comes late costs nothing. Leaves out
//! files that fail (`power.rs`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::{CounterValue, Reading, Record};
use energy_trace_power::{self as power, PowerPlan};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A machine, one of whose files tells what it draws.
struct Machine {
    name: &'static str,
    word: &'static str,
    /// Its other files.
    files: &'static [(&'static str, &'static str)],
    file: &'static str,
    /// What the file holds: of the power in microwatts, and the energy so far in microjoules.
    shows: fn(u64, u64) -> u64,
    /// The mean of so long; 0: a moment.
    mean_ms: u64,
    /// Whether it is read seldom: then power is constant.
    constant: bool,
    /// How far its joules may be from the truth.
    within: f64,
}

const CPU: (&str, &str) = ("devices/system/cpu/online", "0\n");

/// A file with watts that somebody keeps.
const KEPT_FILE: Machine = Machine {
    name: "",
    word: "",
    files: &[],
    file: "watts",
    shows: |uw, _| uw / 1_000_000,
    mean_ms: 0,
    constant: true,
    within: 0.005,
};

const SERVERS_METER: Machine = Machine {
    name: "server's meter",
    word: "hwmon-power",
    files: &[
        ("class/hwmon/hwmon0/name", "power_meter\n"),
        ("class/hwmon/hwmon0/power1_average_interval", "50\n"),
    ],
    file: "class/hwmon/hwmon0/power1_average",
    shows: |uw, _| uw,
    mean_ms: 50,
    constant: false,
    within: 0.01,
};

static MACHINES: [Machine; 14] = [
    Machine {
        name: "X-Gene",
        word: "hwmon-power",
        files: &[
            ("class/hwmon/hwmon0/name", "apm_xgene\n"),
            ("class/hwmon/hwmon0/power1_label", "CPU power\n"),
        ],
        file: "class/hwmon/hwmon0/power1_input",
        shows: |uw, _| uw,
        mean_ms: 0,
        constant: false,
        within: 0.005,
    },
    Machine {
        name: "Jetson",
        word: "hwmon-power",
        files: &[
            ("class/hwmon/hwmon0/name", "ina3221\n"),
            ("class/hwmon/hwmon0/in1_label", "VDD_IN\n"),
            ("class/hwmon/hwmon0/in1_input", "5000\n"),
        ],
        file: "class/hwmon/hwmon0/curr1_input",
        shows: |uw, _| uw / 5_000,
        mean_ms: 0,
        constant: false,
        within: 0.005,
    },
    SERVERS_METER,
    Machine {
        name: "Altra's cores",
        word: "hwmon",
        files: &[
            CPU,
            ("class/hwmon/hwmon0/name", "altra_hwmon\n"),
            ("class/hwmon/hwmon0/energy1_label", "Core Energy 000\n"),
        ],
        file: "class/hwmon/hwmon0/energy1_input",
        shows: |_, uj| uj,
        mean_ms: 0,
        constant: false,
        within: 0.005,
    },
    Machine {
        name: "Grace",
        files: &[
            ("class/hwmon/hwmon0/name", "power_meter\n"),
            ("class/hwmon/hwmon0/power1_oem_info", "Grace Power Socket 0\n"),
            ("class/hwmon/hwmon0/power1_average_interval", "50\n"),
        ],
        ..SERVERS_METER
    },
    Machine {
        name: "Altra's smpro",
        word: "hwmon-power",
        files: &[
            ("class/hwmon/hwmon0/name", "smpro_hwmon\n"),
            ("class/hwmon/hwmon0/power1_label", "power1 CORE VRD\n"),
        ],
        file: "class/hwmon/hwmon0/power1_input",
        shows: |uw, _| uw,
        mean_ms: 0,
        constant: false,
        within: 0.005,
    },
    Machine {
        name: "Juno's SCMI",
        word: "hwmon",
        files: &[
            CPU,
            ("class/hwmon/hwmon0/name", "scmi_sensors\n"),
            ("class/hwmon/hwmon0/energy1_label", "Joule-big\n"),
        ],
        file: "class/hwmon/hwmon0/energy1_input",
        shows: |_, uj| uj,
        mean_ms: 0,
        constant: false,
        within: 0.005,
    },
    Machine {
        name: "a card's power",
        word: "hwmon-power",
        files: &[("class/drm/card0/device/hwmon/hwmon0/name", "amdgpu\n")],
        file: "class/drm/card0/device/hwmon/hwmon0/power1_average",
        shows: |uw, _| uw,
        mean_ms: 0,
        constant: false,
        within: 0.005,
    },
    Machine {
        name: "a card's energy",
        word: "amdgpu",
        files: &[],
        file: METRICS,
        shows: |_, uj| (uj << 16) / 1_000_000,
        mean_ms: 0,
        constant: false,
        within: 0.005,
    },
    // Firmware that has a new value each 10 mWh may be 36 J off at either end, however long it is read.
    Machine {
        name: "what is left in a battery",
        word: "battery",
        files: &[
            ("class/power_supply/BAT0/type", "Battery\n"),
            ("class/power_supply/BAT0/status", "Discharging\n"),
        ],
        file: "class/power_supply/BAT0/energy_now",
        shows: |_, uj| 40_000_000 - uj / 3_600,
        mean_ms: 0,
        constant: true,
        within: 0.005,
    },
    Machine {
        name: "UPS",
        word: "battery",
        files: &[
            ("class/power_supply/hid-ups/type", "UPS\n"),
            ("class/power_supply/hid-ups/status", "Discharging\n"),
        ],
        file: "class/power_supply/hid-ups/power_now",
        shows: |uw, _| uw,
        mean_ms: 0,
        constant: true,
        within: 0.005,
    },
    Machine {
        name: "battery",
        word: "battery",
        files: &[
            ("class/power_supply/BAT0/type", "Battery\n"),
            ("class/power_supply/BAT0/status", "Discharging\n"),
        ],
        file: "class/power_supply/BAT0/power_now",
        shows: |uw, _| uw,
        mean_ms: 0,
        constant: true,
        within: 0.005,
    },
    Machine { name: "host's watts", word: "host", ..KEPT_FILE },
    Machine { name: "server's BMC", word: "bmc", ..KEPT_FILE },
];

/// The table of an amdgpu card (`gpu_metrics_v1_3`): its head, and the energy so far at byte 24, in 2⁻¹⁶ J.
const METRICS: &str = "class/drm/card0/device/gpu_metrics";

const SECONDS: u64 = 6;

/// 20 W, and up to 60 W in the middle of the time.
fn uw_at(ns: u64, constant: bool) -> u64 {
    let half = SECONDS * 500_000_000;
    let from_end = half.saturating_sub(ns.abs_diff(half));
    20_000_000 + if constant { 0 } else { 40_000_000 * (from_end / 1_000) / (half / 1_000) }
}

/// The same as energy since the start, in microjoules.
fn uj_until(ns: u64, constant: bool) -> f64 {
    let (s, half) = (ns as f64 / 1e9, SECONDS as f64 / 2.0);
    let left = (2.0 * half - s).max(0.0);
    let above = if s < half { 20.0 * s * s / half } else { 40.0 * half - 20.0 * left * left / half };
    1e6 * (20.0 * s + if constant { 0.0 } else { above })
}

impl Machine {
    /// The number in the file at a moment.
    fn number(&self, ns: u64) -> u64 {
        let mean = self.mean_ms * 1_000_000;
        let uw = match mean {
            0 => uw_at(ns, self.constant),
            mean => {
                let end = ns / mean * mean;
                let uj = uj_until(end, self.constant) - uj_until(end.saturating_sub(mean), self.constant);
                if end == 0 { uw_at(0, self.constant) } else { (uj * 1e9 / mean as f64) as u64 }
            }
        };
        (self.shows)(uw, uj_until(ns, self.constant) as u64)
    }

    /// What the file holds at a moment.
    fn content(&self, ns: u64) -> Vec<u8> {
        let number = self.number(ns);
        if self.file != METRICS {
            return format!("{number:020}\n").into_bytes();
        }
        let mut table = vec![120, 0, 1, 3];
        table.resize(120, 0);
        // No power to compare the energy with.
        table[22..24].fill(0xff);
        table[24..32].copy_from_slice(&number.to_le_bytes());
        table
    }

    /// Keeps the file up to date until it is told to stop. In place and of one length, so that no reader sees
    /// half a number.
    fn keep(&self, file: &File, start: KtimeNs, done: &AtomicBool) {
        while !done.load(Ordering::Relaxed) {
            let now = energy_trace_system::clock::now().ns_since(start);
            file.write_all_at(&self.content(now), 0).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn lay_out(&self, root: &Path) -> PathBuf {
        for (file, text) in self.files {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), text).unwrap();
        }
        let file = root.join(self.file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, self.content(0)).unwrap();
        file
    }

    fn plan(&self, root: &Path) -> PowerPlan {
        let word = match self.word {
            word @ ("host" | "bmc") => format!("{word}:{}", root.join(self.file).display()),
            word => word.to_owned(),
        };
        let choices = vec![word.parse().unwrap()];
        let gpu = self.file.contains("drm");
        PowerPlan { choices, sysfs: root.to_owned(), gpu, ..PowerPlan::default() }
    }

    /// The joules that were read over those that were drawn, less one.
    async fn error(&'static self) -> f64 {
        let root = tempfile::tempdir().unwrap();
        let file = File::options().write(true).open(self.lay_out(root.path())).unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let start = energy_trace_system::clock::now();
        let keeper = {
            let done = Arc::clone(&done);
            std::thread::spawn(move || self.keep(&file, start, &done))
        };
        let (sender, records) = channel();
        let set = power::open(&self.plan(root.path())).unwrap();
        assert_eq!(set.domains().len(), 1, "{}", self.name);
        let task = set.start(sender).unwrap();
        tokio::time::sleep(Duration::from_secs(SECONDS)).await;
        let end = task.stop().await;
        done.store(true, Ordering::Relaxed);
        keeper.join().unwrap();
        assert_eq!(end.diagnostics, [], "{}", self.name);
        let readings = records.try_iter().flat_map(|record| match record {
            Record::Readings(_, batch) => batch,
            _ => Vec::new(),
        });
        self.compare(&readings.collect::<Vec<_>>(), start)
    }

    fn compare(&self, readings: &[Reading], start: KtimeNs) -> f64 {
        let good = readings.iter().filter_map(|reading| match reading.value {
            CounterValue::MicroJoules(uj) => Some((reading.at.ns_since(start), uj)),
            CounterValue::Failed => None,
        });
        let good: Vec<(u64, u64)> = good.collect();
        let [(from, first), .., (to, last)] = good.as_slice() else { panic!("{}: {good:?}", self.name) };
        let drawn = uj_until(*to, self.constant) - uj_until(*from, self.constant);
        (last - first) as f64 / drawn - 1.0
    }
}

/// The joules of each source are those that were drawn: to half a percent, but for a mean that is read at
/// other moments than it is made.
#[tokio::test(flavor = "multi_thread")]
async fn joules_are_those_that_were_drawn() {
    let runs = MACHINES.iter().map(|machine| (machine, tokio::spawn(machine.error())));
    let mut errors = BTreeMap::new();
    for (machine, run) in runs.collect::<Vec<_>>() {
        errors.insert(machine.name, (run.await.unwrap(), machine.within));
    }
    println!("{errors:.4?}");
    assert!(errors.values().all(|(error, within)| error.abs() < *within), "{errors:?}");
}
