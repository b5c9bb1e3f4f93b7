//! A file that somebody keeps up to date: its energy or power, with its age. Who keeps it may be another machine, or a program that asks a
//! meter.
//!
//! One that is not written any more stands still: its age is looked at with every reading. Leaves out files in other forms (`replay`
//! reads logs), and whose the energy is (`sources/`).

use crate::power_sum::PowerSum;
use crate::source::Attempt;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::{IgnoredReason, SourceNote};
use energy_trace_model::units::MicroWatts;
use energy_trace_sentences::ignored_reason;
use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Who keeps such files writes each one to five seconds.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// A file that is older, three times what the slowest needs, is not written any more.
const MOST_AGE: Duration = Duration::from_secs(15);
/// A number is no longer than this.
const LONGEST: u64 = 64;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Energy that grows.
    MicroJoules,
    /// Power.
    Watts,
}

/// A file that somebody else keeps.
pub(super) struct KeptFile {
    form: Form,
    path: PathBuf,
    sum: PowerSum,
    /// When it was written last, by its own clock, and when that was seen first, by ours.
    written: Option<(SystemTime, KtimeNs)>,
}

impl KeptFile {
    pub(super) fn new(form: Form, path: PathBuf) -> Self {
        Self { form, path, sum: PowerSum::read_each(PERIOD), written: None }
    }

    /// What a reader of the report is to know of the domain that it is.
    pub(super) fn note(&self, domain: &str) -> SourceNote {
        let (domain, place) = (domain.to_owned(), self.path.display().to_string());
        match self.form {
            Form::MicroJoules => SourceNote::DomainIs { domain, place },
            Form::Watts => SourceNote::PowerReadings { domain, place, mean_ns: None },
        }
    }

    /// Reads it once.
    pub(super) fn attempt(&mut self) -> Attempt {
        let at = energy_trace_system::clock::now();
        let counter = self.read(at, SystemTime::now());
        Attempt { at, counter_uj: counter.map_err(|reason| ignored_reason(&reason)) }
    }

    /// Why it cannot be read; nothing where it can.
    pub(super) fn why_not(&mut self) -> Option<IgnoredReason> {
        self.read(energy_trace_system::clock::now(), SystemTime::now()).err()
    }

    /// The counter in microjoules. The file is opened anew: another may have been written in its place.
    fn read(&mut self, now: KtimeNs, wall: SystemTime) -> Result<u64, IgnoredReason> {
        let unreadable =
            |error: String| IgnoredReason::Unreadable { path: self.path.display().to_string(), error };
        let (modified, text) = read_small(&self.path).map_err(|e| unreadable(e.to_string()))?;
        let value = parse(self.form, text.trim()).ok_or_else(|| unreadable(NO_NUMBER.to_owned()))?;
        let age = self.age(modified, now, wall);
        if age > MOST_AGE {
            let path = self.path.display().to_string();
            return Err(IgnoredReason::Stale { path, age_s: age.as_secs() });
        }
        Ok(match self.form {
            Form::MicroJoules => value,
            Form::Watts => self.sum.add(now, value),
        })
    }

    /// How long ago the file was written. Its clock may be another machine's, so it counts for the first reading alone.
    fn age(&mut self, modified: SystemTime, now: KtimeNs, wall: SystemTime) -> Duration {
        match self.written {
            Some((before, seen)) if before == modified => Duration::from_nanos(now.ns_since(seen)),
            Some(_) => {
                self.written = Some((modified, now));
                Duration::ZERO
            }
            None => {
                self.written = Some((modified, now));
                wall.duration_since(modified).unwrap_or_default()
            }
        }
    }
}

/// When a regular file was written, and how it begins. What lies there is looked at before it is opened: a pipe or a device may have been put in
/// the file's place.
fn read_small(path: &Path) -> io::Result<(SystemTime, String)> {
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    let found = place.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    // A file of the kernel's may wait for what is to come.
    let mut now = OpenOptions::new();
    now.read(true).custom_flags(libc::O_NONBLOCK);
    let file = now.open(format!("/proc/self/fd/{}", place.as_raw_fd()))?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok((found.modified()?, text))
}

const NO_NUMBER: &str = "it does not hold a number";

/// Microjoules, or microwatts.
fn parse(form: Form, text: &str) -> Option<u64> {
    match form {
        Form::MicroJoules => text.parse().ok(),
        Form::Watts => text.parse().ok().and_then(MicroWatts::from_watts).map(MicroWatts::as_uw),
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, IgnoredReason, KeptFile, MOST_AGE};
    use energy_trace_model::clock::KtimeNs;
    use std::fs;
    use std::time::{Duration, SystemTime};

    fn at(seconds: u64) -> KtimeNs {
        KtimeNs::from_ns(seconds * 1_000_000_000)
    }

    /// Watts are summed; a file that was written long ago, or is not written while time goes by, is stale, and one that is written again is not;
    /// a pipe in its place holds nobody up.
    #[test]
    fn age() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watts");
        let mut share = KeptFile::new(Form::Watts, path.clone());
        let write = |text: &str, seconds: u64| {
            fs::write(&path, text).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        let mut read =
            |seconds: u64| share.read(at(seconds), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000));
        write("12.5\n", 900);
        assert!(matches!(read(5), Err(IgnoredReason::Stale { age_s: 100, .. })));
        write("12.5\n", 1_000);
        assert_eq!(read(6), Ok(0));
        write("12.5\n", 1_001);
        assert_eq!(read(7), Ok(12_500_000));
        assert!(read(7 + MOST_AGE.as_secs()).is_ok());
        assert!(matches!(read(8 + MOST_AGE.as_secs()), Err(IgnoredReason::Stale { age_s: 16, .. })));
        write("much", 1_030);
        assert!(matches!(read(40), Err(IgnoredReason::Unreadable { .. })));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(read(41), Err(IgnoredReason::Unreadable { .. })));
    }
}
