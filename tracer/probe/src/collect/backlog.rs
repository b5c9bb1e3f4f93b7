//! Events on their way from the thread that empties the ring buffers to the one that makes something of them.
//!
//! The first waits for nobody, so that nothing is lost while the second waits for a file or a process. So many bytes may be under way. An owner whose
//! programs' events take as much of that as is left for all others has no more of them taken: who sends much loses own events, and others lose
//! none. Leaves out both threads (`reader`).

use super::losses::count_into;
use energy_trace_bpf::decode::peek;
use energy_trace_foreign::files::owner_of_process;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::{LossReason, OfOwners, Owner};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracer_ebpf::wire::kind;

/// Bytes that may be under way; twice as many where they tell who ran, and who lives.
const MOST_BYTES: usize = 32 << 20;
/// Whose those are does not matter while they are so few.
const FEW_BYTES: usize = MOST_BYTES / 8;

/// Events of one look, in order of time.
pub(super) struct EventBatch {
    /// When they were taken from the ring buffers.
    pub(super) at: KtimeNs,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    of: HashMap<Owner, usize>,
}

impl EventBatch {
    fn push(&mut self, owner: Option<Owner>, event: &[u8]) {
        self.bytes.extend_from_slice(event);
        self.ends.push(self.bytes.len());
        owner.into_iter().for_each(|owner| *self.of.entry(owner).or_default() += event.len());
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| self.bytes.get(start..end).unwrap_or_default())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of its events.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Bytes under way, and whose those are of which that was asked.
#[derive(Clone, Default)]
struct UnderWay {
    bytes: usize,
    of: HashMap<Owner, usize>,
}

impl UnderWay {
    fn add(&mut self, batch: &EventBatch) {
        self.bytes += batch.len();
        batch.of.iter().for_each(|(&owner, bytes)| *self.of.entry(owner).or_default() += bytes);
    }

    fn remove(&mut self, batch: &EventBatch) {
        self.bytes = self.bytes.saturating_sub(batch.len());
        for (owner, bytes) in &batch.of {
            self.of.entry(*owner).and_modify(|own| *own = own.saturating_sub(*bytes));
        }
        self.of.retain(|_, own| *own > 0);
    }
}

/// What was not taken: what it would have told, and whose it was.
#[derive(Default)]
pub(crate) struct Refused {
    pub(crate) lost: BTreeMap<LossReason, u64>,
    of: BTreeMap<Owner, u64>,
}

impl Refused {
    /// Whose, the most first.
    pub(crate) fn of_owners(&self) -> OfOwners {
        let mut all: OfOwners = self.of.iter().map(|(&owner, &events)| (owner, events)).collect();
        all.order_by_key(|&(owner, events)| (std::cmp::Reverse(events), owner));
        all
    }
}

/// The end of the thread that empties the ring buffers.
pub(super) struct BatchSender {
    to: Sender<EventBatch>,
    shared: Arc<Mutex<UnderWay>>,
    /// As it was when a batch was begun, and with what is in it.
    under_way: UnderWay,
    owners: HashMap<Pid, Owner>,
    pub(super) refused: Refused,
}

/// The other end.
pub(super) struct BatchReceiver {
    from: Receiver<EventBatch>,
    shared: Arc<Mutex<UnderWay>>,
}

pub(super) fn backlog() -> (BatchSender, BatchReceiver) {
    let ((to, from), shared) = (channel(), Arc::<Mutex<UnderWay>>::default());
    let (under_way, owners) = (UnderWay::default(), HashMap::new());
    let sender =
        BatchSender { to, shared: Arc::clone(&shared), under_way, owners, refused: Refused::default() };
    (sender, BatchReceiver { from, shared })
}

fn lock(shared: &Mutex<UnderWay>) -> MutexGuard<'_, UnderWay> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BatchSender {
    pub(super) fn begin(&mut self, at: KtimeNs) -> EventBatch {
        self.under_way.clone_from(&lock(&self.shared));
        if self.under_way.bytes < FEW_BYTES {
            self.owners.clear();
        }
        EventBatch { at, bytes: Vec::new(), ends: Vec::new(), of: HashMap::new() }
    }

    /// Takes an event into a batch, unless its owner has too much under way.
    pub(super) fn push(&mut self, batch: &mut EventBatch, event: &[u8]) {
        let owner = (self.under_way.bytes > FEW_BYTES).then(|| self.owner_of(event));
        if let Some(owner) = owner
            && let Some((reason, most)) = peek(event).and_then(|head| refusable(head.kind))
            && self.under_way.of.get(&owner).copied().unwrap_or(0) > most.saturating_sub(self.under_way.bytes)
        {
            count_into(&mut self.refused.lost, reason, 1);
            *self.refused.of.entry(owner).or_default() += 1;
            return;
        }
        batch.push(owner, event);
        self.under_way.bytes += event.len();
        owner.into_iter().for_each(|owner| *self.under_way.of.entry(owner).or_default() += event.len());
    }

    fn owner_of(&mut self, event: &[u8]) -> Owner {
        let pid = Pid::new(peek(event).map_or(0, |head| head.pid));
        *self.owners.entry(pid).or_insert_with(|| owner_of_process(pid))
    }

    /// Passes events on; false where nobody takes them any more.
    pub(super) fn pass(&self, batch: EventBatch) -> bool {
        lock(&self.shared).add(&batch);
        self.to.send(batch).is_ok()
    }
}

