//! Energy over time, of runs of a tenth of a second: five bins of 20 ms, in which it is plain what everybody
//! used.

use super::small::{MS, SOCKET, add_counter, add_threads, assert_adds_up, by_time, empty, ms, near, runs};
use crate::attribute_over_time;
use energy_trace_model::ids::{StackId, ThreadKey};
use energy_trace_model::profile::over_time::BinEnergy;
use energy_trace_model::profile::{OverTime, UnattributedReason};
use energy_trace_model::recording::record::{DomainClass, GpuBusy, Launched, Launches, Scope};
use energy_trace_model::units::MicroJoules;

fn uj(of: fn(&BinEnergy) -> MicroJoules, over: &OverTime, domain: usize) -> Vec<i64> {
    over.domains[domain].iter().map(|bin| of(bin).as_uj()).collect()
}

/// Energy of one class in all bins of a row.
fn of_row(over: &OverTime, row: usize, class: DomainClass) -> Vec<i64> {
    let mut found = vec![0; over.bins.count() as usize];
    over.of_row(row).iter().for_each(|entry| found[entry.bin as usize] += entry.energy[class].as_uj());
    found
}

/// 3 W for 40 ms and 1 W for 60, of which half a watt is idle. Two threads run side by side for 20 ms, then
/// the first alone, another program, the first one again, and nobody. Whoever is alone in a bin has all of
/// it; where a thread and another program are, the bins in which each is alone say how much is left for them.
#[test]
fn bins_hold_what_was_used_in_them() {
    let mut run = empty(0, 100);
    add_counter(&mut run, SOCKET, Some(500_000), 10, |at| 1_000 * at + 2_000 * at.min(40));
    add_threads(&mut run, 2);
    runs(&mut run, 0, Some(0), 0, 30);
    runs(&mut run, 1, Some(1), 0, 20);
    runs(&mut run, 0, None, 30, 60);
    runs(&mut run, 0, Some(0), 60, 80);
    let (profile, over) = attribute_over_time(&run, &by_time());
    assert_adds_up(&profile, &over);
    assert_eq!(over.bins.count(), 5);
    assert_eq!(uj(|bin| bin.measured, &over, 0), [60_000, 60_000, 20_000, 20_000, 20_000]);
    assert_eq!(uj(|bin| bin.idle, &over, 0), [10_000; 5]);
    near(&uj(|bin| bin.target, &over, 0), &[50_000, 25_000, 0, 10_000, 0], 5);
    near(&uj(|bin| bin.other, &over, 0), &[0, 25_000, 10_000, 0, 0], 5);
    near(&uj(|bin| bin.residual, &over, 0), &[0, 0, 0, 0, 10_000], 10);
    assert_eq!(over.domains[0].iter().map(|bin| bin.covered_ns).collect::<Vec<_>>(), [20 * MS; 5]);
    assert_eq!(over.others_ns, [0, 10 * MS, 20 * MS, 0, 0]);
    near(&of_row(&over, 0, DomainClass::Package), &[25_000, 25_000, 0, 10_000, 0], 10);
    near(&of_row(&over, 1, DomainClass::Package), &[25_000, 0, 0, 0, 0], 10);
    let times = |row: usize| over.of_row(row).iter().map(|bin| (bin.bin, bin.time_ns)).collect::<Vec<_>>();
    assert_eq!(times(0), [(0, 20 * MS), (1, 10 * MS), (3, 20 * MS)]);
    assert_eq!(times(1), [(0, 20 * MS)]);
}

/// Readings that are 30 ms apart stand in the bins that they touch, by time; a gap of the counter is in none.
#[test]
fn readings_across_bins() {
    let mut run = empty(0, 100);
    add_counter(&mut run, SOCKET, None, 30, |at| 1_000 * at);
    add_threads(&mut run, 1);
    runs(&mut run, 0, Some(0), 0, 100);
    let (profile, over) = attribute_over_time(&run, &by_time());
    assert_adds_up(&profile, &over);
    let covered: Vec<u64> = over.domains[0].iter().map(|bin| bin.covered_ns / MS).collect();
    assert_eq!(covered, [20, 20, 20, 20, 10]);
    near(&uj(|bin| bin.measured, &over, 0), &[20_000, 20_000, 20_000, 20_000, 10_000], 1);
    near(&of_row(&over, 0, DomainClass::Package), &[20_000, 20_000, 20_000, 20_000, 10_000], 2);
    assert_eq!(over.domains[0].iter().map(|bin| bin.idle).sum::<MicroJoules>(), MicroJoules::ZERO);
}

