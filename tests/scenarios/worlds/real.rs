//! What real counters and real power do, as figures: how far from an even clock RAPL moves, and by how much the power of a machine that does one
//! thing differs from one moment to the next.
//!
//! Derived from recordings of others (lukalt/icpe-2024-rapl-validation, GPL-3.0; no file of theirs is here). Moments: 9,997 successive updates of
//! the package counter of a Xeon Gold 6338 and of an E5-2650 v4, polled without a pause. They lie on an even clock of 1 ms; what is kept are
//! quantiles of how far from it each is, which hardly depends on the one before. Power: package 0 of two E5-2650 v4, seconds 2 to 9 of each
//! recording, as means of eight readings in thousandths of the mean of all. Single readings (5 ms) differ by 8 %, of which the counter's own steps
//! are nearly all; of eight these are 1 %. Leaves out what moves within 40 ms, and within more than seven seconds.

use super::MS;
use super::schedule::{Piece, Who};
use energy_trace_tests::random::Random;
use std::collections::HashMap;

/// So long is each mean of power, in nanoseconds.
const MEAN_OVER: u64 = 41 * MS;
/// From one update to the next.
const PERIOD: u64 = MS;

/// A counter of which updates were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    IceLake,
    Broadwell,
}

/// Quantiles (1.25, 3.75, …, 98.75 %) of how far from an even clock the counter moves, in microseconds.
const ICE_LAKE: [i64; 40] = [
    -351, -316, -295, -276, -259, -243, -223, -207, -187, -169, -152, -135, -119, -101, -86, -70, -55, -38,
    -23, -6, 8, 23, 37, 52, 68, 83, 99, 114, 128, 145, 159, 174, 189, 205, 222, 243, 268, 293, 335, 419,
];
/// The same of the other.
const BROADWELL: [i64; 40] = [
    -62, -53, -48, -40, -36, -33, -31, -28, -26, -24, -22, -20, -17, -16, -14, -12, -10, -8, -6, -3, -1, 1,
    4, 6, 8, 11, 13, 16, 18, 21, 24, 27, 30, 33, 36, 39, 42, 46, 56, 74,
];
/// Power of a loop of vector additions, one mean after the other, in thousandths.
const ADDITION: [u16; 168] = [
    1009, 1032, 978, 976, 1002, 978, 1003, 979, 983, 999, 978, 1000, 981, 1009, 984, 981, 1003, 983, 1002,
    986, 1005, 986, 996, 1033, 1011, 1030, 1007, 1030, 1009, 988, 1010, 984, 983, 1009, 980, 990, 1002, 979,
    1011, 977, 1005, 981, 981, 1011, 988, 984, 1007, 986, 989, 1014, 1003, 1015, 1035, 1014, 1037, 1016,
    1001, 1019, 979, 978, 1001, 984, 1031, 982, 978, 1007, 986, 1004, 980, 984, 1009, 982, 991, 1006, 994,
    988, 1025, 996, 1010, 1035, 1009, 1035, 1007, 1037, 992, 1009, 986, 1000, 982, 980, 1008, 976, 998, 973,
    975, 1000, 977, 1003, 986, 981, 1066, 995, 986, 1008, 990, 1003, 1033, 1014, 1042, 1015, 1017, 1035, 983,
    1014, 983, 984, 1004, 981, 998, 978, 1001, 1004, 976, 1003, 1000, 983, 997, 994, 998, 993, 984, 1018,
    1018, 1013, 1036, 1034, 1006, 1031, 993, 1002, 1007, 967, 997, 1011, 969, 1003, 997, 997, 972, 999, 1010,
    973, 1006, 1002, 976, 1003, 1006, 980, 1016, 1023, 1025, 1007, 1036, 1008, 1020, 1006, 974, 1000,
];
/// Of a loop that copies memory.
const COPY: [u16; 153] = [
    973, 945, 982, 983, 1004, 1000, 1000, 999, 994, 996, 985, 1000, 1005, 989, 1004, 986, 1003, 1007, 981,
    1007, 998, 986, 998, 1005, 986, 1001, 1010, 983, 1006, 987, 1003, 1006, 985, 1007, 987, 1007, 1003, 984,
    997, 1006, 983, 1006, 1007, 994, 998, 988, 1000, 1014, 983, 998, 1002, 1011, 986, 1006, 994, 1009, 988,
    1008, 989, 1012, 1000, 1001, 992, 1011, 989, 1003, 1010, 989, 1006, 1012, 994, 1006, 987, 1010, 1010,
    992, 1011, 1002, 989, 1011, 992, 1009, 991, 1010, 999, 1002, 1009, 996, 994, 1011, 991, 1008, 1011, 990,
    1003, 1003, 1008, 1007, 993, 1005, 1009, 988, 1010, 994, 1013, 992, 1012, 1002, 1002, 991, 1014, 995,
    1011, 993, 1012, 993, 1017, 992, 1014, 1012, 991, 1011, 990, 1017, 1007, 997, 1011, 992, 993, 1017, 1000,
    1003, 993, 1018, 996, 1011, 995, 1004, 1010, 996, 1008, 1012, 991, 996, 1015, 1010, 991, 1016, 993, 1011,
    1009, 993, 1012,
];
/// Of the idle machine.
const IDLE: [u16; 167] = [
    1027, 1013, 1012, 1011, 1019, 1008, 972, 990, 992, 977, 1000, 951, 992, 981, 966, 982, 998, 978, 992,
    1004, 1005, 1058, 1015, 1010, 1026, 1017, 1082, 1046, 968, 987, 967, 975, 1004, 963, 984, 994, 971, 987,
    986, 970, 1008, 985, 1022, 1031, 1026, 1059, 1040, 1016, 1015, 990, 997, 1002, 969, 991, 979, 966, 1000,
    992, 974, 976, 997, 989, 967, 995, 1025, 997, 1025, 1032, 1017, 1026, 1021, 993, 983, 964, 1003, 986,
    958, 991, 979, 971, 983, 994, 972, 984, 978, 1007, 1005, 1007, 1027, 1011, 1033, 1043, 981, 987, 962,
    986, 988, 982, 984, 986, 992, 975, 1007, 989, 1014, 992, 1000, 1019, 1037, 1038, 1028, 1029, 1032, 1002,
    1013, 1008, 983, 991, 978, 972, 983, 994, 983, 989, 1000, 1002, 1001, 982, 1035, 1027, 1036, 1022, 1036,
    1029, 1010, 990, 992, 986, 994, 1005, 988, 987, 1046, 997, 1013, 998, 1052, 1001, 999, 1005, 1025, 1021,
    1031, 1032, 1027, 981, 1025, 966, 1005, 970, 993, 989, 978, 1001, 992, 958, 984,
];

