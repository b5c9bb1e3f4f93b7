//! Energy over time: the bins of everything sum to what the run has, to the microjoule, and lie where it was used.

use super::conservation::{assert_conserved, counter, empty, ms, reading, sample, slice};
use energy_trace_attribution::attribute_over_time;
use energy_trace_model::ids::{DomainId, SocketId};
use energy_trace_model::profile::{EnergyByClass, LedgerRow, Options, OverTime, Profile};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{DomainClass, Scope};
use energy_trace_model::units::MicroJoules;

/// Asserts that the bins of each row are the row, those of each domain its row of the ledger, that each bin balances, and that rows and
/// ledger agree in each.
pub(super) fn assert_sums(profile: &Profile, over: &OverTime) {
    for (number, row) in profile.rows.iter().enumerate() {
        let (mut energy, mut time) = (EnergyByClass::default(), 0);
        for bin in over.of_row(number) {
            energy += bin.energy;
            time += bin.time_ns;
        }
        assert_eq!((energy, time), (row.energy, row.time_ns), "{row:?}");
    }
    assert_eq!(over.firsts.len(), profile.rows.len() + 1);
    for bins in &over.domains {
        assert!(bins.iter().all(|bin| bin.measured == bin.placed() + bin.residual), "{bins:?}");
    }
    for class in DomainClass::ALL {
        assert_eq!(rows_by_bin(over, class), targets_by_bin(profile, over, class), "{class:?}");
    }
    assert_parts_are_the_whole(profile, over);
}

fn rows_by_bin(over: &OverTime, class: DomainClass) -> Vec<MicroJoules> {
    let mut sums = vec![MicroJoules::ZERO; over.bins.count() as usize];
    over.entries.iter().for_each(|entry| sums[entry.bin as usize] += entry.energy[class]);
    sums
}

fn targets_by_bin(profile: &Profile, over: &OverTime, class: DomainClass) -> Vec<MicroJoules> {
    let mut sums = vec![MicroJoules::ZERO; over.bins.count() as usize];
    for (bins, _) in over.domains.iter().zip(&profile.ledger).filter(|(_, row)| row.class == class) {
        sums.iter_mut().zip(bins).for_each(|(sum, bin)| *sum += bin.target);
    }
    sums
}

/// The profiles of two parts of the run have together what the run has.
fn assert_parts_are_the_whole(profile: &Profile, over: &OverTime) {
    let bins = over.bins.count();
    if bins < 2 {
        return;
    }
    let parts = [0..bins / 2, bins / 2..bins].map(|part| over.within(profile.clone(), part));
    parts.iter().for_each(assert_conserved);
    let sums = |profile: &Profile| {
        let mut energy = EnergyByClass::default();
        profile.rows.iter().for_each(|row| energy += row.energy);
        profile.rows.iter().for_each(|row| energy += row.by_time);
        (energy, profile.rows.iter().fold((0, 0), |sum, row| (sum.0 + row.time_ns, sum.1 + row.samples)))
    };
    let [(mut energy, time), (rest, more)] = [sums(&parts[0]), sums(&parts[1])];
    energy += rest;
    assert_eq!((energy, (time.0 + more.0, time.1 + more.1)), sums(profile));
    let measured = |row: &LedgerRow| (row.measured, row.target, row.other, row.idle, row.residual);
    for (at, row) in profile.ledger.iter().enumerate() {
        let [a, b] = [0, 1].map(|part: usize| measured(&parts[part].ledger[at]));
        assert_eq!((a.0 + b.0, a.1 + b.1, a.2 + b.2, a.3 + b.3, a.4 + b.4), measured(row));
    }
}

/// Two phases of a second: in the first one function at 30 W, in the second the same at 10 W beside another one, with an idle baseline of
/// 5 W. The hot second has the energy.
fn two_phases() -> Recording {
    let package = counter(0, DomainClass::Package, Scope::Socket(SocketId::new(0)), Some(5_000_000));
    let mut recording = empty(vec![package], ms(0), ms(2000));
    let power = |at: u64| if at <= 1000 { 30_000 * at } else { 30_000_000 + 10_000 * (at - 1000) };
    let readings = (0..=200).map(|step| reading(ms(10 * step), power(10 * step)));
    recording.readings.insert(DomainId::new(0), readings.collect());
    recording.slices = vec![
        slice(0, Some(0), ms(0), ms(1000)),
        slice(0, Some(0), ms(1000), ms(1500)),
        slice(0, None, ms(1500), ms(2000)),
    ];
    recording.samples = (0..150).map(|step| sample(0, 7, ms(10 * step + 5))).collect();
    recording
}

/// Each second has what the counter shows in it, and the function what is left of that beside idle and others.
#[test]
fn the_hot_phase_is_hot() {
    let recording = two_phases();
    let (profile, over) = attribute_over_time(&recording, &Options::default());
    assert_sums(&profile, &over);
    let half = over.bins.count() / 2;
    let [hot, cool] = [0..half, half..2 * half].map(|bins| over.within(profile.clone(), bins));
    let joules = |profile: &Profile| {
        let row = &profile.ledger[0];
        [row.measured, row.target, row.other, row.idle, row.residual].map(MicroJoules::as_joules)
    };
    let near = |found: [f64; 5], wanted: [f64; 5]| {
        assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 0.02), "{found:?}");
    };
    near(joules(&hot), [30.0, 25.0, 0.0, 5.0, 0.0]);
    near(joules(&cool), [10.0, 2.5, 2.5, 5.0, 0.0]);
    assert_eq!((hot.rows[0].time_ns, cool.rows[0].time_ns), (1_000_000_000, 500_000_000));
    assert_eq!((hot.rows[0].samples, cool.rows[0].samples), (100, 50));
    assert!(hot.certainty.domains.is_empty() && hot.part.is_some());
    assert_eq!(hot.run.duration_ns(), 1_000_000_000);
}

/// All of the run is the run itself, with what is known of its certainty.
#[test]
fn the_whole_is_the_profile() {
    let (profile, over) = attribute_over_time(&two_phases(), &Options::default());
    let all = 0..over.bins.count();
    assert_eq!(over.within(profile.clone(), all), profile);
    assert!(profile.part.is_none());
}

/// Of a run in which nothing happened there is one bin of nothing.
#[test]
fn nothing_is_one_bin() {
    let (profile, over) = attribute_over_time(&Recording::default(), &Options::default());
    assert_sums(&profile, &over);
    assert_eq!((over.bins.count(), over.entries.len()), (1, 0));
}
