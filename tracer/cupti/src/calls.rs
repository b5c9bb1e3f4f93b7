//! Which calls of the driver are reported, what each is, and the arguments that are read of them. Leaves out what becomes of them (`listen`, `nodes`).

use crate::cupti::CallbackData;
use std::ffi::{c_int, c_void};

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It gives a device work, or a capture a node.
    Launch,
    /// It adds a node with work to a graph.
    Add,
    /// It makes something that can be launched of a graph: its first two arguments are where that goes, and the graph.
    Instantiate,
    /// It puts new work into what was made of a node: its first two arguments are what can be launched, and the node.
    Set,
    /// It puts the work of a graph into what can be launched: its first two arguments are that, and the graph.
    Update,
}

/// By CUPTI's numbers (cupti_driver_cbid.h, 12.9 and 13.5): kernels, graphs, copies and sets; nodes of a kernel, a copy, a set, and of any
/// kind, of each version; and so on. The runtime's calls pass here as well, under the same correlation number. Left out is what no
/// profiler can tell whose it is: new work for a whole child graph.
const ROLES: [(Role, &[u32]); 5] = [
    (Role::Launch, &[307, 442, 652, 653, 477, 478, 514, 515, 276, 277, 278, 279, 281, 305, 306, 216, 220]),
    (Role::Add, &[502, 689, 504, 506, 712, 723, 863]),
    (Role::Instantiate, &[513, 578, 643, 656, 657]),
    (Role::Set, &[538, 692, 562, 563, 714]),
    (Role::Update, &[561, 696]),
];

/// All calls that are reported.
pub(crate) fn all() -> impl Iterator<Item = u32> {
    ROLES.iter().flat_map(|(_, calls)| calls.iter().copied())
}

/// What the call of this number does.
pub(crate) fn role(call: u32) -> Option<Role> {
    ROLES.iter().find(|(_, calls)| calls.contains(&call)).map(|(role, _)| *role)
}

/// A call that has returned without an error, by its first two arguments.
///
/// # Safety
/// `data` is what CUPTI gave a callback at the exit of a call whose first two arguments are words.
pub(crate) unsafe fn returned(data: *const CallbackData) -> Option<[usize; 2]> {
    // SAFETY: the caller's promise; a driver call's result is a `CUresult`, and its arguments stand in their order in a structure
    // (generated_cuda_meta.h).
    unsafe {
        let (result, arguments) = ((*data).return_value.cast::<c_int>(), (*data).parameters.cast::<usize>());
        if result.is_null() || arguments.is_null() || result.read() != 0 {
            return None;
        }
        Some([arguments.read(), arguments.add(1).read()])
    }
}

/// What stands where the call wrote its result.
///
/// # Safety
/// `place` is an argument to which a call that has succeeded wrote a handle, or 0.
pub(crate) unsafe fn written(place: usize) -> usize {
    let place = std::ptr::with_exposed_provenance::<*const c_void>(place);
    // SAFETY: the caller's promise.
    if place.is_null() { 0 } else { unsafe { place.read() }.addr() }
}

#[cfg(test)]
mod tests {
    use super::{Role, all, role};
    use std::collections::BTreeSet;

    /// No call has two roles.
    #[test]
    fn one_role_each() {
        let calls: Vec<u32> = all().collect();
        assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len());
        assert_eq!((role(307), role(696), role(1)), (Some(Role::Launch), Some(Role::Update), None));
    }
}
