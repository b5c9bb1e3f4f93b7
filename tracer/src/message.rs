//! Messages on stderr, `energy-trace: …`: in a terminal their lines are broken between words, elsewhere each is one line.
//!
//! Leaves out what has a layout of its own, as the first screen.

use energy_trace_names::lines_of;
use std::io::{self, Write as _};
use std::sync::OnceLock;

/// Terminals are not taken for narrower.
const NARROWEST: usize = 20;

/// Columns of the terminal; `None` where stderr is none. Asked once, before there are processes that may not ask.
static WIDTH: OnceLock<Option<usize>> = OnceLock::new();

/// Asks how wide the terminal is.
pub(crate) fn prepare() {
    width();
}

fn width() -> Option<usize> {
    let ask = || terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
    *WIDTH.get_or_init(ask)
}

/// Says it. A closed stderr is nobody's failure.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().write_all(laid_out(text, width()).as_bytes());
}

/// Lines that begin with spaces are to be typed, and stay whole, as all words do.
fn laid_out(text: &str, width: Option<usize>) -> String {
    let text = format!("energy-trace: {text}");
    let broken = |line: &str| match width.map(|width| width.max(NARROWEST)) {
        Some(width) if !line.starts_with(' ') => lines_of(line, width, width - 2).join("\n  "),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(broken).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::laid_out;

    /// No line of a message is wider than the terminal; what is to be typed stays whole, and so does all where there is no terminal.
    #[test]
    fn lines_of_a_message() {
        let long =
            "nothing is counted yet of calls:step: ".repeat(5) + "\n  run it with `" + &"x ".repeat(60);
        let whole = laid_out(&long, None);
        assert_eq!((whole.lines().count(), whole.as_str()), (2, &*format!("energy-trace: {long}\n")));
        let broken = laid_out(&long, Some(80));
        let (typed, sentence): (Vec<&str>, Vec<&str>) =
            broken.lines().partition(|line| line.contains("run it with"));
        assert_eq!(typed, [long.lines().last().unwrap()]);
        assert!(sentence.len() == 3 && sentence.iter().all(|line| line.chars().count() <= 80), "{broken}");
        assert!(sentence[1].starts_with("  "), "{broken}");
    }
}
