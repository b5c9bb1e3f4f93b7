//! The power limits of a zone: what its firmware and kernel let it draw. Read once, to tell a counter that shows more from one that is right.

use super::read_counter_file;
use energy_trace_model::units::MicroWatts;
use std::path::Path;

/// Long and short term, and peak (drivers/powercap/intel_rapl_common.c, v6.6).
const CONSTRAINTS: u32 = 3;

/// The largest of a zone's limits, and of the most that each may be set to. `None` where there is none, or none is kept to.
pub(super) fn read_limit_at(zone: &Path) -> Option<MicroWatts> {
    if read_counter_file(&zone.join("enabled")).is_ok_and(|enabled| enabled == 0) {
        return None;
    }
    let files = |n: u32| ["power_limit", "max_power"].map(|what| format!("constraint_{n}_{what}_uw"));
    let all = (0..CONSTRAINTS).flat_map(files);
    let limits = all.filter_map(|file| read_counter_file(&zone.join(file)).ok());
    limits.max().filter(|limit| *limit > 0).map(MicroWatts::from_uw)
}

#[cfg(test)]
mod tests {
    use super::{MicroWatts, read_limit_at};
    use std::fs;

    /// Of a laptop of 15 W, which may draw 64 W for some seconds, the larger; none where limits are off, say nothing, or are no number.
    #[test]
    fn the_largest_limit() {
        let zone = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(zone.path().join(file), text).unwrap();
        assert_eq!(read_limit_at(zone.path()), None);
        write("constraint_0_power_limit_uw", "0\n");
        assert_eq!(read_limit_at(zone.path()), None);
        write("constraint_0_max_power_uw", "15000000\n");
        write("constraint_1_power_limit_uw", "64000000\n");
        write("constraint_2_power_limit_uw", "much\n");
        assert_eq!(read_limit_at(zone.path()), MicroWatts::from_watts(64.0));
        write("enabled", "1\n");
        assert_eq!(read_limit_at(zone.path()), MicroWatts::from_watts(64.0));
        write("enabled", "0\n");
        assert_eq!(read_limit_at(zone.path()), None);
    }
}
