//! The driver API without linking it: `gpu_driver SECONDS [DEVICE]`. libcuda is loaded late by dlopen and its functions found by
//! cuGetProcAddress_v2, as a program with a static cudart does. Each function launches under its own name as tag. The kernels are PTX, so it runs on real
//! devices from Volta on as well: one that multiplies and one that reads memory. Leaves out every result.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// matmul: four chains of multiply-adds, 48,000 times; softmax: reads 64 MB seven times. Each thread keeps its result, so that nothing is
// optimised away.
static const char *const image =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".global .align 4 .b8 memory[67108864];\n.global .align 4 .b8 result[131072];\n"
    ".visible .entry matmul() {\n"
    "  .reg .pred %more; .reg .f32 %f<6>; .reg .u32 %r<6>; .reg .u64 %a<3>;\n"
    "  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;\n"
    "  cvt.rn.f32.u32 %f0, %r3; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; mov.f32 %f4, 0f3F800001;\n"
    "  mov.u32 %r4, 0;\n"
    "again: fma.rn.f32 %f0, %f0, %f4, %f4; fma.rn.f32 %f1, %f1, %f4, %f4;\n"
    "  fma.rn.f32 %f2, %f2, %f4, %f4; fma.rn.f32 %f3, %f3, %f4, %f4;\n"
    "  add.u32 %r4, %r4, 1; setp.lt.u32 %more, %r4, 48000; @%more bra again;\n"
    "  add.f32 %f0, %f0, %f1; add.f32 %f2, %f2, %f3; add.f32 %f0, %f0, %f2;\n"
    "  mov.u64 %a0, result; mul.wide.u32 %a1, %r3, 4; add.u64 %a2, %a0, %a1; st.global.f32 [%a2], %f0; ret;\n}\n"
    ".visible .entry softmax() {\n"
    "  .reg .pred %more; .reg .f32 %f<3>; .reg .u32 %r<7>; .reg .u64 %a<4>;\n"
    "  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;\n"
    "  mov.u64 %a0, memory; mov.f32 %f0, 0f00000000; mov.u32 %r4, 0;\n"
    "again: mad.lo.u32 %r5, %r4, 32768, %r3; and.b32 %r5, %r5, 16777215; mul.wide.u32 %a1, %r5, 4; add.u64 %a2, %a0, %a1;\n"
    "  ld.global.f32 %f1, [%a2]; add.f32 %f0, %f0, %f1;\n"
    "  add.u32 %r4, %r4, 1; setp.lt.u32 %more, %r4, 3584; @%more bra again;\n"
    "  mov.u64 %a0, result; mul.wide.u32 %a1, %r3, 4; add.u64 %a2, %a0, %a1; st.global.f32 [%a2], %f0; ret;\n}\n";

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
    check(((int (*)(void **, const void *))find("cuModuleLoadData"))(&module, image), "cuModuleLoadData");
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
