//! A training loop on the runtime API: `gpu_mix SECONDS [eager|mixed|graph|decode|grids|capture|streams|fork|ranges|bursts|serve FILE KIND|rate N]`. Each of its functions launches under its own name as tag.
//!
//! eager: phases of forward, backward and optimizer in changing proportions, with a copy in and out; mixed: four kernels, each from a function of
//! its own, in numbers that change from phase to phase; graph: the same forward captured
//! once and replayed; decode: each replay is followed by a copy back and no other wait; grids: the same with another function that launches one of its kernels ten times as wide; capture: captures that are never launched, beside phases of the optimizer; streams: two streams at once; fork: a child that uses no GPU is forked in the middle; ranges: one function launches in two ranges; bursts: work and rest by turns; serve: requests of changing length with rests between them, of tokens whose number stands in FILE, made by `dense` or by `activate`; rate N: N launches a second
//! of `tiny`, from one place. Leaves out every result.
#define PROGRAM "gpu_mix"
#include "gpu_loop.h"
#include "nvtx.h"
#include <sys/wait.h>
#include <unistd.h>

extern int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
extern int cudaMemsetAsync(void *, int, size_t, void *);
extern int cudaDeviceSynchronize(void);

static void launch(void (*kernel)(void), void *stream) {
    launch_blocks(kernel, 64, stream);
}

STUB void upload(void *stream) {
    tag("upload");
    check(cudaMemcpyAsync(device_memory, host_memory, sizeof host_memory, 1, stream), "cudaMemcpyAsync");
}

STUB void download(void *stream) {
    tag("download");
    check(cudaMemcpyAsync(host_memory, device_memory, sizeof host_memory, 2, stream), "cudaMemcpyAsync");
}

STUB void forward(void *stream) {
    tag("forward");
    launch(gemm, stream);
    launch(relu, stream);
}

STUB void backward(void *stream) {
    tag("backward");
    launch(gemm_grad, stream);
    launch(relu, stream);
}

STUB void wide(void *stream) {
    tag("wide");
    launch_blocks(relu, 640, stream);
}

STUB void optimizer(void *stream) {
    tag("optimizer");
    launch(adam, stream);
}

STUB void clear(void *stream) {
    tag("clear");
    check(cudaMemsetAsync(device_memory, 0, 1 << 20, stream), "cudaMemsetAsync");
}

