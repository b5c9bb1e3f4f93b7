//! The screen of `energy-trace top`: watts now and joules so far of a recording that is still running, by domain, process, API call and
//! function.
//!
//! Windows of time are attributed one by one and added up, so that all that is shown is exact as a report is:
//! rows of a section are the program's joules. `now` is the last window. Leaves out units of work
//! (`top_work`), the terminal, and where windows come from.

use super::apart::PathDepths;
use super::row::Row;
use super::rows::rows_at;
use super::top_work::WorkSoFar;
use super::{By, Level, run};
use anstyle::{AnsiColor, Style};
use energy_trace_model::collections::Order as _;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, IdleInUse};
use energy_trace_model::profile::{LedgerRow, OverTime, Profile};
use energy_trace_model::recording::record::{DomainClass, Quality};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::shown::shown;
use energy_trace_names::{shorten, shorten_end};
use energy_trace_sentences::counted;
use std::collections::{HashMap, HashSet};
use unicode_width::UnicodeWidthStr as _;

/// What has rows.
const SECTIONS: [(By, &str); 3] =
    [(By::Process, "process"), (By::Api, "API call"), (By::Function, "function")];
/// Names that are kept of a section; what comes beyond goes together, so that sums stay.
const MOST_NAMES: usize = 50_000;
const BEYOND: &str = "[others, too many to name]";
/// Columns of numbers: watts now, joules, share; and in a narrow terminal watts alone.
const NUMBERS: usize = 32;
const WATTS: usize = 11;
const NARROW: usize = 60;
/// Units of work that have a line.
const UNITS: usize = 4;
/// Watts: less is shown as 0.0.
const SHOWN: f64 = 0.05;

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Section {
    /// Some rows of each.
    #[default]
    All,
    /// Processes alone.
    Processes,
    /// API calls alone.
    Calls,
    /// Functions alone.
    Functions,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// Use colour.
    pub color: bool,
    /// Which rows.
    pub section: Section,
}

/// Energy so far, and that of the last window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    all: MicroJoules,
    now: MicroJoules,
}

impl Used {
    fn add(&mut self, energy: MicroJoules) {
        self.all += energy;
        self.now += energy;
    }
}

/// A domain's energy, and the program's part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Domain {
    name: String,
    quality: Quality,
    measured: Used,
    target: Used,
    idle: Used,
    /// Of a whole machine, of which all programs are recorded: energy-trace itself.
    own: Option<Used>,
    /// Its idle power was not known in a window: it is in what is charged there.
    with_idle: bool,
}

/// Rows by their names, and where those lie that others of the name may stand beside.
type Rows = HashMap<(String, String), Used>;

/// All windows so far.
#[derive(Debug, Default)]
pub struct Totals {
    what: String,
    /// Nanoseconds of all windows, and of the last.
    ns: u64,
    now_ns: u64,
    samples: u64,
    domains: Vec<Domain>,
    target: Used,
    /// Some of the programs' energy is known.
    is_known: bool,
    work: Vec<WorkSoFar>,
    sections: [Rows; 3],
}

impl Totals {
    /// Adds a window, which has to be known over time where units of work are counted.
    pub fn add(&mut self, profile: &Profile, over_time: &OverTime) {
        self.what = shown(&run::what_was_recorded(profile)).into_owned();
        self.now_ns = profile.run.duration_ns();
        self.ns = self.ns.saturating_add(self.now_ns);
        self.samples = self.samples.saturating_add(profile.run.samples);
        let used = self.sections.iter_mut().flat_map(HashMap::values_mut).chain([&mut self.target]);
        used.for_each(|used| used.now = MicroJoules::ZERO);
        for row in &profile.ledger {
            self.add_domain(row, has_no_baseline(profile, &row.domain), profile.run.header.system_wide);
        }
        self.target.add(run::target(profile, run::headline(profile)));
        self.is_known |= run::split_quality(profile, run::headline(profile)).is_some();
        WorkSoFar::add_window(&mut self.work, profile, over_time);
        // What the interpreter does for a Python function is that function's, as in flame graphs.
        let folded = native_frames::folded(profile, NativeFrames::Libraries);
        for (section, (by, _)) in self.sections.iter_mut().zip(SECTIONS) {
            let profile = if by == By::Function { &*folded } else { profile };
            rows_at(profile, by, Level::Outer).iter().for_each(|row| add_row(section, row, profile));
        }
    }

