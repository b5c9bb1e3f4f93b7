//! Names of C++ and Rust functions without their template arguments: `std::vector<int, std::allocator<int>>` is `std::vector<…>`.
//!
//! Before anything is grouped. On request instances of one template become one function; else those of which a profile has several keep their
//! names. Leaves out Python's and the kernel's names, which have no templates.

use crate::patterns::parameters_of;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::FrameKind;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// A profile as it is, or one with short names for all native frames, as was chosen.
pub fn chosen(profile: &Profile, short: bool) -> Cow<'_, Profile> {
    if short { Cow::Owned(shortened(profile, |_| true)) } else { Cow::Borrowed(profile) }
}

/// A profile with short names for those native frames that are no other instance's.
pub fn unless_alike(profile: &Profile) -> Profile {
    let all: HashSet<&str> = profile.frames.iter().map(|frame| frame.name.as_str()).collect();
    let mut instances: HashMap<String, usize> = HashMap::new();
    all.into_iter().for_each(|name| *instances.entry(without_templates(name)).or_default() += 1);
    shortened(profile, |short| instances.get(short) == Some(&1))
}

fn shortened(profile: &Profile, is_wanted: impl Fn(&str) -> bool) -> Profile {
    let mut shortened = profile.clone();
    for frame in &mut shortened.frames {
        let has_templates = matches!(frame.kind, FrameKind::Native | FrameKind::Inlined | FrameKind::Gpu);
        let short = (has_templates && frame.name.contains('<')).then(|| without_templates(&frame.name));
        if let Some(short) = short.filter(|short| is_wanted(short)) {
            frame.name = short;
        }
    }
    shortened
}

/// The name as it is said in a sentence: without template arguments, parameters and `void`.
pub fn in_a_sentence(name: &str) -> String {
    let short = without_templates(name);
    let end = parameters_of(&short).filter(|at| *at > 0).unwrap_or(short.len());
    let bare = short.get(..end).unwrap_or(&short);
    bare.strip_prefix("void ").unwrap_or(bare).to_owned()
}

/// What may follow `operator` and is no template, the longest first.
const OPERATORS: [&str; 11] = ["<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"];

/// The name with the arguments of each template as `<…>`. What Rust writes in the same brackets, `<T as Trait>::f` and `<impl T>::f`, is
/// part of the name and stays, shortened itself. A name whose brackets do not match stays as it is.
fn without_templates(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    // Of each open bracket: whether what is in it is left out, and the parentheses that were open before it.
    let mut open: Vec<(bool, usize)> = Vec::new();
    let (mut hidden, mut parentheses) = (0_usize, 0_usize);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let operator = operator_at(name, rest);
        let token = operator.unwrap_or_else(|| &rest[..c.len_utf8()]);
        let before = &name[..name.len() - rest.len()];
        rest = &rest[token.len()..];
        match token {
            "<" if operator.is_none() => {
                let hides = is_template(before, rest);
                if hidden == 0 {
                    out.push_str(if hides { "<…" } else { "<" });
                }
                hidden += usize::from(hides);
                open.push((hides, parentheses));
            }
            // `->` in a type, and comparisons in parentheses, close nothing.
            ">" if operator.is_none()
                && !before.ends_with('-')
                && open.last().is_some_and(|&(_, outside)| outside == parentheses) =>
            {
                hidden -= usize::from(open.pop().is_some_and(|(hides, _)| hides));
                if hidden == 0 {
                    out.push('>');
                }
            }
            _ => {
                match token {
                    "(" => parentheses += 1,
                    ")" => parentheses = parentheses.saturating_sub(1),
                    _ => (),
                }
                if hidden == 0 {
                    out.push_str(token);
                }
            }
        }
    }
    if open.is_empty() { out } else { name.to_owned() }
}

