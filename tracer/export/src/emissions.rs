//! One line of CodeCarbon's `emissions.csv` (columns of its version 3.3.2): the program's energy in kWh, and with the grid's carbon intensity
//! its emissions in kg of CO₂ equivalent.
//!
//! What nobody told stays empty: emissions without an intensity, places, clouds, water, memory. Nothing is guessed. `experiment_id` says where the
//! energy comes from. Leaves out the energy of making and cooling machines.

use super::{ExportOptions, Input};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown;
use energy_trace_report::csv_cells::Cells;
use energy_trace_report::run;
use energy_trace_report::table_details::runtimes;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

/// CodeCarbon's columns, in its order.
const COLUMNS: [&str; 38] = [
    "timestamp",
    "project_name",
    "run_id",
    "experiment_id",
    "duration",
    "emissions",
    "emissions_rate",
    "cpu_power",
    "gpu_power",
    "ram_power",
    "cpu_energy",
    "gpu_energy",
    "ram_energy",
    "energy_consumed",
    "water_consumed",
    "country_name",
    "country_iso_code",
    "region",
    "cloud_provider",
    "cloud_region",
    "os",
    "python_version",
    "codecarbon_version",
    "cpu_count",
    "cpu_model",
    "gpu_count",
    "gpu_model",
    "longitude",
    "latitude",
    "ram_total_size",
    "tracking_mode",
    "cpu_utilization_percent",
    "gpu_utilization_percent",
    "ram_utilization_percent",
    "ram_used_gb",
    "on_cloud",
    "pue",
    "wue",
];

const UJ_PER_KWH: f64 = 3.6e12;

pub(super) fn write(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let mut writer = Cells::new(out);
    writer.line(COLUMNS)?;
    let line = Line { profile: input.profile, mg_per_kwh: options.grid_mg_per_kwh };
    writer.line(COLUMNS.map(|column| line.cell(column).unwrap_or_default()))?;
    writer.flush()
}

struct Line<'a> {
    profile: &'a Profile,
    mg_per_kwh: Option<u64>,
}

impl Line<'_> {
    /// What a column holds; `None`: nobody knows.
    fn cell(&self, column: &str) -> Option<String> {
        let run = &self.profile.run;
        let header = &run.header;
        let text = |text: &str| (!text.is_empty()).then(|| shown(text).into_owned());
        match column {
            "timestamp" => Some(self.end()),
            "project_name" => Some(shown(&run::what_was_recorded(self.profile)).into_owned()),
            "experiment_id" => Some(format!("energy-trace: {}", self.quality())),
            "duration" => Some(self.seconds().to_string()),
            "emissions" => self.emissions().map(|kg| kg.to_string()),
            "emissions_rate" => self.emissions().map(|kg| (kg / self.seconds().max(1e-9)).to_string()),
            "cpu_power" => self.power(DomainClass::Package),
            "gpu_power" => self.power(DomainClass::Gpu),
            "ram_power" => self.power(DomainClass::Dram),
            "cpu_energy" => self.energy(DomainClass::Package).map(in_kwh),
            "gpu_energy" => self.energy(DomainClass::Gpu).map(in_kwh),
            "ram_energy" => self.energy(DomainClass::Dram).map(in_kwh),
            "energy_consumed" => self.all().map(in_kwh),
            "os" => text(&header.kernel).map(|kernel| format!("Linux-{kernel}")),
            "python_version" => match runtimes(self.profile).as_slice() {
                [only] => only.strip_prefix("CPython ").and_then(text),
                _ => None,
            },
            "cpu_count" => Some(header.sockets.len().to_string()),
            "cpu_model" => text(&header.cpu_model),
            "gpu_count" => {
                self.energy(DomainClass::Gpu).map(|_| self.domains(DomainClass::Gpu).count().to_string())
            }
            "tracking_mode" => Some("process".to_owned()),
            _ => None,
        }
    }

    /// The end of the run, as CodeCarbon writes it, in UTC.
    fn end(&self) -> String {
        let run = &self.profile.run;
        let unix = UNIX_EPOCH + Duration::from_nanos(run.header.anchor.unix_ns_of(run.end));
        humantime::format_rfc3339_seconds(unix).to_string().trim_end_matches('Z').to_owned()
    }

    fn seconds(&self) -> f64 {
        self.profile.run.duration_ns() as f64 / 1e9
    }

    fn quality(&self) -> &'static str {
        run::split_quality(self.profile, run::headline(self.profile))
            .map_or("no energy was recorded", run::quality_word)
    }

    fn domains(&self, class: DomainClass) -> impl Iterator<Item = MicroJoules> {
        self.profile.ledger.iter().filter(move |row| row.class == class).map(|row| row.target)
    }

    /// What the program was charged with of a class; `None` without such a domain.
    fn energy(&self, class: DomainClass) -> Option<MicroJoules> {
        self.domains(class).next()?;
        Some(self.domains(class).sum())
    }

    fn power(&self, class: DomainClass) -> Option<String> {
        self.energy(class).map(|energy| (energy.as_joules() / self.seconds().max(1e-9)).to_string())
    }

    fn all(&self) -> Option<MicroJoules> {
        run::split_quality(self.profile, run::headline(self.profile))?;
        Some(run::target(self.profile, run::headline(self.profile)))
    }

    /// Kilograms of CO₂ equivalent.
    fn emissions(&self) -> Option<f64> {
        let kwh = self.all()?.as_uj() as f64 / UJ_PER_KWH;
        Some(kwh * self.mg_per_kwh? as f64 / 1e6)
    }
}

