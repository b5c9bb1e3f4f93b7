//! Foreign text in Markdown and LaTeX. Leaves out HTML (`page`).

use energy_trace_names::shown::shown;

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
    for letter in shown(text).replace("Â12", "Â").chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => safe.extend(['\\', letter]),
            '\\' => safe.push_str("\\textbackslash{}"),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            'Â' => safe.push_str("$\\hat{A}_{12}$"),
            'ρ' => safe.push_str("$\\rho$"),
            'µ' => safe.push_str("$\\mu$"),
            '²' => safe.push_str("$^2$"),
            '°' => safe.push_str("$^\\circ$"),
            '→' => safe.push_str("$\\to$"),
            '×' => safe.push_str("$\\times$"),
            '…' => safe.push_str("\\ldots{}"),
            '∿' => safe.push_str("$\\sim$"),
            // Two of them would be a dash.
            '-' if safe.ends_with('-') => safe.push_str("{}-"),
            // What is another letter in the old font encoding, and what may not stand behind the end of a row.
            '|' => safe.push_str("\\textbar{}"),
            '[' | ']' | '*' => safe.extend(['{', letter, '}']),
            '±' => safe.push_str("$\\pm$"),
            '–' => safe.push_str("--"),
            '<' => safe.push_str("$<$"),
            '>' => safe.push_str("$>$"),
            _ => safe.push(letter),
        }
    }
    safe
}

/// Letters in a line of a head that has several: a table of many columns has to fit on a page.
const HEAD_WIDTH: usize = 9;

/// The head of a column, in a line for each part of it, and more where parts are long.
pub(super) fn latex_head(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split(", ") {
        let mut words = part.split(' ');
        lines.extend(words.next().map(str::to_owned));
        for word in words {
            match lines.last_mut() {
                Some(line) if line.chars().count() + word.chars().count() < HEAD_WIDTH => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
    }
    let lines: Vec<String> = lines.iter().map(|line| in_latex(line)).collect();
    if let [line] = &lines[..] { line.clone() } else { format!("\\shortstack[r]{{{}}}", lines.join("\\\\")) }
}

#[cfg(test)]
mod tests {
    use super::{in_latex, latex_head};

    /// What LaTeX would take for its own is written as the letter that it is; a row can begin with anything.
    #[test]
    fn letters_of_latex() {
        assert_eq!(in_latex("a_b & 5 % {x}"), "a\\_b \\& 5 \\% \\{x\\}");
        assert_eq!(
            in_latex("[own code] --power 3 µJ ±1 Â12 <m>"),
            "{[}own code{]} -{}-power 3 $\\mu$J $\\pm$1 $\\hat{A}_{12}$ $<$m$>$"
        );
        assert_eq!(in_latex("1.1–1.2"), "1.1--1.2");
        assert_eq!(latex_head("time s, loop"), "\\shortstack[r]{time s\\\\loop}");
        assert_eq!(latex_head("busy CPUs"), "busy CPUs");
        let long = "\\shortstack[r]{median\\\\one call\\\\of work J\\\\a}";
        assert_eq!(latex_head("median one call of work J, a"), long);
        assert_eq!(latex_head("p (Holm)"), "p (Holm)");
    }
}
