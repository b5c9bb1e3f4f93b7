//! What a frame is called, and how long text is made short.
//!
//! Leaves out API names (`api_names.rs`): those replace a name only in tables.

use crate::cells::cell_of;
use energy_trace_model::ids::ThreadKey;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{Frame, FrameKind, Process, Thread};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands for a function in a frame's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// The number of a notebook's cell.
    Cell,
    /// Something in brackets, as no name was found.
    StandIn,
    /// The name that was recorded.
    Recorded,
}

/// The name of a frame in every report: Python `module.qualname`, of a notebook's cell its number, native demangled, kernel with `_[k]`, GPU with `_[g]`, functions that
/// the compiler put into others with `_[i]`, a mark in its brackets.
pub fn frame_name(frame: &Frame) -> String {
    name_and_rule(frame).0
}

/// The same, and what stands in it for the function.
pub fn name_and_rule(frame: &Frame) -> (String, NameRule) {
    let cell = cell_of(&frame.file).filter(|_| frame.kind == FrameKind::Python && frame.name == "<module>");
    let (name, rule) = match cell {
        Some(number) => (format!("<cell {number}>"), NameRule::Cell),
        None if frame.name.is_empty() || is_nameless(frame) => (stand_in(frame), NameRule::StandIn),
        None => (frame.name.clone(), NameRule::Recorded),
    };
    let name = match frame.kind {
        FrameKind::Python if frame.module.is_empty() => name,
        FrameKind::Python => format!("{}.{name}", frame.module),
        FrameKind::Native | FrameKind::Special | FrameKind::Range => name,
        FrameKind::Kernel => format!("{name}_[k]"),
        FrameKind::Gpu => format!("{name}_[g]"),
        FrameKind::Inlined => format!("{name}_[i]"),
    };
    (name, rule)
}

/// A line of a function: its name, and where it is known, file and line.
pub fn line_name(frame: &Frame) -> String {
    let name = frame_name(frame);
    match (file_name(&frame.file), frame.line) {
        ("", _) | (_, 0) => name,
        (file, line) => match cell_of(&frame.file) {
            Some(number) => format!("{name} cell {number}:{line}"),
            None => format!("{name} {file}:{line}"),
        },
    }
}

/// A function: its name, and where they are known, file and first line.
pub fn place_name(frame: &Frame) -> String {
    line_name(&Frame { line: frame.first_line, ..frame.clone() })
}

/// Stands in for a name that was not found: all such code of a library is one function, `[libtorch_cpu.so]`.
fn stand_in(frame: &Frame) -> String {
    match (frame.kind, file_name(&frame.module)) {
        (FrameKind::Python, _) => "<unknown>".to_owned(),
        (FrameKind::Special, _) => "[unknown]".to_owned(),
        (_, "") => "[unknown code]".to_owned(),
        (_, memory) if memory.starts_with('[') => memory.to_owned(),
        (_, library) => format!("[{library}]"),
    }
}

/// Whether the name is only a place in a file or an address of the kernel, because no symbol was found.
pub fn is_nameless(frame: &Frame) -> bool {
    let library = file_name(&frame.module);
    let placed =
        !library.is_empty() && frame.name.strip_prefix(library).is_some_and(|rest| rest.starts_with("+0x"));
    match frame.kind {
        FrameKind::Native => frame.name.is_empty() || placed,
        FrameKind::Kernel => frame.name.is_empty() || placed || frame.name.starts_with("0x"),
        _ => false,
    }
}

/// The library, Python package or mark that a frame belongs to.
pub fn library_name(frame: &Frame) -> String {
    match frame.kind {
        FrameKind::Python => {
            let package = frame.module.split('.').next().unwrap_or_default();
            if package.is_empty() { "[python]".to_owned() } else { format!("{package} (Python)") }
        }
        FrameKind::Native | FrameKind::Inlined if frame.module.is_empty() => "[unknown code]".to_owned(),
        FrameKind::Native | FrameKind::Inlined => file_name(&frame.module).to_owned(),
        FrameKind::Kernel => "[kernel]".to_owned(),
        FrameKind::Gpu => "[gpu]".to_owned(),
        FrameKind::Special | FrameKind::Range => frame_name(frame),
    }
}

