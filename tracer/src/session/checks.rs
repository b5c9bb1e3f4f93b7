//! What can be found out before anything is set up: the command, privileges, pid namespace.

use super::error::SessionError;
use crate::plan::RecordPlan;
use crate::tracee::lookup::{Found, find};
use energy_trace_probe::online_cpus;
use energy_trace_system::host::kernel::is_first_pid_namespace_at;
use energy_trace_system::host::limits;
use energy_trace_system::privileges::{Privileges, refuse_what_lends};
use std::ffi::OsString;
use std::path::Path;

/// Checks the command, whatever may be recorded, then what the kernel and our privileges allow.
pub(super) fn check(plan: &RecordPlan) -> Result<(), SessionError> {
    let reads_files = plan.power.reads_files();
    refuse_what_lends(&[
        ("--path.sysfs", plan.power.sysfs != Path::new("/sys")),
        ("--path.rootfs", plan.rootfs != Path::new("/")),
        ("--nvml-lib", plan.power.nvml_lib.is_some()),
        ("--power replay:, host: or bmc:FILE", reads_files),
    ])?;
    if let Some(command) = plan.target.command().first() {
        check_command(command)?;
    }
    Privileges::read_at(&plan.rootfs)?.check(&without_inner_sudo(plan))?;
    limits::check(online_cpus())?;
    if !is_first_pid_namespace_at(&plan.rootfs) {
        return Err(SessionError::PidNamespace);
    }
    Ok(())
}

/// The command line, for advice that repeats it under sudo: whoever types `energy-trace sudo program` means that.
fn without_inner_sudo(plan: &RecordPlan) -> Vec<OsString> {
    let mut typed = plan.typed.clone();
    let command = plan.target.command();
    if command.len() > 1 && command.first().is_some_and(|word| word == "sudo") {
        let at = typed.len().saturating_sub(command.len());
        let _sudo = (at < typed.len()).then(|| typed.remove(at));
    }
    typed
}

/// Whether there is such a program, to be started by who asks.
pub(crate) fn check_command(command: &OsString) -> Result<(), SessionError> {
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
    SessionError::NotFound { command: command.clone() }
}
