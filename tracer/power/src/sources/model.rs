//! Energy without a counter: idle power all the time, and a power for each busy logical CPU. Estimated, and called so on every number.
//!
//! Leaves out the sum itself, which needs to know who ran when (`attribution/`).

use crate::error::PowerError;
use crate::kind::{Discovered, Meter, Request, SourceKind};
use crate::sources::server_watts::{LOAD_CURVE, Servers, is_guest_at, servers_at};
use energy_trace_model::ids::{DomainId, SocketId};
use energy_trace_model::recording::record::{
    Domain, DomainClass, IdleBaseline, IdleOrigin, IgnoredReason, Origin, Quality, Scope, Source, SourceId,
    SourceNote,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use energy_trace_system::host::topology::read_sockets_at;
use std::collections::BTreeMap;
use std::path::Path;

/// The power model.
pub(super) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: false,
    help: "An estimate from CPU time, for machines without a counter",
    title: "power model",
    quality: Quality::Estimated,
    why_not_auto,
    discover,
};

/// The source's name.
const NAME: &str = "model";

/// `auto` estimates only what nothing measures.
fn why_not_auto(request: &Request) -> Option<IgnoredReason> {
    if request.has(DomainClass::Package) {
        Some(IgnoredReason::CpusHaveCounter)
    } else if request.has_only_outer_line() {
        Some(IgnoredReason::OtherSourceReadsMachine)
    } else if request.plan.measured_only {
        Some(IgnoredReason::EstimatesRefused)
    } else {
        None
    }
}

fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let plan = request.plan;
    let Model { domains, source } = model_at(&plan.sysfs, plan.model_idle.or(plan.idle), plan.model_core);
    Ok(Discovered {
        source,
        meter: Some(Meter::Model(domains)),
        second_reader: None,
        diagnostics: Vec::new(),
    })
}

/// Where no servers with such a CPU are published: power of one idle logical CPU, its share of the machine included: what Cloud Carbon Footprint takes as the mean of servers
/// (`MIN_WATTS_AVG` 0.74 W of its AWS constants, from SPECpower submissions).
const DEFAULT_IDLE: MicroWatts = MicroWatts::from_uw(740_000);

/// What one busy logical CPU adds: the same source has 3.5 W at full load (`MAX_WATTS_AVG`), 2.76 W above idle.
const DEFAULT_CORE: MicroWatts = MicroWatts::from_uw(2_760_000);

/// The model of this machine's CPUs: one domain for each socket.
struct Model {
    /// Its domains.
    domains: Vec<Domain>,
    /// The same for the reader of a report, with the parameters.
    source: Source,
}

/// Models the CPUs that sysfs shows under `sysfs`, or this machine's number of CPUs as one socket where it shows none.
///
/// `idle` is the power of the whole machine, split over sockets by their CPUs; `core` is the power that one busy CPU adds.
fn model_at(sysfs: &Path, idle: Option<MicroWatts>, core: Option<MicroWatts>) -> Model {
    let mut cpus = BTreeMap::<SocketId, u64>::new();
    for socket in read_sockets_at(sysfs).into_values() {
        *cpus.entry(socket).or_default() += 1;
    }
    if cpus.is_empty() {
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        cpus.insert(SocketId::new(0), count as u64);
    }
    let (one_socket, total) = (cpus.len() == 1, cpus.values().sum::<u64>());
    let servers = servers_at(sysfs);
    let (idle_cpu, busy_cpu) = servers.map_or((DEFAULT_IDLE, DEFAULT_CORE), watts_of);
    let machine = idle.unwrap_or(MicroWatts::from_uw(idle_cpu.as_uw().saturating_mul(total)));
    let per_cpu = core.unwrap_or(busy_cpu);
    let powers = split(machine, &cpus.values().copied().collect::<Vec<_>>());
    let domain = |(socket, power): (&SocketId, MicroWatts)| Domain {
        id: DomainId::default(),
        name: format!("package-{socket}"),
        class: DomainClass::Package,
        scope: if one_socket { Scope::Machine } else { Scope::Socket(*socket) },
        origin: Origin::Model { idle: power, core: per_cpu },
        idle: Some(IdleBaseline { power, origin: IdleOrigin::Model }),
    };
    let domains: Vec<Domain> = cpus.keys().zip(powers).map(domain).collect();
    let mut notes = vec![SourceNote::ModelParameters { idle: machine, core: per_cpu, cpus: total }];
    // What the user gives is taken as it is, and nobody knows how far that is off.
    if core.is_none() {
        notes.push(servers.map_or(SourceNote::ModelDefaults, note_of));
        // Servers of all kinds together have no curve of their own.
        let is_guest = is_guest_at(sysfs).filter(|guest| *guest || servers.is_some());
        let [tenth, half] = LOAD_CURVE;
        notes.extend(is_guest.map(|guest| SourceNote::LoadCurve { tenth, half, guest }));
    }
    let source = Source {
        id: SourceId::Model,
        domains: domains.iter().map(|d| d.name.clone()).collect(),
        period_ns: 0,
        quality: Quality::Estimated,
        ignored: Vec::new(),
        notes,
    };
    Model { domains, source }
}

