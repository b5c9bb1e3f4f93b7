//! The API calls of a run as the GreenLight data set has them: one object for each call and line of the program, with power and temperature
//! over time, times, settings, sizes of arguments, and the project (Rajput et al., MSR 2024, listing 1; schema `data/greenlight-1.schema.json`).
//!
//! Where the data set has tables as text, these are the same tables as objects (`columns`, `index`, `data`: what pandas calls `split`). What it
//! has and a recording does not is `null`: nothing waits for a stable machine. Added are the call's own energy, and settings of energy-trace.
//!
//! * `sites`: calls, their energy and their energy over time; `tables`: series; `inputs`: sizes; `project`: where the code comes from.
//!
//! Leaves out what is no call: imports, the program's own code.

mod inputs;
mod project;
mod sites;
mod tables;

use super::{ExportOptions, Input};
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::over_time::OverTime;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown_json;
use energy_trace_report::counts::by_api;
use energy_trace_report::run;
use energy_trace_report::thermal::{Gauge, gauges};
use inputs::{InputSizesLine, Sizes};
use project::ProjectLine;
use serde::Serialize;
use sites::{Site, sites};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use tables::{Clock, Table};

pub(super) fn write(out: &mut dyn Write, input: &Input<'_>, _: &ExportOptions) -> io::Result<()> {
    let mut entries = Vec::new();
    if let Some(over_time) = input.over_time {
        let profile = over_time.within(input.profile.clone(), input.bins.clone());
        let export = Export {
            profile: &profile,
            over_time,
            gauges: gauges(&profile),
            sizes: Sizes::of(&profile),
            calls: by_api(&profile),
        };
        entries.extend(
            sites(input.profile, &profile, over_time, &input.bins).iter().map(|site| export.entry(site)),
        );
    }
    write!(out, "[")?;
    for (number, entry) in entries.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        write!(out, "{comma}\n{}", shown_json(&serde_json::to_string(entry)?))?;
    }
    writeln!(out, "\n]")?;
    out.flush()
}

/// What all entries are made of.
struct Export<'a> {
    profile: &'a Profile,
    over_time: &'a OverTime,
    gauges: Vec<Gauge>,
    sizes: Sizes<'a>,
    calls: HashMap<String, energy_trace_report::counts::CallsMade>,
}

#[derive(Serialize)]
struct Entry {
    energy_data: EnergyData,
    times: Times,
    cpu_temperatures: Option<Table>,
    settings: Settings,
    input_sizes: InputSizesLine,
    project_metadata: ProjectLine,
    /// What energy-trace adds: the energy of this call alone.
    energy: EnergyLine,
}

/// The machine's energy while the call ran, and the call's own part.
#[derive(Serialize)]
struct EnergyData {
    cpu: Option<Table>,
    ram: Option<Table>,
    gpu: Option<Table>,
}

/// Nanoseconds since 1970, and seconds since the start of the recording.
#[derive(Serialize)]
struct Times {
    start_time_execution: u64,
    end_time_execution: u64,
    start_time_perf: f64,
    end_time_perf: f64,
    sys_start_time_perf: u64,
    start_time_nvidia: Option<f64>,
    end_time_nvidia: Option<f64>,
    sys_start_time_nvidia: Option<u64>,
    begin_stable_check_time: Option<u64>,
    begin_temperature_check_time: Option<u64>,
}

/// How it was measured. What FECoM waits for is waited for by nobody here.
#[derive(Serialize)]
struct Settings {
    max_wait_s: Option<u32>,
    wait_after_run_s: Option<u32>,
    wait_per_stable_check_loop_s: Option<u32>,
    tolerance: Option<f64>,
    measurement_interval_s: f64,
    cpu_std_to_mean: Option<f64>,
    ram_std_to_mean: Option<f64>,
    gpu_std_to_mean: Option<f64>,
    check_last_n_points: Option<u32>,
    cpu_max_temp: Option<f64>,
    gpu_max_temp: Option<f64>,
    cpu_temperature_interval_s: Option<f64>,
    tool: String,
    command: Vec<String>,
    sampling_hz: u32,
    view: &'static str,
    idle: &'static str,
    attribution: &'static str,
}

