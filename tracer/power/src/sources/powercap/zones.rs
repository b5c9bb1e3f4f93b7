//! The zones of the powercap class: found, named, and chosen so that no joule is counted twice.
//!
//! What the kernel does (drivers/powercap/intel_rapl_common.c, v6.6): a zone is called `package-S`, or `package-S-die-D` on packages of
//! several dies, with `core`, `uncore` and `dram` below it; the platform is `psys`, or `psys-S` on further sockets. The number in a
//! directory's name is only the order of registration: `intel-rapl:1` may be the second socket or psys. `intel-rapl-mmio` is a second
//! interface to the same registers. TPMI (intel_rapl_tpmi.c) registers the same control type, `intel-rapl`, with the same names.
//! Leaves out reading the chosen counters (`powercap.rs`).

use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::recording::record::{DomainClass, Ignored, IgnoredReason, Whole};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A zone as it lies in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    /// Its directory's name: `intel-rapl:0:2`.
    pub(super) id: String,
    /// What its `name` file says.
    pub(super) name: String,
    /// Its directory.
    pub(super) dir: PathBuf,
}

impl Zone {
    /// `package-0 (intel-rapl:0)`; a name that no driver gives is not repeated.
    fn title(&self) -> String {
        match parse_kind(&self.name) {
            Kind::Unknown => format!("a zone of another name ({})", self.id),
            _ => format!("{} ({})", self.name, self.id),
        }
    }

    /// The file with its counter.
    pub(super) fn energy(&self) -> PathBuf {
        self.dir.join("energy_uj")
    }

    fn control_type(&self) -> &str {
        self.id.split(':').next().unwrap_or_default()
    }

    fn is_mmio(&self) -> bool {
        self.control_type() == "intel-rapl-mmio"
    }

    fn parent_id(&self) -> Option<&str> {
        self.id.rsplit_once(':').map(|(parent, _)| parent)
    }

    /// MSR and TPMI zones before MMIO ones, then by the numbers in the directory's name.
    fn order(&self) -> (bool, &str, Vec<u32>) {
        let numbers = self.id.split(':').skip(1).map(|n| n.parse().unwrap_or(u32::MAX)).collect();
        (self.is_mmio(), self.control_type(), numbers)
    }
}

/// A zone to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The zone.
    pub(super) zone: Zone,
    /// The domain's name, unique: `package-0`, `dram-1`, `psys`.
    pub(super) domain: String,
    /// Its class.
    pub(super) class: DomainClass,
    /// Its socket; 0 for psys.
    pub(super) socket: u32,
}

/// All zones below `root` (`…/class/powercap`), in the order in which they are considered.
///
/// Accepts the kernel's flat directory of links as well as nested directories: a zone is known by its directory's name, which begins with
/// its parent's, so a link back up is never followed.
///
/// # Errors
/// When `root` itself cannot be listed.
pub(super) fn read_zones_at(root: &Path) -> io::Result<Vec<Zone>> {
    let mut zones = BTreeMap::new();
    for entry in fs::read_dir(root)? {
        let Ok(entry) = entry else { continue };
        if let Ok(name) = entry.file_name().into_string() {
            collect_zones(&entry.path(), &name, &mut zones);
        }
    }
    let mut zones: Vec<Zone> = zones.into_values().collect();
    zones.order_by(|a, b| a.order().cmp(&b.order()));
    Ok(zones)
}

/// Bytes of a zone's name; the kernel's have 30 at the most (POWERCAP_CONSTRAINT_NAME_LEN, include/linux/powercap.h, v6.6).
const LONGEST_NAME: usize = 30;

/// The name if it is as drivers write them, else none: it is shown, and the file may be somebody's secret.
fn usual_name(name: &str) -> &str {
    let usual = name.len() <= LONGEST_NAME && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if usual { name } else { "" }
}

fn collect_zones(dir: &Path, id: &str, zones: &mut BTreeMap<String, Zone>) {
    if zones.contains_key(id) {
        return;
    }
    if id.contains(':') {
        let Ok(name) = fs::read_to_string(dir.join("name")) else { return };
        let name = usual_name(name.trim()).to_owned();
        let zone = Zone { id: id.to_owned(), name, dir: dir.to_owned() };
        zones.insert(id.to_owned(), zone);
    }
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if let Ok(child) = entry.file_name().into_string()
            && child.strip_prefix(id).is_some_and(|rest| rest.starts_with(':'))
        {
            collect_zones(&entry.path(), &child, zones);
        }
    }
}

