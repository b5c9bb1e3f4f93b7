//! How energy is accounted for, chosen when a recording is read: the same options for every command that shows one.

use super::choices;
use clap::Args;
use energy_trace_model::profile::options::{Accounting, IdlePolicy, Method};

/// What the user chose.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct AccountingArgs {
    /// How to account for idle energy; totals always add up
    #[arg(long, value_parser = choices::idle_policy(), value_name = "POLICY", default_value = "separate")]
    pub idle: IdlePolicy,

    /// How to split energy among code that ran at the same time
    #[arg(long, value_parser = choices::method(), value_name = "METHOD", default_value = "weighted")]
    pub attribution: Method,
}

impl From<AccountingArgs> for Accounting {
    fn from(args: AccountingArgs) -> Self {
        Self { idle: args.idle, method: args.attribution }
    }
}