    fn add_domain(&mut self, row: &LedgerRow, with_idle: bool, system_wide: bool) {
        let name = shown(&row.domain).into_owned();
        let known = self.domains.iter().position(|domain| domain.name == name).unwrap_or_else(|| {
            let (quality, (measured, target, idle)) = (row.quality, Default::default());
            let own = (system_wide && row.class != DomainClass::Gpu).then(Used::default);
            self.domains.push(Domain { name, quality, measured, target, idle, own, with_idle: false });
            self.domains.len() - 1
        });
        let Some(domain) = self.domains.get_mut(known) else { return };
        domain.with_idle |= with_idle;
        let parts = [
            (&mut domain.measured, row.measured),
            (&mut domain.target, row.target),
            (&mut domain.idle, row.idle),
        ];
        let own = domain.own.iter_mut().map(|own| (own, row.other));
        for (used, energy) in parts.into_iter().chain(own) {
            used.now = MicroJoules::ZERO;
            used.add(energy);
        }
    }

    /// Forgets what was added up; the next window begins anew.
    pub fn reset(&mut self) {
        *self = Self { what: std::mem::take(&mut self.what), ..Self::default() };
    }

    /// Whether a window was added.
    pub const fn is_empty(&self) -> bool {
        self.ns == 0
    }

    /// What stands when the terminal is as it was before: the whole in a line, and one for each domain of which no idle power is known.
    pub fn last_line(&self) -> String {
        let seconds = self.seconds(self.ns);
        let used = match self.is_known {
            true => format!("{} {}", self.target.all, self.quality_word()),
            false => "no energy is known ".to_owned(),
        };
        let mut line = format!("energy-trace: {used}in {seconds:.1} s, {}", self.what);
        for domain in self.domains.iter().filter(|domain| domain.with_idle) {
            let (known, there) = match domain.idle.all {
                MicroJoules::ZERO => ("not known", ""),
                _ => ("known in pauses alone", " elsewhere"),
            };
            let name = &domain.name;
            line += &format!("\n  the idle power of {name} is {known} and is in what is charged{there}");
        }
        let done: Vec<String> = self.work.iter().filter_map(WorkSoFar::last_line).collect();
        few(done).into_iter().for_each(|done| line += &format!("\n  {done}"));
        line
    }

