//! The GPU accuracy benchmark live: the product as it is, on the simulated GPU.
//!
//! `cargo xtask bench gpu-accuracy --live N`. Needs root and BPF. Leaves out the virtual clock (`main`).

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "a program for the terminal, which shares its tables with that of the virtual clock"
)]

mod live;
mod measure;
mod meters;
mod table;

fn main() {
    let mut options =
        live::Options { runs: 0, seconds: 20, cells: vec![], keep: None, again: false, stacks: false };
    let (mut only, mut json) = (None::<String>, None::<String>);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--live" => options.runs = value().parse().unwrap_or(options.runs),
            "--live-seconds" => options.seconds = value().parse().unwrap_or(options.seconds),
            "--cell" => options.cells.push(value()),
            "--keep" => options.keep = Some(value().into()),
            "--again" => options.again = true,
            "--stacks" => options.stacks = true,
            "--only" => only = Some(value()),
            "--json" => json = Some(value()),
            // What `cargo bench` adds.
            _ => {}
        }
    }
    println!("Live, on the simulated GPU:\n\n{}", table::HEAD.trim_end());
    let lines =
        live::lines(&options, |name| only.as_ref().is_none_or(|only| name.starts_with(only.as_str())));
    lines.iter().for_each(|line| println!("{}", line.text()));
    if let Some(file) = &json {
        table::write(&lines, file);
    }
}
