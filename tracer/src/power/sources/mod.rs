//! The kinds of power source, one file or folder each: `powercap` (RAPL through sysfs), `perf` (RAPL through the kernel's PMUs), `hwmon`
//! (sensors), `nvml` (NVIDIA GPUs), `amdgpu` (AMD GPUs), `model` (no counter at all), `replay` (a log of another meter).
//!
//! `rapl_filter` says whether the processor blurs RAPL. Leaves out which of them a run takes (`set.rs`).

pub(super) mod amdgpu;
pub(super) mod hwmon;
pub(super) mod model;
pub(super) mod nvml;
pub(super) mod perf;
pub(super) mod powercap;
pub(super) mod rapl_filter;
pub(super) mod replay;
