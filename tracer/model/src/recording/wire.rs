//! How records lie in a chunk: postcard, with the long lists packed.
//!
//! Postcard writes integers as varints (7 bits a byte), so a time since boot costs 7 bytes and a slice 17. The lists are therefore written
//! as differences: a slice as its start after the previous slice's end and its length, a sample as its time after the previous one, a
//! reading as its time and its counter after the previous one. The first entry of a list is a difference from zero, so every list stands
//! alone. Differences are wrapping and signed: any list comes back as it was, also one that is not in order.
//!
//! Leaves out chunks, checksums and files (`file.rs`), and whether the records make sense (`assembly.rs`).

use super::record::{CounterValue, CpuOwner, GpuBusy, Reading, Record, Sample, Slice, StackStatus};
use crate::clock::KtimeNs;
use crate::ids::{CpuId, DomainId, StackId, ThreadKey};
use serde::{Deserialize, Serialize};

/// An entry as it is written. The order of the variants is the format: it must match `Entry`.
#[derive(Serialize)]
enum EntryRef<'a> {
    Plain(&'a Record),
    Slices(Vec<PackedSlice>),
    Samples(Vec<PackedSample>),
    Readings(DomainId, Vec<PackedReading>),
    Busy(Vec<PackedBusy>),
}

/// An entry as it is read.
#[derive(Deserialize)]
enum Entry {
    Plain(Record),
    Slices(Vec<PackedSlice>),
    Samples(Vec<PackedSample>),
    Readings(DomainId, Vec<PackedReading>),
    Busy(Vec<PackedBusy>),
}

/// Start after the previous slice's end, length, CPU, who.
#[derive(Serialize, Deserialize)]
struct PackedSlice(i64, i64, CpuId, CpuOwner);

/// Time after the previous sample, CPU, thread, stack, status.
#[derive(Serialize, Deserialize)]
struct PackedSample(i64, CpuId, ThreadKey, StackId, StackStatus);

/// Time after the previous reading, counter after the previous counter; `None` for a read that failed.
#[derive(Serialize, Deserialize)]
struct PackedReading(i64, Option<i64>);

/// Start after the previous one's start, launch before it, length, what of the length nothing ran, device, thread, stack, count.
#[derive(Serialize, Deserialize)]
struct PackedBusy(i64, i64, i64, i64, u32, ThreadKey, StackId, u64);

/// Appends one record to a chunk. Memory is its only limit; postcard's error is passed on for the form of it.
pub(super) fn encode_record(record: &Record, out: Vec<u8>) -> postcard::Result<Vec<u8>> {
    let entry = match record {
        Record::Slices(slices) => EntryRef::Slices(pack_slices(slices)),
        Record::Samples(samples) => EntryRef::Samples(pack_samples(samples)),
        Record::Readings(domain, readings) => EntryRef::Readings(*domain, pack_readings(readings)),
        Record::GpuBusy(busy) => EntryRef::Busy(pack_busy(busy)),
        other => EntryRef::Plain(other),
    };
    postcard::to_extend(&entry, out)
}

/// Takes one record off the front of a chunk: the record and what follows it.
pub(super) fn decode_record(bytes: &[u8]) -> postcard::Result<(Record, &[u8])> {
    let (entry, rest) = postcard::take_from_bytes::<Entry>(bytes)?;
    let record = match entry {
        Entry::Plain(record) => record,
        Entry::Slices(packed) => Record::Slices(unpack_slices(packed)),
        Entry::Samples(packed) => Record::Samples(unpack_samples(packed)),
        Entry::Readings(domain, packed) => Record::Readings(domain, unpack_readings(packed)),
        Entry::Busy(packed) => Record::GpuBusy(unpack_busy(packed)),
    };
    Ok((record, rest))
}

