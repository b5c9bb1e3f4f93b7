/* What hostile parts run: `burn WHAT SECONDS [ARGUMENT]`. One program, so that each part may copy and deform it.
 *
 * spin       burns in `hot`
 * fifo       burns, then puts a FIFO in the place of its own file, and ends
 * library    burns in `hot` of the library ARGUMENT
 * sled       burns in code made at run time, at as many addresses as can be; ARGUMENT: a jitdump to map
 * mappings   makes executable mappings one after the other, ARGUMENT of them at a time, and burns a little in each
 * forks      makes processes that live a moment; as many of them at a time as ARGUMENT
 * threads    the same with threads
 * many       burns in turn in the code of all files N.so of the folder ARGUMENT, from 0.so on
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef LINK
/* A debug link: the name, padding to four bytes, and the checksum of nothing in particular. Linkers leave out a section of the true name, so
 * `files.py` gives it that name later. */
__asm__(".pushsection .xnu_debuglink,\"a\",@progbits\n.asciz \"x.debug\"\n.balign 4\n.long 0x12345678\n.popsection");
#endif

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) long hot(double until) {
    volatile long sum = 0;
    do
        for (long i = 0; i < 100000; i++) sum += i;
    while (now() < until);
    return sum;
}

#ifndef LIBRARY
static void fifo(const char *self, double until) {
    hot(until);
    unlink(self);
    mkfifo(self, 0666);
}

static void library(const char *file, double until) {
    void *handle = dlopen(file, RTLD_NOW);
    long (*function)(double) = handle ? (long (*)(double))dlsym(handle, "hot") : NULL;
    (function ? function : hot)(until);
}

/* A megabyte of `add eax, imm8` (three bytes each) before a `ret`. */
static void sled(const char *dump, double until) {
    enum { BYTES = 3 << 18 };
    if (dump) {
        int fd = open(dump, O_RDONLY);
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    }
    unsigned char *code =
        mmap(NULL, BYTES + 1, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < BYTES; i += 3) memcpy(code + i, "\x83\xc0\x01", 3);
    code[BYTES] = 0xc3;
    while (now() < until) ((void (*)(void))code)();
}

static void mappings(const char *self, int most, double until) {
    int fd = open(self, O_RDONLY);
    void **made = calloc(most, sizeof *made);
    for (long i = 0; now() < until; i++) {
        void **place = &made[i % most];
        if (*place && *place != MAP_FAILED) munmap(*place, 4096);
        /* Neighbours differ in their offset, so that the kernel does not make one of them. */
        *place = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096 * (i % 3));
    }
}

static void forks(int most, double until) {
    int running = 0;
    while (now() < until) {
        pid_t pid = fork();
        if (pid == 0) {
            hot(now() + 0.001);
            _exit(0);
        }
        running += pid > 0;
        while (running && waitpid(-1, NULL, running < most ? WNOHANG : 0) > 0) running--;
    }
    while (wait(NULL) > 0) {}
}

static void *moment(void *unused) {
    (void)unused;
    hot(now() + 0.0005);
    return NULL;
}

static void threads(int most, double until) {
    pthread_t *made = calloc(most, sizeof *made);
    while (now() < until) {
        int count = 0;
        while (count < most && !pthread_create(&made[count], NULL, moment, NULL)) count++;
        for (int i = 0; i < count; i++) pthread_join(made[i], NULL);
    }
}

static void many(const char *folder, double until) {
    enum { MOST = 10000 };
    void (**codes)(long) = calloc(MOST, sizeof *codes);
    int count = 0;
    for (char path[4096]; count < MOST; count++) {
        snprintf(path, sizeof path, "%s/%d.so", folder, count);
        int fd = open(path, O_RDONLY);
        if (fd < 0) break;
        codes[count] = (void (*)(long))mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096);
        close(fd);
        if (codes[count] == MAP_FAILED) break;
    }
    while (count && now() < until)
        for (int i = 0; i < count && now() < until; i++) codes[i](2000000);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "spin", *argument = count > 3 ? words[3] : NULL;
    double until = now() + (count > 2 ? atof(words[2]) : 1);
    int most = argument ? atoi(argument) : 8;
    if (!strcmp(what, "fifo")) fifo(words[0], until);
    else if (!strcmp(what, "library")) library(argument, until);
    else if (!strcmp(what, "sled")) sled(argument, until);
    else if (!strcmp(what, "mappings")) mappings("/proc/self/exe", most, until);
    else if (!strcmp(what, "forks")) forks(most, until);
    else if (!strcmp(what, "threads")) threads(most, until);
    else if (!strcmp(what, "many")) many(argument ? argument : ".", until);
    else hot(until);
    return 0;
}
#endif
