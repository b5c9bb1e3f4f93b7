//! What the command prints, on its way to where it was to go, with a copy for whoever counts (`et-stdout`).
//!
//! ```text
//!  command ──► pipe, or terminal of its own ──► et-stdout ──► the user's stdout
//!                                                   └──────► et-work, as much as it takes
//! ```
//!
//! The process that passes on does nothing else: it parses nothing, takes no signal that can be blocked, waits for nobody but the user's
//! stdout, for which the command would have waited too, and outlives the recorder and whoever counts. Where the user's stdout is a terminal
//! the command has one too, as large, so that it prints as it always does; where it is a plain file nothing is put in between (`follow.rs`).
//! Leaves out what the bytes mean (`lines.rs`).

use crate::plan::RecordPlan;
use crate::tracee::Target;
use energy_trace_model::recording::record::WorkSource;
use energy_trace_system::clock::now;
use energy_trace_system::roles::channel::ChannelError;
use energy_trace_system::roles::child::{Child, Parent, fork_role};
use energy_trace_system::roles::renounce::renounce;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{OpenptyResult, openpty};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};
use nix::sys::termios::{LocalFlags, OutputFlags, SetArg, tcgetattr, tcsetattr};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, fchown, pipe2, read, setsid, write};
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

/// Bytes that are passed on at once: as much as a copy may have.
pub(super) const PIECE: usize = 16 << 10;
/// Bytes before a copy: when it came, and whether pieces before it are missing.
pub(super) const HEAD: usize = 9;
/// How often a terminal's size is looked at.
const LOOK: u16 = 250;
/// How long the recorder waits for what is still on its way.
const PATIENCE: Duration = Duration::from_millis(500);

/// The command's way out, before it runs.
#[derive(Debug)]
pub(crate) struct Forward {
    child: Child,
    /// The command's stdout.
    command: Option<OwnedFd>,
    /// Where copies come out; `None` once somebody has it.
    copies: Option<OwnedFd>,
}

/// Whether the command's stdout is to be watched, and has to be passed on for that.
fn is_wanted(plan: &RecordPlan) -> bool {
    let reads = plan.work.iter().any(|counter| matches!(counter.source, WorkSource::Stdout(_)));
    let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let is_file = stdout.and_then(|file| file.metadata()).is_ok_and(|facts| facts.is_file());
    reads && matches!(plan.target, Target::Command(_)) && !is_file
}

impl Forward {
    /// Puts the process in between, where that is wanted. Must be called while this process has one thread, with its privileges.
    ///
    /// # Errors
    /// When no process, pipe or terminal can be had.
    pub(crate) fn start(plan: &RecordPlan) -> io::Result<Option<Self>> {
        if !is_wanted(plan) {
            return Ok(None);
        }
        let child = fork_role(c"et-stdout", |parent| serve(plan, &parent))?;
        let is_terminal = io::stdout().is_terminal() && !plan.live;
        let (ours, theirs) = if is_terminal { terminal()? } else { pipe2(OFlag::O_CLOEXEC)? };
        if let Some(user) = plan.run_as.as_ref().map(|user| user.role()) {
            // Who has it open may open it by name too: /dev/stdout.
            fchown(&theirs, Some(user.uid), Some(user.gid))?;
        }
        let (copies, copier) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        let told = child.channel.send(&(), &[ours.as_fd(), copier.as_fd()], Some(PATIENCE));
        told.map_err(io::Error::other)?;
        Ok(Some(Self { child, command: Some(theirs), copies: Some(copies) }))
    }

    /// Its process.
    pub(crate) fn pid(&self) -> energy_trace_model::ids::Pid {
        self.child.id()
    }

    /// The command's stdout.
    pub(crate) fn take_command(&mut self) -> Option<OwnedFd> {
        self.command.take()
    }

    /// Where copies come out.
    pub(crate) fn take_copies(&mut self) -> Option<OwnedFd> {
        self.copies.take()
    }

    /// Waits until what the command has printed is passed on, or the user's stdout takes nothing for a while.
    pub(crate) fn drain(&self) {
        let asked = self.child.channel.send(&(), &[], Some(PATIENCE));
        // What is still on its way then comes all the same, behind the summary.
        let _passed_on = asked.and_then(|()| self.child.channel.receive::<()>(64, Some(PATIENCE)));
    }
}

/// A terminal like the user's, that changes nothing of what is written to it and repeats nothing.
fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let OpenptyResult { master, slave } = openpty(None, None)?;
    for end in [&master, &slave] {
        nix::fcntl::fcntl(end, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    }
    let mut settings = tcgetattr(io::stdout()).or_else(|_| tcgetattr(&slave))?;
    settings.output_flags.remove(OutputFlags::OPOST);
    settings.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&slave, SetArg::TCSANOW, &settings)?;
    copy_size(&io::stdout(), &master);
    Ok((master, slave))
}

