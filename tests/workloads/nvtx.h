// NVTX as its headers use it (nvtx3/nvtxDetail/nvtxInit.h): loads what NVTX_INJECTION64_PATH names, and gives it tables whose places it fills.
// Without the variable nothing is marked.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef void (*function)(void);

// Modules 1 (core) and 5 (domains).
static function of_core[16], of_domains[16];
static function *core[16], *domains[16];

static int table_of(int module, function ***table, unsigned *places) {
    if (module != 1 && module != 5) return 0;
    *table = module == 1 ? core : domains;
    *places = 16;
    return 1;
}

static struct {
    size_t size;
    int (*table_of)(int, function ***, unsigned *);
} callbacks = {sizeof callbacks, table_of};

static const void *exports(uint32_t what) { return what == 1 ? &callbacks : NULL; }

// nvtxEventAttributes_v2
struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

static struct attributes named(const char *name) {
    return (struct attributes){.version = 3, .size = sizeof(struct attributes), .message_type = 1, .message = name};
}

static int push(const char *name) { return of_core[9] ? ((int (*)(const char *))of_core[9])(name) : -2; }
static int pop(void) { return of_core[11] ? ((int (*)(void))of_core[11])() : -2; }
static uint64_t start(const char *name) { return of_core[5] ? ((uint64_t(*)(const char *))of_core[5])(name) : 0; }
static void end(uint64_t id) { if (of_core[7]) ((void (*)(uint64_t))of_core[7])(id); }
static void *domain(const char *name) { return of_domains[12] ? ((void *(*)(const char *))of_domains[12])(name) : NULL; }
static int domain_push(void *domain, const char *name) {
    struct attributes it = named(name);
    return of_domains[4] ? ((int (*)(void *, const struct attributes *))of_domains[4])(domain, &it) : -2;
}
static int domain_pop(void *domain) { return of_domains[5] ? ((int (*)(void *))of_domains[5])(domain) : -2; }

static void nvtx_begin(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    int (*initialize)(const void *(*)(uint32_t)) = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    for (int i = 1; i < 16; i++) core[i] = &of_core[i], domains[i] = &of_domains[i];
    if (initialize) initialize(exports);
}

