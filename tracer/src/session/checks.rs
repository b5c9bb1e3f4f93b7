//! What can be found out before anything is set up: privileges, pid namespace, the command.

use super::error::SessionError;
use crate::host::kernel::is_first_pid_namespace_at;
use crate::host::limits;
use crate::plan::RecordPlan;
use crate::privileges::{Privileges, refuse_what_lends};
use crate::probe::online_cpus;
use crate::tracee::lookup::{Found, find};
use std::ffi::OsString;
use std::path::Path;

/// Checks what the kernel and our privileges allow, then the command.
pub(super) fn check(plan: &RecordPlan) -> Result<(), SessionError> {
    let reads_files = plan.power.reads_files();
    refuse_what_lends(&[
        ("--path.sysfs", plan.power.sysfs != Path::new("/sys")),
        ("--path.rootfs", plan.rootfs != Path::new("/")),
        ("--nvml-lib", plan.power.nvml_lib.is_some()),
        ("--power replay:FILE", reads_files),
    ])?;
    Privileges::read_at(&plan.rootfs)?.check(&plan.typed)?;
    limits::check(online_cpus())?;
    if !is_first_pid_namespace_at(&plan.rootfs) {
        return Err(SessionError::PidNamespace);
    }
    match plan.target.command().first() {
        Some(command) => check_command(command),
        None => Ok(()),
    }
}

fn check_command(command: &OsString) -> Result<(), SessionError> {
    match find(command, std::env::var_os("PATH")) {
        Found::Executable => Ok(()),
        Found::NotExecutable => Err(SessionError::NotExecutable {
            command: command.clone(),
            source: std::io::Error::from_raw_os_error(libc::EACCES),
        }),
        Found::Nothing => Err(not_found(command)),
    }
}

/// The error of `exec` itself, once it has been tried.
pub(super) fn exec_error(command: &OsString, source: std::io::Error) -> SessionError {
    match source.kind() {
        std::io::ErrorKind::NotFound => not_found(command),
        _ => SessionError::NotExecutable { command: command.clone(), source },
    }
}

fn not_found(command: &OsString) -> SessionError {
    SessionError::NotFound { command: command.clone(), sudo: std::env::var_os("SUDO_UID").is_some() }
}