// One phase: `what` again and again for so many seconds, waiting for the device every eight times.
STUB void phase(void (*what)(void *), void *stream, double seconds) {
    for (double end = now() + seconds; now() < end;) {
        for (int i = 0; i < 8; i++) what(stream);
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
}

STUB void eager(double seconds, void *stream) {
    unsigned seed = 1;
    for (double end = now() + seconds; now() < end;) {
        upload(stream);
        clear(stream);
        phase(forward, stream, 0.02 + (rand_r(&seed) % 100) * 1e-3);
        phase(backward, stream, 0.02 + (rand_r(&seed) % 100) * 1e-3);
        phase(optimizer, stream, 0.02 + (rand_r(&seed) % 100) * 1e-3);
        download(stream);
        // A pause of changing length, in which the device idles.
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        usleep(rand_r(&seed) % 50000);
    }
}

STUB void dense(void *stream) {
    tag("dense");
    launch(gemm, stream);
}

STUB void activate(void *stream) {
    tag("activate");
    launch(relu, stream);
}

STUB void backprop(void *stream) {
    tag("backprop");
    launch(gemm_grad, stream);
}

STUB void update(void *stream) {
    tag("update");
    launch(adam, stream);
}

STUB void mixed(double seconds, void *stream) {
    void (*what[])(void *) = {dense, activate, backprop, update};
    unsigned seed = 3;
    for (double end = now() + seconds; now() < end;) {
        int often[4];
        for (int k = 0; k < 4; k++) often[k] = rand_r(&seed) % 3 ? 1 + rand_r(&seed) % (k == 1 ? 60 : 12) : 0;
        for (double until = now() + 0.02 + (rand_r(&seed) % 100) * 1e-3; now() < until;) {
            for (int k = 0; k < 4; k++)
                for (int i = 0; i < often[k]; i++) what[k](stream);
            check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        }
    }
}

STUB void *capture_with(void (*also)(void *), void *stream) {
    void *graph, *executable;
    check(cudaStreamBeginCapture(stream, 0), "cudaStreamBeginCapture");
    for (int i = 0; i < 4; i++) forward(stream);
    also(stream);
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    return executable;
}

STUB void *capture(void *stream) {
    return capture_with(backward, stream);
}

STUB void replay(void *executable, void *stream, double seconds) {
    for (double end = now() + seconds; now() < end;) {
        tag("replay");
        check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
}

// Captures again and again what is never launched, between phases of what is.
STUB void capture_only(double seconds, void *stream) {
    unsigned seed = 3;
    for (double end = now() + seconds; now() < end;) {
        for (int i = 0; i < 20; i++) capture(stream);
        phase(optimizer, stream, 0.02 + (rand_r(&seed) % 100) * 1e-3);
        usleep(rand_r(&seed) % 50000);
    }
}

STUB void replays(void *executable, double seconds, void *stream) {
    unsigned seed = 2;
    for (double end = now() + seconds; now() < end;) {
        replay(executable, stream, 0.05 + (rand_r(&seed) % 100) * 1e-3);
        phase(optimizer, stream, 0.02 + (rand_r(&seed) % 100) * 1e-3);
    }
}

STUB void graph(double seconds, void *stream) {
    replays(capture(stream), seconds, stream);
}

STUB void decode(double seconds, void *stream) {
    void *executable = capture(stream);
    for (double end = now() + seconds; now() < end;) {
        tag("replay");
        check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
        download(stream);
    }
}

STUB void grids(double seconds, void *stream) {
    replays(capture_with(wide, stream), seconds, stream);
}

STUB void streams(double seconds, void *first) {
    void *second;
    check(cudaStreamCreateWithFlags(&second, 1), "cudaStreamCreateWithFlags");
    for (double end = now() + seconds; now() < end;) {
        for (int i = 0; i < 8; i++) {
            forward(first);
            optimizer(second);
        }
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
}

STUB void rate(double seconds, void *stream, double per_second) {
    tag("rate");
    double start = now();
    for (long done = 0;; done++) {
        double due = start + done / per_second;
        if (due - start >= seconds) break;
        while (now() < due) {}
        launch(tiny, stream);
    }
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static void fork_between(double seconds, void *stream) {
    eager(seconds / 2, stream);
    if (fork() == 0) _exit(0);
    wait(NULL);
    eager(seconds / 2, stream);
}

// The same function launches in two ranges, three times as often in one.
STUB void ranges(double seconds, void *stream) {
    nvtx_begin();
    for (double end = now() + seconds; now() < end;) {
        push("prefill");
        dense(stream);
        pop();
        push("decode");
        for (int i = 0; i < 3; i++) dense(stream);
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        pop();
    }
}

STUB void bursts(double seconds, void *stream) {
    for (double end = now() + seconds; now() < end;) {
        phase(dense, stream, 0.4);
        usleep(400000);
    }
}

// A token is eight launches.
STUB void serve(double seconds, void *stream, const char *path, const char *kind) {
    void (*token)(void *) = strcmp(kind, "dense") ? activate : dense;
    FILE *file = fopen(path, "w");
    if (!file) exit(4);
    unsigned seed = strlen(kind);
    long tokens = 0;
    for (double end = now() + seconds; now() < end;) {
        for (double until = now() + 0.05 + (rand_r(&seed) % 200) * 1e-3; now() < until;) {
            for (int i = 0; i < 8; i++) token(stream);
            check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
            rewind(file);
            fprintf(file, "%ld\n", ++tokens);
            fflush(file);
        }
        usleep(300000 + rand_r(&seed) % 400000);
    }
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1.0;
    const char *mode = argc > 2 ? argv[2] : "eager";
    void *stream = set_up();
    if (!strcmp(mode, "eager")) eager(seconds, stream);
    else if (!strcmp(mode, "mixed")) mixed(seconds, stream);
    else if (!strcmp(mode, "graph")) graph(seconds, stream);
    else if (!strcmp(mode, "decode")) decode(seconds, stream);
    else if (!strcmp(mode, "grids")) grids(seconds, stream);
    else if (!strcmp(mode, "capture")) capture_only(seconds, stream);
    else if (!strcmp(mode, "streams")) streams(seconds, stream);
    else if (!strcmp(mode, "fork")) fork_between(seconds, stream);
    else if (!strcmp(mode, "ranges")) ranges(seconds, stream);
    else if (!strcmp(mode, "bursts")) bursts(seconds, stream);
    else if (!strcmp(mode, "serve") && argc > 4) serve(seconds, stream, argv[3], argv[4]);
    else if (!strcmp(mode, "rate")) rate(seconds, stream, argc > 3 ? atof(argv[3]) : 10000);
    else return 2;
    return cudaDeviceSynchronize();
}
