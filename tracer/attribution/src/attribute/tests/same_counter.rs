//! One counter that several domains show, and several that are not one.

use super::small::{add_counter, add_threads, by_time, empty, runs};
use crate::attribute;
use energy_trace_model::ids::{CpuId, SocketId};
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
use energy_trace_model::recording::record::{DomainClass, Scope};

/// The joules that two sockets' counters make, and what is said; the program runs on the second socket. So many microjoules at a millisecond.
fn sum(scopes: [u32; 2], counters: [&dyn Fn(u64) -> u64; 2]) -> (i64, Vec<String>) {
    let mut run = empty(100, 1_100);
    run.header.sockets = [0, 1].map(|cpu| (CpuId::new(cpu), SocketId::new(cpu))).into();
    for (socket, counter) in scopes.into_iter().zip(counters) {
        let scope = Scope::Socket(SocketId::new(socket));
        add_counter(&mut run, (DomainClass::Package, scope), None, 10, counter);
    }
    add_threads(&mut run, 1);
    runs(&mut run, 1, Some(0), 100, 1_100);
    let profile = attribute(&run, &by_time());
    let said = profile.diagnostics.iter().filter_map(|found| match found {
        Diagnostic::Domain { domain, what: DomainDiagnostic::SameCounter { domain: copy } } => {
            Some(format!("{domain} {copy}"))
        }
        _ => None,
    });
    (profile.ledger.iter().map(|row| row.target.as_uj()).sum(), said.collect())
}

/// One counter of two sockets, or a domain's copy, is counted once, and charged to who ran on either socket; two counters are two.
#[test]
fn counted_once() {
    let once = (1_000_000, vec!["package-0 package-1".to_owned()]);
    let counter = |at: u64| 1_000 * at;
    assert_eq!(sum([0, 1], [&counter, &counter]), once);
    assert_eq!(sum([1, 1], [&counter, &counter]), once);
    for other in [|at: u64| 1_000 * at + 70_000, |at: u64| 1_100 * at, |at: u64| 3_000 * at] {
        let (energy, said) = sum([0, 1], [&counter, &other]);
        assert!(said.is_empty() && energy >= 990_000, "{energy} {said:?}");
    }
}

/// Two that stand still, or moved a few times, may be two.
#[test]
fn nothing_tells() {
    let still = |_: u64| 5_000;
    let rare = |at: u64| at / 100 * 100_000;
    assert!(sum([0, 1], [&still, &still]).1.is_empty());
    assert!(sum([0, 1], [&rare, &rare]).1.is_empty());
}
