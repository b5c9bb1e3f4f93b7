//! The columns of a domain's regression: which paths have a power of their own.
//!
//! What draws alike is not decreed but found out, as finely as the run supports. From the innermost functions
//! outwards, a path is a column if
//!
//! * it has enough of the domain's time, or is another process that is told apart (`time::background`), and
//! * samples show when it ran while its caller did: from every other sample alone and from the rest alone its
//!   part of the caller's seconds in windows comes out alike (a split-half reliability: Spearman 1910, Brown
//!   1910). Functions that alternate faster than samples come fail here; in windows each of them seems to
//!   come and go, but that is chance, and powers fitted to it would be wrong and sure.
//!
//! The time of any other path is pooled with its caller's, which is then asked the same. A caller whose
//! callees cannot be told apart so has the right energy, and its callees divide it by time; how far that may
//! be wrong is `Pool`.
//!
//! Leaves out what the powers are (`fit`).

use super::distances::Distances;
use super::paths::{OTHER, PathId, PathTree};
use crate::between_samples::interval_slices::{IntervalSlice, IntervalSlices};
use crate::numerics::parallel::both;
use crate::parts::{LeftOut, Part};
use crate::power_model::windows::Windows;
use crate::time::inter_sample::NOBODY;
use std::sync::Arc;

/// The target's paths with less than this part of the domain's time have no power of their own: 200 columns
/// at most.
const SMALLEST_PART: f64 = 0.005;
/// Least correlation of the seconds that odd and even samples show; and the least where it makes energies
/// clearly likelier (`learn`).
const RELIABLE: f64 = 0.5;
const HARDLY_RELIABLE: f64 = 0.4;
/// Of two halves that have nothing to do with each other the correlation is 0, with a standard deviation of one
/// by the root of the number of windows: this many of these are no chance. A run of a second has a handful of
/// windows that are put together.
const CHANCE: f64 = 3.0;
/// A path with more of its caller's time is not told from it by the samples that stay in it; and one with less of all
/// time is no reason to do so.
const MOST_OF_CALLER: f64 = 0.95;
const LARGE_PART: f64 = 0.05;
/// Less than any correlation.
const ANYTHING: f64 = -2.0;
/// Reliability is asked of windows, and of so many together: slow changes show only there.
const TOGETHER: u32 = 8;

/// Sum of the squares of the parts of call paths in a column: less than this, and none of them has nearly all
/// of it.
const SHARED: f64 = 0.8;

/// The number of a column.
pub(crate) type ColumnId = u32;

/// The columns of a domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// Where each column's pool ends: the outermost path in it.
    pub(crate) paths: Vec<PathId>,
    /// The column of each path.
    of_path: Vec<ColumnId>,
    /// Seconds of each column; by pairs, samples.
    seconds: Vec<f64>,
    /// Each path's part of its column's time.
    part: Vec<f64>,
    /// Pairs of samples show their powers, not times between samples (`pairs`).
    by_pairs: Option<Arc<Distances>>,
}

/// The column of each owner, which is asked for each sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnerColumns {
    of_owner: Vec<ColumnId>,
    others: ColumnId,
}

impl OwnerColumns {
    /// The column of an owner.
    pub(crate) fn of(&self, owner: u32) -> ColumnId {
        self.of_owner.get(owner as usize).copied().unwrap_or(self.others)
    }
}

/// Seconds of a path in one window, as odd and as even samples show them.
#[derive(Clone, Copy, Debug, Default)]
struct Halves {
    window: u32,
    odd: f64,
    even: f64,
}

/// A path, and everything that is pooled with it.
#[derive(Clone, Debug, Default)]
struct Pool {
    seconds: f64,
    halves: Vec<Halves>,
}

impl Pool {
    fn add(&mut self, window: u32, odd: f64, even: f64) {
        self.seconds += f64::midpoint(odd, even);
        match self.halves.last_mut() {
            Some(last) if last.window == window => {
                last.odd += odd;
                last.even += even;
            }
            _ => self.halves.push(Halves { window, odd, even }),
        }
    }

