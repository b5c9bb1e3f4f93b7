//! A C program whose stack is as deep as one asks: functions that call each other, each with a frame of its own size.
//!
//! Real stacks go through many functions, and so does this one: a recursion would need one row of the unwind tables and one return
//! address. Built as a program (`chain FRAMES SECONDS`) and as a library (`descend(frames, seconds)`, for ctypes).

use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::run;

/// The deepest chain.
pub(crate) const LONGEST: usize = 400;

/// What was built.
pub(crate) struct Chain {
    /// The program.
    pub(crate) program: PathBuf,
    /// The same functions as a library.
    pub(crate) library: PathBuf,
}

/// Writes and compiles both into `folder`.
pub(crate) fn build(folder: &Path) -> Result<Chain> {
    build_with("cc", &[], folder)
}

/// The same with a compiler for another processor, and words of its own.
pub(crate) fn build_with(compiler: &str, words: &[&str], folder: &Path) -> Result<Chain> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let source = folder.join("chain.c");
    fs::write(&source, write_source()).with_context(|| format!("cannot write {}", source.display()))?;
    let chain = Chain { program: folder.join("chain"), library: folder.join("libchain.so") };
    let compile = |flags: &[&str], out: &Path| {
        run(Command::new(compiler).arg("-O2").args(words).args(flags).arg("-o").arg(out).arg(&source))
    };
    compile(&[], &chain.program)?;
    compile(&["-shared", "-fPIC"], &chain.library)?;
    Ok(chain)
}

/// The name of the function at a depth, the outermost being 0; `burn` is below all of them.
pub(crate) fn function(depth: usize) -> String {
    format!("link{depth}")
}

/// The program's text. Sizes of frames and saved registers vary as compilers' do, from a few words to two hundred bytes.
fn write_source() -> String {
    let mut text = String::from(
        "#include <stdlib.h>\n#include <time.h>\n\
         static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }\n\
         __attribute__((noinline, noclone)) long burn(double until) {\n\
         \x20 volatile long x = 1;\n\
         \x20 while (now() < until) for (int i = 0; i < 400000; i++) x = x * 3 + i;\n\
         \x20 return x;\n}\n",
    );
    for depth in (0..LONGEST).rev() {
        let words = 1 + depth * 7 % 13;
        let kept: Vec<usize> = (0..depth % 5).collect();
        let declare: String = kept.iter().fold(String::new(), |mut text, k| {
            let _ = write!(text, " long v{k} = left * {};", k + 3);
            text
        });
        let used: String = kept.iter().fold(String::new(), |mut text, k| {
            let _ = write!(text, " + v{k}");
            text
        });
        let deeper = match depth + 1 {
            LONGEST => "burn(until)".to_owned(),
            next => format!("left > 1 ? {}(left - 1, until) : burn(until)", function(next)),
        };
        let _ = writeln!(
            text,
            "__attribute__((noinline, noclone)) long {}(long left, double until) {{ volatile long keep[{words}]; keep[0] = left;{declare} \
             long r = {deeper}; return r + keep[0]{used}; }}",
            function(depth)
        );
    }
    let first = function(0);
    let _ = writeln!(
        text,
        "long descend(long frames, double seconds) {{ double until = now() + seconds; return frames > 0 ? {first}(frames, until) : burn(until); }}\n\
         int main(int count, char **words) {{ return count != 3 || descend(atol(words[1]), atof(words[2])) == 1; }}"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::build_with;
    use std::process::Command;

    /// The program compiles, goes as deep as it can and comes back. Not optimised: in a tenth of the time.
    #[test]
    fn the_deepest_chain_runs() {
        let folder = tempfile::tempdir().unwrap();
        let chain = build_with("cc", &["-O0"], folder.path()).unwrap();
        let mut command = Command::new(&chain.program);
        assert!(command.args([super::LONGEST.to_string(), "0.01".to_owned()]).status().unwrap().success());
        assert!(chain.library.exists());
    }
}
