//! AMD GPUs: the energy accumulator in `/sys/class/drm/cardN/device/gpu_metrics`, a binary table that the amdgpu driver makes at each read.
//!
//! The accumulator counts 2⁻¹⁶ J. Where it stands depends on the table's revision (`gpu_metrics_v1_1` to `gpu_metrics_v1_8` in
//! drivers/gpu/drm/amd/include/kgd_pp_interface.h); a value of all ones means that the firmware has none (RDNA 3). It is known to stand still
//! on some boards (amdsmi#38, rocm_smi_lib#180), so it is compared with the power in the same table while it is read. Leaves out the
//! tables of APUs, which hold no energy, power sensors, and which process uses a device.

use crate::error::PowerError;
use crate::kind::{Discovered, Request, SourceKind, unless_gpus_are_off};
use crate::sensors::{SensorReader, of_cards};
use crate::source::{Attempt, PowerSource, measured_source, timed};
use crate::sysfs::cards;
use energy_trace_counters::grown;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::{
    CounterKind, Domain, DomainClass, Ignored, IgnoredReason, MetricsProblem, Origin, PowerDiagnostic,
    Quality, Scope, SourceNote,
};
use energy_trace_sentences::ignored_reason;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// AMD GPUs.
pub(super) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: false,
    help: "AMD GPUs, through the amdgpu driver",
    title: "AMD GPUs (amdgpu)",
    quality: Quality::Measured,
    why_not_auto: unless_gpus_are_off,
    discover,
};

/// The source's name.
const NAME: &str = "amdgpu";

/// Longer than every table; v1.8 has 3 kB.
const LONGEST: u64 = 16 * 1024;
/// Energy and power that are further apart, in percent, are not of one device. Power is whole watts, and idle devices draw few.
const TOLERANCE_PERCENT: u64 = 25;
/// A shorter time or less energy by power than this (microjoules) is no comparison.
const COMPARED_NS: u64 = 1_000_000_000;
const COMPARED_UJ: u128 = 20_000_000;
/// Readings further apart are not compared: power in between is not known.
const SILENCE_NS: u64 = 1_000_000_000;

/// A machine without such a card has no line for it, unless it was named.
fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let sysfs = &request.plan.sysfs;
    let mut discovered = find(sysfs, request.next_gpu(), request.plan.period);
    if discovered.meter.is_none() && discovered.source.ignored.is_empty() && request.named {
        let reason = IgnoredReason::NoCards { path: sysfs.join("class/drm").display().to_string() };
        discovered.source.ignored.push(Ignored { domain: NAME.to_owned(), reason });
    }
    Ok(discovered)
}

/// Looks for cards under the sysfs root. They get numbers from `first_gpu` on. None is an ordinary result.
fn find(sysfs: &Path, first_gpu: u32, period: Duration) -> Discovered {
    let mut source = measured_source(NAME, period);
    let (mut gpus, mut number) = (AmdGpus { domains: Vec::new(), cards: Vec::new() }, first_gpu);
    for (card, path) in read_cards_at(sysfs) {
        match read_metrics(&path) {
            Ok(_) => {
                let name = format!("gpu-{number}");
                source.notes.push(SourceNote::DomainIs { domain: name.clone(), place: card });
                gpus.domains.push(domain(&name, number, &path));
                gpus.cards.push(Card { name, path, last: None, compared: Compared::default() });
                number += 1;
            }
            Err(reason) => source.ignored.push(Ignored { domain: card, reason }),
        }
    }
    source.domains = gpus.domains.iter().map(|d| d.name.clone()).collect();
    Discovered::counters(source, (!gpus.domains.is_empty()).then_some(gpus))
}

/// The cards that have a table, by name, in order.
fn read_cards_at(sysfs: &Path) -> Vec<(String, PathBuf)> {
    let tables = cards(sysfs).into_iter().map(|(name, device)| (name, device.join("gpu_metrics")));
    tables.filter(|(_, table)| table.exists()).collect()
}

fn domain(name: &str, number: u32, path: &Path) -> Domain {
    Domain {
        id: DomainId::default(),
        name: name.to_owned(),
        class: DomainClass::Gpu,
        scope: Scope::Gpu(number),
        origin: Origin::measured(NAME, path.display().to_string(), None),
        idle: None,
    }
}

/// Whether a card's table is that of an APU, whose power is that of its CPUs too.
pub(super) fn is_apu(table: &Path) -> bool {
    matches!(read_metrics(table), Err(IgnoredReason::Metrics(MetricsProblem::Apu)))
}

/// What is used of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Metrics {
    energy_uj: u64,
    /// `None` where the firmware has none.
    power_w: Option<u16>,
}

