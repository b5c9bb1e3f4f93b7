//! Whether a device was at work over a stretch of time, so that what it drew was no idle power.
//!
//! Any work of a process that computes is work, however little: it may be the program that is to be watched. What else keeps a device busy, a
//! desktop, counts from a tenth of the time on. Where a driver tells neither (MIG), a process that computes is taken to work. A device that is open and
//! rests is idle. Clocks stay up for a while after the last program has closed a device, and it draws as much as if it were open (an H200 120 instead of 78 W
//! for 1.4 s). Leaves out P-states: they say the same.

use super::watch::moment;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::recording::record::InUse;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// A desktop at rest keeps a GPU less busy, in percent.
const AT_REST: u64 = 10;
/// Processes that are named.
const NAMED: usize = 4;

/// What kept a device busy from a moment until now.
pub(super) fn since(since: KtimeNs, nvml: &Nvml, index: u32) -> Option<InUse> {
    let device = nvml.device_by_index(index).ok()?;
    // The mean of the driver's last period: a sixth of a second to a second (nvml.h).
    let now = device.utilization_rates().ok().map(|rates| u64::from(rates.gpu));
    judge(&computing(&device), by_process(since, &device), now)
}

/// The processes that compute on a device.
pub(super) fn computing(device: &Device<'_>) -> Vec<u32> {
    device.running_compute_processes().unwrap_or_default().iter().map(|process| process.pid).collect()
}

/// Whether nobody has a device open, and its clock is still up from when somebody had. Where the driver does not say, it is not.
pub(super) fn stays_up(device: &Device<'_>) -> bool {
    let clocks = device.clock_info(Clock::SM).ok().zip(device.max_clock_info(Clock::SM).ok());
    is_up(clocks) && device.running_compute_processes().is_ok_and(|processes| processes.is_empty())
}

/// Whether a clock is nearer to the most that it can be than to nothing; both in megahertz.
fn is_up(clocks: Option<(u32, u32)>) -> bool {
    clocks.is_some_and(|(now, most)| now >= most / 2)
}

/// How busy each process kept a device since a moment, in percent; `None` where the driver does not say.
fn by_process(since: KtimeNs, device: &Device<'_>) -> Option<Vec<(u32, u64)>> {
    let anchor = energy_trace_system::clock::anchor();
    match device.process_utilization_stats(None) {
        Ok(samples) => {
            let new = samples.iter().filter(|sample| moment(anchor, sample.timestamp) > since);
            Some(new.map(|sample| (sample.pid, u64::from(sample.sm_util))).collect())
        }
        Err(NvmlError::NotFound) => Some(Vec::new()),
        Err(_) => None,
    }
}

/// From the processes that compute, how busy each process kept the device, and how busy it was.
fn judge(computing: &[u32], by_process: Option<Vec<(u32, u64)>>, now: Option<u64>) -> Option<InUse> {
    let told = by_process.is_some() || now.is_some();
    let mut at_work = by_process.unwrap_or_default();
    at_work.retain(|(pid, percent)| *percent > 0 && computing.contains(pid));
    at_work.order_by_key(|&(pid, percent)| (std::cmp::Reverse(percent), pid));
    let percent = at_work.first().map(|(_, percent)| *percent).max(now);
    let busy = now.is_some_and(|percent| percent >= AT_REST) || !told && !computing.is_empty();
    let mut pids: Vec<u32> = Vec::new();
    for (pid, _) in at_work {
        if !pids.contains(&pid) {
            pids.push(pid);
        }
    }
    match pids.is_empty() {
        true if !busy => return None,
        true => pids.extend(computing),
        false => {}
    }
    pids.truncate(NAMED);
    Some(InUse { percent, pids })
}

#[cfg(test)]
mod tests {
    use super::{InUse, is_up, judge};

    fn in_use(percent: Option<u64>, pids: &[u32]) -> Option<InUse> {
        Some(InUse { percent, pids: pids.to_vec() })
    }

    /// A program that computes a little is at work, one that has the device open and rests is not, nor is a desktop that is moved now and then. A
    /// device that is busy is in use whoever keeps it so; where nothing is told, whoever computes may be at work.
    #[test]
    fn what_is_work() {
        assert_eq!(judge(&[7], Some(vec![(7, 1)]), Some(1)), in_use(Some(1), &[7]));
        assert_eq!(
            judge(&[7, 8], Some(vec![(8, 30), (7, 60), (8, 35)]), Some(95)),
            in_use(Some(95), &[7, 8])
        );
        assert_eq!(judge(&[7], Some(vec![]), Some(0)), None);
        assert_eq!(judge(&[], Some(vec![(3, 9)]), Some(9)), None);
        assert_eq!(judge(&[], Some(vec![(3, 60)]), Some(60)), in_use(Some(60), &[]));
        assert_eq!(judge(&[7], None, Some(50)), in_use(Some(50), &[7]));
        assert_eq!(judge(&[7], None, Some(5)), None);
        assert_eq!(judge(&[7], None, None), in_use(None, &[7]));
        assert_eq!(judge(&[], None, None), None);
    }

    /// An H200 is at 345 of 1,980 MHz at rest, and at 1,980 for a while after its last program.
    #[test]
    fn clocks_that_stay_up() {
        assert!(is_up(Some((1_980, 1_980))) && !is_up(Some((345, 1_980))) && !is_up(None));
    }
}