    fn quality_word(&self) -> &'static str {
        let estimated = self.domains.iter().any(|domain| domain.quality == Quality::Estimated);
        if estimated { "(estimated) " } else { "" }
    }

    #[expect(clippy::unused_self, clippy::cast_precision_loss, reason = "for showing")]
    fn seconds(&self, ns: u64) -> f64 {
        ns as f64 / 1e9
    }

    fn watts(&self, used: Used) -> f64 {
        used.now.as_joules() / self.seconds(self.now_ns).max(1e-9)
    }

    /// The lines of a screen, as many as it has and none wider.
    pub fn lines(&self, screen: &Screen) -> Vec<String> {
        let (width, height) = (usize::from(screen.size.0.max(20)), usize::from(screen.size.1.max(4)));
        let mut lines = vec![styled(screen, bold(), &shorten_end(&self.head(), width))];
        lines.extend(self.domain_lines(width));
        if self.domains.is_empty() {
            lines.push(shorten_end(
                "no energy source: `energy-trace doctor` says what this machine has",
                width,
            ));
        }
        let units = few(self.work.iter().map(WorkSoFar::line).collect());
        lines.extend(units.iter().map(|line| shorten_end(line, width)));
        lines.push(String::new());
        let keys = "q quit · p processes · a API calls · f functions · s all · r reset";
        let room = height.saturating_sub(lines.len() + 1);
        lines.extend(self.sections(screen, width, room));
        lines.resize(height.saturating_sub(1), String::new());
        lines.push(styled(screen, Style::new().dimmed(), &shorten_end(keys, width)));
        lines
    }

    fn head(&self) -> String {
        let (watts, word) = (self.watts(self.target), self.quality_word());
        let used = match self.is_known {
            true => format!("{watts:.1} W {word}· {}", self.target.all),
            false => "no energy is known".to_owned(),
        };
        let samples = counted(self.samples, "sample");
        format!("{used} in {:.0} s · {samples} · {}", self.seconds(self.ns), self.what)
    }

    /// `package-0   12.4 W ██████▌··· program 8.1 W, idle 3.1 W, others 1.2 W`; bars of all domains are as long.
    fn domain_lines(&self, width: usize) -> Vec<String> {
        let words: Vec<_> = self.domains.iter().map(|domain| self.domain_words(domain)).collect();
        let longest =
            words.iter().map(|(watts, _, parts)| watts.chars().count() + parts.chars().count()).max();
        // What room the numbers leave.
        let room = width.saturating_sub(longest.unwrap_or(0)).min(24);
        let line = |(watts, part, parts): (String, f64, String)| format!("{watts}{}{parts}", bar(part, room));
        words.into_iter().map(|words| shorten_end(&line(words), width)).collect()
    }

    /// What stands before a domain's bar, how much of that is full, and what stands behind.
    fn domain_words(&self, domain: &Domain) -> (String, f64, String) {
        let [all, own, idle] = [domain.measured, domain.target, domain.idle].map(|used| self.watts(used));
        let part = if all > 0.0 { (own / all).clamp(0.0, 1.0) } else { 0.0 };
        // The baseline is no more than what is there.
        let others = (all - own - idle).max(0.0);
        let idle = all - own - others;
        let name = shorten(&domain.name, 14);
        let watts = format!("{name:<14}{all:>8.1} W ");
        let idle = match domain.with_idle && idle < SHOWN {
            true => "with idle".to_owned(),
            false => format!("idle {idle:.1} W"),
        };
        let others = self.words_of_others(domain, others);
        (watts, part, format!(" program {own:.1} W, {idle}, {others}"))
    }

    /// `others 1.2 W`, or of a whole machine `energy-trace 0.1 W, rest 1.1 W`, where there is a rest.
    fn words_of_others(&self, domain: &Domain, watts: f64) -> String {
        let Some(own) = domain.own.map(|own| self.watts(own).min(watts)) else {
            return format!("others {watts:.1} W");
        };
        let rest = watts - own;
        let rest = if rest < SHOWN { String::new() } else { format!(", rest {rest:.1} W") };
        format!("energy-trace {own:.1} W{rest}")
    }

    fn sections(&self, screen: &Screen, width: usize, room: usize) -> Vec<String> {
        let wanted = match screen.section {
            Section::All => 0..3,
            Section::Processes => 0..1,
            Section::Calls => 1..2,
            Section::Functions => 2..3,
        };
        let count = wanted.len();
        let each = |number: usize| room * (number + 1) / count - room * number / count;
        let sections =
            wanted.enumerate().map(|(number, section)| self.section(screen, section, width, each(number)));
        sections.flatten().collect()
    }

    fn section(&self, screen: &Screen, number: usize, width: usize, room: usize) -> Vec<String> {
        let (Some(section), Some((_, name))) = (self.sections.get(number), SECTIONS.get(number)) else {
            return vec![];
        };
        let mut rows: Vec<(&(String, String), &Used)> =
            section.iter().filter(|(_, used)| used.all != MicroJoules::ZERO).collect();
        rows.order_by(|a, b| b.1.now.cmp(&a.1.now).then(b.1.all.cmp(&a.1.all)).then(a.0.cmp(b.0)));
        rows.truncate(room.saturating_sub(1));
        let behind = behind(section, &rows);
        let head = match width {
            ..NARROW => format!("{:>9}  {name}", "W now"),
            _ => format!("{:>9} {:>13} {:>6}  {name}", "W now", "J", "%"),
        };
        let head = styled(screen, Style::new().underline(), &shorten_end(&head, width));
        let row = |((name, place), used): (&(String, String), &Used)| {
            self.row(&(name.clone() + &shown(&behind.suffix(name, place, 0))), *used, width)
        };
        let rows = rows.into_iter().map(row);
        let mut lines: Vec<String> = std::iter::once(head).chain(rows).take(room).collect();
        lines.resize(room, String::new());
        lines
    }

    fn row(&self, name: &str, used: Used, width: usize) -> String {
        if width < NARROW {
            return format!("{:>9.2}  {}", self.watts(used), shorten(name, width.saturating_sub(WATTS)));
        }
        let whole = self.target.all.as_joules();
        let share = if whole == 0.0 { 0.0 } else { 100.0 * used.all.as_joules() / whole };
        let name = shorten(name, width.saturating_sub(NUMBERS));
        format!("{:>9.2} {:>13.3} {share:>6.1}  {name}", self.watts(used), used.all.as_joules())
    }
}

/// The first lines of units of work, and how many more there are.
fn few(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.split_off(UNITS.min(lines.len())).len();
    lines.extend((more > 0).then(|| format!("and {more} more of --work")));
    lines
}