    /// Takes in what cannot stand alone.
    fn absorb(&mut self, mut other: Self) {
        self.seconds += other.seconds;
        self.halves.append(&mut other.halves);
    }

    /// One entry a window.
    fn merge(&mut self) {
        self.halves.sort_by_key(|halves| halves.window);
        self.halves.dedup_by(|again, kept| {
            let same = again.window == kept.window;
            if same {
                kept.odd += again.odd;
                kept.even += again.even;
            }
            same
        });
    }

    /// Whether odd and even samples agree so far when it ran while its caller did, and not by chance, at either scale.
    fn is_reliable(&self, caller: &Self, reliable: f64) -> bool {
        let agree = |together, least| {
            let (correlation, windows) = self.correlation(caller, together);
            correlation >= reliable && correlation * windows.sqrt() >= least
        };
        reliable <= ANYTHING || agree(1, 0.0) || agree(TOGETHER, CHANCE)
    }

    /// The correlation, over windows (so many of them together), of what odd samples give it beyond its usual
    /// part of its caller's time with what even samples give it; `caller` is the caller with all that it
    /// calls. 0 where it always has the same part: then nothing tells it from its caller. And how many windows of
    /// equal time the caller's are worth.
    fn correlation(&self, caller: &Self, together: u32) -> (f64, f64) {
        let part = self.seconds / caller.seconds.max(f64::MIN_POSITIVE);
        let own = blocks(&self.halves, together);
        let mut own = own.iter().peekable();
        let (mut odd_odd, mut odd_even, mut even_even, mut all, mut whole) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for of_caller in blocks(&caller.halves, together) {
            let own = own.next_if(|own| own.window == of_caller.window).copied().unwrap_or_default();
            let (odd, even) = (own.odd - part * of_caller.odd, own.even - part * of_caller.even);
            odd_odd += odd * odd;
            odd_even += odd * even;
            even_even += even * even;
            all += of_caller.odd.powi(2) + of_caller.even.powi(2);
            whole += of_caller.odd + of_caller.even;
        }
        let scale = (odd_odd * even_even).sqrt();
        let correlation = if scale > 1e-9 * all { odd_even / scale } else { 0.0 };
        (correlation, whole.powi(2) / (2.0 * all).max(f64::MIN_POSITIVE))
    }
}

/// Whether a sample's path is pooled with one of its callers, or is it, while those with an end have a power of their own.
fn is_pooled(tree: &PathTree, mut sample: PathId, path: PathId, ends: &[Option<usize>]) -> bool {
    while sample > path && ends[sample as usize].is_none() {
        sample = tree.parent(sample);
    }
    sample == path
}

/// Windows put together, so many at a time.
fn blocks(halves: &[Halves], together: u32) -> Vec<Halves> {
    let sum = |block: &[Halves]| {
        let window = block.first().map_or(0, |first| first.window / together);
        let of = |value: fn(&Halves) -> f64| block.iter().map(value).sum();
        Halves { window, odd: of(|halves| halves.odd), even: of(|halves| halves.even) }
    };
    halves.chunk_by(|a, b| a.window / together == b.window / together).map(sum).collect()
}

impl Columns {
    /// Of a domain, from the slices of its time; and finer ones, of which samples hardly show some.
    pub(crate) fn of(
        tree: &PathTree,
        slices: &IntervalSlices<'_>,
        windows: &Windows,
        left_out: LeftOut,
    ) -> (Self, Self) {
        let mut pools = vec![Pool::default(); tree.len()];
        let mut seconds = 0.0;
        for slice in slices.iter() {
            let Some(window) = windows.of(slice.interval) else { continue };
            let time = slice.seconds();
            seconds += time;
            let (odd, even) = slice.odd_and_even();
            let (odd, even) = (tree.of_owner(odd), tree.of_owner(even));
            pools[odd as usize].add(window, time, 0.0);
            pools[even as usize].add(window, 0.0, time);
        }
        let inclusive = inclusive(tree, &pools);
        let pooled = |reliable| Self::pooled(tree, &pools, &inclusive, seconds, reliable);
        let reliable = if left_out.has(Part::Reliability) { ANYTHING } else { RELIABLE };
        let hardly =
            if left_out.has(Part::HardlyReliable) { reliable } else { reliable.min(HARDLY_RELIABLE) };
        both(|| pooled(reliable), || pooled(hardly))
    }

