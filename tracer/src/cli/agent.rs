//! `energy-trace agent`: the machine's energy by workload, always, as metrics.
//!
//! Its options are those of a recording of the whole machine, as far as they mean something here. Leaves out recording (`session`) and the
//! agent (`agent`).

use super::choices;
use super::common::Common;
use super::failure::Failure;
use super::record::{self, ModelWatts, RecordArgs, parse_duration, parse_model, parse_watts};
use super::resolve::resolve;
use super::work;
use crate::collector::Endpoint;
use crate::plan::{AgentPlan, GpuLevel, ProgressStyle, SpoolPlan};
use clap::{ArgAction, Args};
use energy_trace_model::recording::record::WorkCounter;
use energy_trace_model::units::MicroWatts;
use energy_trace_power::SourceChoice;
use nix::unistd::{Gid, Uid, geteuid};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Windows that are neither too short for a counter nor too long for whoever looks.
const WINDOWS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);

/// A spool that is nobody else's, and how one is made.
const SPOOL: &str = "/var/lib/energy-trace/spool";
const MAKE: &str = "install -d -o 60700 -g 60700";

/// What the user typed after `agent`.
#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    /// Where to listen: an address and a port, or a port of this machine alone
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464", value_parser = parse_address)]
    pub listen: SocketAddr,

    /// How often the numbers change, at multiples of it in UTC: 1s to 1h; no sooner than after five seconds while a GPU works
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_window)]
    pub window: Duration,

    /// A folder for tables of each window (Parquet), which you upload: its owner, not root, writes them, and
    /// nobody else's privileges are used
    #[arg(long, value_name = "DIR", value_parser = clap::value_parser!(PathBuf))]
    pub spool: Option<PathBuf>,

    /// Mebibytes of all tables: beyond them the oldest go
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub spool_mib: u32,

    /// Days after which tables go
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub spool_days: u32,

    /// Send profiles of each window to this OpenTelemetry collector, whose name is looked up once, at the
    /// start
    #[arg(long, value_name = "URL")]
    pub otlp: Option<Endpoint>,

    /// Count units of work beside joules: tokens, requests. SOURCE has their running number, read twice a second:
    /// prometheus:URL#METRIC{label="x"}, on a page of this machine, or file:PATH, which everybody may read
    #[arg(long, value_name = "NAME=SOURCE", value_parser = work::parse_of_agent)]
    pub work: Vec<WorkCounter>,

    /// Let --work read pages of metrics from other machines
    #[arg(long, requires = "work")]
    pub work_allow_remote: bool,

    /// Stack samples per second, per CPU, at random distances
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 19, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub frequency: u32,

    /// Percent of the machine's CPU time that the agent may take itself, its BPF programs too; where it takes more, it
    /// samples at a half, a quarter, an eighth of the frequency
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = parse_share)]
    pub own_cpu: u32,

    /// How CPU time is recorded. Sums cost far less where threads switch very often
    #[arg(long, value_name = "WHETHER", action = ArgAction::Set, value_parser = choices::slices(), default_value = "no")]
    pub slices: bool,

    /// Power source
    #[arg(long, value_name = "SOURCE", help = choices::power_help(), long_help = choices::power_long_help())]
    pub power: Vec<SourceChoice>,

    /// Power readings per second, on average
    #[arg(long, value_name = "HZ", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub power_hz: u32,

    /// Directory where sysfs is mounted
    #[arg(long = "path.sysfs", value_name = "DIR", default_value = "/sys")]
    pub sysfs: PathBuf,

    /// How finely GPU energy is attributed
    #[arg(long, value_name = "LEVEL", default_value = "launch", value_parser = choices::gpu_level())]
    pub gpu: GpuLevel,

    /// Idle power of all CPU sockets in watts, instead of measuring it for one second before the start
    #[arg(long, value_name = "W", value_parser = parse_watts)]
    pub idle_watts: Option<MicroWatts>,

    /// Watts for the power model: of the idle machine, and added by each busy CPU
    #[arg(long, value_name = "idle=W,core=W", value_parser = parse_model)]
    pub model_watts: Option<ModelWatts>,
}

/// Runs until a signal.
pub(super) fn run(args: &AgentArgs, common: &Common) -> Result<ExitCode, Failure> {
    let mut plan = resolve(&recording(args)?, common).map_err(record::refused)?;
    (plan.live, plan.power.always_on) = (true, true);
    plan.agent = Some(agent_plan(args)?);
    plan.svg = None;
    plan.screen.progress = ProgressStyle::Off;
    // There is no summary of what does not end.
    plan.screen.quiet = true;
    if common.quiet {
        log::set_max_level(log::LevelFilter::Error);
    }
    record::run_plan(&plan)
}

fn agent_plan(args: &AgentArgs) -> Result<AgentPlan, Failure> {
    let spool = args.spool.as_ref().map(|folder| spool_plan(folder, args)).transpose()?;
    Ok(AgentPlan {
        listen: args.listen,
        window: args.window,
        most_share: args.own_cpu,
        spool,
        collector: args.otlp.clone(),
    })
}

