//! What the processes that look into targets do: they read, open and answer, until their channel is closed.
//!
//! Everything here may take as long as a target likes. Leaves out the deadline (`client.rs`).

use super::copies::Copies;
use super::question::{
    FileFacts, Known, LONGEST_VALUE, MOST_BYTES, MOST_CODE_BYTES, MOST_COMMAND, MOST_ENVIRONMENT, MOST_OPEN,
    NotOpened, Program, Question, RootFacts, Seen, digest,
};
use crate::files::{Mounts, Root, mounts_of, open_mapped, root_facts, user_of_process};
use energy_trace_model::ids::Pid;
use energy_trace_system::roles::channel::{Channel, ChannelError};
use energy_trace_unwind::address_space::{AddressSpace, Mapping};
use energy_trace_unwind::cpython::class_name::find_name;
use energy_trace_unwind::cpython::code::CodeObject;
use energy_trace_unwind::cpython::code_check::{Check, read_checks};
use energy_trace_unwind::cpython::layout::CodeLayout;
use energy_trace_unwind::cpython::memory::{ProcessMemory, Source as _};
use energy_trace_unwind::cpython::receiver::{Named, called_on};
use energy_trace_unwind::living::{living_thread, of_living};
use energy_trace_unwind::thread_context::read_context;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statfs::{FUSE_SUPER_MAGIC, fstatfs};
use serde::Serialize;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a question at the most.
const LONGEST_QUESTION: usize = 4 << 20;
/// Bytes of a file of a user's own file system that are copied.
const LONGEST_COPY: u64 = 64 << 20;
/// Words of a command line that are kept.
const MOST_WORDS: usize = 256;

/// Answers until the other end is closed.
pub(super) fn serve(channel: &Channel, mounts: &Mounts) {
    let mut copies = Copies::default();
    while let Ok(((pid, question), _)) = channel.receive::<(Pid, Question)>(LONGEST_QUESTION, None) {
        if answer(channel, pid, question, (&mut copies, mounts)).is_err() {
            return;
        }
    }
}

fn answer(
    channel: &Channel,
    pid: Pid,
    question: Question,
    (copies, mounts): (&mut Copies, &Mounts),
) -> Result<(), ChannelError> {
    let memory = ProcessMemory::of(pid);
    match question {
        Question::Bytes { from, length } => send(channel, &memory.bytes(from, length, MOST_BYTES)),
        Question::IsStill { from, length, digest: known } => {
            let now = memory.bytes(from, length, MOST_BYTES);
            send(channel, &now.is_some_and(|now| digest(&now) == known))
        }
        Question::Codes { layout, known } => send(channel, &codes(&memory, &layout, &known)),
        Question::MethodName { layout, code, class, name } => {
            send(channel, &find_name(&memory, &layout, code, class, &name))
        }
        Question::CalledOn { layout, code, first } => {
            send(channel, &called_on(&memory, &layout, &code, first))
        }
        Question::Named { layout, code, object } => {
            send(channel, &Named::read(&memory, &layout, &code, object))
        }
        Question::IsStillNamed { layout, code, named } => {
            send(channel, &named.is_still(&memory, &layout, &code))
        }
        Question::Program => send(channel, &program(pid)),
        Question::Variables { names } => send(channel, &variables(pid, &names)),
        Question::Mappings { holding: None } => send(channel, &AddressSpace::read(pid).ok()),
        Question::Mappings { holding: Some(at) } => send(channel, &AddressSpace::read_holding(pid, at)),
        Question::Open { mapping, or_here } => {
            let opened = open(pid, &mapping, or_here, copies);
            send_file(channel, opened.map(|(facts, file)| (facts, mounts.apart(pid, file))))
        }
        Question::OpenSome { paths, below } => {
            let apart = |(place, (facts, file))| (place, (facts, mounts.apart(pid, file)));
            let opened: Vec<_> = open_some(pid, &paths, below).into_iter().map(apart).collect();
            send_files(channel, &opened)
        }
        Question::Context => send(channel, &read_context(pid, &memory)),
        Question::Root => send_root(channel, pid, mounts),
    }
}