fn in_kwh(energy: MicroJoules) -> String {
    (energy.as_uj() as f64 / UJ_PER_KWH).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::{ExportOptions, Input};
    use crate::tests::training_runs::estimated_training;
    use std::collections::BTreeMap;

    fn cells(grid_mg_per_kwh: Option<u64>) -> BTreeMap<String, String> {
        let profile = estimated_training();
        let mut out = Vec::new();
        let input = Input { profile: &profile, over_time: None, bins: 0..0 };
        super::write(&mut out, &input, &ExportOptions { grid_mg_per_kwh, ..ExportOptions::default() })
            .unwrap();
        let mut reader = csv::Reader::from_reader(out.as_slice());
        let heads = reader.headers().unwrap().clone();
        let line = reader.records().next().unwrap().unwrap();
        heads.iter().map(str::to_owned).zip(line.iter().map(str::to_owned)).collect()
    }

    /// 280.933467 J are 78.04 mWh; at 400 g a kWh that is 31.2 mg. What was not told is empty.
    #[test]
    fn units_of_codecarbon() {
        let cells = cells(Some(400_000));
        let number = |column: &str| cells[column].parse::<f64>().unwrap();
        let kwh = 280.933_467 / 3.6e6;
        for (column, wanted) in
            [("energy_consumed", kwh), ("cpu_energy", kwh), ("emissions", kwh * 0.4), ("duration", 20.0)]
        {
            assert!((number(column) / wanted - 1.0).abs() < 1e-9, "{column}: {}", cells[column]);
        }
        assert!((number("cpu_power") - 280.933_467 / 20.0).abs() < 1e-9);
        for empty in
            ["gpu_energy", "ram_energy", "country_name", "pue", "codecarbon_version", "water_consumed"]
        {
            assert_eq!(cells[empty], "", "{empty}");
        }
        assert_eq!(cells["experiment_id"], "energy-trace: estimated");
        assert_eq!(
            (cells["timestamp"].as_str(), cells["python_version"].as_str()),
            ("2026-08-01T12:00:20", "3.11.2")
        );
    }

    /// Without an intensity there are no emissions, rather than somebody's average.
    #[test]
    fn nothing_is_guessed() {
        let cells = cells(None);
        assert_eq!((cells["emissions"].as_str(), cells["emissions_rate"].as_str()), ("", ""));
        assert_ne!(cells["energy_consumed"], "");
    }
}