fn spool_plan(folder: &Path, args: &AgentArgs) -> Result<SpoolPlan, Failure> {
    let most_bytes = u64::from(args.spool_mib) << 20;
    let longest = Duration::from_hours(24) * args.spool_days;
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    Ok(SpoolPlan { owner: owner_of(&folder)?, folder, most_bytes, longest })
}

/// As whom root's agent writes there: privileges are given up before anything is written.
fn owner_of(folder: &Path) -> Result<Option<(Uid, Gid)>, Failure> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let of = folder.display();
    let about = folder.metadata().map_err(|error| {
        let how = if error.kind() == io::ErrorKind::NotFound {
            format!("; make it: {MAKE} {of}")
        } else {
            String::new()
        };
        Failure::usage(format!("cannot use the spool {of}: {error}{how}"))
    })?;
    if !about.is_dir() {
        return Err(Failure::usage(format!("the spool {of} is not a folder")));
    }
    if about.uid() == 0 {
        // This one may be the system's: not even a folder within it is asked for.
        return Err(Failure::usage(format!(
            "the spool {of} belongs to root, but windows are not written as root; make a folder of its own: {MAKE} {SPOOL}"
        )));
    }
    Ok(Some((Uid::from_raw(about.uid()), Gid::from_raw(about.gid()))))
}

/// The same as options of a recording.
fn recording(args: &AgentArgs) -> Result<RecordArgs, Failure> {
    Ok(RecordArgs {
        all: true,
        slices: args.slices,
        frequency: args.frequency,
        power: args.power.clone(),
        power_hz: args.power_hz,
        sysfs: args.sysfs.clone(),
        gpu: args.gpu,
        idle_watts: args.idle_watts,
        model_watts: args.model_watts,
        work: args.work.clone(),
        work_allow_remote: args.work_allow_remote,
        ..record::defaults()?
    })
}

/// `ADDRESS:PORT`, or a port of this machine alone.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let here = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let named = |text: &str| text.strip_prefix("localhost:").and_then(|port| port.parse().ok()).map(here);
    let port = text.trim_start_matches(':').parse().ok().map(here);
    let address = text.parse().ok().or_else(|| named(text)).or(port);
    address
        .ok_or_else(|| "write it as 127.0.0.1:9464, [::1]:9464, 0.0.0.0:9464 (all networks) or 9464".into())
}

/// Percent as millionths.
fn parse_share(text: &str) -> Result<u32, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let share = percent.filter(|percent| (0.001..=100.0).contains(percent));
    share.map(|percent| (percent * 1e4).round() as u32).ok_or_else(|| "write percent of 0.001 to 100".into())
}

fn parse_window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text)?;
    if WINDOWS.contains(&window) { Ok(window) } else { Err("a window is of 1s to 1h".into()) }
}

#[cfg(test)]
mod tests {
    use super::super::command_line::{Command, parse};
    use super::{Duration, Gid, Uid, owner_of, parse_address, parse_share, recording};

    /// The whole machine is recorded, at rates that cost little; this machine alone may ask unless somebody says otherwise.
    #[test]
    fn defaults() {
        let Some(Command::Agent(args)) = parse(["energy-trace", "agent"]).unwrap().command else { panic!() };
        let of = recording(&args).unwrap();
        assert_eq!((of.all, of.slices, of.frequency, of.power_hz), (true, false, 19, 10));
        assert_eq!(
            (args.listen.to_string().as_str(), args.window),
            ("127.0.0.1:9464", Duration::from_mins(1))
        );
        assert!(args.listen.ip().is_loopback());
    }

    /// A spool has to be somebody's who is not root; nothing is written to find that out.
    #[test]
    fn spools() {
        if !nix::unistd::geteuid().is_root() {
            // Whose spool it is matters to root alone.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(owner_of(folder.path()).is_err() && owner_of(&folder.path().join("none")).is_err());
        std::os::unix::fs::chown(folder.path(), Some(60_700), Some(7)).unwrap();
        assert_eq!(owner_of(folder.path()).unwrap(), Some((Uid::from_raw(60_700), Gid::from_raw(7))));
    }

    /// Addresses and ports; what is neither, and windows that are too short or too long, are refused.
    #[test]
    fn options() {
        assert_eq!(["1", "0.5", "100%"].map(parse_share), [Ok(10_000), Ok(5_000), Ok(1_000_000)]);
        assert!(["0", "101", "NaN", "x", ""].iter().all(|wrong| parse_share(wrong).is_err()));
        for (typed, address) in [
            ("9464", "127.0.0.1:9464"),
            (":1", "127.0.0.1:1"),
            ("localhost:7", "127.0.0.1:7"),
            ("0.0.0.0:9464", "0.0.0.0:9464"),
            ("[::1]:9464", "[::1]:9464"),
        ] {
            assert_eq!(parse_address(typed).unwrap().to_string(), address);
        }
        for wrong in ["", "x", "example.org:80", "127.0.0.1", "70000", "127.0.0.1:x"] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
        for (window, is_right) in [("1s", true), ("60", true), ("1h", true), ("0.5", false), ("61m", false)] {
            assert_eq!(parse(["energy-trace", "agent", "--window", window]).is_ok(), is_right, "{window}");
        }
    }
}
