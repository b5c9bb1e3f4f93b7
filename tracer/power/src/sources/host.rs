//! What the host says that this guest draws: files that an exporter on the host keeps and shares with the guest.
//!
//! Two forms: a folder as `scaphandre qemu` keeps it (`intel-rapl:N/energy_uj`, microjoules that grow, written each few seconds; its guide
//! mounts it at `/var/scaphandre`), and a file with the guest's power in watts as the only number, as PowerJoular and Joular Core write and
//! read it. The host divides its counters by its own rules, so the numbers are apportioned. What a file says, and how
//! old that is, is `kept_file`'s. Leaves out the exporter.

use crate::error::PowerError;
use crate::kept_file::{Form, KeptFile, PERIOD};
use crate::kind::{Discovered, Request, SourceKind};
use crate::source::{Attempt, PowerSource, measured_source};
use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::{
    Domain, DomainClass, Ignored, IgnoredReason, Origin, Quality, Scope, SourceId,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// No machine has more sockets; a folder may hold more.
const MOST_SOCKETS: u32 = 64;

fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let path = request.file.unwrap_or(Path::new(""));
    let mut source = measured_source(NAME, PERIOD);
    source.quality = Quality::Apportioned;
    let (mut host, mut socket) = (Host { domains: Vec::new(), files: Vec::new() }, 0);
    for (form, file) in files_of(path) {
        let mut share = KeptFile::new(form, file.clone());
        match share.why_not() {
            None => {
                host.domains.push(domain(&format!("package-{socket}"), &file));
                host.files.push(share);
            }
            Some(reason) => source.ignored.push(Ignored { domain: format!("package-{socket}"), reason }),
        }
        socket += 1;
    }
    if socket == 0 {
        let reason = IgnoredReason::NothingOfHost { path: path.display().to_string() };
        source.ignored.push(Ignored { domain: NAME.to_owned(), reason });
    }
    source.domains = host.domains.iter().map(|domain| domain.name.clone()).collect();
    source.notes =
        host.domains.iter().zip(&host.files).map(|(domain, share)| share.note(&domain.name)).collect();
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

/// The files that are read.
struct Host {
    domains: Vec<Domain>,
    files: Vec<KeptFile>,
}

impl PowerSource for Host {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.extend(self.files.iter_mut().map(KeptFile::attempt));
    }

    fn own_period(&self, wanted: Duration) -> Option<Duration> {
        Some(PERIOD.max(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, files_of};
    use std::fs;

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
}
