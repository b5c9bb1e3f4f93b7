//! Tells the tests where the product is: cargo does so in the package of the product only.
//!
//! Leaves out building it: `cargo build` does, and `Place::new` refuses one that is older than what it was made of.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    // target/debug/build/test-programs-…/out
    let profile = out.ancestors().nth(3).unwrap_or(Path::new("."));
    println!("cargo::rustc-env=CARGO_BIN_EXE_energy-trace={}", profile.join("energy-trace").display());
}