/// Whether no idle power is known of a domain.
fn has_no_baseline(profile: &Profile, name: &str) -> bool {
    profile.diagnostics.iter().any(|found| match found {
        Diagnostic::Domain {
            domain,
            what:
                DomainDiagnostic::NoIdleBaseline
                | DomainDiagnostic::GpuInUse { idle: IdleInUse::Unknown, .. },
        } => domain == name,
        _ => false,
    })
}

fn add_row(section: &mut Rows, row: &Row, profile: &Profile) {
    let energy = run::chosen(&row.spent.own.energy, run::headline(profile));
    let key = (shown(&row.name).into_owned(), row.place.clone());
    let is_known = section.contains_key(&key) || section.len() < MOST_NAMES;
    section.entry(if is_known { key } else { (BEYOND.to_owned(), String::new()) }).or_default().add(energy);
}

/// What tells rows from others of their names, shown or not.
fn behind(section: &Rows, rows: &[(&(String, String), &Used)]) -> PathDepths {
    let names: HashSet<&String> = rows.iter().map(|((name, _), _)| name).collect();
    let alike: Vec<_> = section.keys().filter(|(name, _)| names.contains(name)).cloned().collect();
    let mut depths = PathDepths::default();
    depths.add(&alike);
    depths
}

/// A bar of eighths of a column.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width on the screen")]
fn bar(part: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part * 8.0 * width as f64).round() as usize;
    let full =
        format!("{}{}", "█".repeat(eighths / 8), EIGHTHS.get(eighths % 8).copied().unwrap_or_default());
    let rest = width.saturating_sub(full.width());
    format!("{full}{}", "·".repeat(rest))
}

const fn bold() -> Style {
    Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)))
}

