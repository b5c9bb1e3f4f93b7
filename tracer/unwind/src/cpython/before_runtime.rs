//! Where CPython 3.6 keeps what later versions keep in `_PyRuntime`: in variables of their own, of which one alone is exported.
//!
//! The others are private, but exported functions do nothing else than load them: `PyInterpreterState_Head` the list of interpreters,
//! `PyGILState_GetThisThreadState` the key of thread-specific data (Python/pystate.c, 3.6). Leaves out 3.5 and older.

use super::memory::Source;
use crate::arch::load;

/// Bytes of these functions that are read: they have eight and twenty.
const CODE: u64 = 32;

/// Addresses of the functions and of the exported variable (AVMA).
#[derive(Clone, Copy, Debug)]
pub(super) struct Exported {
    /// `PyInterpreterState_Head`.
    pub(super) head: u64,
    /// `PyGILState_GetThisThreadState`.
    pub(super) this_thread: u64,
    /// `_PyThreadState_Current`.
    pub(super) current: u64,
}

/// Addresses of the variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variables {
    /// `interp_head`.
    pub(super) interpreters: u64,
    /// `autoTLSkey`.
    pub(super) key: u64,
    /// `_PyThreadState_Current`.
    pub(super) current: u64,
}

/// The variables that these functions load; `None` where they look otherwise.
pub(super) fn find_variables(source: &impl Source, exported: Exported) -> Option<Variables> {
    Some(Variables {
        interpreters: loaded_by(source, exported.head, load::POINTER)?,
        key: loaded_by(source, exported.this_thread, load::NUMBER)?,
        current: exported.current,
    })
}

/// The address that the first such instruction of a function loads from.
fn loaded_by(source: &impl Source, function: u64, loads: &[u8]) -> Option<u64> {
    let code = source.bytes(function, CODE, CODE)?;
    load::variable(&code, function, loads)
}

#[cfg(test)]
mod tests {
    use super::{Exported, Variables, find_variables};
    use crate::cpython::tests::memory::Snapshot;

    /// The functions of 3.6.15 as gcc compiled them, and what they load; functions that load nothing so give no variables.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn what_the_functions_load() {
        let mut bytes = vec![0x48, 0x8b, 0x05, 0x49, 0xa3, 0x18, 0, 0xc3];
        bytes.resize(0x40, 0x90);
        bytes.extend([0x48, 0x83, 0x3d, 0x70, 0xa1, 0x18, 0, 0, 0x74, 0x0e, 0x8b, 0x3d, 0x80, 0x81, 0x13, 0]);
        bytes.resize(0x80, 0x90);
        let exported = Exported { head: 0x1000, this_thread: 0x1040, current: 0x9000 };
        let expected = Variables { interpreters: 0x18_b350, key: 0x13_91d0, current: 0x9000 };
        assert_eq!(find_variables(&Snapshot(bytes.clone()), exported), Some(expected));
        let elsewhere = Exported { head: 0x1040, ..exported };
        assert_eq!(find_variables(&Snapshot(bytes), elsewhere), None);
        assert_eq!(find_variables(&Snapshot(Vec::new()), exported), None);
    }
}
