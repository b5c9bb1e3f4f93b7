//! What a server's BMC says that the server draws: a file with watts, which a program keeps that may ask the BMC.
//!
//! IPMI takes root or a group of `/dev/ipmi0`, Redfish a password: neither is the recorder's to have, and what comes back is not the
//! recorder's to parse. `examples/bmc-power.sh FILE` asks `ipmitool` or Redfish each second and writes the number; what is read here is
//! that number and its age. It is the outer line of the ledger. Leaves out asking, and logs of it (`replay`).

use crate::error::PowerError;
use crate::kept_file::{Form, KeptFile, PERIOD};
use crate::kind::{Discovered, Request, SourceKind};
use crate::source::{Attempt, PowerSource, measured_source};
use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::{
    Domain, DomainClass, Ignored, IgnoredReason, Origin, Quality, Scope, SourceId,
};
use std::path::Path;
use std::time::Duration;

/// A server's BMC.
pub(super) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: true,
    help: "What the server's BMC says that it draws: a file with watts, kept by examples/bmc-power.sh",
    title: "server's BMC",
    quality: Quality::Measured,
    why_not_auto: |_| Some(IgnoredReason::NeedsFile),
    discover,
};

/// The source's name, and its domain's.
const NAME: &str = "bmc";

fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let path = request.file.unwrap_or(Path::new(""));
    let mut source = measured_source(NAME, PERIOD);
    let mut file = KeptFile::new(Form::Watts, path.to_owned());
    if let Some(reason) = file.why_not() {
        source.ignored.push(Ignored { domain: NAME.to_owned(), reason });
        return Ok(Discovered::counters(source, None::<Bmc>));
    }
    source.domains.push(NAME.to_owned());
    source.notes.push(file.note(NAME));
    let origin = Origin::Counter {
        source: SourceId::Bmc,
        place: path.display().to_string(),
        max_range: None,
        quality: Quality::Measured,
    };
    let (name, class, scope) = (NAME.to_owned(), DomainClass::Psys, Scope::Machine);
    let domain = Domain { id: DomainId::default(), name, class, scope, origin, idle: None };
    Ok(Discovered::counters(source, Some(Bmc { domains: [domain], file })))
}

/// The file that is read.
struct Bmc {
    domains: [Domain; 1],
    file: KeptFile,
}

impl PowerSource for Bmc {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.push(self.file.attempt());
    }

    fn own_period(&self, wanted: Duration) -> Option<Duration> {
        Some(PERIOD.max(wanted))
    }
}
