//! What training loops on the runtime API share: its declarations, kernels' stubs, and a stream to begin with. PROGRAM is the loop's name.
//! Leaves out what a loop does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { unsigned x, y, z; } dim3;
extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *);
extern int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
extern int cudaMalloc(void **, size_t);
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
        fprintf(stderr, PROGRAM ": %s says %d\n", what, code);
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

// The kernels are registered; gives a stream.
static void *set_up(void) {
    void *stream, **binary = __cudaRegisterFatBinary("none");
    struct { void (*stub)(void); const char *name; } kernels[] = {
        {gemm, "gemm"}, {relu, "relu"}, {gemm_grad, "gemm_grad"}, {adam, "adam"}, {tiny, "tiny"}};
    for (int i = 0; i < 5; i++)
        __cudaRegisterFunction(binary, (void *)kernels[i].stub, (char *)kernels[i].name, kernels[i].name, -1, 0, 0, 0, 0, 0);
    check(cudaMalloc(&device_memory, sizeof host_memory), "cudaMalloc");
    check(cudaStreamCreateWithFlags(&stream, 1), "cudaStreamCreateWithFlags");
    return stream;
}