/// The operator that `rest` begins with, where the word before it says that it is one.
fn operator_at<'a>(name: &str, rest: &'a str) -> Option<&'a str> {
    let before = name[..name.len() - rest.len()].strip_suffix("operator")?;
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    OPERATORS.iter().find(|operator| rest.starts_with(**operator)).map(|operator| &rest[..operator.len()])
}

/// Whether a bracket opens template arguments: behind a name, or behind Rust's `::`, but for `<impl …>`.
fn is_template(before: &str, after: &str) -> bool {
    let named = before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '>' | '<' | '-' | '='));
    let operator = before.ends_with(['>', '<', '-', '=']);
    let after_operator = operator && ends_with_operator(before);
    let turbofish = before.ends_with("::") && !after.starts_with("impl ");
    named && (!operator || after_operator) || turbofish
}

/// Whether a text ends with `operator` and its sign: what follows in brackets are template arguments.
fn ends_with_operator(text: &str) -> bool {
    OPERATORS.iter().any(|operator| text.strip_suffix(operator).is_some_and(|t| t.ends_with("operator")))
}

#[cfg(test)]
mod tests {
    use super::without_templates;

    fn check(pairs: &[(&str, &str)]) {
        for (name, short) in pairs {
            assert_eq!(without_templates(name), *short, "{name}");
        }
    }

    /// Arguments of templates go, those of functions stay.
    #[test]
    fn templates_of_cpp() {
        check(&[
            ("std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector<…>::push_back(int&&)"),
            ("void f<int, (Kind)2>(std::map<int, g<long>> const&)", "void f<…>(std::map<…> const&)"),
            (
                "at::native::(anonymous namespace)::run<c10::Half>",
                "at::native::(anonymous namespace)::run<…>",
            ),
            ("f<(3 > 2)>(int)", "f<…>(int)"),
            ("std::function<int (int)>::operator()(int) const", "std::function<…>::operator()(int) const"),
            ("plain(int)", "plain(int)"),
        ]);
    }

    /// What a sentence has of a kernel's name.
    #[test]
    fn kernels_in_sentences() {
        for (name, said) in [
            (
                "void at::native::reduce_kernel<512, 1, at::native::Max<float> >(at::native::Max<float>)",
                "at::native::reduce_kernel<…>",
            ),
            (
                "at::native::(anonymous namespace)::norm<c10::Half, float>(int, float)",
                "at::native::(anonymous namespace)::norm<…>",
            ),
            ("[GPU copy]", "[GPU copy]"),
            ("(f)", "(f)"),
        ] {
            assert_eq!(super::in_a_sentence(name), said);
        }
    }

    /// Operators with brackets in their names are no templates, but may be.
    #[test]
    fn operators() {
        check(&[
            ("std::operator<< <char>(std::ostream&)", "std::operator<< <char>(std::ostream&)"),
            ("std::operator<<<char>(std::ostream&)", "std::operator<<<…>(std::ostream&)"),
            ("A<int>::operator->() const", "A<…>::operator->() const"),
            ("A::operator<=>(A const&)", "A::operator<=>(A const&)"),
            ("my_operator<int>()", "my_operator<…>()"),
        ]);
    }

    /// Rust's own brackets stay where they are the name.
    #[test]
    fn rust() {
        check(&[
            (
                "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
                "<alloc::vec::Vec<…> as core::iter::Extend<…>>::extend",
            ),
            ("core::slice::sort::<u8>", "core::slice::sort::<…>"),
            ("core::fmt::<impl Debug for u8>::fmt", "core::fmt::<impl Debug for u8>::fmt"),
            ("core::ops::Fn<(u8,), Output = fn(u8) -> u8>::call", "core::ops::Fn<…>::call"),
        ]);
    }

    /// A name whose brackets do not match is not touched.
    #[test]
    fn odd_names() {
        check(&[("a<b", "a<b"), ("a>b", "a>b"), ("a<b>>", "a<…>>"), ("<", "<"), ("…<…>", "…<…>"), ("", "")]);
    }
}
