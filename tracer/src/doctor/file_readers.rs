//! The processes that parse what others can write: as whom they run, and what the kernel shuts them off from.

use super::finding::Finding;
use energy_trace_foreign::resolver::landlock_version;
use energy_trace_system::roles::own_user::OwnUser;

/// The first version of Landlock that keeps signals in.
const WITH_SIGNALS: u32 = 6;

/// As a recording would start them.
pub(super) fn examine() -> Finding {
    judge(&OwnUser::find(), nix::unistd::geteuid().is_root(), landlock_version())
}

fn judge(user: &OwnUser, is_root: bool, landlock: Option<u32>) -> Finding {
    const AREA: &str = "file readers";
    let (user, shared) = match user {
        OwnUser::Own(identity) => (format!("as user {}, which nobody else is", identity.uid), false),
        OwnUser::Nobody(_) => ("as nobody, as whom other programs may run too and end them".to_owned(), true),
        OwnUser::Unchanged if is_root => ("as root without capabilities".to_owned(), true),
        OwnUser::Unchanged => ("as their caller, who may end them".to_owned(), false),
    };
    let walls = match landlock {
        Some(version) if version >= WITH_SIGNALS => format!("shut off from files, network and signals (Landlock {version})"),
        Some(version) => format!("shut off from files by the kernel (Landlock {version}), from the rest by a filter of system calls"),
        None => "without Landlock, so that one that a hostile file has taken over could open files that everybody may read, \
                 though it could tell nobody but the recorder"
            .to_owned(),
    };
    let text = format!("processes that parse files of programs run {user}, and {walls}");
    if landlock.is_none() {
        let fix = "use Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK=y, and name landlock in the boot parameter lsm= (`cat \
                   /sys/kernel/security/lsm` shows what is on)";
        return Finding::warn(AREA, text, fix);
    }
    match shared {
        true => Finding::warn(
            AREA,
            text,
            "record outside of a user namespace, or in one that has all numbers of users",
        ),
        false => Finding::ok(AREA, text),
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnUser, judge};
    use crate::doctor::Level;
    use energy_trace_system::roles::renounce::Identity;
    use nix::unistd::{Gid, Uid};

    /// A kernel without Landlock, and a user that others have too, are warned of with what to do; a caller's own user is as it should be.
    #[test]
    fn what_is_missing() {
        let identity =
            Identity { uid: Uid::from_raw(60_800), gid: Gid::from_raw(60_800), groups: Vec::new() };
        let (own, nobody) = (OwnUser::Own(identity.clone()), OwnUser::Nobody(identity));
        let found = judge(&own, true, Some(7));
        assert_eq!((found.level, found.text.contains("user 60800")), (Level::Ok, true), "{}", found.text);
        assert_eq!(judge(&own, true, Some(1)).level, Level::Ok);
        assert_eq!(judge(&OwnUser::Unchanged, false, Some(7)).level, Level::Ok);
        let found = judge(&own, true, None);
        assert!(found.level == Level::Warn && found.fix.unwrap().contains("lsm="), "{}", found.text);
        for shared in [nobody, OwnUser::Unchanged] {
            let found = judge(&shared, true, Some(7));
            assert!(
                found.level == Level::Warn && found.fix.unwrap().contains("user namespace"),
                "{}",
                found.text
            );
        }
    }
}
