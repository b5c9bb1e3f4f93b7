//! Copies of files that root may not read: of a FUSE file system that a user mounted for themselves (AppImage, sshfs), of NFS that trusts no root.
//!
//! A child that has become the user for good, without capabilities, reads a file into memory: a moment is waited for it, then it goes on by itself,
//! and the file is asked for again. All who ask share one copy. A user who is slow gets no further ones. Leaves out who asks (`serve.rs`).

use super::question::{FileFacts, NotOpened};
use super::serve::Harmless;
use crate::files::Root;
use energy_trace_model::ids::Pid;
use energy_trace_system::roles::channel::Channel;
use energy_trace_system::roles::child::{Parent, fork_role};
use energy_trace_system::roles::renounce::{Identity, renounce};
use energy_trace_unwind::address_space::{FileKey, Mapping};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::unistd::{Gid, Uid, alarm};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

/// Bytes of one file, and of all files of one user.
const MOST_OF_FILE: u64 = 128 << 20;
const MOST_OF_USER: u64 = 256 << 20;
/// Seconds after which a child is ended.
const TO_COPY: u32 = 3;
/// How long a question waits for it.
const AT_ONCE: Duration = Duration::from_millis(30);
/// Bytes of what a child says.
const LONGEST_ANSWER: usize = 4096;

/// The copies of all users.
#[derive(Default)]
pub(super) struct Copies(HashMap<u32, OfUser>);

/// Those of one.
#[derive(Default)]
struct OfUser {
    files: HashMap<FileKey, Harmless>,
    bytes: u64,
    /// The one that is being made.
    running: Option<(FileKey, Channel)>,
    /// Those that could not be made.
    failed: Vec<FileKey>,
}

impl Copies {
    /// The copy of a mapped file.
    pub(super) fn of(&mut self, pid: Pid, mapping: &Mapping) -> Result<Harmless, NotOpened> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let reader = identity(&status).filter(|reader| !reader.uid.is_root());
        let reader = reader.ok_or_else(|| NotOpened::Because("root may not read it".to_owned()))?;
        let key = mapping.file.clone().ok_or_else(|| NotOpened::Because("it is no file".to_owned()))?;
        let user = self.0.entry(reader.uid.as_raw()).or_default();
        user.collect(Duration::ZERO);
        if !user.knows(&key) && user.running.is_none() {
            user.begin(pid, mapping, &key, &reader);
            user.collect(AT_ONCE);
        }
        match user.files.get(&key) {
            Some((facts, copy)) => Ok((facts.clone(), copy.try_clone()?)),
            None if user.failed.contains(&key) => Err(NotOpened::NotRoots { user: reader.uid.as_raw() }),
            None => Err(NotOpened::Yet),
        }
    }
}

impl OfUser {
    fn knows(&self, key: &FileKey) -> bool {
        self.files.contains_key(key) || self.failed.contains(key)
    }

    /// Starts a child; without room for the file it says so.
    fn begin(&mut self, pid: Pid, mapping: &Mapping, key: &FileKey, reader: &Identity) {
        let most = MOST_OF_FILE.min(MOST_OF_USER.saturating_sub(self.bytes));
        let copy = |parent: Parent| copy_for(&parent, pid, mapping, (reader, most));
        let child = (most > 0).then(|| fork_role(c"et-copy", copy));
        match child.and_then(Result::ok) {
            Some(child) => self.running = Some((key.clone(), child.into_channel())),
            None => self.failed.push(key.clone()),
        }
    }

    /// Takes what the child has made.
    fn collect(&mut self, within: Duration) {
        let Some((key, channel)) = self.running.take() else { return };
        if !channel.is_answering(within).unwrap_or(true) {
            self.running = Some((key, channel));
            return;
        }
        let said = channel.receive::<Result<(FileFacts, u64), String>>(LONGEST_ANSWER, Some(AT_ONCE));
        match said.map(|(made, files)| made.ok().zip(files.into_iter().next())) {
            Ok(Some(((facts, bytes), file))) => {
                self.bytes = self.bytes.saturating_add(bytes);
                self.files.insert(key, (facts, File::from(file)));
            }
            Ok(None) => self.failed.push(key),
            // It was ended: whoever makes it wait is not asked again.
            Err(_) => {
                self.bytes = MOST_OF_USER;
                self.failed.push(key);
            }
        }
    }
}

/// The real user and group of a process by its `status`; FUSE goes by all three numbers of who reads (`fuse_allow_current_process`).
fn identity(status: &str) -> Option<Identity> {
    let first = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (uid, gid) = (Uid::from_raw(first("Uid:")?), Gid::from_raw(first("Gid:")?));
    Some(Identity { uid, gid, groups: Vec::new() })
}

/// The child: it becomes the user, and ends after a while whatever it waits for.
fn copy_for(parent: &Parent, pid: Pid, mapping: &Mapping, (reader, most): (&Identity, u64)) -> i32 {
    let made = end_in_time().and_then(|()| {
        let root = Root::of_process(pid)?;
        renounce(Some(reader))?;
        parent.die_with_it()?;
        copy(&root, mapping, most)
    });
    let said = match &made {
        Ok((facts, bytes, copy)) => {
            parent.channel.send(&Ok::<_, String>((facts, bytes)), &[copy.as_fd()], None)
        }
        Err(error) => parent.channel.send(&Err::<(FileFacts, u64), _>(error.to_string()), &[], None),
    };
    i32::from(said.is_err())
}

