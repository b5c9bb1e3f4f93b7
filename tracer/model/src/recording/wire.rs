//! How records lie in a chunk: postcard, with the times in long lists as differences.
//!
//! Postcard writes integers as varints (7 bits a byte), so a time since boot costs 7 bytes and a slice 17. The lists are therefore written
//! as differences: a slice as its start after the previous slice's end and its length, a sample as its time after the previous one, a
//! reading as its time and its counter after the previous one. The first entry of a list is a difference from zero, so every list stands
//! alone. Differences are wrapping and signed: any list comes back as it was, also one that is not in order.
//!
//! Leaves out chunks, checksums and files (`file.rs`), and whether the records make sense (`assembly.rs`).

use super::record::{CounterValue, GpuBusy, Reading, Record, Sample, Slice};
use crate::clock::KtimeNs;
use crate::ids::DomainId;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// An entry. The order of the variants is the format, as is that of the lists' fields.
#[derive(Serialize, Deserialize)]
enum Entry<'a> {
    Plain(Cow<'a, Record>),
    Slices(Vec<Slice>),
    Samples(Vec<Sample>),
    Readings(DomainId, Vec<Reading>),
    Busy(Vec<GpuBusy>),
}

/// Appends one record to a chunk. Memory is its only limit; postcard's error is passed on for the form of it.
pub(super) fn encode_record(record: &Record, out: Vec<u8>) -> postcard::Result<Vec<u8>> {
    let mut entry = match record {
        Record::Slices(slices) => Entry::Slices(slices.clone()),
        Record::Samples(samples) => Entry::Samples(samples.clone()),
        Record::Readings(domain, readings) => Entry::Readings(*domain, readings.clone()),
        Record::GpuBusy(busy) => Entry::Busy(busy.clone()),
        other => Entry::Plain(Cow::Borrowed(other)),
    };
    entry.code(Way::Write);
    postcard::to_extend(&entry, out)
}

/// Takes one record off the front of a chunk: the record and what follows it.
pub(super) fn decode_record(bytes: &[u8]) -> postcard::Result<(Record, &[u8])> {
    let (mut entry, rest) = postcard::take_from_bytes::<Entry<'_>>(bytes)?;
    entry.code(Way::Read);
    let record = match entry {
        Entry::Plain(record) => record.into_owned(),
        Entry::Slices(slices) => Record::Slices(slices),
        Entry::Samples(samples) => Record::Samples(samples),
        Entry::Readings(domain, readings) => Record::Readings(domain, readings),
        Entry::Busy(busy) => Record::GpuBusy(busy),
    };
    Ok((record, rest))
}

/// Values to differences, or differences to values: wrapping, with the sign in the lowest bit, as postcard writes integers with a sign.
#[derive(Clone, Copy)]
enum Way {
    Write,
    Read,
}

impl Way {
    /// What a value is after the `last` one, which it becomes; or the value of what was written so.
    const fn after(self, last: &mut u64, given: u64) -> u64 {
        match self {
            Self::Write => folded(given.wrapping_sub(std::mem::replace(last, given))),
            Self::Read => {
                *last = last.wrapping_add(unfolded(given));
                *last
            }
        }
    }

    /// The same of what lies before another value.
    const fn before(self, other: u64, given: u64) -> u64 {
        match self {
            Self::Write => folded(other.wrapping_sub(given)),
            Self::Read => other.wrapping_sub(unfolded(given)),
        }
    }

    fn time(self, last: &mut u64, at: &mut KtimeNs) {
        *at = KtimeNs::from_ns(self.after(last, at.as_ns()));
    }
}

const fn folded(difference: u64) -> u64 {
    (difference << 1) ^ (difference.cast_signed() >> 63).cast_unsigned()
}

