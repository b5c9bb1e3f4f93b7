//! Another profiler: a tool for CUDA_INJECTION64_PATH that takes CUPTI's slot and does nothing with it. PROFILER_NAME gives it a name (CUPTI 13.2).
//! With PROFILER_BESIDE=FILE it lets others be beside it (13.3), counts kernels and their nanoseconds, and writes both there at the end.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *subscriber;
static int (*flush_all)(uint32_t), (*next_record)(void *, uint8_t *, size_t, uint8_t **);
static long kernels;
static uint64_t busy_ns;

static void on_call(void *user, unsigned domain, unsigned call, const void *data) {}

static void on_request(uint8_t **buffer, size_t *size, size_t *most, const void *info) {
    *size = 1 << 16, *buffer = malloc(*size), *most = 0;
}

static void on_complete(uint8_t *buffer, size_t size, size_t valid, const void *info) {
    uint64_t times[2];
    for (uint8_t *record = NULL; next_record(subscriber, buffer, valid, &record) == 0;) {
        memcpy(times, record + 16, sizeof times);
        kernels++, busy_ns += times[1] - times[0];
    }
    free(buffer);
}

static void at_exit(void) {
    flush_all(1);
    FILE *file = fopen(getenv("PROFILER_BESIDE"), "w");
    fprintf(file, "%ld %lu", kernels, (unsigned long)busy_ns);
    fclose(file);
}

static int subscribe_as(void *cupti, const char *name, unsigned char multiple) {
    struct { size_t size; const char *name; char *other; size_t other_size; unsigned char multiple, padding[7]; } params =
        {sizeof params, name, 0, 0, multiple, {0}};
    int (*subscribe)(void **, void *, void *, void *) = dlsym(cupti, "cuptiSubscribe_v2");
    return subscribe(&subscriber, on_call, 0, &params);
}

static int start_beside(void *cupti) {
    int (*take)(void *, void *, void *) = dlsym(cupti, "cuptiActivityRegisterCallbacks_v2");
    int (*enable)(void *, uint32_t, void *) = dlsym(cupti, "cuptiActivityEnable_v2");
    next_record = dlsym(cupti, "cuptiActivityGetNextRecord_v2"), flush_all = dlsym(cupti, "cuptiActivityFlushAll");
    if (subscribe_as(cupti, "tests", 1) || take(subscriber, on_request, on_complete) || enable(subscriber, 10, 0)) return 0;
    return atexit(at_exit) == 0;
}

int InitializeInjection(void) {
    void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
    if (!cupti) return 0;
    if (getenv("PROFILER_BESIDE")) return start_beside(cupti);
    if (getenv("PROFILER_NAME")) return subscribe_as(cupti, getenv("PROFILER_NAME"), 0) == 0;
    int (*subscribe)(void **, void *, void *) = dlsym(cupti, "cuptiSubscribe");
    return subscribe(&subscriber, on_call, 0) == 0;
}
