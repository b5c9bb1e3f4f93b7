//! One rule: what only one kind of processor has stands in the folder `arch` of its package, so that another kind is another file there.
//!
//! Registers and crates are known by their names, folders of libraries by their texts; `target_arch` chooses there alone. Leaves out bytes of
//! instructions and offsets, which look like any number, and what files of the machine say themselves (`cpu:type:x86`).

use super::Finding;
use super::source::Source;
use proc_macro2::{TokenStream, TokenTree};

/// The product's folders, and those of its folders that may know a processor.
const PRODUCT: [&str; 2] = ["tracer", "tracer-ebpf"];
const ELSEWHERE: [&str; 2] = ["arch", "tests"];
/// Parts of names, and words of texts, that are registers.
const REGISTERS: [&str; 12] =
    ["eax", "edi", "fsbase", "rax", "rbp", "rbx", "rcx", "rdi", "rdx", "rip", "rsi", "rsp"];
/// Parts of names that are kinds of processors.
const KINDS: [&str; 3] = ["aarch64", "arm64", "x86"];
/// What a text has in it of one.
const TEXTS: [&str; 2] = ["x86_64", "aarch64-linux"];

/// What of one kind of processor stands outside of `arch`.
pub(super) fn one_processor_in_its_file(source: &Source<'_>) -> Vec<Finding> {
    let is_product = PRODUCT.iter().any(|folder| source.path.starts_with(folder));
    let is_elsewhere = source.path.iter().any(|part| ELSEWHERE.iter().any(|it| part.to_str() == Some(it)));
    if !is_product || is_elsewhere {
        return Vec::new();
    }
    let mut found = Vec::new();
    look(source.text.parse().unwrap_or_default(), &mut found);
    let outside = found.into_iter().filter(|(line, _)| source.is_product(*line));
    let finding = |(line, what)| Finding {
        rule: "processor",
        line,
        text: format!("{what} is of one kind of processor: give it a name in this package's arch/x86_64.rs"),
    };
    outside.map(finding).collect()
}

/// Lines and words of what belongs to one kind of processor. A condition on `target_arch` may ask for BPF; comments may say what they like.
fn look(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let (mut asks, mut is_doc) = (false, false);
    for token in tokens {
        match &token {
            TokenTree::Group(group) => look(group.stream(), found),
            TokenTree::Punct(_) => (),
            TokenTree::Ident(name) if name == "doc" => is_doc = true,
            TokenTree::Ident(name) if name == "target_arch" || name == "bpf_target_arch" => asks = true,
            TokenTree::Ident(_) | TokenTree::Literal(_) => {
                if !is_doc && is_of_processor(&token, asks) {
                    found.push((token.span().start().line, format!("`{token}`")));
                }
                (asks, is_doc) = (false, false);
            }
        }
    }
}

fn is_of_processor(token: &TokenTree, asks: bool) -> bool {
    let text = token.to_string();
    let mut words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    if matches!(token, TokenTree::Ident(_)) {
        return words.any(|word| [&KINDS[..], &REGISTERS].concat().contains(&word.as_str()));
    }
    let names_one = TEXTS.iter().any(|it| text.contains(it));
    asks && text != "\"bpf\""
        || text.starts_with('"') && (names_one || words.any(|word| REGISTERS.contains(&word.as_str())))
}

#[cfg(test)]
mod tests {
    use super::{Source, one_processor_in_its_file};
    use std::path::Path;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let source = Source::parse(Path::new(path), text).unwrap();
        one_processor_in_its_file(&source).into_iter().map(|found| found.line).collect()
    }

    /// Registers, crates, constants, folders and conditions of one processor are found, each where it stands; not in `arch`, tests or tools.
    #[test]
    fn what_belongs_to_one_processor() {
        let texts = [
            "fn f() { let eval_rbp = 1; }",
            "use iced_x86::Decoder;",
            "const A: u32 = object::elf::R_X86_64_RELATIVE;",
            "const A: &str = \"/usr/lib/x86_64-linux-gnu\";",
            "#[cfg(target_arch = \"riscv64\")]\nfn f() {}",
            "fn f() { naked_asm!(\"push rbp\", \"ret\") }",
        ];
        for text in texts {
            assert_eq!(lines("tracer/unwind/src/go.rs", text), [1], "{text}");
            assert_eq!(lines("tracer/unwind/src/arch/x86_64/go.rs", text), [0; 0], "{text}");
            assert_eq!(lines("xtask/src/bpf.rs", text), [0; 0], "{text}");
            let tests = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}");
            assert_eq!(lines("tracer-ebpf/src/scan.rs", &tests), [0; 0], "{text}");
        }
    }

    /// Names that only look alike, what the machine's files say, comments, and whether code is for BPF.
    #[test]
    fn what_does_not() {
        let texts = [
            "fn f(strip: u8, arm: u8) { naked_asm!(\"nop\", \"ret\") }",
            "const A: &str = \"cpu:type:x86,ven\";",
            "/// The caller's rbp, x86_64.\nfn f() {}",
            "#[cfg(target_arch = \"bpf\")]\nfn f() {}",
        ];
        for text in texts {
            assert_eq!(lines("tracer/unwind/src/go.rs", text), [0; 0], "{text}");
        }
    }
}