impl Chip {
    /// The moment of an update, by its number, on a clock that began at `start`.
    pub fn update(self, number: u64, start: u64, random: &mut Random) -> u64 {
        let table = match self {
            Self::IceLake => &ICE_LAKE,
            Self::Broadwell => &BROADWELL,
        };
        let at = random.unit() * (table.len() - 1) as f64;
        let (below, part) = (at as usize, at.fract());
        let above = (below + 1).min(table.len() - 1);
        let micros = table[below] as f64 * (1.0 - part) + table[above] as f64 * part;
        (start + (number + 1) * PERIOD).saturating_add_signed((micros * 1e3) as i64)
    }
}

/// Idle power in parts of its mean, so long after some moment of the recording.
pub fn idle(after: u64) -> f64 {
    at(&IDLE, after)
}

fn at(table: &[u16], after: u64) -> f64 {
    f64::from(table[(after / MEAN_OVER) as usize % table.len()]) / 1e3
}

/// Has each path, and each other process, draw what one of the two loops drew, in parts of its own mean, as far into it as it has run.
pub fn vary(pieces: &[Piece], random: &mut Random) -> Vec<Piece> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_unstable_by_key(|&number| (pieces[number].from, pieces[number].cpu));
    let mut run: HashMap<(bool, u32), (u64, bool)> = HashMap::new();
    let mut varied = vec![];
    for piece in order.into_iter().map(|number| pieces[number]) {
        let key = match piece.who {
            Who::Thread(_) => (true, piece.path),
            Who::Stranger(stranger) => (false, stranger),
        };
        let begin = || (random.below(100_000) * MS, random.below(2) == 0);
        let (so_far, copies) = run.entry(key).or_insert_with(begin);
        let table: &[u16] = if *copies { &COPY } else { &ADDITION };
        let mut from = piece.from;
        while from < piece.to {
            let to = piece.to.min(from + MEAN_OVER - *so_far % MEAN_OVER);
            varied.push(Piece { from, to, watts: piece.watts * at(table, *so_far), ..piece });
            *so_far += to - from;
            from = to;
        }
    }
    varied.sort_by_key(|piece| (piece.cpu, piece.from));
    varied
}
