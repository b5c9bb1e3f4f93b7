//! Calls of calls, sorting and text for so many seconds.
use std::fmt::Write;
use std::time::{Duration, Instant};
fn fib(n: u32) -> u64 { if n < 2 { n as u64 } else { fib(n - 1) + fib(n - 2) } }
fn sorting() -> u64 {
    let mut v: Vec<u64> = (0..20000).map(|i| i * 7919 % 10007).collect();
    v.sort_by(|a, b| b.cmp(a));
    v[9]
}
fn texts() -> u64 {
    let mut text = String::new();
    for i in 0..500 { write!(text, "{i},").unwrap(); }
    text.len() as u64
}
fn main() {
    let end = Instant::now() + Duration::from_secs_f64(std::env::args().nth(1).unwrap().parse().unwrap());
    let mut sum = 0;
    while Instant::now() < end { sum += fib(22) + sorting() + texts(); }
    println!("{sum}");
}
