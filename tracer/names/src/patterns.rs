//! Patterns of functions' names, in which `*` stands for any characters, as users type them for calls that are counted.
//!
//! Leaves out what is typed beside a pattern (`@LIBRARY`).

/// A part of a name whose parentheses hold no parameters.
const NAMESPACE: &str = "(anonymous namespace)";

/// The name without parameters; `None` for what is inside a function: a lambda, a static variable's guard.
pub fn bare(name: &str) -> Option<&str> {
    if name.contains("{lambda") || name.replace(NAMESPACE, "").contains(")::") {
        return None;
    }
    let Some(open) = parameters_of(name) else { return Some(name) };
    let rest = name.rsplit_once(')').map_or("", |(_, rest)| rest);
    (rest.is_empty() || rest == " const").then(|| name.get(..open)).flatten()
}

/// Where the parameters in a name begin.
pub(crate) fn parameters_of(name: &str) -> Option<usize> {
    // The parentheses of `operator()` are part of the name.
    let from = name.find("operator()").map_or(0, |at| at + "operator()".len());
    let behind = name.get(from..)?;
    let mut open = behind.match_indices('(').map(|(at, _)| at);
    let open = open.find(|&at| !behind.get(at..).is_some_and(|rest| rest.starts_with(NAMESPACE)))?;
    Some(from + open)
}

/// Whether the parts stand in the text in their order, the first at its begin and the last at its end.
pub fn glob(parts: &[&str], text: &str) -> bool {
    let Some((first, rest)) = parts.split_first() else { return false };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let Some((last, middle)) = rest.split_last() else { return text.is_empty() };
    for part in middle {
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::{bare, glob};

    /// Parentheses of an operator and of a namespace without a name are no parameters.
    #[test]
    fn names_without_parameters() {
        assert_eq!(bare("main"), Some("main"));
        assert_eq!(bare("a::f(int, g(*)(int)) const"), Some("a::f"));
        assert_eq!(bare("at::(anonymous namespace)::f(int)"), Some("at::(anonymous namespace)::f"));
        assert_eq!(bare("a::B::operator()(int) const"), Some("a::B::operator()"));
        assert_eq!(bare("a::f(int)::{lambda(int)#1}::operator()(int) const"), None);
        assert_eq!(bare("a::f(int)::B::operator()(int)"), None);
        assert_eq!(bare("guard variable for a::f(int)::names"), None);
    }

    /// A star stands for any characters, none among them; parts come in their order.
    #[test]
    fn stars() {
        let is_like = |pattern: &str, text: &str| glob(&pattern.split('*').collect::<Vec<_>>(), text);
        assert!(
            is_like("a*c", "abc") && is_like("a*c", "ac") && is_like("*", "") && is_like("a*b*c", "a1b2c")
        );
        assert!(!is_like("a*c", "ab") && !is_like("", "a") && !is_like("a*b*c", "acb"));
    }
}