/// The process as a root frame: the kernel's name for it.
pub fn process_name(process: Option<&Process>) -> &str {
    process
        .map(|process| process.name.as_str())
        .filter(|name| !name.is_empty())
        .unwrap_or("[unknown process]")
}

/// The process in a table: its command line, by which programs of one name are told apart.
pub fn process_title(process: &Process) -> String {
    match process.command.split_first() {
        Some((program, arguments)) if !program.is_empty() => {
            let words: Vec<&str> =
                std::iter::once(file_name(program)).chain(arguments.iter().map(String::as_str)).collect();
            words.join(" ")
        }
        _ => process_name(Some(process)).to_owned(),
    }
}

/// The thread as a frame: the kernel's name for it.
pub fn thread_name(thread: Option<&Thread>) -> &str {
    thread.map(|thread| thread.name.as_str()).filter(|name| !name.is_empty()).unwrap_or("[unknown thread]")
}

/// The label of the recording that a thread is of, where several were merged.
pub fn part_of(profile: &Profile, thread: ThreadKey) -> Option<&str> {
    profile.label_of(profile.threads.get(thread.index())?.process)
}

/// A process as a row of a table.
pub fn process_row_name(profile: &Profile, process: &Process) -> String {
    let part = profile.label_of(process.key).map(|label| format!("{label}: ")).unwrap_or_default();
    format!("{part}{} (pid {})", process_title(process), process.pid)
}

/// A thread as a row of a table.
pub fn thread_row_name(profile: &Profile, thread: &Thread) -> String {
    let part = profile.label_of(thread.process).map(|label| format!("{label}: ")).unwrap_or_default();
    format!("{part}{} (tid {})", thread_name(Some(thread)), thread.tid)
}

/// The last part of a path; all of one that names a descriptor, as `63` says nothing.
pub fn file_name(path: &str) -> &str {
    if path.starts_with("/dev/fd/") {
        return path;
    }
    path.rsplit('/').next().unwrap_or(path)
}

/// Stands before what a row lies inside of, behind its name: `train.py:71 → torch.relu  (in :87)`.
pub const INSIDE: &str = "  (in ";
/// The same of a row that lies there in part.
pub const PARTLY_INSIDE: &str = "  (partly in ";
/// How all that stands behind a name begins: these two, and the file of a function where others have its name.
pub const BEHIND: &str = "  (";
/// Stands between a line and what it calls.
pub const CALLS: &str = " → ";
/// Begins the range of a span of the chosen trace (`report --trace`); behind it stands the span's number, by which rows are told apart.
const SPAN: &str = "trace > span ";
/// Between a range and one within it.
const WITHIN: &str = " > ";
/// Makes a name fit into `width` columns: arguments and template parameters go first, then the middle. The end of a qualified name says
/// most, and keeps two thirds of the room; its beginning says where it is from. File and line stay whole, as far as they fit: the package
/// in front of a name goes before them.
pub fn shorten(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_owned();
    }
    if let Some(at) = name.find(BEHIND) {
        let (name, inside) = name.split_at(at);
        return with_inside(name, inside, width).unwrap_or_else(|| shorten(name, width));
    }
    if let Some(span) = name.strip_prefix(SPAN).and_then(|rest| with_number(rest, width)) {
        return span;
    }
    if let Some((place, call)) = name.split_once(CALLS) {
        return beside(width, place.width() + CALLS.width(), |room| {
            format!("{place}{CALLS}{}", end(call, room))
        })
        .unwrap_or_else(|| end(place, width));
    }
    if let Some((function, place)) = name.rsplit_once(' ').filter(|(_, place)| is_place(place)) {
        return beside(width, place.width() + 1, |room| format!("{} {place}", end(function, room)))
            .unwrap_or_else(|| end(place, width));
    }
    without_middle(&without_brackets(name), width)
}

/// The same of names that stand below each other: two that would look alike are told apart by where they differ first.
pub fn shorten_all(names: &[&str], width: usize) -> Vec<String> {
    let short: Vec<String> = names.iter().map(|name| shorten(name, width)).collect();
    let of = |(name, shown): (&&str, &String)| {
        let twins = names.iter().zip(&short).filter(|(other, like)| *like == shown && other != &name);
        let common = twins.map(|(other, _)| common_beginning(name, other)).max();
        common.map_or_else(|| shown.clone(), |common| from_difference(name, common, width))
    };
    names.iter().zip(&short).map(of).collect()
}