fn end_in_time() -> io::Result<()> {
    let alarms: SigSet = Signal::SIGALRM.into();
    pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&alarms), None)?;
    alarm::set(TO_COPY);
    Ok(())
}

fn copy(root: &Root, mapping: &Mapping, most: u64) -> io::Result<(FileFacts, u64, File)> {
    let key = mapping.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
    let path = root.path_inside(Path::new(&mapping.path));
    let file = root.open_if(&path, false, |found| found.ino() == key.inode)?;
    let found = file.metadata()?;
    let mut copy = File::from(memfd_create("copy", MFdFlags::MFD_CLOEXEC)?);
    if found.len() > most || io::copy(&mut file.take(most + 1), &mut copy)? > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let facts = FileFacts {
        device: found.dev(),
        inode: found.ino(),
        // Who its file system says it belongs to is that user's word.
        owner: copy.metadata()?.uid(),
        links: found.nlink(),
        is_copy: true,
    };
    Ok((facts, copy.metadata()?.len(), copy))
}

#[cfg(test)]
mod tests {
    use super::{Copies, MOST_OF_USER, NotOpened, OfUser, copy, identity};
    use crate::files::Root;
    use energy_trace_model::ids::Pid;
    use energy_trace_system::roles::channel::Channel;
    use energy_trace_unwind::address_space::{FileKey, Mapping};
    use std::io;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;
    use std::process::{Child, Command};
    use std::time::Duration;

    const NOBODY: u32 = 65534;

    fn mapping(path: &Path) -> Mapping {
        let inode = std::fs::metadata(path).unwrap().ino();
        let file = Some(FileKey { device: "0:0".into(), inode });
        Mapping { start: 0, end: 4096, offset: 0, file, path: path.display().to_string() }
    }

    /// A process of user nobody.
    fn nobodys() -> Child {
        Command::new("sleep").arg("60").uid(NOBODY).gid(NOBODY).spawn().unwrap()
    }

    /// The real user and group are those of the kernel's text, and its other groups are none of the child's.
    #[test]
    fn whose_process() {
        let found = identity("Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t7\t0\t0\t0\nGroups:\t4\n").unwrap();
        assert_eq!((found.uid.as_raw(), found.gid.as_raw(), found.groups.len()), (1000, 7, 0));
        assert_eq!(identity("Uid:\t1\n"), None);
    }

    /// A copy has the file's bytes, and is not made of a file with more than allowed, of another one that took its place, or of a pipe.
    #[test]
    fn what_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("l.so");
        std::fs::write(&path, "library").unwrap();
        let mut meant = mapping(&path);
        let (facts, bytes, file) = copy(&Root::default(), &meant, 7).unwrap();
        let mut read = [0; 7];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!((&read, bytes, facts.is_copy), (b"library", 7, true));
        let too_large = copy(&Root::default(), &meant, 6).unwrap_err();
        assert_eq!(too_large.kind(), io::ErrorKind::FileTooLarge);
        meant.file.as_mut().unwrap().inode += 1;
        assert!(copy(&Root::default(), &meant, 7).is_err());
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
        assert!(copy(&Root::default(), &mapping(&pipe), 7).is_err());
    }

    /// A copy is made with the rights of the process's user, once for all who ask; of what that user may not read there is none.
    #[test]
    fn with_a_users_rights() {
        let folder = tempfile::tempdir().unwrap();
        let permit = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        permit(folder.path(), 0o755);
        let (open, closed) = (folder.path().join("open"), folder.path().join("closed"));
        for (path, mode) in [(&open, 0o644), (&closed, 0o600)] {
            std::fs::write(path, "library").unwrap();
            permit(path, mode);
        }
        let mut process = nobodys();
        let pid = Pid::new(process.id());
        let mut copies = Copies::default();
        let mut of = |path: &Path| loop {
            match copies.of(pid, &mapping(path)) {
                Err(NotOpened::Yet) => std::thread::yield_now(),
                done => break done.map(|(facts, copy)| (facts.owner, copy.metadata().unwrap().ino())),
            }
        };
        let first = of(&open).unwrap();
        assert_eq!((first.0, of(&open).unwrap()), (NOBODY, first));
        assert_eq!(of(&closed), Err(NotOpened::NotRoots { user: NOBODY }));
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(copies.0[&NOBODY].bytes < MOST_OF_USER);
    }

    /// A child is not waited for; one that ended without a word was ended for its slowness, and its user's further files are not copied.
    #[test]
    fn who_is_slow() {
        let of = |inode| FileKey { device: "0:0".into(), inode };
        let (ours, theirs) = Channel::pair().unwrap();
        let mut user = OfUser { running: Some((of(1), ours)), ..OfUser::default() };
        user.collect(Duration::ZERO);
        assert!(user.running.is_some() && user.failed.is_empty());
        drop(theirs);
        user.collect(Duration::ZERO);
        assert_eq!((user.bytes, &user.failed), (MOST_OF_USER, &vec![of(1)]));
        let reader = identity("Uid:\t65534\nGid:\t65534\n").unwrap();
        user.begin(Pid::new(std::process::id()), &mapping(Path::new("/etc/passwd")), &of(2), &reader);
        assert!(user.running.is_none());
        assert_eq!(user.failed, [of(1), of(2)]);
    }
}
