//! A power sensor of sysfs as a counter: its power, or its volts times its amperes, summed up over time.
//!
//! Leaves out what it measures (`sources/`), and what becomes of the sum where readings fail (`PowerSum`).

use super::counter_file::CounterFile;
use super::power_sum::PowerSum;
use super::source::{Attempt, timed};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What a power is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PowerPath {
    /// Microwatts.
    Power(PathBuf),
    /// Millivolts and milliamperes: their product is microwatts.
    VoltsAmperes(PathBuf, PathBuf),
}

impl PowerPath {
    /// The file that names it.
    pub(super) fn main(&self) -> &PathBuf {
        match self {
            Self::Power(path) | Self::VoltsAmperes(_, path) => path,
        }
    }
}

/// A power sensor, open.
pub(super) struct PowerFile {
    files: Files,
    /// Whether each reading is a mean over the time since the one before.
    is_mean: bool,
    sum: PowerSum,
}

enum Files {
    Power(CounterFile),
    VoltsAmperes(CounterFile, CounterFile),
}

impl PowerFile {
    /// Opens a sensor that is read so often, and reads it once. `is_mean`: its readings are means of the time between them.
    pub(super) fn open(path: &PowerPath, is_mean: bool, period: Duration) -> io::Result<Self> {
        let files = match path.clone() {
            PowerPath::Power(path) => Files::Power(CounterFile::open(path)?),
            PowerPath::VoltsAmperes(volts, amperes) => {
                Files::VoltsAmperes(CounterFile::open(volts)?, CounterFile::open_signed(amperes)?)
            }
        };
        Ok(Self { files, is_mean, sum: PowerSum::read_each(period) })
    }

    /// Reads it once.
    pub(super) fn attempt(&mut self) -> Attempt {
        let (at, power) = timed(|| self.files.read());
        let counter_uj = power.map(|power_uw| match self.is_mean {
            true => self.sum.add_mean(at, power_uw),
            false => self.sum.add(at, power_uw),
        });
        Attempt { at, counter_uj }
    }
}

impl Files {
    /// Microwatts; a current that flows back is none that is drawn.
    fn read(&mut self) -> Result<u64, String> {
        match self {
            Self::Power(file) => file.read().map_err(|error| file.failed(&error)),
            Self::VoltsAmperes(volts, amperes) => {
                let mv = volts.read().map_err(|error| volts.failed(&error))?;
                let ma = amperes.read_signed().map_err(|error| amperes.failed(&error))?;
                Ok(mv.saturating_mul(u64::try_from(ma).unwrap_or(0)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PowerFile, PowerPath};
    use std::fs;
    use std::time::Duration;

    /// 19 V and 500 mA are 9.5 W; a current that flows back is nothing, text and a file that is gone are errors that name it.
    #[test]
    fn volts_times_amperes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("in1_input", "19000\n");
        write("curr1_input", "500\n");
        let path =
            PowerPath::VoltsAmperes(folder.path().join("in1_input"), folder.path().join("curr1_input"));
        let mut file = PowerFile::open(&path, false, Duration::ZERO).unwrap();
        let first = file.attempt();
        std::thread::sleep(Duration::from_millis(20));
        let second = file.attempt();
        let joules = second.counter_uj.unwrap() - first.counter_uj.unwrap();
        let expected = 9_500_000 * (second.at.ns_since(first.at) / 1_000) / 1_000_000;
        assert!(joules.abs_diff(expected) <= 10, "{joules} {expected}");
        write("curr1_input", "-500\n");
        assert_eq!(file.files.read(), Ok(0));
        write("curr1_input", "much\n");
        assert!(file.attempt().counter_uj.unwrap_err().contains("curr1_input"));
        fs::remove_file(folder.path().join("in1_input")).unwrap();
        assert!(PowerFile::open(&path, false, Duration::ZERO).is_err());
    }
}
