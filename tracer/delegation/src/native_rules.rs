//! For whom a worker without Python frames works while nobody is in a call that it serves.
//!
//! 1. A worker that has been awake since the last such call works for that call until it sleeps: it spins in
//!    wait for the next piece of the same pool, or finishes what it was given. The joint says that the call
//!    is over.
//! 2. One that has slept since: for the call from which a chain of wake-ups leads to it; a call that is over
//!    says so.
//! 3. One that nobody is known to have woken: for a Python thread that sleeps (it may wait for it in somebody
//!    else's code); else for the nearest call of about then, which samples may have missed; else for nobody.
//!
//! Leaves out how it is known who is in a call (`call_context`) and who slept (`awake`).

use super::call_context::{CallContext, LibrarySetId, RARE};
use super::requesters::{Requester, RequesterIndex, prefer};
use super::thread_activity::Phase;
use energy_trace_counters::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::ThreadKey;
use std::time::Duration;

/// A wake-up is recorded at the latest this long after one by the same thread that was: twice the probes'
/// interval.
const UNRECORDED: Duration = Duration::from_millis(20);
/// Samples of a thread at 99 Hz are this far apart: a call between two of them is seen by none.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(20);

type Candidates = Vec<(Requester, Phase)>;

impl RequesterIndex<'_> {
    /// Who of the candidates is in a call that a worker serves (all, where samples do not show where it
    /// lives); else whose call is over.
    pub(super) fn in_a_call(
        &self,
        worker: ThreadKey,
        at: KtimeNs,
        all: Candidates,
    ) -> Result<Candidates, Option<Requester>> {
        let Some(library_set) = self.code.library_set(worker) else { return Ok(all) };
        let since = self.awake.since(worker, at).unwrap_or(at);
        let caller = self.woken_from(worker, at, since);
        let callers = self.callers(worker, library_set, &all, caller);
        if callers.iter().all(|&thread| self.code.calls(thread, library_set).is_empty()) {
            return Ok(all);
        }
        let (mut inside, mut waits) = (Vec::new(), Vec::new());
        for (requester, phase) in all.into_iter().filter(|(requester, _)| callers.contains(&requester.thread))
        {
            match self.code.call_context(library_set, phase.stack) {
                CallContext::Inside | CallContext::Unclear => inside.push((requester, phase)),
                CallContext::Outside if phase.waits => waits.push((requester, phase)),
                CallContext::Outside => (),
                CallContext::Unseen => waits.push((requester, phase)),
            }
        }
        if !inside.is_empty() {
            if let Some(before) = caller.and_then(|by| self.asked_before(worker, library_set, at, by)) {
                return Err(Some(before));
            }
            // One that no sample shows is in a call too if it woke the worker just before it fell asleep.
            waits.retain(|(requester, phase)| {
                let woke = caller.is_some_and(|by| by.thread == requester.thread && phase.start <= by.at);
                woke && self.code.call_context(library_set, phase.stack) == CallContext::Unseen
            });
            inside.extend(waits);
            return Ok(inside);
        }
        let over = self
            .spun_from(&callers, library_set, at, since)
            .or_else(|| self.call_of(caller?, library_set, at));
        match over {
            Some(over) => Err(Some(over)),
            None if !waits.is_empty() => Ok(waits),
            None => Err(self.about_then(&callers, library_set, since)),
        }
    }

    /// Whether several threads call where a worker lives, and nobody was seen to wake it.
    pub(super) fn is_anybodys(&self, worker: ThreadKey, library_set: LibrarySetId) -> bool {
        let calls = |thread: &&ThreadKey| !self.code.calls(**thread, library_set).is_empty();
        !self.is_heard(worker) && self.in_process(worker).iter().filter(calls).nth(1).is_some()
    }

    /// Takes a Python thread to be in a call that may be in one already, or still: nothing is known of it
    /// between two moments, and at one of these it is in a call. Until when that holds.
    pub(super) fn take_in(&self, all: &mut Candidates, library_set: LibrarySetId) -> KtimeNs {
        let mut holds = KtimeNs::from_ns(u64::MAX);
        let inside = |stack| self.code.call_context(library_set, stack) == CallContext::Inside;
        for (requester, phase) in all {
            let Some(activity) = self.threads.activity(requester.thread) else { continue };
            let (around, until) = activity.around(requester.at);
            holds = holds.min(until);
            let known = around.into_iter().flatten().find(|known| inside(known.stack));
            let then = known
                .map(|known| Requester::new(requester.thread, known.start))
                .filter(|_| !inside(phase.stack));
            if let Some((then, (in_call, _))) = then.and_then(|then| Some((then, self.phase(then)?))) {
                (*requester, *phase) = (then, in_call);
            }
        }
        holds
    }

    /// Python threads that may call: of those whose wake-ups lead to the worker, the ones that are not
    /// chance, and the one that woke it now; without wake-ups, all.
    fn callers(
        &self,
        worker: ThreadKey,
        library_set: LibrarySetId,
        all: &Candidates,
        now: Option<Requester>,
    ) -> Vec<ThreadKey> {
        let of_worker = self.callers.get(&worker);
        let often = |thread: ThreadKey| of_worker.and_then(|of| of.get(&thread)).copied().unwrap_or(0);
        let mut callers: Vec<ThreadKey> = self.in_process(worker).to_vec();
        callers.retain(|&thread| {
            !self.code.calls(thread, library_set).is_empty()
                || all.iter().any(|(requester, _)| requester.thread == thread)
        });
        let most = callers.iter().map(|&thread| often(thread)).max().unwrap_or(0);
        if most >= RARE {
            let now = now.map(|now| now.thread);
            prefer(&mut callers, |&thread| often(thread).saturating_mul(RARE) >= most || now == Some(thread));
        }
        callers
    }

    /// The last call that was over, if the worker has not slept since.
    fn spun_from(
        &self,
        callers: &[ThreadKey],
        library_set: LibrarySetId,
        at: KtimeNs,
        since: KtimeNs,
    ) -> Option<Requester> {
        let last = |&thread: &ThreadKey| Some((thread, self.code.last_call(thread, library_set, at)?));
        let (thread, call) = callers.iter().filter_map(last).max_by_key(|(_, call)| call.end)?;
        (since < call.end).then(|| over(thread, call))
    }

    /// The Python thread that began the chain of wake-ups that woke a worker at a moment.
    fn woken_from(&self, worker: ThreadKey, at: KtimeNs, since: KtimeNs) -> Option<Requester> {
        let woken = self.woken_by(worker, at)?;
        if woken.at + UNRECORDED < since { None } else { self.chain(worker, at) }
    }

    /// The call from which a worker's work comes, where its caller is in another one since: what it was asked for then waits in a queue
    /// until somebody wakes the worker for it (XLA). The wake-ups of the later call would have been recorded.
    fn asked_before(
        &self,
        worker: ThreadKey,
        library_set: LibrarySetId,
        at: KtimeNs,
        caller: Requester,
    ) -> Option<Requester> {
        let (now, far) = self.code.nearest_call(caller.thread, library_set, at)?;
        let is_later = far == 0 && caller.at + UNRECORDED < now.start;
        let woken = self.woken_by(worker, at)?;
        (is_later && now.start <= woken.at).then(|| self.call_of(caller, library_set, at)).flatten()
    }

    /// The call in which a Python thread woke somebody.
    fn call_of(&self, caller: Requester, library_set: LibrarySetId, at: KtimeNs) -> Option<Requester> {
        let (call, far) = self.code.nearest_call(caller.thread, library_set, caller.at)?;
        let requester = if call.end <= at {
            over(caller.thread, call)
        } else {
            Requester::new(caller.thread, call.start)
        };
        within(far).then_some(requester)
    }

    /// The call that is nearest to a moment.
    fn about_then(&self, callers: &[ThreadKey], library_set: LibrarySetId, at: KtimeNs) -> Option<Requester> {
        let nearest = |&thread: &ThreadKey| Some((thread, self.code.nearest_call(thread, library_set, at)?));
        let (thread, (call, far)) = callers.iter().filter_map(nearest).min_by_key(|(_, (_, far))| *far)?;
        within(far).then(|| Requester::new(thread, last_of(call).max(call.start)))
    }
}

fn within(ns: u64) -> bool {
    u128::from(ns) <= BETWEEN_SAMPLES.as_nanos()
}

/// What goes on after a call is charged to what the caller did last in it.
fn over(thread: ThreadKey, call: Span) -> Requester {
    Requester { thread, at: last_of(call), over: true }
}

fn last_of(call: Span) -> KtimeNs {
    KtimeNs::from_ns(call.end.as_ns().saturating_sub(1))
}
