//! `cargo xtask sim gpu`: a command on the simulated GPU of `tests/simgpu`, and what the GPU really spent. Leaves out the engine.

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use simgpu::faces::Prologue;
use simgpu::meter::{MODELS, Meter};
use simgpu::scenario::WORKLOADS;
use simgpu::{Place, Scenario, VARIABLE};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::run as run_command;
use xtask::workspace::Workspace;

/// What the words behind `sim gpu` may say.
#[derive(Debug, Parser)]
#[command(name = "sim gpu", no_binary_name = true)]
struct Options {
    /// The scenario, as `tests/simgpu/src/scenario.rs` describes it; left out, one GPU with the kernels of `tests/workloads/gpu_*`
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// The meter of every device: V100, A100, H100, H200, MIG, AVERAGED or IDEAL
    #[arg(long)]
    model: Option<String>,
    /// How many devices, without a scenario
    #[arg(long, default_value_t = 1)]
    devices: usize,
    /// Where the libraries, the machine and the truth go; left out, target/sim/gpu
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// How the libraries' functions begin: endbr-push, push, endbr-sub, sub or jump
    #[arg(long, default_value = "endbr-push")]
    prologue: String,
    /// The command; left out, only the variables are printed that a command needs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Makes the machine, runs the command on it and prints what the GPU spent. The command's exit status becomes ours.
pub(super) fn run(workspace: &Workspace, args: &[OsString]) -> Result<()> {
    let options = Options::try_parse_from(args)?;
    let folder = options.dir.clone().unwrap_or_else(|| workspace.target().join("sim/gpu"));
    let (libraries, machine) = (folder.join("lib"), folder.join("machine"));
    run_command(workspace.cargo().args(["build", "--quiet", "--package", "simgpu"]))?;
    let engine = workspace.target().join("debug/libsimgpu.so");
    simgpu::faces::build(&libraries, &engine, prologue(&options.prologue)?)?;
    build_workloads(workspace, &folder, &libraries)?;
    let place = Place::create(&machine, &scenario(&options)?).context("cannot make the machine")?;
    let shown = machine.display();
    eprintln!("sim: LD_LIBRARY_PATH={} {VARIABLE}={shown}", libraries.display());
    eprintln!("sim: workloads gpu_mix and gpu_driver are in {}", folder.display());
    let Some((program, arguments)) = options.command.split_first() else { return Ok(()) };
    let status = Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", &libraries)
        .env(VARIABLE, &machine)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    show(&place, &machine)?;
    if !status.success() {
        // Ended by a signal it has no code; 125 is what `timeout` and its like say of themselves.
        std::process::exit(status.code().unwrap_or(125));
    }
    Ok(())
}

fn prologue(word: &str) -> Result<Prologue> {
    Ok(match word {
        "endbr-push" => Prologue::EndbrPush,
        "push" => Prologue::Push,
        "endbr-sub" => Prologue::EndbrSub,
        "sub" => Prologue::Sub,
        "jump" => Prologue::Jump,
        _ => bail!("no prologue {word}; there are endbr-push, push, endbr-sub, sub and jump"),
    })
}

fn scenario(options: &Options) -> Result<Scenario> {
    let mut scenario = match &options.scenario {
        Some(file) => {
            let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            serde_json::from_slice(&text).with_context(|| format!("{} is no scenario", file.display()))?
        }
        None => {
            let mut scenario = Scenario::new(Meter::default(), &WORKLOADS);
            scenario.devices = vec![scenario.devices[0].clone(); options.devices];
            scenario
        }
    };
    if let Some(name) = &options.model {
        let meter = Meter::model(name)
            .with_context(|| format!("no model {name}; there are {}", MODELS.join(", ")))?;
        scenario.devices.iter_mut().for_each(|device| device.meter = meter.clone());
    }
    Ok(scenario)
}

fn build_workloads(workspace: &Workspace, folder: &Path, libraries: &Path) -> Result<()> {
    let sources = workspace.root().join("tests/workloads");
    let linked = ["libcudart.so.12", "libsimgpu.so"].map(|file| libraries.join(file).display().to_string());
    let runtime = linked.each_ref().map(String::as_str);
    simgpu::faces::compile(&sources.join("gpu_mix.c"), &folder.join("gpu_mix"), libraries, &runtime)?;
    simgpu::faces::compile(&sources.join("gpu_driver.c"), &folder.join("gpu_driver"), libraries, &["-ldl"])?;
    Ok(())
}

/// Prints the truth: each device's energy, and energy above idle by tag and name.
fn show(place: &Place, machine: &Path) -> Result<()> {
    let now = simgpu::clock::now_ns();
    let launches = simgpu::truth::read(machine)?;
    for device in 0..place.scenario.devices.len() {
        let (all, active) = (place.energy_uj(device, now) / 1e6, place.shared.active_uj(device, now) / 1e6);
        eprintln!("sim: GPU {device} spent {all:.3} J since it was made, {active:.3} J of it above idle");
    }
    let mut sums = BTreeMap::<(usize, &str, &str, &str), (u64, f64)>::new();
    for launch in &launches {
        let key = (launch.gpu, launch.tag.as_str(), launch.capture_tag.as_str(), launch.name.as_str());
        let sum = sums.entry(key).or_default();
        *sum = (sum.0 + 1, sum.1 + launch.uj / 1e6);
    }
    for ((gpu, tag, capture, name), (count, joules)) in sums {
        let captured = if capture.is_empty() { String::new() } else { format!(" (captured in {capture})") };
        eprintln!("sim: GPU {gpu} {joules:10.3} J {count:8} × {name} from {tag}{captured}");
    }
    eprintln!("sim: every launch is in {}", simgpu::place::truth_file(machine).display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Options;
    use clap::Parser as _;

    /// The command is what follows the options, with two hyphens before it or without: the outer command line may take them away.
    #[test]
    fn commands() {
        for words in
            [&["--model", "H100", "--", "a", "-b"][..], &["--model", "H100", "a", "-b"], &["a", "-b"]]
        {
            let options = Options::try_parse_from(words).unwrap();
            assert_eq!(options.command, ["a", "-b"]);
            assert_eq!(options.model.is_some(), words.len() > 2);
        }
    }
}