    /// Those of one thread whose paths stay where they are from a sample to one near to it: `near` are the paths of
    /// such samples, two by two, and all those of samples.
    pub(crate) fn that_stay(
        tree: &PathTree,
        (near, all): (&[(PathId, PathId)], &[PathId]),
        stay: f64,
    ) -> Self {
        let mut pools = vec![Pool::default(); tree.len()];
        all.iter().for_each(|path| pools[*path as usize].seconds += 1.0);
        let inclusive = inclusive(tree, &pools);
        let stands = |path: PathId, pool: &Pool, ends: &[Option<usize>]| {
            let is_in = |sample: PathId| is_pooled(tree, sample, path, ends);
            let part = pool.seconds / all.len() as f64;
            let both = near.iter().filter(|(a, b)| is_in(*a) && is_in(*b)).count() as f64;
            let alike = both / near.len() as f64 - part * part;
            let is_all = pool.seconds > MOST_OF_CALLER * inclusive[tree.parent(path) as usize].seconds;
            !is_all && alike >= stay * (part - part * part)
        };
        Self::pooled_where(tree, &pools, all.len() as f64, stands)
    }

    /// `inclusive` is each path with all that it calls.
    fn pooled(tree: &PathTree, pools: &[Pool], inclusive: &[Pool], seconds: f64, reliable: f64) -> Self {
        let caller = |path| &inclusive[tree.parent(path) as usize];
        Self::pooled_where(tree, pools, seconds, |path, pool, _| pool.is_reliable(caller(path), reliable))
    }

    /// `stands` says whether a path, with all that is pooled with it, has a power of its own.
    fn pooled_where(
        tree: &PathTree,
        pools: &[Pool],
        seconds: f64,
        stands: impl Fn(PathId, &Pool, &[Option<usize>]) -> bool,
    ) -> Self {
        let own: Vec<f64> = pools.iter().map(|pool| pool.seconds).collect();
        let least = SMALLEST_PART * seconds;
        let (mut paths, mut time) = (vec![], vec![]);
        // The column whose pool ends at a path.
        let mut ends: Vec<Option<usize>> = vec![None; tree.len()];
        // What has taken in others.
        let mut grown: Vec<Option<Pool>> = vec![None; tree.len()];
        for path in (0..tree.len()).rev() {
            let mut pool = grown[path].take().unwrap_or_else(|| pools[path].clone());
            if pool.seconds <= 0.0 {
                continue;
            }
            pool.merge();
            let id = PathId::try_from(path).unwrap_or(OTHER);
            let parent = tree.parent(id);
            let is_large = pool.seconds >= least || tree.is_background(id);
            if is_large && stands(id, &pool, &ends) || parent == id {
                ends[path] = Some(paths.len());
                paths.push(id);
                time.push(pool.seconds);
            } else {
                let parent = parent as usize;
                grown[parent].get_or_insert_with(|| pools[parent].clone()).absorb(pool);
            }
        }
        let mut of_path = vec![0; tree.len()];
        // A caller comes before what it calls, and only a column differs from its caller.
        for path in 0..tree.len() {
            let parent = tree.parent(PathId::try_from(path).unwrap_or(OTHER)) as usize;
            of_path[path] = ends[path].unwrap_or(of_path[parent]);
        }
        let part = own
            .iter()
            .zip(&of_path)
            .map(|(own, &column)| own / time.get(column).copied().unwrap_or(f64::MAX));
        let part = part.collect();
        let of_path = of_path.into_iter().map(|column| ColumnId::try_from(column).unwrap_or(0)).collect();
        Self { paths, of_path, seconds: time, part, by_pairs: None }
    }

