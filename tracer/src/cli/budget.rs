//! `--budget`, `--budget-call` and `--budget-range`, and the exit status that they lead to: the same for `record` and `report`.
//!
//! Leaves out holding them against a run (`report::budgets`).

use clap::Args;
use energy_trace_report::budgets::{Budget, NoBudget, Verdict};
use std::process::ExitCode;

/// More energy was used than a budget allows.
const EXCEEDED: u8 = 122;
/// A budget has a name that no sample of the run shows.
const UNKNOWN: u8 = 121;

/// There is no energy, a counter says too little, or it is an estimate: nobody can tell whether more was used.
const NOT_JUDGED: u8 = 123;

/// What the user chose.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct BudgetArgs {
    /// Most energy that the program may use, such as 10J, 500mJ, 1.5Wh; exit status 122 if it used more, 123 if
    /// that cannot be told: there is no energy, a counter lacks too much of the run, or the limit is within what is possible, as within the
    /// range of an estimate
    #[arg(help_heading = "Budgets", long, value_name = "ENERGY")]
    pub budget: Option<Budget>,

    /// The same for an API call, a function or a line, such as torch.autograd.backward=2J or train.py:87=1J; may be repeated; exit status 121
    /// for a name that no sample shows
    #[arg(help_heading = "Budgets", long, value_name = "NAME=ENERGY", value_parser = of_call)]
    pub budget_call: Vec<Budget>,

    /// The same for a range that the program marks, such as prefill=2J, with `record --ranges`; of all ranges of this name together
    #[arg(help_heading = "Budgets", long, value_name = "NAME=ENERGY", value_parser = of_range)]
    pub budget_range: Vec<Budget>,

    /// The same for what a run may be without
    #[arg(help_heading = "Budgets", long, value_name = "NAME=ENERGY", value_parser = of_call)]
    pub budget_call_optional: Vec<Budget>,
}

impl BudgetArgs {
    /// All of them.
    pub(super) fn all(&self) -> Vec<Budget> {
        let optional = self.budget_call_optional.iter().cloned().map(Budget::that_may_be_absent);
        let named = self.budget_call.iter().chain(&self.budget_range);
        self.budget.iter().chain(named).cloned().chain(optional).collect()
    }
}

fn of_call(text: &str) -> Result<Budget, NoBudget> {
    Budget::of_call(text)
}

fn of_range(text: &str) -> Result<Budget, NoBudget> {
    Budget::of_range(text)
}

/// The status to end with: that of the command where it failed; then what became of the budgets. None that cannot be judged is 0, so that no gate
/// opens for want of a counter.
pub(super) fn exit_code(command: u8, budgets: Verdict) -> ExitCode {
    ExitCode::from(match (command, budgets) {
        (0, Verdict::Exceeded) => EXCEEDED,
        (0, Verdict::Unknown) => UNKNOWN,
        (0, Verdict::NotMeasured | Verdict::NotJudged) => NOT_JUDGED,
        (status, _) => status,
    })
}

#[cfg(test)]
mod tests {
    use super::exit_code;
    use energy_trace_report::budgets::Verdict;
    use std::process::ExitCode;

    /// A command that failed has the last word; a budget that nobody could check is not kept.
    #[test]
    fn statuses() {
        let is = |command, budgets, wanted: u8| {
            assert_eq!(format!("{:?}", exit_code(command, budgets)), format!("{:?}", ExitCode::from(wanted)));
        };
        is(0, Verdict::Kept, 0);
        is(0, Verdict::Exceeded, 122);
        is(0, Verdict::Unknown, 121);
        is(0, Verdict::NotMeasured, 123);
        is(0, Verdict::NotJudged, 123);
        is(3, Verdict::Exceeded, 3);
    }
}
