//! Which row tables make room for another one.
//!
//! First those of files that no living process maps, then those that no sample met for the longest time; none that one met just now, or
//! two files would push each other out for ever. Leaves out dropping them (`files`, `bpf/row_maps.rs`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_unwind::address_space::FileKey;

/// A table that a sample met within this time is in use.
const IN_USE_NS: u64 = 1_000_000_000;

/// A table that could be dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Its file.
    pub(crate) key: FileKey,
    /// What dropping it frees.
    pub(crate) bytes: usize,
    /// When a sample last met its file; zero: never.
    pub(crate) hit: KtimeNs,
    /// Whether a living process maps its file.
    pub(crate) mapped: bool,
}

/// The files whose tables are dropped to free `needed` bytes; `None` where that cannot be. Without a sample that demands it no table of a
/// mapped file is dropped.
pub(crate) fn victims(
    mut residents: Vec<Resident>,
    needed: usize,
    demanded: bool,
    now: KtimeNs,
) -> Option<Vec<FileKey>> {
    let idle = |r: &Resident| r.hit == KtimeNs::default() || now.ns_since(r.hit) > IN_USE_NS;
    residents.retain(|resident| !resident.mapped || demanded && idle(resident));
    residents.order_by_key(|resident| (resident.mapped, resident.hit));
    let (mut freed, mut out) = (0, Vec::new());
    for resident in residents {
        if freed >= needed {
            break;
        }
        freed += resident.bytes;
        out.push(resident.key);
    }
    (freed >= needed).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::{IN_USE_NS, Resident, victims};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_unwind::address_space::FileKey;

    const NOW: u64 = 10 * IN_USE_NS;

    fn table(inode: u64, hit_ns: u64, mapped: bool) -> Resident {
        let key = FileKey { device: "fe:00".into(), inode };
        Resident { key, bytes: 100, hit: KtimeNs::from_ns(hit_ns), mapped }
    }

    fn chosen(needed: usize, demanded: bool) -> Option<Vec<u64>> {
        let residents = vec![
            table(1, NOW - IN_USE_NS / 2, true),
            table(2, NOW / 2, true),
            table(3, 0, true),
            table(4, NOW - 1, false),
            table(5, NOW / 3, true),
        ];
        let keys = victims(residents, needed, demanded, KtimeNs::from_ns(NOW))?;
        Some(keys.into_iter().map(|key| key.inode).collect())
    }

    /// Files that nobody maps go first, then the least recently met, and no more than are needed.
    #[test]
    fn the_least_useful_go_first() {
        assert_eq!(chosen(1, true), Some(vec![4]));
        assert_eq!(chosen(101, true), Some(vec![4, 3]));
        assert_eq!(chosen(400, true), Some(vec![4, 3, 5, 2]));
    }

    /// A table in use is never dropped, and without demand no table of a mapped file: then none is.
    #[test]
    fn tables_in_use_stay() {
        assert_eq!(chosen(401, true), None);
        assert_eq!(chosen(100, false), Some(vec![4]));
        assert_eq!(chosen(101, false), None);
    }
}
