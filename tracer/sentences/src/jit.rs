//! What is said of code that programs made at run time without writing names of it: how each kind of program is asked for them.
//!
//! Leaves out where names are looked for (`naming::jit` of the product). Tried with Node 20, Java 17, Mono 6.8 and PHP 8.2; the others by their documentation.

use super::percent_of;
use energy_trace_model::recording::synthetic_frame::jit_without_name;

const NODE: &str = "node --perf-basic-prof";
const JAVA: &str = "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit";
const MONO: &str = "mono --jitmap";
const DOTNET: &str = "DOTNET_PerfMapEnabled=1 dotnet";
const PHP: &str = "php -d opcache.jit_debug=16";
const RUBY: &str = "ruby --yjit-perf";
const ONEDNN: &str = "energy-trace record --jit-names";

/// How a program, or the library that makes its code, is asked for names, by the beginning of its file's name.
const ASKED_BY: [(&str, &str); 17] = [
    ("node", NODE),
    ("libnode", NODE),
    ("java", JAVA),
    ("libjvm", JAVA),
    ("mono", MONO),
    ("libmono", MONO),
    ("dotnet", DOTNET),
    ("libcoreclr", DOTNET),
    ("php", PHP),
    ("opcache", PHP),
    ("ruby", RUBY),
    ("libruby", RUBY),
    ("python", ONEDNN),
    ("libtorch", ONEDNN),
    ("libtensorflow", ONEDNN),
    ("libdnnl", ONEDNN),
    ("libonnxruntime", ONEDNN),
];

fn asked_by(program: &str) -> Option<&'static str> {
    ASKED_BY.iter().find(|(start, _)| program.starts_with(start)).map(|(_, how)| *how)
}

/// In whole.
pub(super) fn jit_not_named(programs: &[(String, u64)], of_ns: u64) -> String {
    let which: Vec<String> =
        programs.iter().map(|(program, ns)| format!("{program} {}", percent_of(*ns, of_ns))).collect();
    let rows: Vec<String> =
        programs.iter().map(|(program, _)| format!("`{}`", jit_without_name(program))).collect();
    let ways: Vec<String> =
        programs.iter().filter_map(|(program, _)| asked_by(program)).map(|how| format!("`{how}`")).collect();
    let how = if ways.is_empty() {
        "let the program write a perf map (/tmp/perf-PID.map) or a jitdump, if it can".to_owned()
    } else {
        format!("record it as {}", ways.join(", "))
    };
    format!(
        "functions that a program compiles while it runs have no names here and share one row, {} ({} of the CPU time); the joules are right; \
         for names, {how}",
        rows.join(", "),
        which.join(", ")
    )
}

/// In one line.
pub(super) fn jit_in_brief(programs: &[(String, u64)], of_ns: u64) -> String {
    let Some((program, ns)) = programs.first() else { return String::new() };
    let share = percent_of(*ns, of_ns);
    match asked_by(program) {
        Some(how) if how.len() < 27 => {
            format!("{share} of the time is functions without names: try {how}")
        }
        _ => format!("{share} of the time is functions of {program} without names"),
    }
}

#[cfg(test)]
mod tests {
    use super::{jit_in_brief, jit_not_named};

    /// Each program is asked in its own way, by the beginning of its name; one that is not known, in a way for all. A line fits a terminal.
    #[test]
    fn each_is_asked_in_its_way() {
        let of = |program: &str| jit_not_named(&[(program.to_owned(), 1)], 4);
        assert!(of("mono-sgen").ends_with("for names, record it as `mono --jitmap`"));
        assert!(of("php8.2").contains("(php8.2 25.0 % of the CPU time)"));
        assert!(of("luajit").contains("/tmp/perf-PID.map"));
        assert!(of("libjvm.so").ends_with("-XX:+DumpPerfMapAtExit`"));
        let programs = ["node", "java", "mono-sgen", "dotnet", "php8.2", "luajit", "python3.11"];
        for program in programs.into_iter().chain(["libtensorflow_framework.so.2", "libjvm.so"]) {
            let line = jit_in_brief(&[(program.to_owned(), 1)], 1);
            assert!(line.len() <= 78, "{line}");
        }
    }
}
