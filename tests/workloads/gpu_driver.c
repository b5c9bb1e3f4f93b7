//! The driver API without linking it: `gpu_driver SECONDS [DEVICE]`. libcuda is loaded late by dlopen and its functions found by
//! cuGetProcAddress_v2, as a program with a static cudart does. Each function launches under its own name as tag. Leaves out every result.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *library;
static int (*get_address)(const char *, void **, int, unsigned long long, int *);
static void (*tag)(const char *);
static int (*launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static int (*synchronize)(void *);
static void *matmul, *softmax;

static void check(int code, const char *what) {
    if (code != 0) {
        fprintf(stderr, "gpu_driver: %s says %d\n", what, code);
        exit(3);
    }
}

static void *find(const char *name) {
    void *address;
    int status;
    check(get_address(name, &address, 12080, 0, &status), name);
    return address;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((noinline)) void attention(void *stream) {
    if (tag) tag("attention");
    check(launch_kernel(softmax, 128, 1, 1, 256, 1, 1, 0, stream, 0, 0), "cuLaunchKernel");
    check(synchronize(stream), "cuStreamSynchronize");
}

__attribute__((noinline)) void linear(void *stream) {
    if (tag) tag("linear");
    check(launch_kernel(matmul, 128, 1, 1, 256, 1, 1, 0, stream, 0, 0), "cuLaunchKernel");
    check(synchronize(stream), "cuStreamSynchronize");
}

static void phase(void (*what)(void *), void *stream, double seconds) {
    for (double end = now() + seconds; now() < end;) what(stream);
}

static void *prepare(int device) {
    void *context, *module, *stream;
    check(((int (*)(unsigned))find("cuInit"))(0), "cuInit");
    check(((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(&context, device), "cuDevicePrimaryCtxRetain");
    check(((int (*)(void *))find("cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
    check(((int (*)(void **, const void *))find("cuModuleLoadData"))(&module, "image"), "cuModuleLoadData");
    int (*get_function)(void **, void *, const char *) = find("cuModuleGetFunction");
    check(get_function(&matmul, module, "matmul"), "cuModuleGetFunction");
    check(get_function(&softmax, module, "softmax"), "cuModuleGetFunction");
    check(((int (*)(void **, unsigned))find("cuStreamCreate"))(&stream, 1), "cuStreamCreate");
    launch_kernel = find("cuLaunchKernel");
    synchronize = find("cuStreamSynchronize");
    return stream;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1.0;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "gpu_driver: %s\n", dlerror());
        return 4;
    }
    get_address = dlsym(library, "cuGetProcAddress_v2");
    tag = dlsym(library, "simgpu_tag");
    void *stream = prepare(argc > 2 ? atoi(argv[2]) : 0);
    unsigned seed = 3;
    for (double end = now() + seconds; now() < end;) {
        phase(attention, stream, 0.02 + (rand_r(&seed) % 100) * 1e-3);
        phase(linear, stream, 0.02 + (rand_r(&seed) % 100) * 1e-3);
    }
    return 0;
}