/// Gives one terminal the size of another.
fn copy_size(from: &impl AsFd, to: &impl AsFd) {
    let mut sizes = [libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 }; 2];
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    for (fd, size) in [from, to].into_iter().zip(&mut sizes) {
        // SAFETY: the place is valid for writing one `winsize`, and the descriptor is open.
        if unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, std::ptr::from_mut(size)) } != 0 {
            return;
        }
    }
    if [sizes[0].ws_row, sizes[0].ws_col] != [sizes[1].ws_row, sizes[1].ws_col] {
        // SAFETY: the place holds one `winsize`, and the descriptor is open. A size that is not taken is nobody's error.
        unsafe { libc::ioctl(to, libc::TIOCSWINSZ, &raw const sizes[0]) };
    }
}

/// The process's life. Returns its exit status, which nobody reads.
fn serve(plan: &RecordPlan, parent: &Parent) -> i32 {
    let identity = plan.owner.as_ref().map(|user| user.role());
    let ready = renounce(identity.as_ref()).map_err(ChannelError::from);
    i32::from(ready.and_then(|()| pass_on_all(parent, plan.live)).is_err())
}

/// `is_drawn_on`: whether the user's stdout is a screen of ours, on which the command prints nothing.
fn pass_on_all(parent: &Parent, is_drawn_on: bool) -> Result<(), ChannelError> {
    let ((), files) = parent.channel.receive::<()>(64, None)?;
    let [from, copies] = <[OwnedFd; 2]>::try_from(files).map_err(|_| ChannelError::Malformed("no files"))?;
    // Signals of the terminal are the command's; so is stderr, which nobody is to find open for us.
    setsid().map_err(io::Error::from)?;
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nowhere).and_then(|()| dup2_stderr(&nowhere)).map_err(io::Error::from)?;
    if is_drawn_on && io::stdout().is_terminal() {
        dup2_stdout(&nowhere).map_err(io::Error::from)?;
    }
    let mut passing = Passing { from, copies: Some(copies), missing: false };
    passing.run(parent).map_err(ChannelError::from)
}

/// Bytes on their way.
struct Passing {
    from: OwnedFd,
    /// Where copies go; `None` once nobody takes them any more.
    copies: Option<OwnedFd>,
    /// Whether pieces were not copied since the last that was.
    missing: bool,
}

impl Passing {
    /// Until the command and all that it started have closed their ends, or nobody reads the user's stdout.
    fn run(&mut self, parent: &Parent) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        let mut hears = true;
        loop {
            copy_size(&io::stdout(), &self.from);
            let [has_bytes, is_asked] = self.wait(parent, hears)?;
            if has_bytes {
                match read(&self.from, &mut piece) {
                    // A terminal's other end is closed.
                    Ok(0) | Err(Errno::EIO) => break,
                    Ok(length) => self.pass_on(piece.get(..length).unwrap_or_default())?,
                    Err(Errno::EINTR | Errno::EAGAIN) => (),
                    Err(error) => return Err(error.into()),
                }
            } else if is_asked {
                // All that was printed before is passed on.
                let answered = parent
                    .channel
                    .receive::<()>(64, Some(PATIENCE))
                    .and_then(|_| parent.channel.send(&(), &[], Some(PATIENCE)));
                hears = answered.is_ok();
            }
        }
        // Who asks later is answered by the end of the channel.
        Ok(())
    }

    /// Waits for bytes or the recorder, for as long as a terminal's size may be old.
    fn wait(&self, parent: &Parent, hears: bool) -> io::Result<[bool; 2]> {
        let mut ends = vec![PollFd::new(self.from.as_fd(), PollFlags::POLLIN)];
        if hears {
            ends.push(PollFd::new(parent.channel.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut ends, PollTimeout::from(LOOK)) {
            Ok(_) | Err(Errno::EINTR) => (),
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| ends.get(at).and_then(PollFd::any).unwrap_or(false);
        Ok([is_ready(0), is_ready(1)])
    }

    fn pass_on(&mut self, piece: &[u8]) -> io::Result<()> {
        self.copy(piece);
        let mut rest = piece;
        while !rest.is_empty() {
            match write(io::stdout(), rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::EINTR) => (),
                Err(Errno::EAGAIN) => {
                    let stdout = io::stdout();
                    poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Gives whoever counts a copy, if there is room for it now.
    fn copy(&mut self, piece: &[u8]) {
        let Some(copies) = &self.copies else { return };
        let mut message = now().as_ns().to_le_bytes().to_vec();
        message.push(u8::from(self.missing));
        message.extend(piece);
        match send(copies.as_raw_fd(), &message, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => self.missing = false,
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => self.missing = true,
            Err(_) => self.copies = None,
        }
    }
}