/// What is lost with an event of a kind, and how many bytes may be under way before it is; nothing where it must come in any case.
const fn refusable(of: u32) -> Option<(LossReason, usize)> {
    Some(match of {
        kind::SAMPLE => (LossReason::Samples, MOST_BYTES),
        kind::RAW => (LossReason::StackCopies, MOST_BYTES),
        kind::CODES | kind::TOLD => (LossReason::CodeObjects, MOST_BYTES),
        kind::WAIT | kind::WAIT_AGAIN | kind::WAKE => (LossReason::Waits, MOST_BYTES),
        kind::GPU_STACK => (LossReason::LaunchStacks, MOST_BYTES),
        kind::GPU => (LossReason::GpuCalls, 2 * MOST_BYTES),
        kind::SLICE | kind::BACKGROUND => (LossReason::Slices, 2 * MOST_BYTES),
        kind::FORK | kind::EXEC | kind::EXIT | kind::MMAP | kind::JOIN => {
            (LossReason::ProcessEvents, 2 * MOST_BYTES)
        }
        _ => return None,
    })
}

impl BatchReceiver {
    /// The next events; nothing where none came within this time.
    ///
    /// # Errors
    /// When none will ever come.
    pub(super) fn next(&self, within: Duration) -> Result<Option<EventBatch>, RecvTimeoutError> {
        match self.from.recv_timeout(within) {
            Ok(batch) => Ok(Some(batch)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(gone) => Err(gone),
        }
    }

    /// These are done with.
    pub(super) fn done(&self, batch: &EventBatch) {
        lock(&self.shared).remove(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BatchReceiver, BatchSender, EventBatch, KtimeNs, LossReason, MOST_BYTES, Owner, Pid, backlog,
    };
    use std::time::Duration;
    use tracer_ebpf::wire::{EventHead, kind};
    use zerocopy::IntoBytes as _;

    /// An event of this kind and process, so many bytes long.
    fn event(kind: u32, pid: u32, bytes: usize) -> Vec<u8> {
        let head = EventHead { kind, pid, ..EventHead::default() };
        let mut event = head.as_bytes().to_vec();
        event.resize(bytes.max(event.len()), 0);
        event
    }

    fn next(receiver: &BatchReceiver) -> EventBatch {
        receiver.next(Duration::ZERO).unwrap().unwrap()
    }

    /// Sends events of a process until none is taken any more; how many were.
    fn fill(sender: &mut BatchSender, pid: u32) -> usize {
        let (mut batch, sample) = (sender.begin(KtimeNs::default()), event(kind::SAMPLE, pid, 1 << 20));
        (0..(2 * MOST_BYTES) >> 20).for_each(|_| sender.push(&mut batch, &sample));
        let taken = batch.events().count();
        assert!(sender.pass(batch));
        taken
    }

    /// What was passed on comes out whole and in order, and when the other end is gone, what was passed before still comes.
    #[test]
    fn events_come_out_as_they_went_in() {
        let (mut sender, receiver) = backlog();
        assert!(receiver.next(Duration::ZERO).unwrap().is_none());
        let events = [event(kind::SLICE, 1, 60), event(99, 2, 0), event(kind::SAMPLE, 1, 80)];
        let mut batch = sender.begin(KtimeNs::from_ns(7));
        events.iter().for_each(|event| sender.push(&mut batch, event));
        assert!(sender.pass(batch));
        drop(sender);
        let batch = next(&receiver);
        assert!(batch.events().eq(events.iter()) && batch.at == KtimeNs::from_ns(7));
        receiver.done(&batch);
        assert!(receiver.next(Duration::ZERO).is_err());
    }

    /// Whose programs send without end loses own events, counted; another owner's are taken, as are those that tell who ran; and once all is done
    /// with, everything is taken.
    #[test]
    fn who_sends_much_loses_own_events() {
        let (mut sender, receiver) = backlog();
        // Process 1 is root's, one that is not there is nobody's in particular.
        let nobodys = u32::MAX >> 1;
        let taken = fill(&mut sender, nobodys);
        assert!((MOST_BYTES >> 21..MOST_BYTES >> 20).contains(&taken), "{taken} MiB");
        assert_eq!(fill(&mut sender, nobodys), 0);
        let refused = 4 * (MOST_BYTES as u64 >> 20) - taken as u64;
        assert_eq!(sender.refused.lost, [(LossReason::Samples, refused)].into());
        assert_eq!(sender.refused.of_owners(), [(Owner::Several, refused)]);
        let mut batch = sender.begin(KtimeNs::default());
        let others = [event(kind::SAMPLE, 1, 4096), event(kind::SLICE, nobodys, 60)];
        others.iter().for_each(|event| sender.push(&mut batch, event));
        assert!(batch.events().eq(others.iter()));
        assert!(sender.pass(batch));
        (0..3).for_each(|_| receiver.done(&next(&receiver)));
        assert_eq!(fill(&mut sender, nobodys), taken);
        assert_eq!(sender.owners.get(&Pid::new(nobodys)), Some(&Owner::Several));
    }

    /// Whatever comes, a stated number of bytes is under way.
    #[test]
    fn there_is_an_end() {
        let (mut sender, _receiver) = backlog();
        for kind in [kind::SAMPLE, kind::SLICE, kind::FORK, kind::EXIT, kind::GPU] {
            let mut batch = sender.begin(KtimeNs::default());
            (0..(3 * MOST_BYTES) >> 16).for_each(|_| sender.push(&mut batch, &event(kind, 1, 1 << 16)));
            sender.pass(batch);
        }
        assert!(sender.shared.lock().unwrap().bytes <= 2 * MOST_BYTES);
    }
}
