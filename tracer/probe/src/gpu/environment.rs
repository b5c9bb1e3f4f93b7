//! Environment variables of a process as they are now: programs set `CUDA_VISIBLE_DEVICES` themselves, before they load CUDA.
//!
//! `/proc/PID/environ` is what a process was started with. What `setenv` changes is found by the variable `environ`, which is in the program where the
//! linker copied it there, else in the C library. Leaves out what the variables mean (`devices`).

use super::devices::DeviceVariables;
use energy_trace_foreign::peeker::{Peeker, TargetMemory};
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::ids::Pid;
use energy_trace_unwind::address_space::Mapping;
use energy_trace_unwind::cpython::memory::Source as _;

/// Variables of a process, and the bytes of one, that are looked at.
const MOST: u64 = 4096;
const LONGEST: u64 = 4096;
/// Bytes that are read at once.
const PIECE: u64 = 64;

/// The variables that say which GPUs a process sees, and in which order.
const NAMES: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"];

/// What a process's environment says about GPUs; `None` where its environment cannot be read.
pub(crate) fn read_variables(
    pid: Pid,
    mappings: &[Mapping],
    worker: &Worker,
    peeker: &Peeker,
) -> Option<DeviceVariables> {
    let [visible, order, given] = match read_now(pid, mappings, worker, peeker) {
        Some(variables) => NAMES.map(|name| {
            variables.iter().find_map(|entry| Some(entry.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
        }),
        None => peeker.variables(pid, &NAMES).ok()??.try_into().ok()?,
    };
    Some(DeviceVariables { visible, order, given })
}

fn read_now(pid: Pid, mappings: &[Mapping], worker: &Worker, peeker: &Peeker) -> Option<Vec<String>> {
    let program = &mappings.iter().find(|mapping| mapping.file.is_some())?.path;
    let is_libc = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl")
    };
    let of_program = mappings.iter().filter(|mapping| mapping.path == *program);
    let of_libc = mappings.iter().filter(|mapping| is_libc(&mapping.path));
    let memory = TargetMemory::of(peeker, pid);
    let list = of_program.chain(of_libc).find_map(|mapping| list_of(pid, &memory, mapping, worker))?;
    let entries = (0..MOST).map_while(|number| memory.word(list + 8 * number).filter(|entry| *entry != 0));
    Some(entries.filter_map(|entry| text_at(&memory, entry)).collect())
}

/// Where the list of variables is, by the file of a mapping.
fn list_of(pid: Pid, memory: &TargetMemory<'_>, mapping: &Mapping, worker: &Worker) -> Option<u64> {
    const LISTS: [&str; 3] = ["environ", "__environ", "_environ"];
    let opened = memory.peeker().open(pid, mapping, false).ok()?.ok()?;
    let facts = worker.facts(&mapping.path, &opened.file, &LISTS).ok()?;
    let bias = facts.bias(mapping.start, mapping.offset)?;
    let svma = LISTS.into_iter().find_map(|name| facts.symbol(name))?;
    memory.word(svma.wrapping_add(bias)).filter(|list| *list != 0)
}

/// A text that ends with a zero.
fn text_at(memory: &TargetMemory<'_>, address: u64) -> Option<String> {
    let mut text = Vec::new();
    while (text.len() as u64) < LONGEST {
        let at = address + text.len() as u64;
        // Not beyond a page's end: the next one may not be there.
        let piece = memory.bytes(at, PIECE - at % PIECE, PIECE)?;
        let end = piece.iter().position(|byte| *byte == 0);
        text.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            break;
        }
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::read_variables;
    use energy_trace_model::ids::Pid;
    use energy_trace_unwind::address_space::AddressSpace;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    /// What a program sets while it runs is read, and not what it was started with.
    #[test]
    fn what_was_set_later_is_read() {
        let worker = energy_trace_foreign::resolver::Resolver::start(false).unwrap().worker(false);
        let peeker = energy_trace_foreign::peeker::Peeker::start().unwrap();
        let script = "import os, sys; os.environ['CUDA_VISIBLE_DEVICES'] = '3,1'; print('set', flush=True); sys.stdin.read()";
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", script]).env("CUDA_VISIBLE_DEVICES", "0").env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = Pid::new(child.id());
        let variables = read_variables(pid, AddressSpace::read(pid).unwrap().mappings(), &worker, &peeker);
        child.stdin.take().unwrap().write_all(b"end").unwrap();
        child.wait().unwrap();
        let variables = variables.unwrap();
        assert_eq!(variables.visible.as_deref(), Some("3,1"));
        assert_eq!(variables.order.as_deref(), Some("PCI_BUS_ID"));
        let nobody = Pid::new(u32::MAX >> 1);
        assert_eq!(read_variables(nobody, &[], &worker, &peeker), None);
    }
}