fn read_metrics(path: &Path) -> Result<Metrics, IgnoredReason> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    let unreadable =
        |e: io::Error| IgnoredReason::Unreadable { path: path.display().to_string(), error: e.to_string() };
    read.map_err(unreadable)?;
    decode_metrics(&bytes).map_err(IgnoredReason::Metrics)
}

/// Decodes a table. The head is its size in bytes (16 bits), its format and its content revision (8 bits each), all little-endian.
fn decode_metrics(bytes: &[u8]) -> Result<Metrics, MetricsProblem> {
    let &[low, high, format, content, ..] = bytes else {
        return Err(MetricsProblem::NoHead);
    };
    if usize::from(u16::from_le_bytes([low, high])) > bytes.len() {
        return Err(MetricsProblem::CutOff);
    }
    let (energy_at, power_at) = match (format, content) {
        (1, 1..=3) => (24, 22),
        (1, 4 | 7 | 8) => (24, 10),
        (1, 5) => (88, 10),
        (1, 6) => (16, 10),
        (2 | 3, _) => return Err(MetricsProblem::Apu),
        _ => return Err(MetricsProblem::Revision(format, content)),
    };
    let units = bytes.get(energy_at..).and_then(|rest| rest.first_chunk()).copied().map(u64::from_le_bytes);
    let power_w = bytes.get(power_at..).and_then(|rest| rest.first_chunk()).copied().map(u16::from_le_bytes);
    match units {
        None => Err(MetricsProblem::CutOff),
        Some(u64::MAX) => Err(MetricsProblem::NoEnergy),
        Some(units) => {
            let energy_uj = u64::try_from((u128::from(units) * 1_000_000) >> 16).unwrap_or(u64::MAX);
            Ok(Metrics { energy_uj, power_w: power_w.filter(|&watts| watts != u16::MAX) })
        }
    }
}

/// The cards that are read.
struct AmdGpus {
    domains: Vec<Domain>,
    cards: Vec<Card>,
}

struct Card {
    name: String,
    path: PathBuf,
    last: Option<(KtimeNs, Metrics)>,
    compared: Compared,
}

/// The accumulator and the power over the same time.
#[derive(Default)]
struct Compared {
    ns: u64,
    counted_uj: u64,
    power_uj: u128,
}

impl Card {
    fn attempt(&mut self) -> Attempt {
        let (at, metrics) = timed(|| read_metrics(&self.path));
        if let Ok(metrics) = &metrics {
            self.compare(at, *metrics);
        }
        let counter_uj = metrics
            .map(|m| m.energy_uj)
            .map_err(|reason| format!("{}: {}", self.name, ignored_reason(&reason)));
        Attempt { at, counter_uj }
    }

    fn compare(&mut self, at: KtimeNs, now: Metrics) {
        let Some((earlier, before)) = self.last.replace((at, now)) else { return };
        let ns = at.ns_since(earlier);
        let (Some(from_w), Some(to_w)) = (before.power_w, now.power_w) else { return };
        let Some(counted_uj) = grown(before.energy_uj, now.energy_uj) else { return };
        if ns > SILENCE_NS {
            return;
        }
        self.compared.ns += ns;
        self.compared.counted_uj += counted_uj;
        // Watts times nanoseconds are nanojoules; the mean of two.
        self.compared.power_uj += u128::from(ns) * (u128::from(from_w) + u128::from(to_w)) / 2000;
    }

    /// By how many percent the accumulator differs from the power, where that is more than the two can differ.
    fn disagreement(&self) -> Option<i64> {
        let Compared { ns, counted_uj, power_uj } = self.compared;
        if ns < COMPARED_NS || power_uj < COMPARED_UJ {
            return None;
        }
        let percent = i64::try_from(u128::from(counted_uj) * 100 / power_uj).ok()? - 100;
        (percent.unsigned_abs() > TOLERANCE_PERCENT).then_some(percent)
    }
}

impl PowerSource for AmdGpus {
    fn sensors(&self) -> Option<Box<dyn SensorReader>> {
        let card = |(domain, card): (&Domain, &Card)| match domain.scope {
            Scope::Gpu(number) => Some((number, card.path.parent()?.to_owned())),
            _ => None,
        };
        of_cards(self.domains.iter().zip(&self.cards).filter_map(card))
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.extend(self.cards.iter_mut().map(Card::attempt));
    }