    /// All of them as one, where powers cannot be told apart.
    pub(crate) fn together(mut self, tree: &PathTree) -> Self {
        let whole: f64 = self.seconds.iter().sum();
        for path in 0..tree.len() {
            let id = PathId::try_from(path).unwrap_or(OTHER);
            let column = self.of_path(id) as usize;
            let of_column = self.seconds.get(column).copied().unwrap_or(0.0);
            self.part
                .get_mut(path)
                .into_iter()
                .for_each(|part| *part *= of_column / whole.max(f64::MIN_POSITIVE));
        }
        self.of_path.fill(0);
        self.paths.truncate(1);
        self.seconds = vec![whole];
        self
    }

    /// Whether most of the time is in columns that call paths share by halves or in more parts.
    pub(crate) fn is_shared(&self) -> bool {
        let mut squares = vec![0.0; self.len()];
        for (part, &column) in self.part.iter().zip(&self.of_path) {
            squares.get_mut(column as usize).into_iter().for_each(|sum| *sum += part * part);
        }
        let shared: f64 = self
            .seconds
            .iter()
            .zip(&squares)
            .filter(|(_, square)| **square < SHARED)
            .map(|(time, _)| time)
            .sum();
        shared > 0.5 * self.seconds.iter().sum::<f64>()
    }

    /// The same whose powers pairs of samples show.
    pub(crate) fn shown_by_pairs(self, distances: Arc<Distances>) -> Self {
        Self { by_pairs: Some(distances), ..self }
    }

    /// The distances of samples whose pairs show their powers.
    pub(crate) fn by_pairs(&self) -> Option<&Distances> {
        self.by_pairs.as_deref()
    }

    /// Whether others have all of these but small ones.
    pub(crate) fn are_among(&self, others: &Self) -> bool {
        let least = LARGE_PART * self.seconds.iter().sum::<f64>();
        let mut large = self.paths.iter().zip(&self.seconds).filter(|(_, seconds)| **seconds >= least);
        large.all(|(path, _)| others.paths.contains(path))
    }

    /// Number of columns.
    pub(crate) const fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether each path has the same column.
    pub(crate) fn are_of_the_same_paths(&self, other: &Self) -> bool {
        self.of_path == other.of_path
    }

    /// The columns of all owners.
    pub(crate) fn of_owners(&self, tree: &PathTree) -> OwnerColumns {
        let of_owner = tree.of_owners().iter().map(|&path| self.of_path(path)).collect();
        OwnerColumns { of_owner, others: self.of_path(OTHER) }
    }

    /// The column of a path.
    pub(crate) fn of_path(&self, path: PathId) -> ColumnId {
        self.of_path.get(path as usize).copied().unwrap_or(0)
    }

    /// A path's part of its column's time: less than 1 where it is pooled with others.
    pub(crate) fn part(&self, path: PathId) -> f64 {
        self.part.get(path as usize).copied().unwrap_or(0.0)
    }
}

/// Each path with all that it calls.
fn inclusive(tree: &PathTree, pools: &[Pool]) -> Vec<Pool> {
    let mut inclusive = pools.to_vec();
    for path in (0..tree.len()).rev() {
        let parent = tree.parent(PathId::try_from(path).unwrap_or(OTHER)) as usize;
        inclusive[path].merge();
        if parent != path && inclusive[path].seconds > 0.0 {
            let called = inclusive[path].clone();
            inclusive[parent].absorb(called);
        }
    }
    inclusive
}

impl IntervalSlice {
    /// The owners that odd samples alone, and even samples alone, would give its time to: neighbours are one
    /// of each.
    fn odd_and_even(&self) -> (u32, u32) {
        let right = if self.right == NOBODY { self.left } else { self.right };
        let behind_is_odd = self.gap % 2 == 1;
        if behind_is_odd == self.reversed { (self.left, right) } else { (right, self.left) }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ColumnId, Columns, HARDLY_RELIABLE, Halves, IntervalSlice, IntervalSlices, LeftOut, NOBODY, PathId,
        PathTree, Pool, RELIABLE, Windows,
    };
    use crate::power_model::paths::{OTHER, Path, PathElement};
    use crate::power_model::tests::toy::{Toy, flat_tree, slice};
    use crate::tests::vectors::Vectors;

