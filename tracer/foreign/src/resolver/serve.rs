//! A worker's loop: a question, an answer, until its channel is closed.
//!
//! Runs in the sandbox and trusts no byte of the files; what goes wrong in a parser ends this process and nothing else. Leaves out the sandbox.

use super::question::{Fault, Histories, NameFacts, PlainRule, Question, RowsHead, plain};
use energy_trace_symbols::python_calls::{PythonCalls, read_calls};
use energy_trace_symbols::python_module::{self, ModuleFacts};
use energy_trace_symbols::{self as symbolize, jitdump, perf_map, process_context, python_packages};
use energy_trace_system::allocator::trim;
use energy_trace_system::roles::channel::{Channel, ChannelError};
use energy_trace_system::roles::room::List;
use energy_trace_unwind::cfi::{Rows, add_entry, read_rows};
use energy_trace_unwind::elf::{DebugSections, ElfError, ElfFacts};
use energy_trace_unwind::fde::UnwindFile;
use energy_trace_unwind::file_bytes::Positioned;
use energy_trace_unwind::functions::find_functions;
use energy_trace_unwind::generated_code::{GeneratedFunction, LARGEST};
use energy_trace_unwind::static_probes::find_probes;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

/// Bytes of a question at the most: the addresses of one library's frames.
const LONGEST_QUESTION: usize = 64 << 20;

/// Answers until the channel is closed. Files and questions may be of anybody: no sandbox is made here.
pub fn serve(channel: &Channel) {
    let mut kept = HashMap::new();
    while let Ok((question, files)) = channel.receive::<Question>(LONGEST_QUESTION, None) {
        let is_small = matches!(question, Question::Rule { .. });
        if answer(channel, question, files, &mut kept).is_err() {
            return;
        }
        if !is_small {
            trim();
        }
    }
}

fn answer(
    channel: &Channel,
    question: Question,
    files: Vec<OwnedFd>,
    kept: &mut HashMap<u32, UnwindFile>,
) -> Result<(), ChannelError> {
    let files: Vec<File> = files.into_iter().map(File::from).collect();
    if let Question::Rule { number, svma } = question {
        return send_answer(channel, kept.get_mut(&number).map(|of| rule(of, svma)).ok_or("no such file"));
    }
    if let Question::Forget { numbers } = question {
        kept.retain(|number, _| !numbers.contains(number));
        return send_answer(channel, Ok::<_, Fault>(()));
    }
    let Some(file) = files.first() else {
        return send_answer::<()>(channel, Err("a question without a file"));
    };
    match question {
        Question::Facts { wanted } => {
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            send_answer(channel, facts(file, &wanted))
        }
        Question::Functions { patterns, most } => {
            send_answer(channel, find_functions(file, &patterns, most).map(List))
        }
        Question::StaticProbes { wanted } => send_answer(channel, find_probes(file, &wanted).map(List)),
        Question::Rows { base, entry } => match rows(file, base, entry) {
            Ok((head, rows)) => channel.send(&Ok::<_, Fault>(head), &[rows.as_fd()], None),
            Err(error) => send_answer::<RowsHead>(channel, Err(error)),
        },
        Question::Keep { number } => send_answer(channel, keep(file, number, kept)),
        Question::GeneratedFunction { start, at } => {
            send_answer(channel, generated_function(file, start, at))
        }
        Question::NameFacts => send_answer(channel, name_facts(file)),
        Question::Names { offsets, detail, proofs } => {
            let candidates = files.iter().skip(1).zip(&proofs);
            send_answer(
                channel,
                Ok::<_, Fault>(List(symbolize::name_places(file, candidates, &offsets, detail))),
            )
        }
        Question::PerfMap { wanted } => {
            let names: Vec<(u64, String)> =
                perf_map::read_map(Positioned::new(file), &wanted).into_iter().collect();
            send_answer(channel, Ok::<_, Fault>(List(names)))
        }
        Question::PythonModules => send_answer(channel, python_modules(&files)),
        Question::PythonLists => send_answer(channel, python_lists(&files)),
        Question::PythonArchive { folder } => send_answer(
            channel,
            python_packages::read_archive(file, &folder).map_err(|error| of_system(&error)),
        ),
        Question::PythonCalls => send_answer(channel, python_calls(file)),
        Question::AttributeNames => send_answer(channel, attribute_names(file)),
        Question::JitDump { wanted } => send_answer(channel, histories(file, &wanted)),
        Question::Rule { .. } | Question::Forget { .. } => Ok(()),
    }
}

