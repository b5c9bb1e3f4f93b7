//! Another profiler: a tool for CUDA_INJECTION64_PATH that takes CUPTI's slot and does nothing with it. PROFILER_NAME gives it a name (CUPTI 13.2).
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

static void on_call(void *user, unsigned domain, unsigned call, const void *data) {}

int InitializeInjection(void) {
    void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
    if (!cupti) return 0;
    int (*subscribe)(void **, void *, void *) = dlsym(cupti, "cuptiSubscribe");
    static void *subscriber;
    const char *name = getenv("PROFILER_NAME");
    if (name) {
        struct { size_t size; const char *name; char *other; size_t other_size; unsigned char multiple, padding[7]; } params =
            {sizeof params, name, 0, 0, 0, {0}};
        int (*subscribe_as)(void **, void *, void *, void *) = dlsym(cupti, "cuptiSubscribe_v2");
        return subscribe_as(&subscriber, on_call, 0, &params) == 0;
    }
    return subscribe(&subscriber, on_call, 0) == 0;
}