/// `to - from` as a wrapping difference; `forward` undoes it for every pair of values.
const fn difference(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

/// The value that lies `difference` after `from`.
const fn forward(from: u64, difference: i64) -> u64 {
    from.wrapping_add(difference.cast_unsigned())
}

fn pack_slices(slices: &[Slice]) -> Vec<PackedSlice> {
    let mut previous_end = 0;
    let pack = |slice: &Slice| {
        let (start, end) = (slice.start.as_ns(), slice.end.as_ns());
        let packed =
            PackedSlice(difference(previous_end, start), difference(start, end), slice.cpu, slice.who);
        previous_end = end;
        packed
    };
    slices.iter().map(pack).collect()
}

fn unpack_slices(packed: Vec<PackedSlice>) -> Vec<Slice> {
    let mut previous_end = 0;
    let unpack = |PackedSlice(gap, length, cpu, who)| {
        let start = forward(previous_end, gap);
        previous_end = forward(start, length);
        Slice { cpu, who, start: KtimeNs::from_ns(start), end: KtimeNs::from_ns(previous_end) }
    };
    packed.into_iter().map(unpack).collect()
}

fn pack_samples(samples: &[Sample]) -> Vec<PackedSample> {
    let mut previous = 0;
    let pack = |sample: &Sample| {
        let at = sample.at.as_ns();
        let packed =
            PackedSample(difference(previous, at), sample.cpu, sample.thread, sample.stack, sample.status);
        previous = at;
        packed
    };
    samples.iter().map(pack).collect()
}

fn unpack_samples(packed: Vec<PackedSample>) -> Vec<Sample> {
    let mut previous = 0;
    let unpack = |PackedSample(step, cpu, thread, stack, status)| {
        previous = forward(previous, step);
        Sample { at: KtimeNs::from_ns(previous), cpu, thread, stack, status }
    };
    packed.into_iter().map(unpack).collect()
}

fn pack_readings(readings: &[Reading]) -> Vec<PackedReading> {
    let (mut previous_at, mut previous_value) = (0, 0);
    let pack = |reading: &Reading| {
        let step = difference(previous_at, reading.at.as_ns());
        previous_at = reading.at.as_ns();
        let value = match reading.value {
            CounterValue::Failed => None,
            CounterValue::MicroJoules(uj) => Some(difference(std::mem::replace(&mut previous_value, uj), uj)),
        };
        PackedReading(step, value)
    };
    readings.iter().map(pack).collect()
}

fn unpack_readings(packed: Vec<PackedReading>) -> Vec<Reading> {
    let (mut at, mut value) = (0, 0);
    let unpack = |PackedReading(step, change): PackedReading| {
        at = forward(at, step);
        let value = change.map_or(CounterValue::Failed, |change| {
            value = forward(value, change);
            CounterValue::MicroJoules(value)
        });
        Reading { at: KtimeNs::from_ns(at), value }
    };
    packed.into_iter().map(unpack).collect()
}

fn pack_busy(busy: &[GpuBusy]) -> Vec<PackedBusy> {
    let mut previous = 0;
    let pack = |busy: &GpuBusy| {
        let (launched, from, until) = (busy.launched.as_ns(), busy.from.as_ns(), busy.until.as_ns());
        let length = difference(from, until);
        let step = difference(std::mem::replace(&mut previous, from), from);
        let rest = difference(busy.busy_ns, length.cast_unsigned());
        let GpuBusy { device, thread, stack, count, .. } = *busy;
        PackedBusy(step, difference(launched, from), length, rest, device, thread, stack, count)
    };
    busy.iter().map(pack).collect()
}

fn unpack_busy(packed: Vec<PackedBusy>) -> Vec<GpuBusy> {
    let mut from = 0;
    let unpack = |PackedBusy(step, waited, length, rest, device, thread, stack, count)| {
        from = forward(from, step);
        GpuBusy {
            device,
            thread,
            stack,
            launched: KtimeNs::from_ns(from.wrapping_sub(waited.cast_unsigned())),
            from: KtimeNs::from_ns(from),
            until: KtimeNs::from_ns(forward(from, length)),
            count,
            busy_ns: length.cast_unsigned().wrapping_sub(rest.cast_unsigned()),
        }
    };
    packed.into_iter().map(unpack).collect()
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
