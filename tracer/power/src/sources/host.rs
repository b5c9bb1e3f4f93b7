//! What the host says that this guest draws: files that an exporter on the host keeps and shares with the guest.
//!
//! Two forms: a folder as `scaphandre qemu` keeps it (`intel-rapl:N/energy_uj`, microjoules that grow, written each few seconds; its guide
//! mounts it at `/var/scaphandre`), and a file with the guest's power in watts as the only number, as PowerJoular and Joular Core write and
//! read it. The host divides its counters by its own rules, so the numbers are apportioned. A file that is not written any more stands
//! still: its age is looked at with every reading. Leaves out the exporter, and files in other forms (`replay` reads logs).

use crate::error::PowerError;
use crate::kind::{Discovered, Request, SourceKind};
use crate::power_sum::PowerSum;
use crate::source::{Attempt, PowerSource, measured_source};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::{
    Domain, DomainClass, Ignored, IgnoredReason, Origin, Quality, Scope, SourceId, SourceNote,
};
use energy_trace_model::units::MicroWatts;
use energy_trace_sentences::ignored_reason;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A guest's share.
pub(super) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: true,
    help: "What the host says that this guest draws: a folder of `scaphandre qemu`, or a file with watts",
    title: "share told by the host",
    quality: Quality::Apportioned,
    why_not_auto: |_| Some(IgnoredReason::NeedsFile),
    discover,
};

/// The source's name.
const NAME: &str = "host";

/// Exporters write each one to five seconds.
const PERIOD: Duration = Duration::from_secs(1);
/// A file that is older, three times what the slowest needs, is not written any more.
const MOST_AGE: Duration = Duration::from_secs(15);
/// No machine has more sockets; a folder may hold more.
const MOST_SOCKETS: u32 = 64;
/// A number is no longer than this.
const LONGEST: u64 = 64;

fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let path = request.file.unwrap_or(Path::new(""));
    let mut source = measured_source(NAME, PERIOD);
    source.quality = Quality::Apportioned;
    let (mut host, mut socket) = (Host { domains: Vec::new(), files: Vec::new() }, 0);
    for (form, file) in files_of(path) {
        let mut share = Share::new(form, file.clone());
        match share.read(energy_trace_system::clock::now(), SystemTime::now()) {
            Ok(_) => {
                host.domains.push(domain(&format!("package-{socket}"), &file));
                host.files.push(share);
            }
            Err(reason) => source.ignored.push(Ignored { domain: format!("package-{socket}"), reason }),
        }
        socket += 1;
    }
    if socket == 0 {
        let reason = IgnoredReason::NothingOfHost { path: path.display().to_string() };
        source.ignored.push(Ignored { domain: NAME.to_owned(), reason });
    }
    source.domains = host.domains.iter().map(|domain| domain.name.clone()).collect();
    source.notes = host.domains.iter().zip(&host.files).map(|(domain, share)| share.note(domain)).collect();
    Ok(Discovered::counters(source, (!host.domains.is_empty()).then_some(host)))
}

/// The files that hold energy or power: those of a powercap tree, or the path itself.
fn files_of(path: &Path) -> Vec<(Form, PathBuf)> {
    if !path.is_dir() {
        return path.is_file().then(|| (Form::Watts, path.to_owned())).into_iter().collect();
    }
    let zone = |n: u32| path.join(format!("intel-rapl:{n}/energy_uj"));
    (0..MOST_SOCKETS)
        .map(zone)
        .take_while(|file| file.is_file())
        .map(|file| (Form::MicroJoules, file))
        .collect()
}

/// A guest's CPUs are its own: the host's sockets say nothing of them.
fn domain(name: &str, file: &Path) -> Domain {
    Domain {
        id: DomainId::default(),
        name: name.to_owned(),
        class: DomainClass::Package,
        scope: Scope::Machine,
        origin: Origin::Counter {
            source: SourceId::Host,
            place: file.display().to_string(),
            max_range: None,
            quality: Quality::Apportioned,
        },
        idle: None,
    }
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Energy that grows.
    MicroJoules,
    /// Power.
    Watts,
}

/// A file that the host keeps.
struct Share {
    form: Form,
    path: PathBuf,
    sum: PowerSum,
    /// When it was written last, by its own clock, and when that was seen first, by ours.
    written: Option<(SystemTime, KtimeNs)>,
}

impl Share {
    fn new(form: Form, path: PathBuf) -> Self {
        Self { form, path, sum: PowerSum::read_each(PERIOD), written: None }
    }

    fn note(&self, domain: &Domain) -> SourceNote {
        let (domain, place) = (domain.name.clone(), self.path.display().to_string());
        match self.form {
            Form::MicroJoules => SourceNote::DomainIs { domain, place },
            Form::Watts => SourceNote::PowerReadings { domain, place, mean_ns: None },
        }
    }

    /// The counter in microjoules. The file is opened anew: exporters write another in its place.
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

    /// How long ago the file was written. The host's clock may be another, so it counts for the first reading alone.
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
    let file = File::open(format!("/proc/self/fd/{}", place.as_raw_fd()))?;
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

/// The files that are read.
struct Host {
    domains: Vec<Domain>,
    files: Vec<Share>,
}

impl PowerSource for Host {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.extend(self.files.iter_mut().map(|share| {
            let at = energy_trace_system::clock::now();
            let counter = share.read(at, SystemTime::now());
            Attempt { at, counter_uj: counter.map_err(|reason| ignored_reason(&reason)) }
        }));
    }

    fn own_period(&self, wanted: Duration) -> Option<Duration> {
        Some(PERIOD.max(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, IgnoredReason, MOST_AGE, Share, files_of};
    use energy_trace_model::clock::KtimeNs;
    use std::fs;
    use std::time::{Duration, SystemTime};

    fn at(seconds: u64) -> KtimeNs {
        KtimeNs::from_ns(seconds * 1_000_000_000)
    }

    /// Zones are those with a number of their own, from 0 on; a file is watts, and what is not there is nothing.
    #[test]
    fn forms() {
        let folder = tempfile::tempdir().unwrap();
        for zone in ["intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1"] {
            fs::create_dir(folder.path().join(zone)).unwrap();
            fs::write(folder.path().join(zone).join("energy_uj"), "5").unwrap();
        }
        let zone = |n| (Form::MicroJoules, folder.path().join(format!("intel-rapl:{n}/energy_uj")));
        assert_eq!(files_of(folder.path()), [zone(0), zone(1)]);
        let file = zone(0).1;
        assert_eq!(files_of(&file), [(Form::Watts, file.clone())]);
        assert!(files_of(&folder.path().join("nothing")).is_empty());
    }

    /// Watts are summed; a file that was written long ago, or is not written while time goes by, is stale, and one that is written again is not;
    /// a pipe in its place holds nobody up.
    #[test]
    fn age() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watts");
        let mut share = Share::new(Form::Watts, path.clone());
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