    impl Columns {
        /// Columns that end at these paths, and the column of each path.
        pub(crate) const fn of_paths(paths: Vec<PathId>, of_path: Vec<ColumnId>) -> Self {
            Self { paths, of_path, seconds: vec![], part: vec![], by_pairs: None }
        }

        /// Sets each column's time.
        pub(crate) fn set_seconds(&mut self, seconds: Vec<f64>) {
            self.seconds = seconds;
        }

        /// Sets each path's part of its column's time.
        pub(crate) fn set_parts(&mut self, part: Vec<f64>) {
            self.part = part;
        }
    }

    fn pool(halves: impl Fn(u32) -> (f64, f64)) -> Pool {
        let mut pool = Pool::default();
        for window in 0..200 {
            let (odd, even) = halves(window);
            pool.add(window, odd, even);
        }
        pool
    }

    /// Halves that agree correlate fully, those that are chance not at all, opposite ones negatively; slow
    /// changes show in windows together; what always has the same part of its caller's time cannot be told
    /// from it.
    #[test]
    fn reliability() {
        let caller = pool(|_| (1.0, 1.0));
        let by = |halves: fn(u32) -> (f64, f64), together| pool(halves).correlation(&caller, together).0;
        assert!((by(|k| (f64::from(k & 1), f64::from(k & 1)), 1) - 1.0).abs() < 1e-9);
        assert!(by(|k| (f64::from(k & 1), f64::from(k >> 1 & 1)), 1).abs() < 1e-9);
        assert!(by(|k| (f64::from(k & 1), 1.0 - f64::from(k & 1)), 1) < -0.99);
        let slow = |k: u32| {
            let much = 0.25 + 0.5 * f64::from(k / 100);
            (much + f64::from(k & 1) * 0.9, much + f64::from(k >> 1 & 1) * 0.9)
        };
        assert!(by(slow, 1) < 0.3 && by(slow, 8) > 0.9, "{} {}", by(slow, 1), by(slow, 8));
        assert_eq!(by(|_| (0.5, 0.5), 1), 0.0);
    }

    /// A function that comes and goes with its caller's phases, and is chance within them, is not told from
    /// the caller.
    #[test]
    fn callees_of_a_phase() {
        let on = |k: u32| f64::from(k / 20 % 2);
        let caller = pool(|k| (on(k), on(k)));
        let callee = pool(|k| (on(k) * f64::from(k & 1), on(k) * f64::from(k >> 1 & 1)));
        assert!(
            callee.correlation(&caller, 1).0.abs() < 0.2 && !callee.is_reliable(&caller, HARDLY_RELIABLE)
        );
        let program = pool(|_| (1.0, 1.0));
        assert!(caller.is_reliable(&program, RELIABLE));
    }

    /// Entries of one window become one, in order.
    #[test]
    fn pools_merge() {
        let mut pool = Pool::default();
        pool.add(3, 1.0, 0.0);
        pool.add(3, 0.0, 1.0);
        let mut other = Pool::default();
        other.add(1, 2.0, 2.0);
        other.add(3, 1.0, 1.0);
        pool.absorb(other);
        pool.merge();
        let of: Vec<_> =
            pool.halves.iter().map(|&Halves { window, odd, even }| (window, odd, even)).collect();
        assert_eq!(of, [(1, 2.0, 2.0), (3, 2.0, 2.0)]);
        assert!((pool.seconds - 4.0).abs() < 1e-9);
    }

    /// A domain in which nobody ran has no columns.
    #[test]
    fn nothing() {
        let tree = PathTree::default();
        assert_eq!(Columns::pooled(&tree, &[], &[], 0.0, RELIABLE).len(), 0);
    }

