//! What an agent says of its own cost, in millionths of the machine's CPU time.

use super::counted;

/// It takes more than it may, and samples less often.
pub fn slower_agent(share: u32, most: u32, hz: u32) -> String {
    let (taken, most, samples) = (percent(share), percent(most), counted(hz.into(), "sample"));
    format!(
        "the agent takes {taken} of the machine's CPU time, more than {most}: {samples} a second on each CPU from now on"
    )
}

/// It takes far less, and samples more often again.
pub fn faster_agent(share: u32, hz: u32) -> String {
    let (taken, samples) = (percent(share), counted(hz.into(), "sample"));
    format!("the agent takes {taken} of the machine's CPU time: {samples} a second on each CPU again")
}

/// It takes more than it may at its lowest rate.
pub fn costly_agent(share: u32, most: u32, hz: u32) -> String {
    let (taken, most, samples) = (percent(share), percent(most), counted(hz.into(), "sample"));
    format!(
        "the agent takes {taken} of the machine's CPU time at its lowest rate, {samples} a second on each CPU: more than {most}; \
         --power-hz 2 makes it cheaper, --own-cpu allows more"
    )
}

/// The kernel does not say what its BPF programs take.
pub const fn unknown_programs() -> &'static str {
    "the CPU time of the agent's BPF programs is not known, as the kernel tells it to CAP_SYS_ADMIN alone, from Linux 5.8 on: --own-cpu \
     limits the agent's processes without them, and energy_trace_agent_bpf_seconds_total and _cpu_ratio are not on the page; \
     give it that capability to have both"
}

/// `2.3 %`, `0.040 %`.
fn percent(millionths: u32) -> String {
    let digits = if millionths < 1_000 { 3 } else { 1 };
    format!("{:.digits$} %", f64::from(millionths) / 1e4)
}
