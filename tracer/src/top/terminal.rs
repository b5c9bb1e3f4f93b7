//! The terminal while a screen is drawn on it: another page than the shell's, keys as they are typed, nothing echoed. Dropped, it is as before.
//!
//! Ctrl-C stays a signal, which the recorder answers. Leaves out what is drawn.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use std::io::{self, Write as _, stdin, stdout};
use std::os::fd::{AsFd as _, BorrowedFd};
use terminal_size::{Height, Width, terminal_size_of};

/// Another page, without a cursor; and back (xterm's control sequences).
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the first place; to the end of the line, of the page.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_PAGE: &str = "\x1b[J";

/// The terminal, ours.
pub(super) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Takes it.
    ///
    /// # Errors
    /// When standard input is no terminal, or it is not ours to draw on.
    pub(super) fn take() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut ours = before.clone();
        ours.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        for key in [SpecialCharacterIndices::VSUSP, SpecialCharacterIndices::VQUIT] {
            // Whoever is stopped draws nothing, and leaves this page on the shell's screen.
            if let Some(key) = ours.control_chars.get_mut(key as usize) {
                *key = libc::_POSIX_VDISABLE;
            }
        }
        tcsetattr(stdin(), SetArg::TCSANOW, &ours)?;
        let terminal = Self { before };
        put(ENTER)?;
        Ok(terminal)
    }

    /// Draws a page, line by line.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}{REST_OF_LINE}")).collect();
        put(&format!("{HOME}{}{REST_OF_PAGE}", lines.join("\r\n")))
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> (u16, u16) {
        terminal_size_of(stdout()).map_or((80, 24), |(Width(columns), Height(lines))| (columns, lines))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = put(LEAVE);
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, &self.before);
    }
}

/// Waits until there is something to read from a pipe or a key was typed, at most so many milliseconds: whether there is, of each.
pub(super) fn wait(pipe: BorrowedFd<'_>, ms: u16) -> io::Result<(bool, bool)> {
    let keys = stdin();
    let mut files = [pipe, keys.as_fd()].map(|file| PollFd::new(file, PollFlags::POLLIN));
    poll(&mut files, PollTimeout::from(ms))?;
    let [pipe, keys] = files.map(|file| file.any().unwrap_or(false));
    Ok((pipe, keys))
}

/// Keys that were typed; none where the terminal is gone.
pub(super) fn keys() -> Vec<u8> {
    let mut bytes = [0; 64];
    let read = nix::unistd::read(stdin(), &mut bytes).unwrap_or(0);
    bytes.get(..read).unwrap_or_default().to_vec()
}

fn put(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