fn send(channel: &Channel, answer: &impl Serialize) -> Result<(), ChannelError> {
    channel.send(answer, &[], None)
}

/// What is at the addresses of code objects, as long as that is not too much for one answer.
fn codes(memory: &ProcessMemory, layout: &CodeLayout, known: &[Known]) -> Vec<Seen> {
    let addresses: Vec<u64> = known.iter().map(|known| known.address).collect();
    let checks = read_checks(memory, layout, &addresses);
    let mut bytes = 0;
    let mut fits = |known: &Known, check: &Option<Check>| {
        let seen = (bytes <= MOST_CODE_BYTES).then(|| code(memory, layout, known, *check))?;
        bytes += if let Seen::Other(Some(code)) = &seen { code.size() } else { 0 };
        Some(seen)
    };
    known.iter().zip(&checks).map_while(|(known, check)| fits(known, check)).collect()
}

fn code(memory: &ProcessMemory, layout: &CodeLayout, known: &Known, check: Option<Check>) -> Seen {
    match (known.check, check) {
        (_, None) => Seen::Unread,
        (Some(before), Some(now)) if before == now => Seen::Same,
        _ => Seen::Other(CodeObject::read(memory, layout, known.address, known.globals).map(Box::new)),
    }
}

fn program(pid: Pid) -> Program {
    let file = of_living(pid, |pid| std::fs::metadata(format!("/proc/{pid}/exe"))).ok();
    let read = |pid| read_first(&format!("/proc/{pid}/cmdline"), MOST_COMMAND);
    let (mut text, mut is_longer) = read(pid);
    if text.is_empty()
        && let Some(thread) = living_thread(pid)
    {
        (text, is_longer) = read(thread);
    }
    let (command, has_more) = words(&text, is_longer);
    Program {
        owner: user_of_process(pid),
        command,
        is_cut: has_more,
        file: file.map(|found| (found.dev(), found.ino())),
    }
}

/// The words of a command line, and whether there were more.
fn words(text: &[u8], is_longer: bool) -> (Vec<String>, bool) {
    let text = if is_longer { text } else { text.strip_suffix(&[0]).unwrap_or(text) };
    if text.is_empty() {
        return (Vec::new(), is_longer);
    }
    let mut words = text.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut command: Vec<String> = words.by_ref().take(MOST_WORDS).collect();
    let has_more = words.next().is_some() || is_longer;
    if has_more && let Some(last) = command.last_mut() {
        last.push('…');
    }
    (command, has_more)
}

/// The first bytes of a file of `/proc`, and whether there are more.
fn read_first(path: &str, most: usize) -> (Vec<u8>, bool) {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most as u64 + 1).read_to_end(&mut text));
    let is_longer = read.is_ok() && text.len() > most;
    text.truncate(most);
    (text, is_longer)
}

fn variables(pid: Pid, names: &[String]) -> Option<Vec<Option<String>>> {
    let mut text = Vec::new();
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(MOST_ENVIRONMENT as u64).read_to_end(&mut text).ok()?;
    let value = |name: &String| {
        let mut entries = text.split(|&byte| byte == 0);
        let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        Some(String::from_utf8_lossy(value.get(..LONGEST_VALUE).unwrap_or(value)).into_owned())
    };
    Some(names.iter().map(value).collect())
}

fn open(pid: Pid, mapping: &Mapping, or_here: bool, copies: &mut Copies) -> Result<Harmless, NotOpened> {
    match open_mapped(pid, mapping).and_then(|file| harmless(pid, file)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => copies.of(pid, mapping),
        Err(error) => {
            // The process has ended meanwhile: the path is good if it still leads to the same file.
            let key = mapping.file.as_ref().filter(|_| or_here).ok_or(error)?;
            let is_meant = |found: &Metadata| found.ino() == key.inode;
            let file = Root::default().open_if(Path::new(&mapping.path), false, is_meant)?;
            Ok(harmless(pid, file)?)
        }
        Ok(opened) => Ok(opened),
    }
}

