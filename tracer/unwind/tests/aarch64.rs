//! aarch64's rules for return addresses, built without the rest of the package: on any machine with `--cfg bpf_target_arch="aarch64"`
//! (`cargo xtask test`). The tests are those at the foot of the files.
#![cfg(bpf_target_arch = "aarch64")]
#![allow(dead_code, unused_imports, reason = "the rest of the package uses them")]

#[path = "../src/arch/mod.rs"]
mod arch;
#[path = "../src/code_rule.rs"]
mod code_rule;
