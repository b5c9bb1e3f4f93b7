//! How long the attribution takes, and how much memory, by the number of samples: eight threads on eight CPUs and 64 on 32, that rest now and then, sampled at
//! 499 Hz.
//!
//! `cargo bench -p energy-trace-scenarios --bench size [-- SAMPLES…] [--write FOLDER]` (default: 100,000 and 1,000,000). Links the pure
//! packages alone. With a folder the recordings are also written there. `-- --report FILE` reads one and makes every report of it, as `energy-trace
//! report` and `export` do, each step with its time and the peak of memory so far. Leaves out how right the result is (`accuracy`).

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use energy_trace_attribution::{attribute, attribute_over_time};
use energy_trace_export::{ExportOptions, FORMATS, Input};
use energy_trace_model::ids::{FrameId, StackId};
use energy_trace_model::profile::Options;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::{self, FileError, RecordingWriter};
use energy_trace_model::recording::record::Record;
use energy_trace_report::json::{self, JsonOptions};
use energy_trace_report::table::{self, TableOptions};
use energy_trace_scenarios::worlds;
use energy_trace_scenarios::worlds::SECOND;
use energy_trace_scenarios::worlds::recording::{Recorder, record};
use energy_trace_tests::random::Random;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

const HZ: u64 = 499;
/// Worlds, their threads, and about how many samples each gives in a second.
const SHAPES: [(&str, u64, u64); 2] = [("W6b", 8, 2_500), ("W6c", 64, 14_500)];

/// Entries of a list in one record.
const A_RECORD: usize = 1_000;

fn main() {
    if let Some(file) = std::env::args().skip_while(|argument| argument != "--report").nth(1) {
        if let Err(error) = reports(Path::new(&file)) {
            println!("{error}");
        }
        return;
    }
    let asked: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let folder = std::env::args().skip_while(|argument| argument != "--write").nth(1).map(PathBuf::from);
    let sizes = if asked.is_empty() { vec![100_000, 1_000_000] } else { asked };
    println!(
        "| samples | threads | slices | readings | columns | seconds | CPU seconds | peak memory beyond the recording, MiB | in all, MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for samples in sizes {
        SHAPES.iter().for_each(|shape| measure(shape, samples, folder.as_deref()));
    }
}

/// Reads a recording and makes every report of it.
fn reports(path: &Path) -> std::io::Result<()> {
    println!("| step | seconds | CPU seconds | bytes | peak memory in all, MiB |");
    println!("|---|---|---|---|---|");
    let recording = step("read", || (file::read(path), 0)).map_err(std::io::Error::other)?;
    let attributed = || (attribute(&recording, &Options::logical()), 0);
    let profile = step("attribute", attributed);
    let of = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut out = Vec::new();
        (write(&mut out), out.len())
    };
    step("table", || of(&|out| table::write(out, &profile, &TableOptions::default())))?;
    let options = JsonOptions { pretty: false, rows: None, budgets: &[] };
    step("json", || of(&|out| json::write(out, &profile, &options)))?;
    let (profile, over_time) =
        step("attribute over time", || (attribute_over_time(&recording, &Options::logical()), 0));
    drop(recording);
    for format in FORMATS {
        let (over_time, bins) =
            if format.is_timed { (Some(&over_time), 0..over_time.bins.count()) } else { (None, 0..0) };
        let input = Input { profile: &profile, over_time, bins };
        step(format.name, || of(&|out| format.write(out, &input, &ExportOptions::default())))?;
    }
    Ok(())
}

/// Prints how long something takes that makes so many bytes.
fn step<T>(name: &str, of: impl FnOnce() -> (T, usize)) -> T {
    let (began, cpu_before) = (Instant::now(), cpu_seconds());
    let (made, bytes) = of();
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    println!("| {name} | {seconds:.2} | {cpu_seconds:.2} | {bytes} | {} |", peak_mib());
    made
}

/// Prints a line of the table.
fn measure(&(name, threads, a_second): &(&str, u64, u64), samples: u64, folder: Option<&Path>) {
    let Some(entry) = worlds::catalogue::all().into_iter().find(|entry| entry.name == name) else { return };
    let mut world = (entry.world)(&mut Random(1));
    world.length = samples * SECOND / a_second;
    let recording = record(world, Recorder::usual(HZ), 1).recording;
    if let Some(folder) = folder {
        let path = folder.join(format!("{name}-{samples}.data"));
        write(&recording, &path).unwrap_or_else(|error| println!("{error}"));
    }
    // Forgets the peak of making the recording.
    if let Err(error) = std::fs::write("/proc/self/clear_refs", "5") {
        println!("the peak is that of the whole program: {error}");
    }
    let (before, cpu_before) = (resident_mib(), cpu_seconds());
    let began = Instant::now();
    let profile = attribute(&recording, &Options::default());
    let seconds = began.elapsed().as_secs_f64();
    let readings: usize = recording.readings.values().map(Vec::len).sum();
    let columns: usize = profile.certainty.domains.iter().map(|domain| domain.columns.len()).sum();
    let (samples, slices) = (recording.samples.len(), recording.slices.len());
    let memory = peak_mib().saturating_sub(before);
    let (cpu_seconds, all) = (cpu_seconds() - cpu_before, peak_mib());
    println!(
        "| {samples} | {threads} | {slices} | {readings} | {columns} | {seconds:.2} | {cpu_seconds:.2} | {memory} | {all} |"
    );
}

/// Writes a world's recording as the product would.
fn write(recording: &Recording, path: &Path) -> Result<(), FileError> {
    let of = |source| FileError::Write { path: path.to_owned(), source };
    let mut writer = RecordingWriter::over(File::create(path).map_err(of)?, path)?;
    let mut put = |record: Record| writer.write(&record);
    let Recording { header, domains, processes, threads, frames, stacks, background, .. } = recording;
    put(Record::Header(header.clone()))?;
    domains.iter().try_for_each(|domain| put(Record::Domain(domain.clone())))?;
    processes.iter().try_for_each(|process| put(Record::Process(process.clone())))?;
    threads.iter().try_for_each(|thread| put(Record::Thread(thread.clone())))?;
    background.iter().try_for_each(|process| put(Record::Background(process.clone())))?;
    for (id, frame) in (0..).zip(frames) {
        put(Record::Frame(FrameId::new(id), frame.clone()))?;
    }
    for (id, node) in (0..).zip(stacks) {
        put(Record::Stack(StackId::new(id), *node))?;
    }
    recording.slices.chunks(A_RECORD).try_for_each(|some| put(Record::Slices(some.to_vec())))?;
    recording.samples.chunks(A_RECORD).try_for_each(|some| put(Record::Samples(some.to_vec())))?;
    for (domain, readings) in &recording.readings {
        readings.chunks(A_RECORD).try_for_each(|some| put(Record::Readings(*domain, some.to_vec())))?;
    }
    put(Record::Unsampled(recording.unsampled.clone()))?;
    recording.summary.iter().try_for_each(|summary| put(Record::Summary(summary.clone())))?;
    writer.finish()
}

/// A line of /proc/self/status in MiB; 0 where there is none.
fn status_mib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().find_map(|word| word.parse::<u64>().ok()));
    kib.unwrap_or(0) / 1024
}

/// CPU time of this program, to a hundredth; 0 where the kernel does not say.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // User and system time are the fields 14 and 15; the first behind the name is 3.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn resident_mib() -> u64 {
    status_mib("VmRSS:")
}

fn peak_mib() -> u64 {
    status_mib("VmHWM:")
}
