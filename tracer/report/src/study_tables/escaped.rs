//! Foreign text in Markdown and LaTeX. Leaves out HTML (`page`).

use crate::shown::shown;

/// Names may hold what Markdown takes for its own.
pub(super) fn in_markdown(text: &str) -> String {
    let mut safe = String::new();
    for letter in shown(text).chars() {
        if matches!(letter, '|' | '*' | '_' | '`' | '<' | '[' | ']' | '\\' | '#') {
            safe.push('\\');
        }
        safe.push(letter);
    }
    safe
}

/// The same of LaTeX.
pub(super) fn in_latex(text: &str) -> String {
    let mut safe = String::new();
    for letter in shown(text).chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => safe.extend(['\\', letter]),
            '\\' => safe.push_str("\\textbackslash{}"),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            'Â' => safe.push_str("\\^A"),
            'ρ' => safe.push_str("$\\rho$"),
            '²' => safe.push_str("$^2$"),
            '±' => safe.push_str("$\\pm$"),
            '–' => safe.push_str("--"),
            '<' => safe.push_str("$<$"),
            '>' => safe.push_str("$>$"),
            _ => safe.push(letter),
        }
    }
    safe
}
