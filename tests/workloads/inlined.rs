//! A program whose time is spent in a function that the compiler put into another, for as many seconds as its argument says.

use std::time::{Duration, Instant};

#[inline(always)]
fn innermost(values: &[f64], x: f64) -> f64 {
    let mut sum = 0.0;
    for value in values {
        sum += value * x / (sum + 1.5); // this line is hot
    }
    sum
}

#[inline(always)]
fn middle(values: &[f64], x: f64) -> f64 {
    innermost(values, x) + 1.0
}

#[inline(never)]
fn outermost<T: Copy + Into<f64>>(values: &[f64], x: T) -> f64 {
    middle(values, x.into())
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let values = vec![0.5; 2000];
    let mut sum = 0.0;
    while Instant::now() < end {
        for x in 0..20_u8 {
            sum += outermost::<u8>(std::hint::black_box(&values), x);
        }
    }
    println!("{sum}");
}