fn styled(screen: &Screen, style: Style, text: &str) -> String {
    if screen.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{Diagnostic, DomainDiagnostic, IdleInUse, OverTime, Screen, Section, Totals, bar};
    use crate::tests::only_an_amd_gpu;
    use crate::tests::training_runs::measured_training;
    use crate::tests::work::counted;
    use energy_trace_model::recording::record::InUse;
    use energy_trace_model::units::MicroJoules;
    use unicode_width::UnicodeWidthStr as _;

    fn screen(width: u16, height: u16, section: Section) -> Screen {
        Screen { size: (width, height), color: false, section }
    }

    /// Two windows: joules add up in each section to the program's, watts are those of the last.
    #[test]
    fn windows_add_up() {
        let profile = measured_training();
        let target: MicroJoules =
            profile.ledger.iter().filter(|row| row.class.adds_up()).map(|row| row.target).sum();
        let mut totals = Totals::default();
        totals.add(&profile, &OverTime::default());
        totals.add(&profile, &OverTime::default());
        assert_eq!((totals.target.all, totals.target.now), (target + target, target));
        for section in &totals.sections {
            assert_eq!(section.values().map(|used| used.all).sum::<MicroJoules>(), target + target);
            assert_eq!(section.values().map(|used| used.now).sum::<MicroJoules>(), target);
        }
        totals.reset();
        assert!(totals.is_empty() && totals.target.all == MicroJoules::ZERO);
    }

    /// Functions of one name that lie in two files are two rows, also where a window has one of them alone.
    #[test]
    fn twins() {
        let mut windows = ["/a/libx.so", "/b/libx.so"].map(|file| {
            let mut profile = measured_training();
            let mut native =
                profile.frames.iter_mut().filter(|frame| frame.name.starts_with("at::native::add_kernel"));
            native.next().unwrap().module = file.to_owned();
            profile
        });
        let mut totals = Totals::default();
        windows.iter_mut().for_each(|window| totals.add(window, &OverTime::default()));
        let text = totals.lines(&screen(160, 60, Section::Functions)).join("\n");
        for file in ["a/libx.so", "b/libx.so"] {
            assert_eq!(text.matches(&format!("  ({file})")).count(), 1, "{text}");
        }
    }

    /// Of a whole machine what is no program's is energy-trace's own, and the rest.
    #[test]
    fn whole_machine() {
        let mut profile = measured_training();
        profile.run.header.system_wide = true;
        let mut totals = Totals::default();
        totals.add(&profile, &OverTime::default());
        let lines = totals.lines(&screen(120, 24, Section::All));
        let of_cpus = lines.iter().find(|line| line.starts_with("package")).unwrap();
        assert!(of_cpus.contains(", energy-trace ") && !of_cpus.contains("others"), "{of_cpus}");
    }

    /// Where all energy is charged to nobody, no watts of programs are shown.
    #[test]
    fn energy_of_nobody() {
        let mut totals = Totals::default();
        totals.add(&only_an_amd_gpu(), &OverTime::default());
        assert!(totals.head().starts_with("no energy is known in 20 s · "), "{}", totals.head());
        assert!(totals.last_line().starts_with("energy-trace: no energy is known in 20.0 s, "));
        totals.add(&measured_training(), &OverTime::default());
        assert!(totals.head().contains(" W · ") && totals.head().contains(" J in 40 s"), "{}", totals.head());
    }

    /// As many lines as the terminal has, none wider, whatever its size; the last one names the keys.
    #[test]
    fn it_fits() {
        let mut profile = measured_training();
        profile.processes[0].command = vec!["py\x1b[2J\nthon".into(), "<script>".into(), "x".repeat(500)];
        profile.work =
            ["to\x1b[2Jken", "b", "c", "d", "e", "f"].map(|name| counted(&profile, name, 1)).into();
        let mut totals = Totals::default();
        totals.add(&profile, &OverTime::default());
        for (width, height) in [(80, 24), (200, 60), (20, 4), (37, 9), (80, 5)] {
            for section in [Section::All, Section::Processes, Section::Calls, Section::Functions] {
                let lines = totals.lines(&screen(width, height, section));
                assert_eq!(lines.len(), usize::from(height), "{width}x{height}");
                for line in &lines {
                    assert!(line.width() <= usize::from(width), "{width}x{height}: {line}");
                    assert!(!line.contains(char::is_control), "{line:?}");
                }
                assert!(lines.last().unwrap().starts_with("q quit"));
            }
        }
        let text = totals.lines(&screen(80, 24, Section::All)).join("\n");
        assert!(text.contains("torch.autograd.backward") && text.contains("\\x1b[2J"), "{text}");
        assert!(text.contains("to\\x1b[2Jken: none now") && text.contains("and 2 more of --work"), "{text}");
        let mut of_domains = text.lines().filter(|line| line.contains(", others "));
        assert!(of_domains.all(|line| line.ends_with(" W")) && text.contains(", others "), "{text}");
        let of_domains = text.lines().filter(|line| line.contains(", others "));
        let ends: Vec<usize> =
            of_domains.map(|line| line.split(" program ").next().unwrap().chars().count()).collect();
        assert!(ends.len() > 1 && ends.iter().all(|end| *end == ends[0]), "{text}");
    }

    /// A domain whose idle power is not known has it in what is charged, which is said; no watts are below zero, whatever the baseline was.
    #[test]
    fn nobody_gives_watts_back() {
        let mut profile = measured_training();
        let row = &mut profile.ledger[0];
        let whole = row.measured;
        (row.idle, row.target) = (whole + whole, MicroJoules::ZERO);
        let words = |profile: &super::Profile| {
            let mut totals = Totals::default();
            totals.add(profile, &OverTime::default());
            totals.domain_words(&totals.domains[0]).2
        };
        assert!(!words(&profile).contains('-'), "{}", words(&profile));
        let row = &mut profile.ledger[0];
        (row.idle, row.target) = (MicroJoules::ZERO, whole);
        let (domain, what) = (
            row.domain.clone(),
            DomainDiagnostic::GpuInUse { by: InUse::default(), idle: IdleInUse::Unknown },
        );
        assert!(words(&profile).contains("idle 0.0 W"), "{}", words(&profile));
        profile.diagnostics.push(Diagnostic::Domain { domain, what });
        assert!(words(&profile).contains("with idle"), "{}", words(&profile));
        let mut totals = Totals::default();
        totals.add(&profile, &OverTime::default());
        assert!(
            totals.last_line().contains("is not known and is in what is charged"),
            "{}",
            totals.last_line()
        );
        // Another window has pauses.
        profile.diagnostics.clear();
        profile.ledger[0].idle = MicroJoules::from_uj(1_000_000);
        totals.add(&profile, &OverTime::default());
        let last = totals.last_line();
        assert!(last.contains("is known in pauses alone and is in what is charged elsewhere"), "{last}");
    }

    /// Eighths of a column, and never more than there are.
    #[test]
    fn bars() {
        assert_eq!([bar(0.0, 4), bar(0.5, 4), bar(1.0, 4), bar(0.53, 4)], ["····", "██··", "████", "██▏·"]);
    }
}
