//! The person behind `sudo`: whom the command runs as, and to whom the files belong.
//!
//! Leaves out every other way of changing users (`doas`, `su`, `pkexec`): they do not name the user.

use energy_trace_system::roles::renounce::Identity;
use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist};
use std::ffi::{CString, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;

/// Why the invoking user could not be made out. energy-trace does not fall back to root.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// A variable that `sudo` sets holds no number.
    #[error(
        "{variable}={value:?} is not a user or group number: unset it, or use --as-root to run the command as root"
    )]
    Number {
        /// The variable's name.
        variable: &'static str,
        /// Its value.
        value: OsString,
    },
    /// The user database could not be read.
    #[error("cannot look up user {uid}: {source}; use --as-root to run the command as root")]
    Lookup {
        /// The user.
        uid: Uid,
        /// The database's error.
        source: nix::Error,
    },
}

/// The user who typed `sudo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvokingUser {
    /// User number.
    pub uid: Uid,
    /// Primary group number.
    pub gid: Gid,
    /// All groups, as `initgroups` would set them.
    pub groups: Vec<Gid>,
    /// `HOME`, `USER` and `LOGNAME` as they should be.
    identity: Vec<(&'static str, OsString)>,
}

impl InvokingUser {
    /// The user behind `sudo`; `None` without `sudo`, when root itself typed it, or when energy-trace is not root at all.
    pub fn from_environment() -> Result<Option<Self>, UserError> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let Some(uid) = number("SUDO_UID", std::env::var_os("SUDO_UID"))? else { return Ok(None) };
        if uid == 0 {
            return Ok(None);
        }
        let gid = number("SUDO_GID", std::env::var_os("SUDO_GID"))?;
        Self::look_up(Uid::from_raw(uid), gid.map(Gid::from_raw)).map(Some)
    }

    /// A user by number; `gid`: the primary group, where another one than the account's is known.
    ///
    /// # Errors
    /// When the user database cannot be read.
    pub fn look_up(uid: Uid, gid: Option<Gid>) -> Result<Self, UserError> {
        let lookup = |source| UserError::Lookup { uid, source };
        let Some(user) = User::from_uid(uid).map_err(lookup)? else {
            // A number without a name, as in a container: it has the one group that sudo named.
            let gid = gid.unwrap_or_else(|| Gid::from_raw(uid.as_raw()));
            return Ok(Self { uid, gid, groups: vec![gid], identity: Vec::new() });
        };
        let gid = gid.unwrap_or(user.gid);
        let name = CString::new(user.name.as_str()).map_err(|_| lookup(nix::Error::EINVAL))?;
        let groups = getgrouplist(&name, gid).map_err(lookup)?;
        let identity = vec![
            ("HOME", user.dir.into_os_string()),
            ("USER", user.name.clone().into()),
            ("LOGNAME", user.name.into()),
        ];
        Ok(Self { uid, gid, groups, identity })
    }

    /// What must change in the command's environment so that it does not name root.
    ///
    /// `sudo` sets `HOME`, `USER` and `LOGNAME` to root's; a program that runs as the user and finds `HOME=/root` cannot write its caches.
    /// A variable that is not set, or that holds anything but root's value, is left alone; so is every other variable.
    pub fn corrections(
        &self,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Vec<(&'static str, OsString)> {
        let roots = |variable: &str| match variable {
            "HOME" => root_home(),
            _ => "root".into(),
        };
        let named_root = |variable: &str| environment(variable).is_some_and(|value| value == roots(variable));
        self.identity.iter().filter(|(variable, _)| named_root(variable)).cloned().collect()
    }

    /// As a role becomes this user for good.
    pub fn role(&self) -> Identity {
        Identity { uid: self.uid, gid: self.gid, groups: self.groups.clone() }
    }
}

/// `PATH` as the user's shell had it, where sudo started this program and replaced it: sudo's own environment still holds it.
pub fn path_before_sudo() -> Option<OsString> {
    /// As much as an environment has in all but odd cases.
    const MOST: u64 = 1 << 20;
    std::env::var_os("SUDO_UID")?;
    let sudo = std::os::unix::process::parent_id();
    let name = std::fs::read(format!("/proc/{sudo}/comm")).ok()?;
    if name != b"sudo\n" {
        return None;
    }
    let mut environment = Vec::new();
    std::fs::File::open(format!("/proc/{sudo}/environ"))
        .ok()?
        .take(MOST)
        .read_to_end(&mut environment)
        .ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let path = variables.find_map(|variable| variable.strip_prefix(b"PATH="))?;
    Some(OsString::from_vec(path.to_owned()))
}

fn root_home() -> OsString {
    User::from_uid(Uid::from_raw(0))
        .ok()
        .flatten()
        .map_or_else(|| "/root".into(), |user| user.dir.into_os_string())
}

fn number(variable: &'static str, value: Option<OsString>) -> Result<Option<u32>, UserError> {
    let Some(value) = value else { return Ok(None) };
    match value.to_str().and_then(|text| text.parse().ok()) {
        // setresuid(2) takes -1 for "unchanged": whoever has that number would stay root.
        Some(number) if number != u32::MAX => Ok(Some(number)),
        _ => Err(UserError::Number { variable, value }),
    }
}

#[cfg(test)]
mod tests {
    use super::{InvokingUser, number};
    use nix::unistd::{Gid, Uid};
    use std::ffi::OsString;

    fn ada() -> InvokingUser {
        let identity = vec![("HOME", "/home/ada".into()), ("USER", "ada".into()), ("LOGNAME", "ada".into())];
        InvokingUser {
            uid: Uid::from_raw(1815),
            gid: Gid::from_raw(1815),
            groups: vec![Gid::from_raw(1815)],
            identity,
        }
    }

    /// Only what names root is corrected: a HOME that was kept by `sudo -E` stays, and nothing is added.
    #[test]
    fn corrections_replace_only_roots_own() {
        let environment = |variable: &str| match variable {
            "HOME" => Some(OsString::from("/srv/data")),
            "USER" => Some("root".into()),
            _ => None,
        };
        assert_eq!(ada().corrections(environment), [("USER", OsString::from("ada"))]);
    }

    /// A broken SUDO_UID is an error, not a reason to run the command as root; so is one that changes nothing.
    #[test]
    fn a_number_that_is_none_is_refused() {
        assert!(number("SUDO_UID", Some("4294967295".into())).is_err());
        assert!(number("SUDO_UID", Some("4294967296".into())).is_err());
        assert_eq!(number("SUDO_UID", Some("4294967294".into())).unwrap(), Some(u32::MAX - 1));
        assert!(number("SUDO_UID", Some("-1".into())).is_err());
        assert!(number("SUDO_UID", Some("".into())).is_err());
        assert_eq!(number("SUDO_UID", None).unwrap(), None);
        assert_eq!(number("SUDO_UID", Some("1000".into())).unwrap(), Some(1000));
    }

    /// A number without an entry in the user database gets exactly the group that sudo named.
    #[test]
    fn a_user_without_a_name_has_one_group() {
        let user = InvokingUser::look_up(Uid::from_raw(54_321), Some(Gid::from_raw(77))).unwrap();
        assert_eq!((user.gid.as_raw(), user.groups.len()), (77, 1));
    }
}
