//! A native workload of the closed loop: threads of one function each, of different watts, that work and sleep by turns.
//!
//! `threads SECONDS NAME=WATTS…`, where a name is one of `first`, `second`, `third`, `fourth`, or begins with `stranger`. Work is 10 to 30 ms,
//! sleep 5 to 40 ms, each thread of each process in its own rhythm. Without `POWER_SIM_SOCKET` in the environment it does the same and declares nothing.

use anyhow::{Context as _, bail};
use energy_trace_tests::declare::Declaration;
use energy_trace_tests::work;
use std::io;
use std::time::{Duration, Instant};

/// Each has its name in it, so that the compiler does not make one function of them; background processes declare the name that they were given.
type Work = fn(&str, &mut Option<Declaration>, Duration) -> io::Result<()>;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().context("how many seconds?")?.parse()?;
    let threads: Vec<(String, f64)> = arguments
        .map(|argument| {
            let (name, watts) = argument.split_once('=').context("NAME=WATTS")?;
            Ok((name.to_owned(), watts.parse()?))
        })
        .collect::<anyhow::Result<_>>()?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let running: Vec<_> = (u64::from(std::process::id()) << 8..)
        .zip(threads)
        .map(|(number, (name, watts))| std::thread::spawn(move || thread(&name, watts, number, end)))
        .collect();
    for thread in running {
        thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    Ok(())
}

fn thread(name: &str, watts: f64, mut random: u64, end: Instant) -> anyhow::Result<()> {
    let work: Work = match name {
        "first" => first,
        "second" => second,
        "third" => third,
        "fourth" => fourth,
        _ if name.starts_with("stranger") => stranger,
        _ => bail!("no function `{name}`"),
    };
    let mut declaration = Declaration::connect()?;
    declaration.as_mut().map_or(Ok(()), |d| d.function(name, watts))?;
    let mut next = |from: u64, to: u64| {
        // Knuth's MMIX generator; its high bits are random enough for a rhythm.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros(1_000 * from + (random >> 33) % (1_000 * (to - from)))
    };
    while Instant::now() < end {
        work(name, &mut declaration, next(10, 30))?;
        std::thread::sleep(next(5, 40));
    }
    Ok(())
}

#[inline(never)]
fn first(_: &str, declaration: &mut Option<Declaration>, time: Duration) -> io::Result<()> {
    work::run("first", declaration, time)
}

#[inline(never)]
fn second(_: &str, declaration: &mut Option<Declaration>, time: Duration) -> io::Result<()> {
    work::run("second", declaration, time)
}

#[inline(never)]
fn third(_: &str, declaration: &mut Option<Declaration>, time: Duration) -> io::Result<()> {
    work::run("third", declaration, time)
}

#[inline(never)]
fn fourth(_: &str, declaration: &mut Option<Declaration>, time: Duration) -> io::Result<()> {
    work::run("fourth", declaration, time)
}

#[inline(never)]
fn stranger(name: &str, declaration: &mut Option<Declaration>, time: Duration) -> io::Result<()> {
    work::run(name, declaration, time)
}
