//! The work of the native workloads: arithmetic on one CPU, declared under a function's name. Leaves out which functions there are and their watts.

use crate::declare::Declaration;
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

/// Computes for `time`, declared as `name` where there is a channel.
///
/// Inlined, so that the time is in the function by whose name it is declared, and each is code of its own.
///
/// # Errors
/// When the channel is closed or refuses.
#[inline(always)]
pub fn run(name: &str, declaration: &mut Option<Declaration>, time: Duration) -> io::Result<()> {
    declaration.as_mut().map_or(Ok(()), |d| d.enter(name))?;
    let end = Instant::now() + time;
    while Instant::now() < end {
        let mut x = black_box(1_u64);
        for i in 0..100_000_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i);
        }
        black_box((x, name));
    }
    declaration.as_mut().map_or(Ok(()), Declaration::leave)
}