/// What a zone's name says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Package { socket: u32 },
    Dram,
    Psys,
    FurtherPsys,
    Part,
    Unknown,
}

fn parse_kind(name: &str) -> Kind {
    match name {
        "core" | "uncore" => Kind::Part,
        "dram" => Kind::Dram,
        "psys" | "psys-0" => Kind::Psys,
        _ if name.starts_with("psys-") => Kind::FurtherPsys,
        _ => {
            let socket = name.strip_prefix("package-").and_then(|rest| rest.split('-').next());
            socket.and_then(|s| s.parse().ok()).map_or(Kind::Unknown, |socket| Kind::Package { socket })
        }
    }
}

/// Chooses the zones to read, and says why the others are not.
///
/// `same_counter` tells whether two zones show one register; it is asked only for zones of one class on one socket, which are either
/// mirrors or the dies of one package.
pub(super) fn choose(
    zones: &[Zone],
    same_counter: impl Fn(&Zone, &Zone) -> bool,
) -> (Vec<Chosen>, Vec<Ignored>) {
    let names: BTreeMap<&str, &str> = zones.iter().map(|z| (z.id.as_str(), z.name.as_str())).fill_map();
    let (mut chosen, mut ignored) = (Vec::<Chosen>::new(), Vec::new());
    for zone in zones {
        let parent = zone.parent_id().and_then(|id| names.get(id)).copied().unwrap_or_default();
        let mut ignore = |reason| ignored.push(Ignored { domain: zone.title(), reason });
        let (class, socket) = match (parse_kind(&zone.name), parse_kind(parent)) {
            (Kind::Package { socket }, _) => (DomainClass::Package, socket),
            (Kind::Dram, Kind::Package { socket }) => (DomainClass::Dram, socket),
            (Kind::Psys, _) => (DomainClass::Psys, 0),
            (Kind::Part, Kind::Package { .. }) => {
                ignore(IgnoredReason::PartOf(Whole::Package(parent.to_owned())));
                continue;
            }
            (Kind::FurtherPsys, _) => {
                ignore(IgnoredReason::FurtherPsys);
                continue;
            }
            _ => {
                ignore(IgnoredReason::UnknownDomain);
                continue;
            }
        };
        let rivals = || chosen.iter().filter(|c| c.class == class && c.socket == socket);
        if let Some(first) = rivals().find(|c| zone.is_mmio() || same_counter(&c.zone, zone)) {
            ignore(IgnoredReason::SameCounter { first: first.zone.title() });
            continue;
        }
        chosen.push(Chosen { zone: zone.clone(), domain: String::new(), class, socket });
    }
    name_domains(&mut chosen, &names);
    (chosen, ignored)
}