/// What the call was charged with, with all that it calls, above idle.
#[derive(Serialize)]
struct EnergyLine {
    cpu_j: f64,
    ram_j: f64,
    gpu_j: f64,
    ci95_j: Option<[f64; 2]>,
    quality: Option<&'static str>,
    cpu_seconds: f64,
    samples: u64,
    /// Calls of this API by whomever, where they were counted.
    calls_of_api: Option<u64>,
}

impl Export<'_> {
    fn entry(&self, site: &Site) -> BTreeMap<String, Entry> {
        let clock = Clock::of(self.profile, self.over_time);
        let gpu = tables::of_gpu(self.profile, self.over_time, &self.gauges, site);
        let of = |class| tables::of_class(self.profile, self.over_time, site, class);
        let entry = Entry {
            times: times(site, &clock, gpu.is_some()),
            energy_data: EnergyData { cpu: of(DomainClass::Package), ram: of(DomainClass::Dram), gpu },
            cpu_temperatures: tables::of_temperatures(&self.gauges, site, &clock),
            settings: self.settings(),
            input_sizes: self.sizes.line(site),
            project_metadata: ProjectLine::of(self.profile, site),
            energy: self.energy(site),
        };
        // Constructors have their brackets.
        let name = format!("{}()", site.api.trim_end_matches("()"));
        BTreeMap::from([(name, entry)])
    }

    fn settings(&self) -> Settings {
        let header = &self.profile.run.header;
        Settings {
            max_wait_s: None,
            wait_after_run_s: None,
            wait_per_stable_check_loop_s: None,
            tolerance: None,
            measurement_interval_s: self.over_time.bins.width_ns() as f64 / 1e9,
            cpu_std_to_mean: None,
            ram_std_to_mean: None,
            gpu_std_to_mean: None,
            check_last_n_points: None,
            cpu_max_temp: None,
            gpu_max_temp: None,
            cpu_temperature_interval_s: self.profile.run.sensor_cost.map(|_| tables::SENSOR_INTERVAL_S),
            tool: format!("energy-trace {}", header.version),
            command: header.command.clone(),
            sampling_hz: header.sample_hz,
            view: self.profile.options.view.name(),
            idle: self.profile.options.accounting.idle.name(),
            attribution: self.profile.options.accounting.method.name(),
        }
    }

    fn energy(&self, site: &Site) -> EnergyLine {
        let total = &site.row.spent.total;
        let joules = |class| total.energy[class].as_joules();
        let ends = |(low, high): (MicroJoules, MicroJoules)| [low.as_joules(), high.as_joules()];
        let choice = run::headline(self.profile);
        // Of a model's joules an interval would be about the watts of functions, while the time is known.
        let is_counted = !run::is_modelled(self.profile, choice);
        EnergyLine {
            cpu_j: joules(DomainClass::Package),
            ram_j: joules(DomainClass::Dram),
            gpu_j: joules(DomainClass::Gpu),
            ci95_j: site.row.uncertainty.as_ref().filter(|_| is_counted).map(|of| ends(of.ci95)),
            quality: run::quality(self.profile, choice).map(run::quality_word),
            cpu_seconds: total.time_ns as f64 / 1e9,
            samples: total.samples,
            calls_of_api: self.calls.get(&site.api).map(|made| made.calls),
        }
    }
}

fn times(site: &Site, clock: &Clock, has_gpu: bool) -> Times {
    let [start, end] = [site.window.0, site.window.1];
    let [start_s, end_s] = [start, end].map(|at| clock.elapsed_s(at));
    let gpu = |value: f64| has_gpu.then_some(value);
    Times {
        start_time_execution: clock.unix_ns(start),
        end_time_execution: clock.unix_ns(end),
        start_time_perf: start_s,
        end_time_perf: end_s,
        sys_start_time_perf: clock.start_unix_ns(),
        start_time_nvidia: gpu(start_s),
        end_time_nvidia: gpu(end_s),
        sys_start_time_nvidia: has_gpu.then(|| clock.start_unix_ns()),
        begin_stable_check_time: None,
        begin_temperature_check_time: None,
    }
}