/// How many bytes two texts have in common at their beginnings.
fn common_beginning(one: &str, other: &str) -> usize {
    let same = one.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
    same.map_or(one.len().min(other.len()), |((at, _), _)| at)
}

/// The beginning of a name, and what stands from its first difference on: `void sort<…int, 8>(int*, …`.
fn from_difference(name: &str, at: usize, width: usize) -> String {
    let head = beginning(name, width / 2);
    if at <= head.len() {
        return shorten_end(name, width);
    }
    let tail = name.get(at..).unwrap_or_default();
    format!("{head}…{}", shorten_end(tail, width.saturating_sub(head.width() + 1)))
}

/// A name with as much of what it lies inside of as leaves room for what tells it from others: `  (in :73, :88)`, `  (in :73, …)`, `  (in …)`.
fn with_inside(name: &str, inside: &str, width: usize) -> Option<String> {
    let least = telling(name).width().min(name.width());
    let word = [INSIDE, PARTLY_INSIDE].into_iter().find(|word| inside.starts_with(word)).unwrap_or(BEHIND);
    let first = inside.split_once(", ").map(|(first, _)| format!("{first}, …)"));
    let all = [Some(inside.to_owned()), first, Some(format!("{word}…)"))];
    all.into_iter().flatten().find_map(|inside| {
        let room = width.checked_sub(inside.width()).filter(|room| *room >= least)?;
        Some(format!("{}{inside}", shorten(name, room)))
    })
}

/// A span with its number whole, and of what stands behind it as much as fits: `…span 00f067aa0ba902b7 > http.r…/checkout`; the number alone
/// where there is no room for more. `None`: not even for that, or it is none.
fn with_number(rest: &str, width: usize) -> Option<String> {
    const DIGITS: usize = 16;
    let (number, behind) = rest.split_at_checked(DIGITS)?;
    if width < DIGITS || !number.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let span = format!("…span {number}");
    let Some(behind) = behind.strip_prefix(WITHIN) else {
        return Some(if span.width() <= width { span } else { number.to_owned() });
    };
    let taken = span.width() + WITHIN.len();
    let whole = beside(width, taken, |room| format!("{span}{WITHIN}{}", without_middle(behind, room)));
    let marked = || beside(width, DIGITS - 1, |_| format!("{number}…"));
    whole.or_else(marked).or_else(|| Some(number.to_owned()))
}

/// The least of a name that tells it from others: its place, with the last two parts of a call (`train.py:57 → …Conv2d.__call__`) or of a
/// function, without its module.
fn telling(name: &str) -> String {
    let last = |name: &str, parts: usize| match name.rmatch_indices('.').nth(parts - 1) {
        Some((at, _)) if !name.starts_with('[') => format!("…{}", name.get(at + 1..).unwrap_or_default()),
        _ => name.to_owned(),
    };
    match (name.split_once(CALLS), name.rsplit_once(' ').filter(|(_, place)| is_place(place))) {
        (Some((place, call)), _) => format!("{place}{CALLS}{}", last(call, 2)),
        (_, Some((function, place))) => {
            format!("{} {place}", last(function, function.matches('.').count().clamp(1, 2)))
        }
        _ => last(name, 2),
    }
}

/// What is made of the room that is left beside something; nothing where that is too little for a letter and a mark.
fn beside(width: usize, taken: usize, make: impl FnOnce(usize) -> String) -> Option<String> {
    width.checked_sub(taken).filter(|room| *room >= 2).map(make)
}

/// Whether a word is `file:line`.
fn is_place(word: &str) -> bool {
    let line = word.rsplit_once(':').map(|(_, line)| line);
    line.is_some_and(|line| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()))
}

/// As many of a name's last parts as fit: `…Module.__call__`; the last letters where not one does, or only one that many names end in:
/// `…opyLoss.__call__`.
fn end(name: &str, width: usize) -> String {
    let bare = if name.width() <= width { name.to_owned() } else { without_brackets(name) };
    if bare.width() <= width {
        return bare;
    }
    let room = width.saturating_sub(1);
    let behind = |(at, separator): (usize, &str)| bare.get(at + separator.len()..);
    let parts = bare.match_indices("::").chain(bare.match_indices('.')).filter_map(behind);
    let fitting = |rest: &&str| !rest.is_empty() && rest.width() <= room;
    let says_nothing = |rest: &&str| rest.starts_with("__") && !rest.contains('.');
    let longest = parts.filter(fitting).max_by_key(|rest| rest.len()).filter(|rest| !says_nothing(rest));
    let mark = if width > 0 { "…" } else { "" };
    format!("{mark}{}", longest.unwrap_or_else(|| ending(&bare, room).trim_start_matches('.')))
}