/// `package-0` where a socket has one counter, the kernel's `package-0-die-1` where it has several, and the directory's name behind an
/// `@` where even that is not unique.
fn name_domains(chosen: &mut [Chosen], names: &BTreeMap<&str, &str>) {
    let mut count = BTreeMap::new();
    for c in chosen.iter() {
        *count.entry((c.class, c.socket)).or_insert(0_u32) += 1;
    }
    let mut taken = BTreeSet::new();
    for c in chosen.iter_mut() {
        let class = c.class.name();
        let package = c.zone.parent_id().and_then(|id| names.get(id)).copied().unwrap_or_default();
        let name = match (c.class, count.get(&(c.class, c.socket))) {
            (DomainClass::Psys, _) => class.to_owned(),
            (_, Some(1)) => format!("{class}-{}", c.socket),
            (DomainClass::Dram, _) => package.replacen("package", class, 1),
            _ => c.zone.name.clone(),
        };
        c.domain = if taken.contains(&name) { format!("{name}@{}", c.zone.id) } else { name };
        taken.insert(c.domain.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::{Zone, choose, read_zones_at};
    use energy_trace_sentences::ignored_reason;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn zones(list: &[(&str, &str)]) -> Vec<Zone> {
        let zone =
            |&(id, name): &(&str, &str)| Zone { id: id.into(), name: name.into(), dir: PathBuf::from(id) };
        list.iter().map(zone).collect()
    }

    #[track_caller]
    fn check(list: &[(&str, &str)], same: bool, domains: &[&str], ignored: &[(&str, &str)]) {
        let (chosen, left) = choose(&zones(list), |_, _| same);
        assert_eq!(chosen.iter().map(|c| c.domain.as_str()).collect::<Vec<_>>(), domains);
        let left: Vec<_> = left.iter().map(|i| (i.domain.as_str(), ignored_reason(&i.reason))).collect();
        assert_eq!(left.len(), ignored.len(), "{left:?}");
        for ((domain, why), (expected, part)) in left.iter().zip(ignored) {
            assert!(domain == expected && why.contains(part), "{domain}: {why}, expected {expected}: {part}");
        }
    }

    /// A client's parts belong to the package, and psys is found by its name although its directory looks like a second socket.
    #[test]
    fn client_with_psys() {
        let list = [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:0:1", "uncore"),
            ("intel-rapl:1", "psys"),
            ("intel-rapl-mmio:0", "package-0"),
        ];
        let ignored = [
            ("core (intel-rapl:0:0)", "part of package-0"),
            ("uncore (intel-rapl:0:1)", "part of package-0"),
            ("package-0 (intel-rapl-mmio:0)", "same counter as package-0 (intel-rapl:0)"),
        ];
        check(&list, false, &["package-0", "psys"], &ignored);
    }

    /// A server whose directories are numbered the other way round, each memory under its own socket.
    #[test]
    fn server_by_name_not_by_number() {
        let list = [
            ("intel-rapl:0", "package-1"),
            ("intel-rapl:0:0", "dram"),
            ("intel-rapl:1", "package-0"),
            ("intel-rapl:1:0", "dram"),
        ];
        check(&list, false, &["package-1", "dram-1", "package-0", "dram-0"], &[]);
    }

    /// Dies that show one register of the socket are read once; dies with registers of their own are all read.
    #[test]
    fn dies() {
        let list = [
            ("intel-rapl:0", "package-0-die-0"),
            ("intel-rapl:0:0", "dram"),
            ("intel-rapl:1", "package-0-die-1"),
            ("intel-rapl:1:0", "dram"),
        ];
        let mirrors =
            [("package-0-die-1 (intel-rapl:1)", "same counter"), ("dram (intel-rapl:1:0)", "same counter")];
        check(&list, true, &["package-0", "dram-0"], &mirrors);
        let all = ["package-0-die-0", "dram-0-die-0", "package-0-die-1", "dram-0-die-1"];
        check(&list, false, &all, &[]);
    }

    /// Before Linux 5.3 the dies of a package had one name; their domains are told apart all the same.
    #[test]
    fn old_kernels_name_dies_alike() {
        let list = [("intel-rapl:0", "package-0"), ("intel-rapl:1", "package-0")];
        check(&list, false, &["package-0", "package-0@intel-rapl:1"], &[]);
    }

    /// Where MMIO is the only interface, it is read.
    #[test]
    fn only_mmio() {
        check(&[("intel-rapl-mmio:0", "package-0")], false, &["package-0"], &[]);
    }

    /// Zones of other drivers and psys of further sockets are named and left.
    #[test]
    fn other_zones() {
        let list = [("dtpm:0", "soc"), ("intel-rapl:3", "psys-1")];
        let ignored =
            [("a zone of another name (dtpm:0)", "not a domain"), ("psys-1 (intel-rapl:3)", "board")];
        check(&list, false, &[], &ignored);
    }

    fn write_zone(dir: &Path, name: &str) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("name"), format!("{name}\n")).unwrap();
    }

    /// The kernel's flat directory of links and its nested directories are one set of zones, in the order of their numbers.
    #[test]
    fn links_and_directories_are_one() {
        let tree = tempfile::tempdir().unwrap();
        let devices = tree.path().join("devices/intel-rapl");
        for n in [0, 2, 10] {
            write_zone(&devices.join(format!("intel-rapl:{n}")), &format!("package-{n}"));
        }
        write_zone(&devices.join("intel-rapl:0/intel-rapl:0:0"), "core");
        let class = tree.path().join("class");
        fs::create_dir(&class).unwrap();
        for link in ["intel-rapl", "intel-rapl/intel-rapl:0", "intel-rapl/intel-rapl:0/intel-rapl:0:0"] {
            let target = tree.path().join("devices").join(link);
            let name = Path::new(link).file_name().unwrap();
            std::os::unix::fs::symlink(target, class.join(name)).unwrap();
        }
        // Linux has such links back up; they must not be followed.
        std::os::unix::fs::symlink(&class, devices.join("intel-rapl:0/subsystem")).unwrap();
        let found = read_zones_at(&class).unwrap();
        let ids: Vec<_> = found.iter().map(|z| z.id.as_str()).collect();
        assert_eq!(ids, ["intel-rapl:0", "intel-rapl:0:0", "intel-rapl:2", "intel-rapl:10"]);
    }
}