/// What an idle CPU draws, and what a busy one adds.
fn watts_of(servers: &Servers) -> (MicroWatts, MicroWatts) {
    let ([_, idle, _], [_, busy, _]) = (servers.idle(), servers.busy());
    (idle, MicroWatts::from_uw(busy.as_uw().saturating_sub(idle.as_uw())))
}

fn note_of(servers: &Servers) -> SourceNote {
    let (kind, results) = (servers.kind.to_owned(), servers.results);
    SourceNote::ModelOfServers { kind, results, idle: servers.idle(), busy: servers.busy() }
}

/// Splits a power in proportion to `weights`, exactly; evenly weighted parts differ by at most one microwatt.
pub(crate) fn split(power: MicroWatts, weights: &[u64]) -> Vec<MicroWatts> {
    let whole = MicroJoules::from_uj(i64::try_from(power.as_uw()).unwrap_or(i64::MAX));
    let parts = whole.split(weights).unwrap_or_default();
    parts.into_iter().map(|part| MicroWatts::from_uw(part.as_uj().unsigned_abs())).collect()
}

#[cfg(test)]
mod tests {
    use super::SourceNote;
    use super::model_at;
    use energy_trace_model::recording::record::{Origin, Quality, Scope};
    use energy_trace_model::units::MicroWatts;
    use std::fs;
    use std::path::Path;

    fn tree(sockets: &[&str]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let cpu = tree.path().join("devices/system/cpu");
        for (n, socket) in sockets.iter().enumerate() {
            let dir = cpu.join(format!("cpu{n}/topology"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("physical_package_id"), socket).unwrap();
        }
        fs::write(cpu.join("online"), format!("0-{}\n", sockets.len() - 1)).unwrap();
        tree
    }

    /// Idle power given for the machine is split over the sockets by their CPUs and sums to what was given.
    #[test]
    fn idle_is_split_by_cpus() {
        let tree = tree(&["0", "0", "1"]);
        let watts = MicroWatts::from_uw;
        let model = model_at(tree.path(), Some(watts(10_000_000)), Some(watts(4_000_000)));
        let powers: Vec<_> = model
            .domains
            .iter()
            .map(|d| match d.origin {
                Origin::Model { idle, core } => (d.name.as_str(), idle.as_uw(), core.as_uw()),
                Origin::Counter { .. } => panic!("a model has no counter"),
            })
            .collect();
        assert_eq!(powers, [("package-0", 6_666_667, 4_000_000), ("package-1", 3_333_333, 4_000_000)]);
        assert_eq!(model.source.quality, Quality::Estimated);
        assert_eq!(model.source.notes.len(), 1);
    }

    /// A CPU of which servers are published has their median watts and says where they lie; what the user gives is taken instead.
    #[test]
    fn watts_by_kind_of_cpu() {
        let tree = tree(&["0", "0"]);
        let modalias = tree.path().join("devices/system/cpu/modalias");
        fs::write(&modalias, "cpu:type:x86,ven0002fam0019mod0001:feature:,0000\n").unwrap();
        let model = model_at(tree.path(), None, None);
        let Origin::Model { idle, core } = model.domains[0].origin else { panic!("a counter") };
        assert_eq!((idle.as_uw(), core.as_uw()), (844_000, 1_406_000));
        assert!(matches!(&model.source.notes[1], SourceNote::ModelOfServers { results: 21, .. }));
        assert!(matches!(model.source.notes[2], SourceNote::LoadCurve { guest: false, .. }));
        assert_eq!(model.source.range_of_model(), Some([609, 1_948]));
        fs::write(&modalias, "cpu:type:x86,ven0002fam0019mod0001:feature:,009F\n").unwrap();
        assert_eq!(model_at(tree.path(), None, None).source.range_of_model(), Some([609, 2_695]));
        let watts = MicroWatts::from_uw(5_000_000);
        let given = model_at(tree.path(), Some(watts), Some(watts));
        assert_eq!((given.source.notes.len(), given.source.range_of_model()), (1, None));
        // With the watts of busy CPUs alone nothing is printed of those of servers.
        assert_eq!(model_at(tree.path(), None, Some(watts)).source.range_of_model(), None);
        // Of a guest whose CPU nobody knows, nobody knows the host's load either.
        let unknown = |features: &str| {
            let says = format!("cpu:type:x86,ven0002fam0099mod0001:feature:,{features}\n");
            fs::write(&modalias, says).unwrap();
            model_at(tree.path(), None, None).source
        };
        assert_eq!(unknown("0000").notes.len(), 2);
        assert_eq!(
            ["0000", "009F"].map(|has| unknown(has).range_of_model()),
            [Some([307, 4_123]), Some([307, 5_706])]
        );
        assert!(
            matches!(given.domains[0].origin, Origin::Model { idle, core } if (idle, core) == (watts, watts))
        );
    }

    /// Without a topology there is still one domain for the machine, and the notes say where its numbers come from.
    #[test]
    fn machine_without_topology() {
        let model = model_at(Path::new("/nonexistent"), None, None);
        assert_eq!(model.domains.len(), 1);
        assert_eq!(model.domains[0].scope, Scope::Machine);
        assert_eq!(model.source.notes[1], SourceNote::ModelDefaults);
    }
}
