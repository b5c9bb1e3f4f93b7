//! Sentences for what owners of files and programs share.

use energy_trace_model::recording::record::{OfOwners, Owner, OwnerDiagnostic};

/// Owners that are named in a sentence.
const NAMED: usize = 4;

/// What was found, what it changes, and what to do about it.
pub(super) fn owner_fact(found: &OwnerDiagnostic) -> String {
    match found {
        OwnerDiagnostic::FilesNotKept { files, most } => format!(
            "files of programs of {} were not kept open until the end, because {most} may be open at once: functions in them may have no \
             names; times and joules are right; a larger `ulimit -Hn` in the shell that starts energy-trace leaves room for more",
            each(files, "file", "files")
        ),
        OwnerDiagnostic::FilesRefused { questions } => format!(
            "files of {} were not read any more, because earlier ones of theirs had crashed or held up the processes that read files too \
             often: functions in them have no names and stacks through them are cut; files of everybody else are read",
            each(questions, "question", "questions")
        ),
        OwnerDiagnostic::ReaderLost { times, again } => {
            let then = if *again {
                "it was started again, and files that were being read at that moment were asked about once more"
            } else {
                "it could not be started again, so functions of programs that were seen later have no names, and stacks through them are cut"
            };
            format!(
                "the process that reads files of programs was killed from outside (times: {times}): {then}; look for who kills `et-resolver` \
                 (a person, or the kernel for want of memory: `dmesg | grep -i killed`)"
            )
        }
        OwnerDiagnostic::NamesCut { names, longest } => {
            let (names, are) = if *names == 1 {
                ("1 name of a function", "is")
            } else {
                (&*format!("{names} names of functions"), "are")
            };
            format!("{names} {are} longer than {longest} bytes, and {are} cut there (they end in …)")
        }
        OwnerDiagnostic::EventsRefused { events } => format!(
            "events of programs of {} came faster than they could be processed, and some were lost: that time has no stacks and is shown as \
             [unsampled]; times and joules are right, and nobody else's events were lost",
            each(events, "event", "events")
        ),
        OwnerDiagnostic::StacksCut { samples, most } => format!(
            "{samples} samples are shown by their innermost function alone, below [unknown: too deep], because one user's programs had more \
             different stacks than there is room for ({most}, counting each caller); times, joules and self energy of functions are right"
        ),
    }
}

/// The same in one line, for the summary.
pub(super) fn owner_in_brief(found: &OwnerDiagnostic) -> String {
    let whose = |owners: &OfOwners| match owners.as_slice() {
        [(owner, _)] => owner.to_string(),
        [(owner, _), ..] => format!("{owner} and others"),
        [] => "nobody".to_owned(),
    };
    match found {
        OwnerDiagnostic::FilesNotKept { files, .. } => {
            format!("files of {} were closed early: functions have no names", whose(files))
        }
        OwnerDiagnostic::FilesRefused { questions } => {
            format!("files of {} are read no more: no names, stacks cut", whose(questions))
        }
        OwnerDiagnostic::ReaderLost { again: true, .. } => {
            "the process that reads files was killed, and started again".to_owned()
        }
        OwnerDiagnostic::ReaderLost { again: false, .. } => {
            "the process that reads files was killed: names are missing, stacks cut".to_owned()
        }
        OwnerDiagnostic::NamesCut { names, .. } => {
            format!("{names} names of functions are very long, and cut")
        }
        OwnerDiagnostic::EventsRefused { events } => {
            format!("events of {} came too fast, and were lost in part", whose(events))
        }
        OwnerDiagnostic::StacksCut { samples, .. } => {
            format!("too many different stacks: {samples} samples have no callers")
        }
    }
}

/// `user 12345 (1,000 files), root (1 file), and 2 others`.
fn each(owners: &OfOwners, one: &str, many: &str) -> String {
    let named = owners.iter().take(NAMED);
    let mut named: Vec<String> = named.map(|(owner, count)| of(*owner, *count, one, many)).collect();
    match owners.len().saturating_sub(NAMED) {
        0 => (),
        1 => named.push("1 other".to_owned()),
        more => named.push(format!("{more} others")),
    }
    named.join(", ")
}

fn of(owner: Owner, count: u64, one: &str, many: &str) -> String {
    format!("{owner} ({count} {})", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::owner_fact;
    use energy_trace_model::recording::record::{Owner, OwnerDiagnostic};

    /// A sentence says whose files it is about, in numbers that read well, and names no more than a few.
    #[test]
    fn whose() {
        let files = (1..8).map(|uid| (Owner::of_user(uid - 1), u64::from(uid))).collect();
        let text = owner_fact(&OwnerDiagnostic::FilesNotKept { files, most: 512 });
        assert!(
            text.contains("root (1 file), user 1 (2 files), user 2 (3 files), user 3 (4 files), 3 others"),
            "{text}"
        );
        let text = owner_fact(&OwnerDiagnostic::NamesCut { names: 1, longest: 4096 });
        assert!(text.starts_with("1 name of a function is longer than 4096 bytes"), "{text}");
    }
}
