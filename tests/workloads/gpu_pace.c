//! Launches with a fixed amount of work between two of them, for measuring what a launch costs: `gpu_pace SECONDS runtime|driver WORK ROUND`.
//!
//! WORK is the steps of a loop before each launch; after each ROUND launches it prints the clock and its thread's CPU time, both in
//! nanoseconds, its launches so far, and how long that work took until now by the clock. The kernel is `tiny`. Leaves out waiting, but for the end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { unsigned x, y, z; } dim3;
extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *);
extern int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
extern int cudaDeviceSynchronize(void);
extern int cudaFree(void *);
extern int cuModuleLoadData(void **, const void *);
extern int cuModuleGetFunction(void **, void *, const char *);
extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

__attribute__((noinline)) void tiny(void) { __asm__ volatile("" ::: "memory"); }

static void check(int code, const char *what) {
    if (code != 0) {
        fprintf(stderr, "gpu_pace: %s says %d\n", what, code);
        exit(3);
    }
}

static unsigned long long ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void work(long steps) {
    for (long i = 0; i < steps; i++) __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    double seconds = atof(argv[1]);
    int driver = !strcmp(argv[2], "driver");
    long steps = atol(argv[3]), round = atol(argv[4]), done = 0;
    void **binary = __cudaRegisterFatBinary("none"), *module, *function;
    __cudaRegisterFunction(binary, (void *)tiny, "tiny", "tiny", -1, 0, 0, 0, 0, 0);
    // The runtime's first call makes the context that the driver's calls then use.
    check(cudaFree(0), "cudaFree");
    check(cuModuleLoadData(&module, "image"), "cuModuleLoadData");
    check(cuModuleGetFunction(&function, module, "tiny"), "cuModuleGetFunction");
    dim3 grid = {1, 1, 1}, block = {32, 1, 1};
    unsigned long long end = ns(CLOCK_MONOTONIC) + (unsigned long long)(seconds * 1e9), now, worked = 0;
    do {
        for (long i = 0; i < round; i++) {
            unsigned long long before = ns(CLOCK_MONOTONIC);
            work(steps);
            worked += ns(CLOCK_MONOTONIC) - before;
            if (driver) check(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0), "cuLaunchKernel");
            else check(cudaLaunchKernel((void *)tiny, grid, block, 0, 0, 0), "cudaLaunchKernel");
        }
        done += round;
        now = ns(CLOCK_MONOTONIC);
        printf("%llu %llu %ld %llu\n", now, ns(CLOCK_THREAD_CPUTIME_ID), done, worked);
    } while (now < end);
    return cudaDeviceSynchronize();
}
