//! Tooltips of a flame graph: joules, share, average watts and seconds of any rectangle.
//!
//! A rectangle's place on the axis is in units of weight, and the lines below it are exactly those whose weights fill that place, so that
//! their CPU time is a difference of two running sums. The form `name (…)` with one pair of round brackets at the end is what the graph's
//! script cuts the name out of. Leaves out the picture (`flame_page.rs`).

use super::table_cells::watts;
use energy_trace_model::units::MicroJoules;

/// CPU time in nanoseconds, and the energy that was spent in it: a GPU's is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spent {
    time_ns: u64,
    energy: MicroJoules,
}

/// Running sums over the drawn lines, to look up what lies between two places of the axis.
pub(crate) struct Axis<'a> {
    /// Where each line begins, and the CPU time of all lines before it with what was spent in it.
    marks: Vec<(u64, Spent)>,
    /// Length of the axis.
    end: u64,
    /// The time that the bottom rectangle is said to last: the recording's, because it holds the idle energy too.
    duration_ns: u64,
    /// Put behind each energy: ` estimated`, or nothing.
    word: &'static str,
    /// How sure the energy of a range of lines is, as it stands in the tooltip.
    uncertainty: Box<dyn Fn(std::ops::Range<usize>) -> String + 'a>,
}

impl<'a> Axis<'a> {
    /// `lines`: weight, CPU time and the energy spent in it of each drawn line, in the order in which they are drawn.
    pub(crate) fn new(
        lines: impl Iterator<Item = (u64, u64, MicroJoules)>,
        duration_ns: u64,
        word: &'static str,
    ) -> Self {
        let (mut end, mut spent) = (0_u64, Spent::default());
        let mut marks = Vec::new();
        for (weight, time_ns, energy) in lines {
            marks.push((end, spent));
            end = end.saturating_add(weight);
            spent.time_ns = spent.time_ns.saturating_add(time_ns);
            spent.energy += energy;
        }
        marks.push((end, spent));
        Self { marks, end, duration_ns, word, uncertainty: Box::new(|_| String::new()) }
    }

    /// With words on how sure the energy of a range of lines is.
    pub(crate) fn with_uncertainty(mut self, words: impl Fn(std::ops::Range<usize>) -> String + 'a) -> Self {
        self.uncertainty = Box::new(words);
        self
    }

    /// The length of the axis.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    /// The lines that begin between two places.
    pub(crate) fn lines(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let from = |place| self.marks.partition_point(|&(start, _)| start < place);
        from(start)..from(end).min(self.marks.len().saturating_sub(1))
    }

    fn spent_before(&self, place: u64) -> Spent {
        let after = self.marks.partition_point(|&(start, _)| start < place);
        self.marks.get(after).or(self.marks.last()).map_or(Spent::default(), |&(_, spent)| spent)
    }

    /// The tooltip of a rectangle.
    #[expect(clippy::cast_precision_loss, reason = "for showing")]
    pub(crate) fn title(&self, name: &str, start: u64, width: u64, is_root: bool) -> String {
        let energy = MicroJoules::from_uj(i64::try_from(width).unwrap_or(i64::MAX));
        let (before, after) = (self.spent_before(start), self.spent_before(start.saturating_add(width)));
        let between = Spent {
            time_ns: after.time_ns.saturating_sub(before.time_ns),
            energy: after.energy - before.energy,
        };
        let spent = if is_root { Spent { time_ns: self.duration_ns, energy } } else { between };
        let share = 100.0 * width as f64 / self.end.max(1) as f64;
        let seconds = spent.time_ns as f64 / 1e9;
        let sure = (self.uncertainty)(self.lines(start, start.saturating_add(width)));
        format!(
            "{name} ({energy}{}{sure}, {share:.2} %, {}, {seconds:.3} s)",
            self.word,
            power(energy, spent)
        )
    }
}

/// The average watts of what was spent in CPU time, and whose they are where that is not all.
fn power(all: MicroJoules, spent: Spent) -> String {
    match spent.energy {
        MicroJoules::ZERO if all != MicroJoules::ZERO => "- W".to_owned(),
        energy if energy == all => format!("{} W", watts(energy, spent.time_ns)),
        energy => format!("CPU {} W", watts(energy, spent.time_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Axis, MicroJoules};

    /// A line of CPUs alone.
    fn of_cpus((weight, time_ns): (u64, u64)) -> (u64, u64, MicroJoules) {
        (weight, time_ns, MicroJoules::from_uj(i64::try_from(weight).unwrap()))
    }

    /// A GPU's joules are divided by no CPU's time: where a rectangle holds both, the watts are the CPUs' and say so.
    #[test]
    fn a_gpus_joules_are_nobodys_watts() {
        let cpu = MicroJoules::from_uj(1_000_000);
        let lines = [(1_000_000, 500_000_000, cpu), (6_000_000, 0, MicroJoules::ZERO)];
        let axis = Axis::new(lines.into_iter(), 4_000_000_000, "");
        assert_eq!(axis.title("all", 0, 7_000_000, true), "all (7.000 J, 100.00 %, 1.8 W, 4.000 s)");
        assert_eq!(axis.title("main", 0, 7_000_000, false), "main (7.000 J, 100.00 %, CPU 2.0 W, 0.500 s)");
        assert_eq!(axis.title("gemm", 1_000_000, 6_000_000, false), "gemm (6.000 J, 85.71 %, - W, 0.000 s)");
    }

    /// A rectangle over the second and third line has their time, and the root that of the recording.
    #[test]
    fn tooltips_have_the_time_of_their_lines() {
        let lines = [(1_000_000, 250_000_000), (2_000_000, 500_000_000), (1_000_000, 500_000_000)];
        let axis = Axis::new(lines.into_iter().map(of_cpus), 4_000_000_000, " estimated");
        assert_eq!(axis.lines(1_000_000, 4_000_000), 1..3);
        let title = axis.title("f<int>(x)", 1_000_000, 3_000_000, false);
        assert_eq!(title, "f<int>(x) (3.000 J estimated, 75.00 %, 3.0 W, 1.000 s)");
        assert_eq!(
            axis.title("all", 0, 4_000_000, true),
            "all (4.000 J estimated, 100.00 %, 1.0 W, 4.000 s)"
        );
    }
}