    fn finish(&mut self) -> Vec<PowerDiagnostic> {
        let found = |card: &Card| {
            let permille = card.disagreement()?.saturating_mul(10);
            let (domain, counter) = (card.name.clone(), CounterKind::Accumulator);
            Some(PowerDiagnostic::GpuSensorsDisagree { domain, permille, counter })
        };
        self.cards.iter().filter_map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::MetricsProblem;
    use super::{Card, Compared, Metrics, decode_metrics, find};
    use crate::kind::Meter;
    use energy_trace_model::clock::KtimeNs;
    use proptest::prelude::*;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    /// A table of this revision with the energy and the power at these places.
    fn table(content: u8, energy_at: usize, units: u64, power_at: usize, watts: u16) -> Vec<u8> {
        let mut bytes = vec![0; 120];
        bytes[..4].copy_from_slice(&[120, 0, 1, content]);
        bytes[energy_at..energy_at + 8].copy_from_slice(&units.to_le_bytes());
        bytes[power_at..power_at + 2].copy_from_slice(&watts.to_le_bytes());
        bytes
    }

    fn write_card(sysfs: &Path, name: &str, table: &[u8]) {
        let folder = sysfs.join("class/drm").join(name).join("device");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("gpu_metrics"), table).unwrap();
    }

    /// Each revision has its energy and its power where the kernel's header puts them; a unit is 2⁻¹⁶ J.
    #[test]
    fn revisions() {
        for (content, energy_at, power_at) in
            [(3, 24, 22), (4, 24, 10), (5, 88, 10), (6, 16, 10), (8, 24, 10)]
        {
            let bytes = table(content, energy_at, 65_536 * 3, power_at, 250);
            let expected = Metrics { energy_uj: 3_000_000, power_w: Some(250) };
            assert_eq!(decode_metrics(&bytes), Ok(expected), "1.{content}");
        }
    }

    /// No energy, an APU, an unknown revision and a cut table each have their reason, and are no zero.
    #[test]
    fn refusals() {
        let refused = |bytes: &[u8]| decode_metrics(bytes).unwrap_err();
        assert_eq!(refused(&table(3, 24, u64::MAX, 22, 9)), MetricsProblem::NoEnergy);
        assert_eq!(refused(&[120, 0, 2, 2]), MetricsProblem::CutOff);
        assert_eq!(refused(&[4, 0, 2, 2]), MetricsProblem::Apu);
        assert_eq!(refused(&[4, 0, 1, 9]), MetricsProblem::Revision(1, 9));
        assert_eq!(refused(&[4, 0, 1, 4]), MetricsProblem::CutOff);
        assert_eq!(refused(&[]), MetricsProblem::NoHead);
    }

    proptest! {
        /// No table makes it panic.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..130)) {
            let _ = decode_metrics(&bytes);
        }
    }

    /// Cards are numbered behind other GPUs, connectors are no cards, and one without energy is named.
    #[test]
    fn cards() {
        let tree = tempfile::tempdir().unwrap();
        write_card(tree.path(), "card1", &table(4, 24, 65_536, 10, 100));
        write_card(tree.path(), "card10", &table(3, 24, u64::MAX, 22, 100));
        write_card(tree.path(), "card1-DP-1", &table(4, 24, 65_536, 10, 100));
        let found = find(tree.path(), 2, Duration::from_millis(20));
        assert_eq!(found.source.domains, ["gpu-2"]);
        assert_eq!(found.source.ignored[0].domain, "card10");
        let (Some(Meter::Counters(mut gpus)), mut attempts) = (found.meter, Vec::new()) else {
            panic!("no counters");
        };
        gpus.read(&mut attempts);
        fs::remove_file(tree.path().join("class/drm/card1/device/gpu_metrics")).unwrap();
        gpus.read(&mut attempts);
        assert_eq!(attempts[0].counter_uj, Ok(1_000_000));
        assert!(attempts[1].counter_uj.as_ref().is_err_and(|why| why.starts_with("gpu-2: ")));
        let empty = tempfile::tempdir().unwrap();
        assert!(find(empty.path(), 0, Duration::from_millis(20)).meter.is_none());
    }

    /// An accumulator that stands still beside 100 W is reported, one that agrees is not, and a moment is no evidence.
    #[test]
    fn accumulators_are_compared() {
        let run = |seconds: u64, uj_per_s: u64| {
            let mut card =
                Card { name: String::new(), path: PathBuf::new(), last: None, compared: Compared::default() };
            for n in 0..=seconds * 10 {
                let metrics = Metrics { energy_uj: n * uj_per_s / 10, power_w: Some(100) };
                card.compare(KtimeNs::from_ns(n * 100_000_000), metrics);
            }
            card.disagreement()
        };
        assert_eq!(run(5, 0), Some(-100));
        assert_eq!(run(5, 90_000_000), None);
        assert_eq!(run(5, 200_000_000), Some(100));
        assert_eq!(run(0, 0), None);
    }
}
