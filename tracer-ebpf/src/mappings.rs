//! Which announcements of new mappings are sent: a program may make a hundred thousand in a second, and each wakes user space.
//!
//! User space reads a process's mappings when one is announced, and once more 30 ms later. So of very many that come at once, those need not be
//! sent that follow a sent one of the same process within 10 ms. Leaves out how often user space reads them (`probe/processes/maps_budget.rs`).

/// So many in a stretch are all sent: programs that load libraries make fewer.
pub const MANY: u32 = 200;
/// A stretch.
pub const STRETCH_NS: u64 = 100_000_000;
/// Beyond, one in such a time is sent: a third of what user space waits for its second look.
pub const EVERY_NS: u64 = 10_000_000;

/// The last announcements on a CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// When the stretch began.
    pub since_ns: u64,
    /// When the last one was sent.
    pub sent_ns: u64,
    /// By which process.
    pub pid: u32,
    /// How many came in this stretch, of that process.
    pub count: u32,
}

impl Announced {
    /// Whether this one is sent.
    #[inline(always)]
    pub fn sends(&mut self, pid: u32, now: u64) -> bool {
        if self.pid != pid || now.wrapping_sub(self.since_ns) > STRETCH_NS {
            *self = Self { since_ns: now, sent_ns: now, pid, count: 1 };
            return true;
        }
        self.count = self.count.saturating_add(1);
        if self.count > MANY && now.wrapping_sub(self.sent_ns) < EVERY_NS {
            return false;
        }
        self.sent_ns = now;
        true
    }
}

const _: () = assert!(size_of::<Announced>() == 24);

#[cfg(test)]
mod tests {
    use super::{Announced, EVERY_NS, MANY};

    /// Each is sent while they are few; of many, every one is followed by one that was sent before it, by less than user space waits; and
    /// another process's is never taken for one of them.
    #[test]
    fn none_is_missed() {
        let mut announced = Announced::default();
        let (mut sent, mut last) = (0, 0);
        for step in 0..1_000_000_u64 {
            let now = (1 << 40) | (step * 10_000);
            if announced.sends(7, now) {
                (sent, last) = (sent + 1, now);
            }
            assert!(step >= u64::from(MANY) || last == now);
            assert!(now - last < EVERY_NS);
        }
        // 10 s: 200 in each stretch of 100 ms, and one in 10 ms.
        assert!((20_000..22_000).contains(&sent), "{sent}");
        assert!(announced.sends(8, 1 << 41) && announced.sends(7, 1 << 41));
    }
}