const fn unfolded(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

impl Entry<'_> {
    fn code(&mut self, way: Way) {
        let (mut last, mut last_uj) = (0, 0);
        match self {
            Self::Plain(_) => {}
            Self::Slices(slices) => slices.iter_mut().for_each(|slice| {
                way.time(&mut last, &mut slice.start);
                way.time(&mut last, &mut slice.end);
            }),
            Self::Samples(samples) => {
                samples.iter_mut().for_each(|sample| way.time(&mut last, &mut sample.at));
            }
            Self::Readings(_, readings) => readings.iter_mut().for_each(|reading| {
                way.time(&mut last, &mut reading.at);
                if let CounterValue::MicroJoules(uj) = &mut reading.value {
                    *uj = way.after(&mut last_uj, *uj);
                }
            }),
            Self::Busy(busy) => busy.iter_mut().for_each(|busy| {
                way.time(&mut last, &mut busy.from);
                busy.launched = KtimeNs::from_ns(way.before(last, busy.launched.as_ns()));
                let mut until = last;
                way.time(&mut until, &mut busy.until);
                busy.busy_ns = way.before(until.wrapping_sub(last), busy.busy_ns);
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{decode_record, encode_record};
    use crate::clock::KtimeNs;
    use crate::ids::{BackgroundKey, CpuId, DomainId, StackId, ThreadKey};
    use crate::recording::record::{
        CounterValue, CpuOwner, GpuBusy, Reading, Record, Sample, Slice, StackStatus,
    };
    use proptest::prelude::*;

    fn who() -> impl Strategy<Value = CpuOwner> {
        let key = any::<u32>();
        prop_oneof![
            Just(CpuOwner::Other),
            key.prop_map(|key| CpuOwner::Target(ThreadKey::new(key))),
            key.prop_map(|key| CpuOwner::Background(BackgroundKey::new(key)))
        ]
    }

    prop_compose! {
        fn slice()(cpu: u32, who in who(), start: u64, end: u64) -> Slice {
            Slice { cpu: CpuId::new(cpu), who, start: KtimeNs::from_ns(start), end: KtimeNs::from_ns(end) }
        }
    }

    prop_compose! {
        fn sample()(at: u64, cpu: u32, thread: u32, stack: u32, healed: u8) -> Sample {
            let status = StackStatus::Recovered(healed);
            let (thread, stack) = (ThreadKey::new(thread), StackId::new(stack));
            Sample { at: KtimeNs::from_ns(at), cpu: CpuId::new(cpu), thread, stack, status }
        }
    }

    prop_compose! {
        fn reading()(at: u64, value in proptest::option::of(any::<u64>())) -> Reading {
            let value = value.map_or(CounterValue::Failed, CounterValue::MicroJoules);
            Reading { at: KtimeNs::from_ns(at), value }
        }
    }

    prop_compose! {
        fn busy()(device: u32, ids: (u32, u32), times: [u64; 3], count: u64, busy_ns: u64) -> GpuBusy {
            let [launched, from, until] = times.map(KtimeNs::from_ns);
            let (thread, stack) = (ThreadKey::new(ids.0), StackId::new(ids.1));
            GpuBusy { device, thread, stack, launched, from, until, count, busy_ns }
        }
    }

    proptest! {
        /// Packing loses nothing, whatever the order and size of the values.
        #[test]
        fn lists_come_back_as_they_were(
            slices in prop::collection::vec(slice(), 0..20),
            samples in prop::collection::vec(sample(), 0..20),
            readings in prop::collection::vec(reading(), 0..20),
            busy in prop::collection::vec(busy(), 0..20),
        ) {
            for record in [
                Record::Slices(slices),
                Record::Samples(samples),
                Record::Readings(DomainId::new(3), readings),
                Record::GpuBusy(busy),
            ] {
                let bytes = encode_record(&record, Vec::new()).unwrap();
                let (back, rest) = decode_record(&bytes).unwrap();
                prop_assert_eq!(back, record);
                prop_assert!(rest.is_empty());
            }
        }
    }

    /// A slice of ordinary length costs less than 12 bytes, a sample less than 12, a reading less than 10, a kernel less than 19, hours after
    /// boot.
    #[test]
    fn lists_are_compact() {
        let boot = 50_000_000_000_000_u64;
        let slices = (0..1000_u64).map(|i| Slice {
            cpu: CpuId::new(u32::try_from(i % 16).unwrap()),
            who: if i % 3 == 0 { CpuOwner::Other } else { CpuOwner::Target(ThreadKey::new(200)) },
            start: KtimeNs::from_ns(boot + i * 1_150_000),
            end: KtimeNs::from_ns(boot + i * 1_150_000 + 1_040_000),
        });
        let samples = (0..1000_u64).map(|i| Sample {
            at: KtimeNs::from_ns(boot + i * 10_101_010),
            cpu: CpuId::new(3),
            thread: ThreadKey::new(200),
            stack: StackId::new(40_000),
            status: StackStatus::Complete,
        });
        let readings = (0..1000_u64).map(|i| Reading {
            at: KtimeNs::from_ns(boot + i * 20_013_000),
            value: CounterValue::MicroJoules(200_000_000_000 + i * 900_000),
        });
        let size = |record: Record| encode_record(&record, Vec::new()).unwrap().len();
        assert!(size(Record::Slices(slices.collect())) < 12_000);
        assert!(size(Record::Samples(samples.collect())) < 12_000);
        assert!(size(Record::Readings(DomainId::new(0), readings.collect())) < 10_000);
        let busy = (0..1000_u64).map(|i| GpuBusy {
            device: 0,
            thread: ThreadKey::new(200),
            stack: StackId::new(40_000),
            launched: KtimeNs::from_ns(boot + i * 55_000),
            from: KtimeNs::from_ns(boot + i * 55_000 + 1_400_000),
            until: KtimeNs::from_ns(boot + i * 55_000 + 1_450_000),
            count: 1,
            busy_ns: 50_000,
        });
        assert!(size(Record::GpuBusy(busy.collect())) < 19_000);
    }
}
