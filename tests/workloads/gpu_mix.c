//! A training loop on the runtime API: `gpu_mix SECONDS [eager|mixed|graph|grids|capture|streams|fork|rate N]`. Each of its functions launches under its own name as tag.
//!
//! eager: phases of forward, backward and optimizer in changing proportions, with a copy in and out; mixed: four kernels, each from a function of
//! its own, in numbers that change from phase to phase; graph: the same forward captured
//! once and replayed; grids: the same with another function that launches one of its kernels ten times as wide; capture: captures that are never launched, beside phases of the optimizer; streams: two streams at once; fork: a child that uses no GPU is forked in the middle; rate N: N launches a second
//! of `tiny`, from one place. Leaves out every result.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct { unsigned x, y, z; } dim3;
extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *);
extern int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
extern int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
extern int cudaMemsetAsync(void *, int, size_t, void *);
extern int cudaMalloc(void **, size_t);
extern int cudaDeviceSynchronize(void);
extern int cudaStreamCreateWithFlags(void **, unsigned);
extern int cudaStreamSynchronize(void *);
extern int cudaStreamBeginCapture(void *, int);
extern int cudaStreamEndCapture(void *, void **);
extern int cudaGraphInstantiate(void **, void *, unsigned long long);
extern int cudaGraphLaunch(void *, void *);
extern void simgpu_tag(const char *) __attribute__((weak));

#define STUB __attribute__((noinline))
// What nvcc leaves on the host for a kernel: a function whose address stands for it.
STUB void gemm(void) { __asm__ volatile("" ::: "memory"); }
STUB void relu(void) { __asm__ volatile("nop" ::: "memory"); }
STUB void gemm_grad(void) { __asm__ volatile("nop; nop" ::: "memory"); }
STUB void adam(void) { __asm__ volatile("nop; nop; nop" ::: "memory"); }
STUB void tiny(void) { __asm__ volatile("nop; nop; nop; nop" ::: "memory"); }

static void *device_memory;
static char host_memory[1 << 20];

static void check(int code, const char *what) {
    if (code != 0) {
        fprintf(stderr, "gpu_mix: %s says %d\n", what, code);
        exit(3);
    }
}

static void tag(const char *name) {
    if (simgpu_tag) simgpu_tag(name);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void launch_blocks(void (*kernel)(void), unsigned blocks, void *stream) {
    dim3 grid = {blocks, 1, 1}, block = {256, 1, 1};
    check(cudaLaunchKernel((void *)kernel, grid, block, NULL, 0, stream), "cudaLaunchKernel");
}

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

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1.0;
    const char *mode = argc > 2 ? argv[2] : "eager";
    void **binary = __cudaRegisterFatBinary("none");
    struct { void (*stub)(void); const char *name; } kernels[] = {
        {gemm, "gemm"}, {relu, "relu"}, {gemm_grad, "gemm_grad"}, {adam, "adam"}, {tiny, "tiny"}};
    for (int i = 0; i < 5; i++)
        __cudaRegisterFunction(binary, (void *)kernels[i].stub, (char *)kernels[i].name, kernels[i].name, -1, 0, 0, 0, 0, 0);
    void *stream;
    check(cudaMalloc(&device_memory, sizeof host_memory), "cudaMalloc");
    check(cudaStreamCreateWithFlags(&stream, 1), "cudaStreamCreateWithFlags");
    if (!strcmp(mode, "eager")) eager(seconds, stream);
    else if (!strcmp(mode, "mixed")) mixed(seconds, stream);
    else if (!strcmp(mode, "graph")) graph(seconds, stream);
    else if (!strcmp(mode, "grids")) grids(seconds, stream);
    else if (!strcmp(mode, "capture")) capture_only(seconds, stream);
    else if (!strcmp(mode, "streams")) streams(seconds, stream);
    else if (!strcmp(mode, "fork")) fork_between(seconds, stream);
    else if (!strcmp(mode, "rate")) rate(seconds, stream, argc > 3 ? atof(argv[3]) : 10000);
    else return 2;
    return cudaDeviceSynchronize();
}
