//! Another profiler: a tool for CUDA_INJECTION64_PATH that takes CUPTI's slot and does nothing with it.
#include <dlfcn.h>

static void on_call(void *user, unsigned domain, unsigned call, const void *data) {}

int InitializeInjection(void) {
    void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
    if (!cupti) return 0;
    int (*subscribe)(void **, void *, void *) = dlsym(cupti, "cuptiSubscribe");
    static void *subscriber;
    return subscribe(&subscriber, on_call, 0) == 0;
}
