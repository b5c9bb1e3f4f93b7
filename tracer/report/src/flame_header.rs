//! What stands above a flame graph: joules and seconds, and what of the machine's energy they are.
//!
//! Leaves out where it stands (`flame_page.rs`).

use super::folded::Folded;
use super::rest::{Rest, Sums};
use super::{DomainChoice, run};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown;
use std::collections::BTreeSet;

/// Characters of the command that are kept, of which the window shows those that it has room for.
const MOST_OF_COMMAND: usize = 1_000;

/// The words of a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Joules, seconds, quality, command.
    pub(crate) title: String,
    /// What of the machine's energy is drawn, and where the rest is.
    pub(crate) ledger: String,
    /// The name of the rectangle that holds all others.
    pub(crate) whole: &'static str,
    /// Of what shares are.
    pub(crate) share_of: &'static str,
}

impl Header {
    pub(crate) fn new(profile: &Profile, folded: &Folded<'_>, domain: DomainChoice, rest: Rest) -> Self {
        let system_wide = profile.run.header.system_wide;
        let program = if system_wide { "all programs" } else { "program" };
        let others = if system_wide { "energy-trace itself" } else { "other programs" };
        let alone = rest == Rest::default();
        Self {
            title: title(profile, folded, domain),
            ledger: ledger(Sums::of(profile, domain), (program, others), rest),
            whole: if alone { program } else { "all" },
            share_of: match (alone, system_wide) {
                (true, false) => "of the program",
                (true, true) => "of all programs",
                (false, _) => "of all that is drawn",
            },
        }
    }
}

fn title(profile: &Profile, folded: &Folded<'_>, domain: DomainChoice) -> String {
    let quality = run::quality(profile, domain).map_or("", run::quality_word);
    #[expect(clippy::cast_precision_loss, reason = "for showing")]
    let seconds = profile.run.duration_ns() as f64 / 1e9;
    let note = folded.note().map(|_| ", parts below zero left out").unwrap_or_default();
    let own = || profile.run.header.command.join(" ");
    let command = if profile.parts.is_empty() { own() } else { run::what_was_recorded(profile) };
    let words: String = command.chars().take(MOST_OF_COMMAND).collect();
    let command = shown(&words.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned();
    let command = if command.is_empty() { command } else { format!(": {command}") };
    format!("{} in {seconds:.1} s ({}, {quality}{note}){command}", folded.drawn(), classes(profile, domain))
}

/// The classes of domains that are drawn: `package + dram`.
fn classes(profile: &Profile, domain: DomainChoice) -> String {
    let classes: BTreeSet<DomainClass> = run::ledger_of(profile, domain).map(|row| row.class).fill_set();
    let names: Vec<&str> = classes.into_iter().map(DomainClass::name).collect();
    names.join(" + ")
}

/// `program 22.400 J (19.0 % of 117.8 J in all); not drawn: other programs 70.500 J (59.8 %), idle 24.900 J (21.1 %)`.
fn ledger(sums: Sums, (program, others): (&str, &str), rest: Rest) -> String {
    let share = |energy| share(energy, sums.measured);
    let parts = [
        (others, sums.others, rest.others),
        ("idle", sums.idle, rest.idle),
        ("charged to nobody", sums.nobody, rest.others),
    ];
    let of = |drawn: bool| -> Vec<String> {
        let parts =
            parts.iter().filter(|(_, energy, is_drawn)| *energy != MicroJoules::ZERO && *is_drawn == drawn);
        parts.map(|(name, energy, _)| format!("{name} {energy} ({})", share(*energy))).collect()
    };
    let (drawn, missing) = (of(true), of(false));
    let mut text =
        format!("{program} {} ({} of {} in all)", sums.program, share(sums.program), sums.measured);
    for part in drawn {
        text += &format!(", {part}");
    }
    if !missing.is_empty() {
        text += &format!("; not drawn: {}", missing.join(", "));
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "for showing")]
fn share(part: MicroJoules, whole: MicroJoules) -> String {
    let whole = whole.as_uj();
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * part.as_uj() as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::{MicroJoules, Rest, Sums, ledger};

    /// What is drawn and what is not, each with its share of all.
    #[test]
    fn the_rest_is_said() {
        let uj = MicroJoules::from_uj;
        let sums = Sums {
            measured: uj(100_000_000),
            program: uj(19_000_000),
            others: uj(60_000_000),
            idle: uj(21_000_000),
            nobody: uj(0),
        };
        let program = "program 19.000 J (19.0 % of 100.0 J in all)";
        let text = |rest| ledger(sums, ("program", "other programs"), rest);
        assert_eq!(
            text(Rest::default()),
            format!("{program}; not drawn: other programs 60.000 J (60.0 %), idle 21.000 J (21.0 %)")
        );
        assert_eq!(
            text(Rest { idle: true, others: false }),
            format!("{program}, idle 21.000 J (21.0 %); not drawn: other programs 60.000 J (60.0 %)")
        );
        assert_eq!(
            text(Rest::ALL),
            format!("{program}, other programs 60.000 J (60.0 %), idle 21.000 J (21.0 %)")
        );
    }
}
