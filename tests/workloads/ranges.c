/* Ranges of known CPU time, by NVTX (nvtx.h) and by ITT as its static part does it (ittnotify_static.c), with INTEL_LIBITTNOTIFY64.

   ranges nested         known ranges on two threads, said as `NS LABEL` at the end
   ranges hostile [NAMES LEVELS]   endless names, levels and ranges, ends without begin, threads
   ranges cost PAIRS     nanoseconds of a push and its pop

   Without the variables it does the same and marks nothing. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "burn.h"
#include "nvtx.h"

/* ITT: `__itt_global` as far as its list of functions, and what a task needs. */
struct itt_function { const char *name; function *place; function first, none; int group; };
struct itt_global {
    unsigned char magic[8];
    unsigned long version[3];
    long initialized, mutex_initialized, counter;
    pthread_mutex_t mutex;
    void *library, *error_handler;
    const char **paths;
    struct itt_function *functions;
};
struct itt_id { unsigned long long d[3]; };
struct itt_text { const char *text; void *wide; };
struct itt_domain { int flags; const char *name; };
static function itt_begin, itt_end, itt_make_text;
static struct itt_domain itt_domain = {1, "Tasks"};

static void begin_itt(void) {
    static struct itt_function functions[] = {{"__itt_task_begin", &itt_begin, 0, 0, 0}, {"__itt_task_end", &itt_end, 0, 0, 0},
                                              {"__itt_string_handle_create", &itt_make_text, 0, 0, 0}, {0, 0, 0, 0, 0}};
    static struct itt_global global;
    const char *path = getenv("INTEL_LIBITTNOTIFY64");
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    void (*initialize)(void *, int) = library ? dlsym(library, "__itt_api_init") : NULL;
    global.functions = functions;
    if (initialize) initialize(&global, 0);
}
static void itt_task(const char *name) {
    struct itt_text *text = itt_make_text ? ((struct itt_text *(*)(const char *))itt_make_text)(name) : NULL;
    struct itt_id none = {{0}};
    if (itt_begin) ((void (*)(struct itt_domain *, struct itt_id, struct itt_id, struct itt_text *))itt_begin)(&itt_domain, none, none, text);
}
static void itt_task_end(void) { if (itt_end) ((void (*)(struct itt_domain *))itt_end)(&itt_domain); }

static struct { const char *label; uint64_t ns; } truth[32];
static pthread_mutex_t of_truth = PTHREAD_MUTEX_INITIALIZER;

/* So many milliseconds of CPU time, which are those of this label. */
static void burn(int ms, const char *label) {
    uint64_t ns = burn_ms(ms);
    pthread_mutex_lock(&of_truth);
    for (int i = 0; i < 32; i++)
        if (!truth[i].label || !strcmp(truth[i].label, label)) {
            truth[i].label = label;
            truth[i].ns += ns;
            break;
        }
    pthread_mutex_unlock(&of_truth);
}

/* A range that this thread begins is ended by the main one. */
static pthread_barrier_t loaded, ended;
static uint64_t load;

static void *loader(void *rounds) {
    void *of_loader = domain("Loader");
    for (int i = 0; i < *(int *)rounds; i++) {
        load = start("load");
        burn(250, "load");
        domain_push(of_loader, "read");
        burn(150, "load > Loader:read");
        domain_pop(of_loader);
        pthread_barrier_wait(&loaded);
        pthread_barrier_wait(&ended);
        burn(200, "[outside of ranges]");
        uint64_t a = start("a");
        burn(100, "a");
        uint64_t b = start("b");
        burn(100, "a > b");
        end(a);
        burn(100, "b");
        end(b);
        itt_task("task");
        burn(100, "Tasks:task");
        itt_task_end();
    }
    return NULL;
}

static void nested(int rounds) {
    pthread_t other;
    pthread_barrier_init(&loaded, NULL, 2);
    pthread_barrier_init(&ended, NULL, 2);
    pthread_create(&other, NULL, loader, &rounds);
    for (int i = 0; i < rounds; i++) {
        push("step");
        burn(200, "step");
        push("forward");
        burn(300, "step > forward");
        pop();
        push("backward");
        burn(400, "step > backward");
        pop();
        pop();
        pthread_barrier_wait(&loaded);
        end(load);
        pthread_barrier_wait(&ended);
        burn(200, "[outside of ranges]");
    }
    pthread_join(other, NULL);
    /* A child is in the ranges that it was forked in. */
    push("fork");
    fflush(stdout);
    pid_t child = fork();
    burn(200, "fork");
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    pop();
    for (int i = 0; i < 32 && truth[i].label; i++) {
        uint64_t twice = strcmp(truth[i].label, "fork") ? 1 : 2;
        printf("%llu %s\n", (unsigned long long)(twice * truth[i].ns), truth[i].label);
    }
}

static void *short_lived(void *number) {
    char name[32];
    snprintf(name, sizeof name, "thread %ld", (long)number);
    push(name);
    start(name);
    return NULL;
}

static void hostile(long names, long levels) {
    char name[1 << 16];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < 100; i++) pop(), end(i), domain_pop(&name), domain_pop(NULL);
    push(name);
    burn(100, "");
    pop();
    push(NULL);
    push("");
    pop();
    pop();
    push("\xff\xfe\x1b[31m > x");
    burn(100, "");
    pop();
    for (long i = 0; i < names; i++) {
        snprintf(name, sizeof name, "name %ld", i);
        push(name);
        pop();
    }
    push(name);
    burn(200, "");
    pop();
    for (long i = 0; i < 10000; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, short_lived, (void *)i)) break;
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < 100000; i++) start("endless");
    for (long i = 0; i < levels; i++) push("deep");
    burn(300, "");
    puts("done");
}

static void cost(long pairs) {
    for (int round = 0; round < 9; round++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (long i = 0; i < pairs; i++) push("range"), pop();
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("%.1f\n", ((to.tv_sec - from.tv_sec) * 1e9 + to.tv_nsec - from.tv_nsec) / pairs);
    }
}

int main(int count, char **arguments) {
    nvtx_begin();
    begin_itt();
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "nested")) nested(count > 2 ? atoi(arguments[2]) : 2);
    else if (!strcmp(what, "hostile")) hostile(count > 2 ? atol(arguments[2]) : 20000, count > 3 ? atol(arguments[3]) : 1000000);
    else if (!strcmp(what, "cost")) cost(count > 2 ? atol(arguments[2]) : 1000000);
    else return 2;
    return 0;
}
