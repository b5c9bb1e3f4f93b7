//! What files of a fleet are called: `energy/date=2026-11-20/HOST-BOOT-SEQ.parquet`.
//!
//! SEQ is when the first window began, in milliseconds of the machine's own clock: it grows within a boot,
//! and no two files of one boot have the same, though nobody keeps a number. Leaves out folders above the
//! key.

use super::Window;
use energy_trace_model::profile::Profile;
use std::time::{Duration, UNIX_EPOCH};

/// Characters of a boot's number that are in a key.
const BOOT_DIGITS: usize = 12;
/// Digits of when a file's first window began, at least.
const SEQ_DIGITS: usize = 13;
/// Characters of a machine's name in a key.
const HOST_CHARACTERS: usize = 64;

/// The machine, and what is the same in all its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    /// Its name, where it is known.
    pub(super) host: Option<String>,
    /// Which of its lives this is.
    pub(super) boot: String,
    /// When that began, in nanoseconds since 1970-01-01 UTC.
    booted_ns: u64,
    pub(super) version: String,
    pub(super) kernel: String,
    pub(super) cpu_model: String,
}

impl Machine {
    /// Of a profile of one machine.
    pub(super) fn of(profile: &Profile) -> Option<Self> {
        let run = &profile.run;
        if run.host.is_none() && profile.parts.len() > 1 {
            return None;
        }
        let anchor = run.header.anchor;
        let booted_ns = anchor.unix_ns.saturating_sub(anchor.ktime.as_ns());
        let known = run.host.as_ref();
        let boot = known.map(|host| host.boot.clone()).filter(|boot| !boot.is_empty());
        Some(Self {
            host: known.map(|host| host.name.clone()).filter(|name| !name.is_empty()),
            boot: boot.unwrap_or_else(|| format!("{:012x}", booted_ns / 1_000_000_000)),
            booted_ns,
            version: run.header.version.clone(),
            kernel: run.header.kernel.clone(),
            cpu_model: run.header.cpu_model.clone(),
        })
    }

    /// The key of a table's file of one day, which begins with this window.
    pub(super) fn key(&self, table: &str, first: Window) -> String {
        let host = plain(self.host.as_deref().unwrap_or("unknown"), HOST_CHARACTERS);
        let boot: String = self.boot.chars().filter(char::is_ascii_hexdigit).take(BOOT_DIGITS).collect();
        let seq = first.start_ns.saturating_sub(self.booted_ns) / 1_000_000;
        format!("{table}/date={}/{host}-{boot}-{seq:0SEQ_DIGITS$}.parquet", first.date())
    }
}

/// Whether a file is called as one of a fleet, whatever table and day it is of: other files are somebody else's.
pub fn is_file_of_fleet(name: &str) -> bool {
    let mut parts = name.strip_suffix(".parquet").unwrap_or_default().rsplitn(3, '-');
    let is_seq = |seq: &str| seq.len() >= SEQ_DIGITS && seq.bytes().all(|byte| byte.is_ascii_digit());
    let is_boot = |boot: &str| boot.len() == BOOT_DIGITS && boot.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.next().is_some_and(is_seq) && parts.next().is_some_and(is_boot) && parts.next().is_some()
}

/// Whether a folder is called as a day of a fleet's table.
pub fn is_day_of_fleet(name: &str) -> bool {
    let is_as = |(byte, like): (u8, u8)| if like == b'-' { byte == like } else { byte.is_ascii_digit() };
    let like = b"0000-00-00";
    let day = name.strip_prefix("date=").unwrap_or_default();
    day.len() == like.len() && day.bytes().zip(like.iter().copied()).all(is_as)
}

impl Window {
    /// The day of its start, in UTC.
    pub(super) fn date(self) -> String {
        // As 2026-11-20T23:59:00Z; a clock that says more than the year 9999 is at fault, and has the first
        // day.
        let day = self.start_ns / 1_000_000_000;
        let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(day)).to_string();
        text.split_once('T').map_or_else(|| "1970-01-01".to_owned(), |(date, _)| date.to_owned())
    }
}

/// A name as a part of a file's.
fn plain(name: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let name: String = name.chars().take(longest).map(plain).collect();
    // `..` is a folder.
    if name.starts_with('.') { name.replacen('.', "_", 1) } else { name }
}

#[cfg(test)]
mod tests {
    use super::{Machine, Window};

    fn machine(host: &str) -> Machine {
        let boot = "3f2a1b4c-99aa-4b5c-8d7e-0123456789ab".to_owned();
        Machine { host: Some(host.to_owned()), boot, booted_ns: 1_000_000_000, ..Machine::default() }
    }

    /// Keys say table, day, host, boot and when; the day is that of UTC.
    #[test]
    fn keys() {
        let first = Window { start_ns: 1_795_737_599_999_000_000, length_ns: 1 };
        let key = machine("node7.example").key("energy", first);
        assert_eq!(key, "energy/date=2026-11-26/node7.example-3f2a1b4c99aa-1795737598999.parquet");
        let next = Window { start_ns: 1_795_737_600_000_000_000, length_ns: 1 };
        assert_eq!(next.date(), "2026-11-27");
        assert_eq!(Window { start_ns: 0, length_ns: 0 }.date(), "1970-01-01");
        assert!(Window { start_ns: u64::MAX, length_ns: 0 }.date().starts_with("2554"));
    }

    /// No machine's name leads out of the folder.
    #[test]
    fn hostile_hosts() {
        let first = Window { start_ns: 2_000_000_000, length_ns: 1 };
        let of = |host: &str| machine(host).key("energy", first);
        assert_eq!(
            of("../../etc/x"),
            "energy/date=1970-01-01/_._.._etc_x-3f2a1b4c99aa-0000000001000.parquet"
        );
        assert_eq!(of("a\nb\u{202e}é"), "energy/date=1970-01-01/a_b__-3f2a1b4c99aa-0000000001000.parquet");
        assert!(of(&"x".repeat(10_000)).len() < 130);
    }
}
