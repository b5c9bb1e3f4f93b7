//! The driver API without linking it: `gpu_driver SECONDS [DEVICE [mixed|matmul|softmax|rate N|idle]]`. libcuda is loaded late by
//! dlopen and its functions found by cuGetProcAddress_v2, as a program with a static cudart does. Each function launches under its own name as tag. The kernels are PTX, so it runs on real
//! devices from Volta on as well: one that multiplies and one that reads memory.
//!
//! mixed: phases of both in changing proportions; matmul, softmax: one of them alone; rate N: N launches a second of an empty kernel; idle: a
//! context in which nothing runs. At the end a line of JSON says how many launches each kernel had, for how long they ran with the wait for
//! them, and what one call of cuLaunchKernel took. With GPU_DRIVER_LOG=FILE each launch but those of `rate` is a line there: kernel, when its
//! call began, when the wait for it ended (nanoseconds of CLOCK_MONOTONIC). With GPU_DRIVER_KERNELS functions are those of a library's kernels, as in
//! cuBLAS. GPU_DRIVER_LIBRARY is another libcuda; GPU_DRIVER_REST so many seconds
//! of rest before it is loaded, and before its first call. Leaves out every result of the kernels.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    "  mov.u64 %a0, result; mul.wide.u32 %a1, %r3, 4; add.u64 %a2, %a0, %a1; st.global.f32 [%a2], %f0; ret;\n}\n"
    ".visible .entry tiny() { ret; }\n";

static void *library;
static int (*get_address)(const char *, void **, int, unsigned long long, int *);
static void (*tag)(const char *);
static int (*launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static int (*synchronize)(void *);
static void *matmul, *softmax, *tiny;
static FILE *launch_log;
enum { SHORTEST = 512 };
static struct tally {
    const char *kernel;
    long launches;
    double seconds;
    // The quickest calls are counted by tenths of a microsecond; the rest stand in the last one.
    long calls[SHORTEST];
} tallies[3] = {{.kernel = "matmul"}, {.kernel = "softmax"}, {.kernel = "tiny"}};

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

static void launch(struct tally *of, void *function, unsigned blocks, unsigned threads, void *stream) {
    double before = now();
    check(launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, 0, 0), "cuLaunchKernel");
    long took = (long)((now() - before) * 1e7);
    of->calls[took < SHORTEST ? took : SHORTEST - 1]++;
    of->launches++;
}

static void run(struct tally *of, void *function, void *stream) {
    double before = now();
    launch(of, function, 128, 256, stream);
    check(synchronize(stream), "cuStreamSynchronize");
    double after = now();
    of->seconds += after - before;
    if (launch_log) fprintf(launch_log, "%s,%.0f,%.0f\n", of->kernel, before * 1e9, after * 1e9);
}

__attribute__((noinline)) void attention(void *stream) {
    if (tag) tag("attention");
    run(&tallies[1], softmax, stream);
}

__attribute__((noinline)) void linear(void *stream) {
    if (tag) tag("linear");
    run(&tallies[0], matmul, stream);
}

__attribute__((noinline)) void rate(void *stream, double seconds, double per_second) {
    if (tag) tag("rate");
    double start = now();
    for (long done = 0;; done++) {
        double due = start + done / per_second;
        if (due - start >= seconds || now() - start >= seconds) break;
        while (now() < due) {}
        launch(&tallies[2], tiny, 1, 32, stream);
    }
    check(synchronize(stream), "cuStreamSynchronize");
}

static void idle(double seconds) {
    struct timespec pause = {0, 10000000};
    for (double end = now() + seconds; now() < end;) nanosleep(&pause, 0);
}

static double median_call_us(const struct tally *of) {
    long below = 0;
    for (int i = 0; i < SHORTEST; i++)
        if ((below += of->calls[i]) * 2 >= of->launches) return (i + 0.5) / 10;
    return 0;
}

static void report(double seconds) {
    printf("{\"seconds\": %.6f", seconds);
    for (int i = 0; i < 3; i++)
        printf(", \"%s\": {\"launches\": %ld, \"busy_seconds\": %.6f, \"median_call_us\": %.2f}", tallies[i].kernel, tallies[i].launches,
               tallies[i].seconds, median_call_us(&tallies[i]));
    printf("}\n");
}

static void phase(void (*what)(void *), void *stream, double seconds) {
    for (double end = now() + seconds; now() < end;) what(stream);
}

static void *load(void) {
    void *module;
    if (getenv("GPU_DRIVER_KERNELS"))
        check(((int (*)(void **, const void *, void *, void *, unsigned, void *, void *, unsigned))find("cuLibraryLoadData"))(&module, image, 0, 0, 0, 0, 0, 0),
              "cuLibraryLoadData");
    else
        check(((int (*)(void **, const void *))find("cuModuleLoadData"))(&module, image), "cuModuleLoadData");
    return module;
}

static void *function(void *module, const char *name) {
    void *kernel, *found;
    if (getenv("GPU_DRIVER_KERNELS")) {
        check(((int (*)(void **, void *, const char *))find("cuLibraryGetKernel"))(&kernel, module, name), "cuLibraryGetKernel");
        check(((int (*)(void **, void *))find("cuKernelGetFunction"))(&found, kernel), "cuKernelGetFunction");
    } else {
        check(((int (*)(void **, void *, const char *))find("cuModuleGetFunction"))(&found, module, name), "cuModuleGetFunction");
    }
    return found;
}

static void *prepare(int device) {
    void *context, *module, *stream;
    check(((int (*)(unsigned))find("cuInit"))(0), "cuInit");
    check(((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(&context, device), "cuDevicePrimaryCtxRetain");
    check(((int (*)(void *))find("cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
    module = load();
    matmul = function(module, "matmul");
    softmax = function(module, "softmax");
    tiny = function(module, "tiny");
    check(((int (*)(void **, unsigned))find("cuStreamCreate"))(&stream, 1), "cuStreamCreate");
    launch_kernel = find("cuLaunchKernel");
    synchronize = find("cuStreamSynchronize");
    return stream;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1.0;
    const char *path = getenv("GPU_DRIVER_LIBRARY"), *rest = getenv("GPU_DRIVER_REST");
    if (rest) idle(atof(rest));
    library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    if (rest) idle(atof(rest));
    if (!library) {
        fprintf(stderr, "gpu_driver: %s\n", dlerror());
        return 4;
    }
    get_address = dlsym(library, "cuGetProcAddress_v2");
    tag = dlsym(library, "simgpu_tag");
    const char *mode = argc > 3 ? argv[3] : "mixed", *log_file = getenv("GPU_DRIVER_LOG");
    if (log_file && !(launch_log = fopen(log_file, "w"))) return 5;
    void *stream = prepare(argc > 2 ? atoi(argv[2]) : 0);
    unsigned seed = 3;
    double start = now();
    if (!strcmp(mode, "matmul")) phase(linear, stream, seconds);
    else if (!strcmp(mode, "softmax")) phase(attention, stream, seconds);
    else if (!strcmp(mode, "rate")) rate(stream, seconds, argc > 4 ? atof(argv[4]) : 10000);
    else if (!strcmp(mode, "idle")) idle(seconds);
    else if (strcmp(mode, "mixed")) return 2;
    else while (now() < start + seconds) {
        phase(attention, stream, 0.02 + (rand_r(&seed) % 100) * 1e-3);
        phase(linear, stream, 0.02 + (rand_r(&seed) % 100) * 1e-3);
    }
    report(now() - start);
    return launch_log ? fclose(launch_log) : 0;
}
