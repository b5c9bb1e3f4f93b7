//! The way to the recording: a channel that records are sent on.
//!
//! Leaves out who writes them.

use energy_trace_model::recording::record::Record;
use std::sync::mpsc::Sender;

/// Sends records to the recording's writer.
#[derive(Clone, Debug)]
pub(super) struct RecordSender(Sender<Record>);

impl RecordSender {
    /// Over this channel.
    pub(super) const fn new(records: Sender<Record>) -> Self {
        Self(records)
    }

    /// To the recording. Its writer outlives this; should it not, what is sent is lost with it.
    pub(super) fn send(&self, record: Record) {
        let _writer_gone = self.0.send(record);
    }
}
