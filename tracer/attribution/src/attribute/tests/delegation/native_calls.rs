//! Below which native call of a Python line a worker stands: `torch.matmul` in machine code, which the stack
//! of a wait does not show.
//!
//! Leaves out for whom workers work (`mod.rs`).

use super::world::{World, expect};

/// Where a worker's energy stands after its Python thread was sampled in these native frames and sleeps in
/// the same line.
fn of_worker(samples: [&str; 2], worker_stack: &str) -> World {
    let mut world = World::new();
    let process = world.process(None);
    let (main, worker) = (world.thread(process, "python"), world.thread(process, "omp"));
    world.runs(main, 0, 20, samples[0]);
    world.runs(main, 20, 40, samples[1]);
    world.waits(main, 40, "p:main");
    world.runs(worker, 40, 100, worker_stack);
    world
}

/// All samples of a line came through the same call before they reached the worker's library: what that call
/// has others do stands below it, and what ran itself there is no part of the way.
#[test]
fn below_the_call_on_which_samples_agree() {
    let samples =
        ["p:main n:torch/matmul n:torch/mm n:torch/pack", "p:main n:torch/matmul n:torch/mm n:torch/gemm"];
    let seen = of_worker(samples, "n:libc/clone n:torch/gemm").logical();
    assert_eq!(
        seen,
        expect(&[
            ("main;matmul;mm;pack", 20_000),
            ("main;matmul;mm;gemm", 20_000),
            ("main;matmul;mm;[on behalf of];clone;gemm", 60_000),
        ])
    );
}

/// A sample that was taken on the way, before the call was made or behind it, does not make the way shorter.
#[test]
fn samples_on_the_way_agree() {
    let samples = ["p:main n:torch/call", "p:main n:torch/call n:torch/matmul n:torch/gemm"];
    for samples in [samples, [samples[1], samples[0]]] {
        let seen = of_worker(samples, "n:libc/clone n:torch/gemm").logical();
        assert_eq!(
            seen,
            expect(&[
                ("main;call", 20_000),
                ("main;call;matmul;gemm", 20_000),
                ("main;call;matmul;[on behalf of];clone;gemm", 60_000),
            ])
        );
    }
}

/// A line that makes two calls: nobody knows which of them the worker was asked in, so it stands below the
/// line.
#[test]
fn below_the_line_where_samples_differ() {
    let samples = ["p:main n:torch/matmul n:torch/gemm", "p:main n:torch/cat n:torch/copy"];
    let seen = of_worker(samples, "n:libc/clone n:torch/gemm").logical();
    assert_eq!(
        seen,
        expect(&[
            ("main;matmul;gemm", 20_000),
            ("main;cat;copy", 20_000),
            ("main;[on behalf of];clone;gemm", 60_000),
        ])
    );
}

/// Samples that never reach a library in which the worker lives tell nothing of it; nor do those that reach
/// only what lies above Python too.
#[test]
fn other_libraries_tell_nothing() {
    let samples = ["p:main n:torch/matmul n:torch/gemm"; 2];
    let seen = of_worker(samples, "n:libc/clone n:blas/gemm").logical();
    assert_eq!(seen, expect(&[("main;matmul;gemm", 40_000), ("main;[on behalf of];clone;gemm", 60_000)]));
    let samples = ["n:libc/start p:main n:libc/read n:libc/copy"; 2];
    let seen = of_worker(samples, "n:libc/clone n:blas/gemm").logical();
    assert_eq!(
        seen,
        expect(&[("start;main;read;copy", 40_000), ("start;main;[on behalf of];clone;gemm", 60_000)])
    );
}
