//! Asks blazesym for names.
//!
//! Leaves out which file is asked (`places.rs`) and what stands for a name that was not found (`naming/`).

use super::{Detail, Place};
use blazesym::symbolize::source::Source;
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};
use energy_trace_model::recording::names::{cut, cut_of};
use energy_trace_model::recording::record::Name;
use std::path::Path;

/// A symbolizer for one file: what it caches is let go with it.
pub(super) fn symbolizer(detail: Detail) -> Symbolizer {
    Symbolizer::builder()
        .enable_code_info(detail.inlines)
        .enable_inlined_fns(detail.inlines)
        .enable_demangling(false)
        // Debug files are looked for, and checked, in `debug_file.rs`.
        .set_debug_dirs(None::<[&Path; 0]>)
        .build()
}

/// Asks for all places at once; `None` where the source cannot be read.
pub(super) fn look_up(
    symbolizer: &Symbolizer,
    source: &Source<'_>,
    places: Input<&[u64]>,
) -> Option<Vec<Place>> {
    let found = symbolizer.symbolize(source, places);
    let found = found.inspect_err(|error| log::debug!("no symbols: {error:#}")).ok()?;
    Some(found.iter().map(|found| found.as_sym().map(Place::of).unwrap_or_default()).collect())
}

impl Place {
    /// What the symbolizer says.
    fn of(symbol: &Sym<'_>) -> Self {
        let inlined = symbol.inlined.iter().map(|i| name(&i.name, i.code_info.as_ref()));
        Self {
            name: Some(name(&symbol.name, symbol.code_info.as_deref())),
            inlined: inlined.collect(),
            start: None,
        }
    }
}

/// A name as it is shown.
pub(super) fn name(name: &str, code: Option<&CodeInfo<'_>>) -> Name {
    let file = code.map(|code| code.to_path().to_string_lossy().into_owned()).unwrap_or_default();
    let line = code.and_then(|code| code.line).unwrap_or(0);
    // A line without its file says nothing.
    let line = if file.is_empty() { 0 } else { line };
    Name { name: cut_of(&demangled(name)).into_owned(), file: cut(file), line }
}

/// A Rust or C++ symbol as its name stands in the source. Others are as they are: `f` is C's own, and no `float`.
fn demangled(symbol: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return format!("{name:#}");
    }
    let is_mangled = ["_Z", "_GLOBAL_"].iter().any(|begin| symbol.starts_with(begin));
    let name = is_mangled.then(|| cpp_demangle::Symbol::new(symbol).ok()?.demangle().ok()).flatten();
    name.unwrap_or_else(|| symbol.to_owned())
}

#[cfg(test)]
mod tests {
    use super::demangled;

    /// Rust's and C++'s names are those of the source, and a C function whose name looks like a mangled type keeps it.
    #[test]
    fn names_of_languages() {
        let names =
            ["_RNvC5crate4spin", "_ZN4core3fmt5write17h0123456789abcdefE", "_ZN2at3addEv", "f", "ra", "t"];
        let sources = ["crate::spin", "core::fmt::write", "at::add()", "f", "ra", "t"];
        assert_eq!(names.map(demangled), sources);
    }
}