pub(super) type Harmless = (FileFacts, File);

fn open_some(pid: Pid, paths: &[PathBuf], below: bool) -> Vec<(u32, Harmless)> {
    let Ok(root) = (if below { Root::of_process(pid) } else { Ok(Root::default()) }) else {
        return Vec::new();
    };
    let open = |path: &PathBuf| harmless(pid, root.open(path, true)?);
    let opened = (0..).zip(paths).filter_map(|(place, path)| Some((place, open(path).ok()?)));
    opened.take(MOST_OPEN).collect()
}

fn send_files(channel: &Channel, opened: &[(u32, Harmless)]) -> Result<(), ChannelError> {
    let facts: Vec<(u32, &FileFacts)> = opened.iter().map(|(place, (facts, _))| (*place, facts)).collect();
    let files: Vec<BorrowedFd<'_>> = opened.iter().map(|(_, (_, file))| file.as_fd()).collect();
    channel.send(&facts, &files, None)
}

fn send_file(channel: &Channel, opened: Result<Harmless, NotOpened>) -> Result<(), ChannelError> {
    match opened {
        Ok((facts, file)) => channel.send(&Ok::<_, NotOpened>(facts), &[file.as_fd()], None),
        Err(why) => send(channel, &Err::<FileFacts, _>(why)),
    }
}

/// The file, or a copy of it where it lies in a user's own file system: whoever has a file of that kind open can be made to wait, even by closing
/// it.
fn harmless(pid: Pid, file: File) -> io::Result<Harmless> {
    let found = file.metadata()?;
    let mut facts = FileFacts {
        device: found.dev(),
        inode: found.ino(),
        owner: found.uid(),
        links: found.nlink(),
        is_copy: false,
    };
    if fstatfs(&file)?.filesystem_type() != FUSE_SUPER_MAGIC || is_mounted_by_root(pid, found.dev()) {
        return Ok((facts, file));
    }
    facts.is_copy = true;
    if found.len() > LONGEST_COPY {
        return Err(io::Error::other("it is too long a file of a user's own file system"));
    }
    let mut copy = File::from(memfd_create("copy", MFdFlags::MFD_CLOEXEC)?);
    io::copy(&mut file.take(LONGEST_COPY), &mut copy)?;
    Ok((facts, copy))
}

/// Whether root answers for a FUSE file system (`user_id=0` among its options, Documentation/filesystems/fuse.rst).
fn is_mounted_by_root(pid: Pid, device: u64) -> bool {
    let mounts = mounts_of(&pid.to_string()).unwrap_or_default();
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let mut of_device = mounts.lines().filter(|line| line.split(' ').nth(2) == Some(number.as_str()));
    let options = of_device.next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
    options.split(',').any(|option| option == "user_id=0")
}

fn send_root(channel: &Channel, pid: Pid, mounts: &Mounts) -> Result<(), ChannelError> {
    let found = root_facts(pid).map(|(folder, (namespace, device, inode), place)| {
        (mounts.folder_apart(pid, folder), RootFacts { namespace, device, inode, place })
    });
    let files: Vec<BorrowedFd<'_>> = found.iter().map(|(folder, _)| folder.as_fd()).collect();
    channel.send(&found.as_ref().map(|(_, facts)| facts), &files, None)
}

#[cfg(test)]
mod tests {
    use super::{MOST_WORDS, words};

    /// A command line that is whole, one that was cut, one of zeros alone, and none.
    #[test]
    fn command_lines() {
        let of = |text: &[u8], is_longer| words(text, is_longer);
        assert_eq!(
            of(b"python3\0a.py\0\0", false),
            (vec!["python3".into(), "a.py".into(), String::new()], false)
        );
        assert_eq!(of(b"python3\0aaaa", true), (vec!["python3".into(), "aaaa…".into()], true));
        let (zeros, is_cut) = of(&[0; 4096], true);
        assert_eq!((zeros.len(), is_cut), (MOST_WORDS, true));
        assert_eq!(of(b"", false), (Vec::new(), false));
    }
}
