//! Sentences for what meters and sources of power showed, each with what to do about it.

use super::{counted, in_percent};
use energy_trace_model::recording::record::{CounterKind, GpuFeature, PowerDiagnostic};

/// What is so, without what to do about it.
pub fn power_fact(found: &PowerDiagnostic) -> String {
    match found {
        PowerDiagnostic::GpuMig { domain } => format!("{domain}: {MIG}"),
        PowerDiagnostic::GpuVirtual { domain } => format!("{domain}: {VIRTUAL}"),
        PowerDiagnostic::GpuModule { domain } => format!("{domain}: {MODULE}"),
        PowerDiagnostic::GpuNoCounter { domain } => format!("{domain}: {NO_COUNTER}"),
        PowerDiagnostic::GpuAveragedPower { domain } => format!("{domain}: {AVERAGED}"),
        PowerDiagnostic::GpuUtilization { domain } => format!("{domain}: {UTILIZATION}"),
        PowerDiagnostic::GpuUnsupported { domain, missing } => {
            let missing: Vec<&str> = missing.iter().map(|feature| name_feature(*feature)).collect();
            format!("{domain}: not offered here: {}; what depends on it is left out", missing.join(", "))
        }
        PowerDiagnostic::GpuLost { domain } => format!("{domain}: {LOST}"),
        PowerDiagnostic::GpuCounterReset { domain, from_j, to_j, times } => format!(
            "{domain}: its counter went back from {from_j} to {to_j} J ({} in all): the driver was reloaded or the device \
             reset; the energy between the two readings is a gap in the ledger",
            counted(*times, "time")
        ),
        PowerDiagnostic::GpuSensorsDisagree { domain, permille, counter } => {
            sensors_disagree(domain, in_percent(*permille), *counter)
        }
        PowerDiagnostic::SourcesDisagree { domain, permille } => format!(
            "{domain}: perf differs from powercap by {:+.1} %, as compared before the start",
            in_percent(*permille)
        ),
        PowerDiagnostic::ReadFailed { domain, failed, readings, error } => {
            format!("{domain}: {failed} of {readings} readings failed ({error})")
        }
        PowerDiagnostic::ReaderDied { error } => format!("a power reader ended early: {error}"),
        PowerDiagnostic::ReplayChanged { error } => format!("{error}; what it held at the start is used"),
        PowerDiagnostic::ReplayDoesNotCover { path } => {
            format!("{path} does not cover the whole run: nothing is known of the energy outside its rows")
        }
    }
}

/// What to do about it, where there is something to do that the fact does not say.
pub const fn advice(found: &PowerDiagnostic) -> Option<&'static str> {
    match found {
        PowerDiagnostic::GpuMig { .. } => Some("for joules of one instance, keep the others idle"),
        PowerDiagnostic::GpuVirtual { .. } => {
            Some("measure on the host, or on a machine with the whole device")
        }
        PowerDiagnostic::GpuModule { .. } => Some("read CPU and memory too, or they are in it"),
        PowerDiagnostic::GpuNoCounter { .. } | PowerDiagnostic::GpuUtilization { .. } => {
            Some("--measured-only leaves such devices out")
        }
        PowerDiagnostic::GpuAveragedPower { .. } => {
            Some("compare long runs, or use a newer driver, which may have field 186")
        }
        PowerDiagnostic::GpuUnsupported { .. } => {
            Some("run as root, or use a newer driver; MIG and virtual GPUs do not have it")
        }
        PowerDiagnostic::SourcesDisagree { .. } => {
            Some("one of the two drivers has the wrong unit; --power perf reads the other one")
        }
        _ => None,
    }
}

const MIG: &str = "MIG is on, and NVIDIA gives energy for the whole device only: the joules of all instances are in one number";
const VIRTUAL: &str = "this is a virtual GPU: what it says of energy and power is the host's, if anything";
const MODULE: &str = "counts its whole module: what else was read of that is taken off";
const NO_COUNTER: &str = "it has no energy counter: its joules are a sum of power readings, an estimate";
const AVERAGED: &str = "it has no energy counter, and its power is a mean over a second: do not trust joules of functions that run for \
                        less";
const UTILIZATION: &str = "it has no energy counter and no power: its joules are the time that it was busy times its power limit, an estimate \
                           that may be 0.2 to 1 times that, without what it draws at rest";
const LOST: &str = "the device fell off the bus during the run; its energy from then on is unknown and in no number (the driver's \
                    reason is in `dmesg`, as an Xid)";

const fn name_feature(feature: GpuFeature) -> &'static str {
    match feature {
        GpuFeature::InstantPower => "instant power (field 186)",
        GpuFeature::PowerSamples => "the driver's power samples",
        GpuFeature::ProcessUtilization => "utilisation by process",
    }
}

fn sensors_disagree(domain: &str, percent: f64, counter: CounterKind) -> String {
    match counter {
        CounterKind::Counter => format!(
            "{domain}: the counter differs from the device's own power by {percent:+.0} %: one of them is wrong, and the counter is used"
        ),
        CounterKind::Accumulator => format!(
            "{domain}: its energy accumulator differs from its own power by {percent:+.0} %: on some boards it stands still or has \
             another unit, so do not trust its joules"
        ),
    }
}
