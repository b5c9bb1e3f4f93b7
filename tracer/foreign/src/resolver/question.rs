//! What the recorder asks about files, and what it gets for an answer.
//!
//! Each question is one message with one open file or more; the answer is what its comment says, or a text that says what is wrong with the
//! file. Leaves out who answers (`serve.rs`).

use energy_trace_model::ids::BuildId;
use energy_trace_model::recording::names::LONGEST_NAME;
use energy_trace_model::recording::record::Name;
use energy_trace_symbols::{Detail, Place, Proof};
use energy_trace_system::roles::room::List;
use energy_trace_unwind::elf::DebugSections;
use energy_trace_unwind::functions::Function;
use energy_trace_unwind::static_probes::ProbeName;
use serde::{Deserialize, Serialize};
use tracer_ebpf::rows::{FullRule, Operand, Rule};

/// A question. Files come with it in the order that is named.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// What does this file say of itself, and where are these symbols? `ElfFacts`; without code of one that is no ELF file.
    Facts {
        /// Names of symbols.
        wanted: Vec<String>,
    },
    /// Which functions of this file match these patterns? `List<Function>`.
    Functions {
        /// Names without parameters, `*` for any characters.
        patterns: Vec<String>,
        /// How many at the most.
        most: usize,
    },
    /// Where are these static probes of this file? `List<StaticProbe>`.
    StaticProbes {
        /// What they are called.
        wanted: Vec<ProbeName>,
    },
    /// The unwind rows of this file, whose lowest address and entry point these are. `RowsHead`, and a file with the rows.
    Rows {
        /// Lowest address (SVMA).
        base: u64,
        /// Entry point (SVMA); 0: none.
        entry: u64,
    },
    /// Keep this file under a number, for `Rule`. `ElfFacts`.
    Keep {
        /// The number.
        number: u32,
    },
    /// Keep these no longer. Nothing.
    Forget {
        /// Their numbers.
        numbers: Vec<u32>,
    },
    /// The unwind rule at an address of a file that is kept. `PlainRule`.
    Rule {
        /// The file's number.
        number: u32,
        /// The address (SVMA).
        svma: u64,
    },
    /// Which function, made at run time, is an address in, by this file's bytes of code? `Option<GeneratedFunction>`.
    GeneratedFunction {
        /// The address of the code (AVMA).
        start: u64,
        /// The address in question (AVMA).
        at: u64,
    },
    /// Where are this file's names? `NameFacts`.
    NameFacts,
    /// What is at these places of the first file? The others may be its debug files. `List<Place>`.
    Names {
        /// Places in the file.
        offsets: Vec<u64>,
        /// How much is requested.
        detail: Detail,
        /// What proves that each of the other files belongs to the first, in their order.
        proofs: Vec<Proof>,
    },
    /// The names that this perf map has for these addresses, which are sorted. `List<(u64, String)>`.
    PerfMap {
        /// Addresses (AVMA).
        wanted: Vec<u64>,
    },
    /// What do these modules of Python say of names? `List<ModuleFacts>`, in the files' order.
    PythonModules,
    /// What is imported of what these lists of installed files name? A set of names of each, in the files' order.
    PythonLists,
    /// What is imported of what is installed in this folder of an archive? A set of names.
    PythonArchive {
        /// The folder with a slash at its end; empty for all of it.
        folder: String,
    },
    /// What does this file say that was counted of functions of Python? `PythonCalls`.
    PythonCalls,
    /// Which attributes of threads' contexts does this context of a process name, in their order? `List<String>`.
    AttributeNames,
    /// The histories that this jitdump has for these addresses, which are sorted. `Histories`.
    JitDump {
        /// Addresses (AVMA).
        wanted: Vec<u64>,
    },
}