fn without_middle(bare: &str, width: usize) -> String {
    if bare.width() <= width {
        return bare.to_owned();
    }
    let room = width.saturating_sub(1);
    let head = beginning(bare, room / 3);
    format!("{head}…{}", ending(bare, room.saturating_sub(head.width())))
}

/// As much of a text's end as fits into `width` columns.
fn ending(text: &str, width: usize) -> &str {
    let mut used = 0;
    let kept = text.char_indices().rev().take_while(|(_, c)| {
        used += c.width().unwrap_or(0);
        used <= width
    });
    let start = kept.last().map_or(text.len(), |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

/// Makes a sentence fit into `width` columns: its end goes.
pub fn shorten_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    format!("{}…", beginning(text, width.saturating_sub(1)))
}

/// A sentence in lines of at most `width` columns, those behind the first indented. A word that is longer is cut.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let lines = lines_of(text, width, width.saturating_sub(2)).into_iter().enumerate();
    let indented = lines.map(|(at, line)| if at == 0 { line } else { format!("  {line}") });
    indented.map(|line| shorten_end(&line, width)).collect()
}

/// A text in lines, broken between words: the first of at most `first` columns, the others of `rest`. A word that is longer stays whole.
pub fn lines_of(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let room = if lines.len() == 1 { first } else { rest };
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// As much of a text's beginning as fits into `width` columns.
fn beginning(text: &str, width: usize) -> &str {
    let mut used = 0;
    let kept = text.char_indices().take_while(|(_, c)| {
        used += c.width().unwrap_or(0);
        used <= width
    });
    let end = kept.last().map_or(0, |(at, c)| at + c.len_utf8());
    text.get(..end).unwrap_or_default()
}

/// `a::b<c<d>>::e(int, f)` becomes `a::b<…>::e(…)`. Python's `<locals>` and `<module>`, one word in angle brackets, stay.
pub fn without_brackets(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let (mut depth, mut last) = (0_usize, ' ');
    for (at, c) in name.char_indices() {
        let rest = name.get(at..).unwrap_or_default();
        let open = (c == '(' && !is_number(rest) && !name.get(..at).is_some_and(|name| name.ends_with("  ")))
            || (c == '<' && !is_python_mark(rest));
        let close = depth > 0 && (c == ')' || (c == '>' && last != '-'));
        last = c;
        if close {
            depth -= 1;
        }
        if depth == 0 {
            out.push(c);
        }
        if open {
            depth += 1;
            if depth == 1 {
                out.push('…');
            }
        }
    }
    out
}

/// Whether the text begins with the number of a process or thread, by which rows are told apart.
fn is_number(text: &str) -> bool {
    text.starts_with("(pid ") || text.starts_with("(tid ")
}

/// Whether the text begins with one of the marks that CPython puts into qualified names.
fn is_python_mark(text: &str) -> bool {
    [
        "<locals>",
        "<module>",
        "<lambda>",
        "<listcomp>",
        "<dictcomp>",
        "<setcomp>",
        "<genexpr>",
        "<unknown>",
        "<frozen ",
        "<cell ",
        "<string>",
    ]
    .iter()
    .any(|mark| text.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::{
        Frame, FrameKind, frame_name, is_nameless, library_name, line_name, shorten, shorten_all,
        shorten_end, wrap,
    };

    fn frame(kind: FrameKind, module: &str, name: &str) -> Frame {
        Frame {
            kind,
            name: name.to_owned(),
            module: module.to_owned(),
            file: String::new(),
            line: 0,
            first_line: 0,
            address: 0x1f40,
        }
    }

    /// Instances of a template that would be one name are told apart by their arguments; equal names stay equal, and none is wider.
    #[test]
    fn instances_are_told_apart() {
        let of = |kind| {
            format!(
                "void std::__introsort_loop<normal_iterator<{kind}*, std::vector<{kind}> >, long>({kind}*)"
            )
        };
        let [one, other, longer] = ["int", "double", "double long"].map(of);
        let shown = shorten_all(&[&one, &other, &longer, &one, "main"], 40);
        let expected = [
            "void std::__introsor…int*, std::vector<…",
            "void std::__introsor…*, std::vector<dou…",
            "void std::__introsor… long*, std::vecto…",
            "void std::__introsor…int*, std::vector<…",
            "main",
        ];
        assert_eq!(shown, expected);
        assert_eq!(
            shorten_all(&["Matrix<16, float>::mul(int)", "Matrix<8, float>::mul(int)"], 20),
            ["Matrix<16, float>::…", "Matrix<8, float>::m…"]
        );
    }

    /// Each kind of frame has the form that the contract names.
    #[test]
    fn names_follow_the_contract() {
        let name = |kind, module, name| frame_name(&frame(kind, module, name));
        assert_eq!(name(FrameKind::Python, "torch.autograd", "backward"), "torch.autograd.backward");
        assert_eq!(name(FrameKind::Python, "", "main"), "main");
        assert_eq!(name(FrameKind::Native, "/usr/lib/libc.so.6", "memcpy"), "memcpy");
        assert_eq!(name(FrameKind::Native, "/usr/lib/libfoo.so", ""), "[libfoo.so]");
        assert_eq!(name(FrameKind::Native, "/usr/lib/libfoo.so", "libfoo.so+0x1f40"), "[libfoo.so]");
        assert_eq!(name(FrameKind::Native, "[jit]", ""), "[jit]");
        assert_eq!(name(FrameKind::Kernel, "", "do_syscall_64"), "do_syscall_64_[k]");
        assert_eq!(name(FrameKind::Kernel, "", "0xffffffff81d335f7"), "[unknown code]_[k]");
        assert_eq!(name(FrameKind::Gpu, "", "sgemm"), "sgemm_[g]");
        assert_eq!(name(FrameKind::Special, "", "[no unwind info]"), "[no unwind info]");
        assert_eq!(name(FrameKind::Inlined, "/usr/lib/libfoo.so", "at"), "at_[i]");
    }

    /// A sentence breaks between words; one that fits stays as it is, and a word that does not is cut.
    #[test]
    fn sentences_in_lines() {
        assert_eq!(wrap("! may be  off", 13), ["! may be  off"]);
        assert_eq!(wrap("! may be off by half", 9), ["! may be", "  off by", "  half"]);
        assert_eq!(wrap("! unattributed", 8), ["!", "  unatt…"]);
    }

    /// A line has its file's name and its number, where both are known.
    #[test]
    fn lines() {
        let mut line = frame(FrameKind::Native, "/l.so", "f");
        assert_eq!(line_name(&line), "f");
        (line.file, line.line) = ("/src/f.cc".into(), 7);
        assert_eq!(line_name(&line), "f f.cc:7");
        (line.file, line.line) = ("/dev/fd/63".into(), 2);
        assert_eq!(line_name(&line), "f /dev/fd/63:2");
        line.line = 0;
        assert_eq!(line_name(&line), "f");
    }

    /// A notebook's cell has its number, and so have the lines of its functions.
    #[test]
    fn cells() {
        let mut cell = frame(FrameKind::Python, "__main__", "<module>");
        (cell.file, cell.line) = ("<ipython-input-3-8a2e>".into(), 7);
        assert_eq!(line_name(&cell), "__main__.<cell 3> cell 3:7");
        cell.name = "train".into();
        assert_eq!(line_name(&cell), "__main__.train cell 3:7");
    }

    /// A name that is only a place in a file is told from a symbol.
    #[test]
    fn a_place_is_not_a_name() {
        assert!(is_nameless(&frame(FrameKind::Native, "/usr/lib/libfoo.so", "")));
        assert!(is_nameless(&frame(FrameKind::Native, "/usr/lib/libfoo.so", "libfoo.so+0x1f40")));
        assert!(!is_nameless(&frame(FrameKind::Native, "/usr/lib/libfoo.so", "run")));
        assert!(!is_nameless(&frame(FrameKind::Python, "", "")));
    }

    /// A library is a file, a package or the kernel.
    #[test]
    fn libraries() {
        assert_eq!(library_name(&frame(FrameKind::Python, "torch.nn.modules", "f")), "torch (Python)");
        assert_eq!(library_name(&frame(FrameKind::Native, "/usr/lib/libc.so.6", "")), "libc.so.6");
        assert_eq!(library_name(&frame(FrameKind::Kernel, "", "f")), "[kernel]");
    }

    /// Arguments go before the name's own end does, and marks of CPython are no template parameters.
    #[test]
    fn long_names_keep_their_end() {
        assert_eq!(shorten("at::native::conv2d(at::Tensor const&, int)", 24), "at::native::conv2d(…)");
        assert_eq!(shorten("f<std::vector<int>>::g(x)", 12), "f<…>::g(…)");
        assert_eq!(shorten("Fn<int->int>::call(long argument)", 20), "Fn<…>::call(…)");
        assert_eq!(shorten("torch.optim.wrap.<locals>.wrapper", 18), "torch…als>.wrapper");
        assert_eq!(shorten("短い名前です", 8), "短…です");
        assert_eq!(shorten("model.forward train.py:51", 20), "…forward train.py:51");
        assert!(shorten("python3 a.py --rank 1 (pid 12)", 20).ends_with("1 (pid 12)"));
        let span = "trace > span 00f067aa0ba902b7 > http.route=/checkout";
        assert_eq!(shorten(span, 42), "…span 00f067aa0ba902b7 > http.…e=/checkout");
        assert_eq!(shorten(span, 26), "00f067aa0ba902b7…");
        assert_eq!(shorten(span, 16), "00f067aa0ba902b7");
        assert_eq!(shorten("trace > span 00f067aa0ba902b7", 24), "…span 00f067aa0ba902b7");
        assert_eq!(shorten("trace > span of the program's own", 16), "trace…gram's own");
        assert_eq!(shorten("fits", 4), "fits");
        assert_eq!(shorten("no room", 1), "…");
        assert_eq!((shorten_end("a sentence", 6), shorten_end("短い", 3)), ("a sen…".into(), "短…".into()));
    }

    /// File and line stay whole when the package in front of a name goes, and so does what a row lies inside of where there is room.
    #[test]
    fn places_stay_whole() {
        let call = "train.py:87 → torch.nn.modules.module.Module.__call__";
        assert_eq!(shorten(call, 40), "train.py:87 → …module.Module.__call__");
        assert_eq!(shorten(call, 30), "train.py:87 → …Module.__call__");
        assert_eq!(shorten(call, 20), "train.py:87 → …all__");
        assert_eq!(shorten(call, 12), "train.py:87");
        assert_eq!(shorten("a.b.augment train.py:51", 22), "…b.augment train.py:51");
        assert_eq!(shorten("at::f<int>(int) b.cc:7", 20), "at::f<…>(…) b.cc:7");
        let inside = format!("{call}  (in :112, :9)");
        assert_eq!(shorten(&inside, 45), "train.py:87 → …Module.__call__  (in :112, :9)");
        assert_eq!(shorten(&inside, 44), "train.py:87 → …Module.__call__  (in :112, …)");
        assert_eq!(shorten(&inside, 39), "train.py:87 → …Module.__call__  (in …)");
        assert_eq!(shorten(&inside, 30), "train.py:87 → …Module.__call__");
        assert_eq!(shorten("a.py:5 → torch.nn.EntropyLoss.__call__", 24), "a.py:5 → …yLoss.__call__");
        let unknown = "a.py:56 → [torch, call unknown]  (partly in :73)";
        assert_eq!(shorten(unknown, 47), "a.py:56 → [torch, call unknown]  (partly in …)");
        let method = "train.Net.forward t.py:63  (in confusion, train)";
        assert_eq!(shorten(method, 40), "…Net.forward t.py:63  (in confusion, …)");
        assert_eq!(shorten(method, 28), "…Net.forward t.py:63  (in …)");
        assert_eq!(shorten("train.confusion t.py:73  (in :91)", 28), "…confusion t.py:73  (in :91)");
        for (name, width) in
            [(call, 0), (call, 1), (inside.as_str(), 3), ("x.y z.py:1", 2), ("größe.f 短い.py:1", 9)]
        {
            assert!(
                unicode_width::UnicodeWidthStr::width(&*shorten(name, width)) <= width.max(1),
                "{name} {width}"
            );
        }
    }
}
