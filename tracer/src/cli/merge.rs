//! `energy-trace merge OUT A B …`: recordings of ranks and nodes into one, from which every report is made.
//!
//! Leaves out what goes together (`recording::machines`) and how it is written (`recording::merging`).

use super::failure::Failure;
use super::output::{read_recording, write_private};
use clap::Args;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::recording::machines::refusal;
use energy_trace_model::recording::merging::{ToMerge, merge};
use energy_trace_model::recording::{Part, file};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the user typed after `merge`.
#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// File to write
    #[arg(value_name = "OUT")]
    pub out: PathBuf,

    /// Recordings, each with the label that its stacks and rows get: LABEL=FILE, else its rank, or the name of the file or of its machine
    #[arg(value_name = "[LABEL=]FILE", required = true, num_args = 1..)]
    pub recordings: Vec<String>,
}

/// A recording to merge.
struct Input {
    label: Option<String>,
    path: PathBuf,
}

impl Input {
    /// A file that is there is a file, whatever its name holds.
    fn parse(typed: &str) -> Self {
        match typed.split_once('=') {
            Some((label, path)) if !label.is_empty() && !Path::new(typed).exists() => {
                Self { label: Some(label.to_owned()), path: path.into() }
            }
            _ => Self { label: None, path: typed.into() },
        }
    }

    fn stem(&self) -> String {
        self.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }
}

/// Merges.
pub(super) fn run(args: &MergeArgs) -> Result<ExitCode, Failure> {
    let inputs: Vec<Input> = args.recordings.iter().map(|typed| Input::parse(typed)).collect();
    if inputs.iter().any(|input| same_file(&input.path, &args.out)) {
        let text = format!("{} is one of the recordings: name another file to write", args.out.display());
        return Err(Failure::usage(text));
    }
    if file::is_recording(&args.out) && !is_merged(&args.out) {
        let text = format!(
            "{} is a recording, which would be lost: the first name is the file to write",
            args.out.display()
        );
        return Err(Failure::usage(text));
    }
    let mut parts = Vec::new();
    for input in &inputs {
        parts.push(Part { label: String::new(), recording: read_recording(&input.path)? });
    }
    let labels = labels(&inputs, &parts);
    for (part, label) in parts.iter_mut().zip(&labels) {
        part.label.clone_from(label);
    }
    let flat = flat(parts);
    if let Some(why) = refusal(&flat) {
        return Err(Failure::usage(why.to_string()));
    }
    let of = u32::try_from(flat.len()).unwrap_or(u32::MAX);
    drop(flat);
    let mut to_merge = Vec::new();
    for (input, label) in inputs.iter().zip(&labels) {
        let from = File::open(&input.path).map_err(|error| Failure::own(&error))?;
        to_merge.push(ToMerge { label, from, path: &input.path });
    }
    let mut whole = Vec::new();
    merge(&mut whole, &args.out, to_merge, of).map_err(|error| Failure::own(&error))?;
    write_private(&args.out, &whole)
}

/// What was typed, else ranks where all have one of their own, else names of files where they differ, else names of machines.
fn labels(inputs: &[Input], parts: &[Part]) -> Vec<String> {
    let stems: Vec<String> = inputs.iter().map(Input::stem).collect();
    let host = |part: &Part| part.recording.host.as_ref().map(|host| host.name.clone()).unwrap_or_default();
    let rank = |part: &Part| part.recording.rank.map(|rank| format!("rank{rank}")).unwrap_or_default();
    let hosts: Vec<String> = parts.iter().map(host).collect();
    let differ = |names: &[String]| {
        names.iter().fill_set().len() == names.len() && names.iter().all(|name| !name.is_empty())
    };
    let ranks: Vec<String> = parts.iter().map(rank).collect();
    let names = match (differ(&ranks), differ(&stems) || !differ(&hosts)) {
        (true, _) => ranks,
        (false, true) => stems,
        (false, false) => hosts,
    };
    inputs.iter().zip(names).map(|(input, name)| input.label.clone().unwrap_or(name)).collect()
}

/// Recordings that are merged already by their parts.
fn flat(parts: Vec<Part>) -> Vec<Part> {
    let of = |part: Part| match part.recording.parts.is_empty() {
        true => vec![part],
        false => {
            let below = |inner: Part| Part { label: format!("{}/{}", part.label, inner.label), ..inner };
            part.recording.parts.into_iter().map(below).collect()
        }
    };
    parts.into_iter().flat_map(of).collect()
}

/// Whether a file is what `merge` wrote before: that may be written anew.
fn is_merged(path: &Path) -> bool {
    file::read(path).is_ok_and(|recording| !recording.parts.is_empty())
}

fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some() && real(one) == real(other)
}

#[cfg(test)]
mod tests {
    use super::{Input, labels};
    use energy_trace_model::recording::record::Host;
    use energy_trace_model::recording::{Part, Recording};

    fn part(host: &str) -> Part {
        let host = Some(Host { name: host.into(), boot: String::new() });
        Part { label: String::new(), recording: Recording { host, ..Recording::default() } }
    }

    /// Files that differ in name are told apart by it, those that do not by their machines; what is typed wins.
    #[test]
    fn labels_tell_apart() {
        let of = |typed: [&str; 2], hosts: [&str; 2]| labels(&typed.map(Input::parse), &hosts.map(part));
        assert_eq!(of(["a/rank0.data", "a/rank1.data"], ["n", "n"]), ["rank0", "rank1"]);
        assert_eq!(of(["a/energy-trace.data", "b/energy-trace.data"], ["n1", "n2"]), ["n1", "n2"]);
        assert_eq!(of(["a/x.data", "b/x.data"], ["n", "n"]), ["x", "x"]);
        assert_eq!(of(["left=a/x.data", "right=b/x.data"], ["n", "n"]), ["left", "right"]);
        assert_eq!(of(["=x.data", "y.data"], ["n", "n"]), ["=x", "y"]);
    }

    /// Ranks tell apart before names do, where each recording has one of its own.
    #[test]
    fn ranks_are_labels() {
        let ranked = |rank| {
            let mut part = part("n");
            part.recording.rank = rank;
            part
        };
        let of = |ranks: [Option<u32>; 2]| {
            labels(&["a.data", "left=b.data"].map(Input::parse), &ranks.map(ranked))
        };
        assert_eq!(of([Some(0), Some(1)]), ["rank0", "left"]);
        assert_eq!(of([Some(0), Some(0)]), ["a", "left"]);
        assert_eq!(of([Some(0), None]), ["a", "left"]);
    }
}