/// A baseline above the counter in the last 40 ms, in which the second thread ran alone: that has nothing,
/// the first has less, and everything adds up.
#[test]
fn below_zero() {
    let mut run = empty(0, 100);
    add_counter(&mut run, SOCKET, Some(2_000_000), 10, |at| 1_000 * at + 2_000 * at.min(60));
    add_threads(&mut run, 2);
    runs(&mut run, 0, Some(0), 0, 60);
    runs(&mut run, 0, Some(1), 60, 100);
    let (profile, over) = attribute_over_time(&run, &by_time());
    assert_adds_up(&profile, &over);
    let rows: Vec<i64> = profile.rows.iter().map(|row| row.energy[DomainClass::Package].as_uj()).collect();
    assert_eq!(rows, [20_000, 0]);
    near(&of_row(&over, 1, DomainClass::Package), &[0, 0, 0, 0, 0], 1);
    near(&of_row(&over, 0, DomainClass::Package)[3..], &[0, 0], 10);
}

/// Two sockets' sum is one class; what their readings say is theirs alone.
#[test]
fn two_domains_of_a_class() {
    let mut run = empty(0, 100);
    add_counter(&mut run, (DomainClass::Package, Scope::Machine), None, 10, |at| 1_000 * at);
    add_counter(&mut run, (DomainClass::Package, Scope::Machine), None, 10, |at| 3_000 * at.min(40));
    add_counter(&mut run, (DomainClass::Dram, Scope::Machine), None, 10, |at| 500 * at.max(80) - 40_000);
    add_threads(&mut run, 1);
    runs(&mut run, 0, Some(0), 0, 100);
    let (profile, over) = attribute_over_time(&run, &by_time());
    assert_adds_up(&profile, &over);
    near(&of_row(&over, 0, DomainClass::Package), &[80_000, 80_000, 20_000, 20_000, 20_000], 10);
    near(&of_row(&over, 0, DomainClass::Dram), &[0, 0, 0, 0, 10_000], 10);
    near(&uj(|bin| bin.target, &over, 1), &[60_000, 60_000, 0, 0, 0], 10);
}

/// A GPU that nothing was launched on: its energy above idle is nobody's in the bin in which it was drawn.
#[test]
fn a_gpu_without_launches() {
    let mut run = empty(0, 100);
    let gpu = (DomainClass::Gpu, Scope::Gpu(0));
    add_counter(&mut run, gpu, Some(1_000_000), 10, |at| 1_000 * at + 4_000 * at.clamp(20, 40));
    let (profile, over) = attribute_over_time(&run, &by_time());
    assert_adds_up(&profile, &over);
    let nobodys: Vec<i64> = over.domains[0]
        .iter()
        .map(|bin| bin.unattributed[&UnattributedReason::NoLaunchData].as_uj())
        .collect();
    assert_eq!(nobodys, [0, 80_000, 0, 0, 0]);
}

/// What two threads launch in the first and in the fourth bin: the GPU goes on with it until the next
/// launches, and each has the bins behind its own. Records of kernels say the same exactly.
#[test]
fn launches_go_on() {
    let gpu = (DomainClass::Gpu, Scope::Gpu(0));
    let mut run = empty(0, 100);
    add_counter(&mut run, gpu, None, 10, |at| 1_000 * at);
    add_threads(&mut run, 2);
    let launch = |thread: u32, at: u64| {
        let (thread, stack) = (ThreadKey::new(thread), StackId::new(thread));
        let work = vec![Launched { thread, stack, count: 3, amount: 0 }];
        Launches { device: 0, from: ms(at), until: ms(at + 2), work }
    };
    run.gpu.launches = vec![launch(0, 5), launch(1, 65)];
    let (profile, over) = attribute_over_time(&run, &by_time());
    assert_adds_up(&profile, &over);
    let bins = |row: usize| of_row(&over, row, DomainClass::Gpu);
    assert!(bins(0)[3..].iter().all(|uj| *uj == 0) && bins(1)[..3].iter().all(|uj| *uj == 0), "{over:?}");
    assert!(bins(0)[..3].iter().all(|uj| *uj > 0) && bins(1)[3] > 0, "{over:?}");
    let busy = |thread: u32, at: u64| GpuBusy {
        device: 0,
        thread: ThreadKey::new(thread),
        stack: StackId::new(thread),
        launched: ms(at),
        from: ms(at),
        until: ms(at + 20),
        count: 1,
        busy_ns: 20 * MS,
    };
    run.gpu.busy = vec![busy(0, 0), busy(1, 20), busy(1, 40), busy(0, 60), busy(1, 80)];
    let (profile, over) = attribute_over_time(&run, &by_time());
    assert_adds_up(&profile, &over);
    let bins = |row: usize| of_row(&over, row, DomainClass::Gpu);
    near(&bins(0), &[20_000, 0, 0, 20_000, 0], 100);
    near(&bins(1), &[0, 20_000, 20_000, 0, 20_000], 100);
}