/// Sends an answer, or what is wrong with the file.
fn send_answer<T: Serialize>(
    channel: &Channel,
    answer: Result<T, impl Into<Fault>>,
) -> Result<(), ChannelError> {
    channel.send(&answer.map_err(Into::into), &[], None)
}

impl From<ElfError> for Fault {
    fn from(error: ElfError) -> Self {
        Self { too_large: matches!(error, ElfError::TooLarge), text: error.to_string() }
    }
}

impl From<jitdump::JitDumpError> for Fault {
    fn from(error: jitdump::JitDumpError) -> Self {
        Self { too_large: false, text: error.to_string() }
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self { too_large: false, text: text.to_owned() }
    }
}

/// A file that is no ELF file says nothing of code.
fn facts(file: &File, wanted: &[&str]) -> Result<ElfFacts, ElfError> {
    match ElfFacts::read(file, wanted) {
        Err(ElfError::Other) => Ok(ElfFacts::default()),
        facts => facts,
    }
}

fn rule(file: &mut UnwindFile, svma: u64) -> PlainRule {
    let (rule, full) = file.rule(svma);
    (rule.0, full.as_ref().map(plain))
}

fn keep(file: &File, number: u32, kept: &mut HashMap<u32, UnwindFile>) -> Result<ElfFacts, ElfError> {
    let file = UnwindFile::open(file.try_clone()?)?;
    let facts = file.facts().clone();
    kept.insert(number, file);
    Ok(facts)
}

fn generated_function(file: &File, start: u64, at: u64) -> Result<Option<GeneratedFunction>, Fault> {
    let mut code = Vec::new();
    let read = Positioned::new(file).take(2 * LARGEST).read_to_end(&mut code);
    read.map_err(|error| Fault { too_large: false, text: error.to_string() })?;
    Ok(GeneratedFunction::find(&code, start, at))
}

fn name_facts(file: &File) -> Result<NameFacts, ElfError> {
    let build_id = ElfFacts::read(file, &[])?.build_id;
    Ok(NameFacts { build_id, sections: DebugSections::read(file)? })
}

/// The rows of a file, in a file of their own.
fn rows(file: &File, base: u64, entry: u64) -> Result<(RowsHead, File), ElfError> {
    let mut rows = read_rows(file, base)?;
    if !rows.rows.is_empty() {
        add_entry(&mut rows.rows, entry.saturating_sub(base));
    }
    let Rows { rows, full, damaged, unsupported, too_many } = rows;
    let out = File::from(memfd_create("rows", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from)?);
    let mut writer = BufWriter::with_capacity(1 << 16, &out);
    rows.iter().try_for_each(|row| writer.write_all(&row.to_ne_bytes()))?;
    writer.flush()?;
    drop(writer);
    let full = full.iter().map(plain).collect();
    Ok((RowsHead { rows: rows.len() as u64, full, damaged, unsupported, too_many }, out))
}

fn python_modules(files: &[File]) -> Result<List<ModuleFacts>, Fault> {
    let read = files.iter().map(|file| python_module::read_module(Positioned::new(file)));
    read.collect::<io::Result<_>>().map(List).map_err(|error| of_system(&error))
}

fn python_lists(files: &[File]) -> Result<Vec<BTreeSet<String>>, Fault> {
    let read = files.iter().map(|file| python_packages::read_list(Positioned::new(file)));
    read.collect::<io::Result<_>>().map_err(|error| of_system(&error))
}

fn of_system(error: &io::Error) -> Fault {
    Fault { too_large: false, text: error.to_string() }
}

fn python_calls(file: &File) -> Result<PythonCalls, Fault> {
    let read = read_calls(Positioned::new(file));
    read.map_err(|error| Fault { too_large: false, text: error.to_string() })
}

fn attribute_names(file: &File) -> Result<List<String>, Fault> {
    let names = process_context::read_names(Positioned::new(file));
    names.map(List).map_err(|error| of_system(&error))
}

fn histories(file: &File, wanted: &[u64]) -> Result<Histories, jitdump::JitDumpError> {
    let found = jitdump::read_dump(io::BufReader::new(Positioned::new(file)), wanted)?;
    let plain = |history: jitdump::History| {
        List(history.into_iter().map(|(at, name)| (at.as_ns(), name.as_deref().map(str::to_owned))).collect())
    };
    Ok(List(found.into_iter().map(|(address, history)| (address, plain(history))).collect()))
}
