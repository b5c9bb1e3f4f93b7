//! `cargo xtask fleet-prometheus`: Debian's Prometheus, unpacked into the cache folder, scrapes an agent on simulated power beside containers of
//! Debian's `runc`, and is asked for the sum rule; before, the agent runs from its image, as its DaemonSet has it.
//!
//! Not part of `cargo xtask test`: it fetches 22 MB and watches for more than a minute. What is checked is a test of its own
//! (`tests/live/agent_prometheus.rs`, `agent_image.rs`).

use crate::command::run;
use crate::private_apt::{BOOKWORM, PrivateApt};
use crate::product::{Compiled, build_probes, ignored_test};
use crate::setup::Purpose;
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;

pub(crate) fn task(workspace: &Workspace) -> Result<()> {
    let folder = workspace.tools().join("prometheus");
    let root = folder.join("root");
    let log = workspace.log();
    let apt = PrivateApt { folder: &folder, target: Target::of_machine(), sources: BOOKWORM, log: &log };
    for (package, program) in [("prometheus", "usr/bin/promtool"), ("runc", "usr/sbin/runc")] {
        if !root.join(program).exists() {
            eprintln!("fleet-prometheus: Debian's {package} into {}", folder.display());
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            apt.unpack_alone(package, &root)?;
        }
    }
    build_probes(workspace, Purpose::Build)?;
    for name in ["agent_image::daemon_set", "agent_prometheus::sum_rule"] {
        let mut test = ignored_test(workspace, Compiled::Debug, "live", name)?;
        run(test.env("ENERGY_TRACE_PROMETHEUS", &root))?;
    }
    Ok(())
}
