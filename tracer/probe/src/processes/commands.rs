//! How much of the command lines of a machine's programs is recorded: of each its first bytes (`peeker`), of each user's so much in all, and of a
//! process that another one forked nothing, as its parent's says the same.
//!
//! A program can have a command line of gigabytes, and any number of children with the same. Leaves out reading them.

use std::collections::HashMap;

/// Bytes of one user's command lines, those of forked processes included, and of all users'.
const MOST_OF_ONE: usize = 1 << 20;
const MOST_OF_ALL: usize = 8 << 20;
/// Bytes of a program's name where the rest has no room.
const LONGEST_NAME: usize = 64;

/// What was recorded of command lines.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    by_owner: HashMap<u32, usize>,
    /// Programs of whose command lines a part alone is recorded.
    pub(crate) cut: u64,
}

impl Commands {
    /// What is recorded of a program's command line; `is_cut`: it was not read to its end.
    pub(crate) fn take(&mut self, owner: u32, command: Vec<String>, is_cut: bool) -> Vec<String> {
        let fits = self.spend(owner, size(&command));
        self.cut += u64::from(is_cut || !fits);
        if fits { command } else { name_alone(command) }
    }

    /// What is recorded for a process that was forked by one with this command line: nothing, which means its parent's.
    pub(crate) fn share(&mut self, owner: u32, bytes: usize, name: &str) -> Vec<String> {
        if self.spend(owner, bytes) {
            return Vec::new();
        }
        self.cut += 1;
        name_alone(vec![name.to_owned()])
    }

    fn spend(&mut self, owner: u32, bytes: usize) -> bool {
        // Where there are many users, each may have less: who has least had loses nothing to who has most.
        let users = self.by_owner.len().max(1);
        let spent = self.by_owner.entry(owner).or_default();
        let fits = *spent + bytes <= MOST_OF_ONE.min(MOST_OF_ALL / users);
        *spent += if fits { bytes } else { 0 };
        fits
    }
}

/// Bytes that a command line takes.
pub(crate) fn size(command: &[String]) -> usize {
    command.iter().map(|word| word.len() + size_of::<String>()).sum()
}

fn name_alone(command: Vec<String>) -> Vec<String> {
    let first = command.into_iter().next().map(|mut first| {
        first.truncate(first.floor_char_boundary(LONGEST_NAME));
        first
    });
    first.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::{Commands, LONGEST_NAME, MOST_OF_ONE, size};

    /// One user's long command lines and forks use up that user's room and nobody else's; what has no room keeps its name, and is counted.
    #[test]
    fn each_user_has_room() {
        let long = || vec!["x".repeat(4096)];
        let mut commands = Commands::default();
        let kept = (0..1000).map(|_| commands.take(7, long(), false)).filter(|kept| *kept == long()).count();
        assert!((100..=MOST_OF_ONE / 4096).contains(&kept), "{kept}");
        assert_eq!(commands.take(7, long(), false), ["x".repeat(LONGEST_NAME)]);
        assert_eq!(commands.share(7, size(&long()), "x"), ["x"]);
        let before = commands.cut;
        assert_eq!(commands.take(8, long(), false), long());
        assert_eq!(commands.share(8, size(&long()), "x"), Vec::<String>::new());
        assert_eq!(commands.cut, before);
        commands.take(8, long(), true);
        assert_eq!(commands.cut, before + 1);
    }

    /// With users without number what is kept stays within the room of all.
    #[test]
    fn many_users() {
        let mut commands = Commands::default();
        let kept: usize =
            (0..100_000).map(|user| size(&commands.take(user, vec!["x".repeat(4096)], false))).sum();
        assert!(kept < 64 << 20, "{kept}");
        assert_eq!(commands.take(100_001, vec!["python3".into(), "a".into()], false).len(), 2);
    }
}