    /// Pearson's correlation of what odd and even samples give beyond the usual part of the caller's time
    /// (NumPy), by windows and by eight together.
    #[test]
    fn correlation_as_numpy() {
        let vectors = Vectors::of("reliability");
        let pool_of = |name: &str| {
            let table = vectors.table(name);
            let mut pool = Pool::default();
            table.iter().zip(0..).for_each(|(halves, window)| pool.add(window, halves[0], halves[1]));
            pool
        };
        let (own, caller) = (pool_of("own"), pool_of("caller"));
        for together in [1_u32, 8] {
            let expected = vectors.get("correlation")[together.to_string()].as_f64().unwrap();
            let (found, _) = own.correlation(&caller, together);
            assert!((found - expected).abs() < 1e-6, "{together}: {found} instead of {expected}");
        }
    }

    /// Of fifty functions that a caller calls by chance, faster than samples come, in forty windows, hardly one seems to
    /// have windows of its own; one that runs in eight of them does.
    #[test]
    fn not_by_chance() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let (mut seem, mut stands) = (0, 0);
        for _ in 0..40 {
            let mut pools = vec![Pool::default(); 51];
            let mut caller = Pool::default();
            for window in 0..40 {
                // Ten samples each.
                for sample in 0..10 {
                    let (odd, even) = if sample % 2 == 1 { (0.002, 0.0) } else { (0.0, 0.002) };
                    let of = if (16..24).contains(&window) { 50 } else { random() as usize % 50 };
                    pools[of].add(window, odd, even);
                    caller.add(window, odd, even);
                }
            }
            seem += pools[..50].iter().filter(|pool| pool.is_reliable(&caller, RELIABLE)).count();
            stands += usize::from(pools[50].is_reliable(&caller, RELIABLE));
        }
        assert_eq!(stands, 40);
        assert!(seem < 60, "{seem} of 2000");
    }

    /// Windows of one caller: a function that comes each other window has a power of its own, and so has one
    /// that comes for three different times. One with hardly any time is pooled with the caller.
    fn pooled() -> (PathTree, Columns) {
        let tree = flat_tree(4);
        let mut pools = vec![Pool::default(); 6];
        for window in 0..200_u32 {
            let on = f64::from(window & 1);
            let mut add = |path: usize, seconds: f64| pools[path].add(window, seconds, seconds);
            add(1, 0.1);
            add(2, 0.2 * on);
            add(3, 0.1 * f64::from(window / 2 % 3));
            add(4, 0.001);
        }
        let seconds = pools.iter().map(|pool| pool.seconds).sum();
        let columns = {
            let inclusive = super::inclusive(&tree, &pools);
            Columns::pooled(&tree, &pools, &inclusive, seconds, RELIABLE)
        };
        (tree, columns)
    }

    #[test]
    fn paths_stand_alone_or_with_their_caller() {
        let (tree, columns) = pooled();
        assert_eq!(columns.paths, [3, 2, 1]);
        assert_eq!((0..6).map(|path| columns.of_path(path)).collect::<Vec<_>>(), [0, 2, 1, 0, 2, 2]);
        assert_eq!((columns.of_path(9), columns.part(9), columns.len()), (0, 0.0, 3));
        // 20 s of the caller's own and a fifth of one below it.
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        near(columns.part(1), 0.1 / 0.101);
        near(columns.part(4), 0.001 / 0.101);
        near(columns.part(2), 1.0);
        near(columns.part(5), 0.0);
        assert!(!columns.is_shared());
        let one = columns.together(&tree);
        assert_eq!((one.len(), one.of_path(3)), (1, 0));
        let all = 0.1 + 0.1 + 0.1 * 198.0 / 200.0 + 0.001;
        near(one.part(2), 0.1 / all);
        near((1..5).map(|path| one.part(path)).sum(), 1.0);
        assert!(one.is_shared());
    }

    /// Another process that is told apart has a power of its own, however little it ran; a function of the
    /// target with as much time has none.
    #[test]
    fn other_processes_stand_alone() {
        let root = |parent| Path { parent, step: PathElement::Root };
        let small = [
            Path { parent: OTHER, step: PathElement::Background(0) },
            Path { parent: 1, step: PathElement::Function(0) },
        ];
        let tree = PathTree::of_paths([root(OTHER), root(1)].into_iter().chain(small).collect(), vec![]);
        let mut pools = vec![Pool::default(); 4];
        for window in 0..200_u32 {
            let seconds = f64::from(window % 3) * 1e-4;
            pools.iter_mut().zip([0.1, 0.1, seconds, seconds]).for_each(|(pool, s)| pool.add(window, s, s));
        }
        let inclusive = super::inclusive(&tree, &pools);
        let columns = Columns::pooled(&tree, &pools, &inclusive, 40.0, RELIABLE);
        assert_eq!(columns.paths, [2, 1, OTHER]);
    }

    /// A column is shared where no path has nearly all of it, and columns are where that is most of the time.
    #[test]
    fn shared_columns() {
        let of = |own: [f64; 2]| {
            let mut columns = Columns::of_paths(vec![2, 3], vec![0, 0, 0, 1, 0]);
            columns.seconds = own.to_vec();
            columns.part = vec![0.0, 0.0, 0.5, 1.0, 0.5];
            columns.is_shared()
        };
        assert!(of([6.0, 4.0]) && !of([4.0, 6.0]) && !of([5.0, 5.0]));
    }

    /// A slice between samples 2 and 3 is the odd one's by half of the samples and the even one's by the
    /// other; what has one sample is that one's.
    #[test]
    fn odd_and_even_samples() {
        let between =
            |gap, reversed| IntervalSlice { left: 7, right: 8, gap, reversed, ..slice(0, 7, 0.0, 1.0) };
        let of = |gap, reversed| between(gap, reversed).odd_and_even();
        // Behind it is 3, and that is on the right.
        assert_eq!([of(3, false), of(2, false), of(3, true), of(2, true)], [(8, 7), (7, 8), (7, 8), (8, 7)]);
        let alone = IntervalSlice { right: NOBODY, ..between(3, false) };
        assert_eq!(alone.odd_and_even(), (7, 7));
    }

    /// From slices of the time: two functions that take turns by windows are two columns, half of the time
    /// each.
    #[test]
    fn from_parts() {
        let row = |k: u32| if k & 1 == 0 { vec![10.0, 0.0] } else { vec![0.0, 10.0] };
        let toy = Toy::new(20.0, &(0..40).map(row).collect::<Vec<_>>(), &[0.1; 40], 0.0);
        let windows = Windows::of_intervals(&toy.intervals, &toy.dynamic);
        let slices: Vec<IntervalSlice> = toy.slices.iter().filter(|slice| slice.ns > 0).copied().collect();
        let (columns, _) =
            Columns::of(&toy.tree, &IntervalSlices::of_slices(&slices), &windows, LeftOut::NOTHING);
        assert_eq!((columns.paths.as_slice(), columns.len()), (&[3, 2][..], 2));
        assert!(columns.seconds.iter().all(|seconds| (seconds - 0.2).abs() < 1e-9), "{columns:?}");
    }

    /// Paths in which samples stay that are near to each other have a power of their own; those between which they
    /// change by chance have none, nor has one that is all of its caller.
    #[test]
    fn where_samples_stay() {
        let tree = flat_tree(2);
        let all: Vec<PathId> = [2, 3].repeat(100);
        let of = |stay: usize, change: usize| {
            let near: Vec<_> = [[(2, 2), (3, 3)].repeat(stay), [(2, 3), (3, 2)].repeat(change)].concat();
            Columns::that_stay(&tree, (&near, &all), 0.6)
        };
        let (stay, change) = (of(45, 5), of(25, 25));
        assert_ne!(stay.of_path(2), stay.of_path(3));
        assert_eq!(change.of_path(2), change.of_path(3));
        assert!(stay.are_among(&stay) && !stay.are_among(&change));
        let one = Columns::that_stay(&tree, (&[(2, 2)], &[2]), 0.6);
        assert_eq!(one.of_path(2), one.of_path(tree.parent(2)));
    }
}