const MIB: usize = 1 << 20;
/// Bytes of an answer of few numbers and words.
const SMALL: usize = 4 * MIB;
/// Bytes that a name may have, and its file and line beside it; in this many functions that the compiler put into one at a place.
const NAME: usize = 2 * LONGEST_NAME;
const INLINED: usize = 16;
/// Bytes of any answer, and of the elements of its lists.
const MOST: usize = 64 * MIB;

impl Question {
    /// Bytes of an answer at the most, and bytes of the elements that its lists unfold to: a worker that a file has taken over may send anything.
    pub fn longest_answer(&self) -> (usize, usize) {
        let each = |count: usize, bytes: usize, elements: usize| {
            let of = |each: usize| MIB.saturating_add(count.saturating_mul(each)).min(MOST);
            (of(bytes), of(elements))
        };
        match self {
            Self::Facts { .. } | Self::Keep { .. } | Self::GeneratedFunction { .. } | Self::Rows { .. } => {
                (SMALL, SMALL)
            }
            Self::Rule { .. } | Self::Forget { .. } | Self::NameFacts => (MIB / 16, MIB / 16),
            Self::AttributeNames | Self::StaticProbes { .. } => (MIB, MIB),
            Self::Functions { most, .. } => each(*most, NAME, size_of::<Function>()),
            Self::Names { offsets, detail, .. } => {
                let names = if detail.inlines { 1 + INLINED } else { 1 };
                each(offsets.len(), names * NAME, size_of::<Place>() + names * size_of::<Name>())
            }
            Self::PerfMap { wanted } => each(wanted.len(), NAME, size_of::<(u64, String)>()),
            Self::JitDump { wanted } => each(wanted.len(), 4 * NAME, 16 * size_of::<(u64, Option<String>)>()),
            Self::PythonLists | Self::PythonArchive { .. } => (2 * MIB, 2 * MIB),
            Self::PythonModules => (16 * MIB, 64 * MIB),
            Self::PythonCalls => (32 * MIB, 64 * MIB),
        }
    }
}

/// What is wrong with a file, instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// It says to be far larger than it is: somebody made it so.
    pub too_large: bool,
    /// For the log.
    pub text: String,
}

/// What a file says about names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameFacts {
    /// Its build id.
    pub build_id: Option<BuildId>,
    /// Which names it has, and where others are.
    pub sections: DebugSections,
}

/// What is sent of rows beside the rows themselves: those come as a file, eight bytes each, in the machine's order of bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowsHead {
    /// How many rows there are.
    pub rows: u64,
    /// Rules in full that rows of kind `FULL` lead to.
    pub full: Vec<PlainFullRule>,
    /// See `Rows::damaged`.
    pub damaged: u64,
    /// See `Rows::unsupported`.
    pub unsupported: u64,
    /// See `Rows::too_many`.
    pub too_many: bool,
}

/// What a jitdump says of addresses: of each, from which nanosecond on it had which name, or none.
pub type Histories = List<(u64, List<(u64, Option<String>)>)>;

/// The history of one address.
pub type PlainHistory = Vec<(u64, Option<String>)>;

/// A rule in full, as numbers: `FullRule`'s fields in their order.
pub type PlainFullRule = (u64, i64, u64, u64, u64);

/// A rule, as numbers, and what it is in full where it does not fit.
pub type PlainRule = (u32, Option<PlainFullRule>);

/// A rule in full as numbers.
pub const fn plain(full: &FullRule) -> PlainFullRule {
    (full.cfa.0, full.add, full.ra.0, full.fp.0, full.callee_saved.0)
}

/// A rule in full of numbers: any numbers are one.
pub const fn full_rule((cfa, add, ra, fp, callee_saved): PlainFullRule) -> FullRule {
    FullRule { cfa: Operand(cfa), add, ra: Operand(ra), fp: Operand(fp), callee_saved: Operand(callee_saved) }
}

/// A rule of numbers.
pub fn rule((rule, full): PlainRule) -> (Rule, Option<FullRule>) {
    (Rule(rule), full.map(full_rule))
}
