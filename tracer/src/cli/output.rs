//! Where a verb writes: stdout or a file. A reader that closes the pipe early (`| head`) is no failure.

use super::Failure;
use super::accounting::AccountingArgs;
use crate::attribution;
use crate::profile::energy_profile::{EnergyProfile, View};
use crate::profile::file;
use crate::profile::recording::Recording;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a result could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}")]
struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// Reads a recording and attributes its energy as the user chose.
pub(super) fn read_profile(
    path: &Path,
    view: View,
    accounting: AccountingArgs,
) -> Result<(Recording, EnergyProfile), Failure> {
    let mut recording = file::read(path).map_err(|e| Failure::own(&e))?;
    let profile = match view {
        View::Logical => attribution::attribute_logically_as(&mut recording, accounting.into()),
        View::Physical => attribution::attribute_as(&recording, accounting.into()),
    };
    Ok((recording, profile))
}

/// Writes to `path`, or to stdout when there is none or it is `-`.
///
/// The result is made in memory first, so that a failure leaves no half of a file behind.
pub(super) fn write_to(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<ExitCode, Failure> {
    let mut whole = Vec::new();
    write(&mut whole).map_err(|e| Failure::own(&e))?;
    let (name, written) = match path.filter(|p| *p != Path::new("-")) {
        Some(path) => (path, std::fs::write(path, &whole)),
        None => (Path::new("stdout"), write_stdout(&whole)),
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::own(&WriteError { path: name.to_owned(), source: error }))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    out.write_all(bytes)?;
    out.flush()
}
