/* Code that is in no ELF file, in each kind of memory, and the program's own text moved to anonymous memory. A perf map names the first ones.
   Usage: code_homes SECONDS, of CPU time for each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

/* dec %rdi; jnz: counts its argument down, and returns. */
static const unsigned char spin[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
static double seconds;

/* A page of its own, with code of the same segment before and behind it. */
__attribute__((section(".text.moved"), aligned(4096), noinline)) void moved_text(long count) {
    __asm__ volatile("1: dec %0; jnz 1b" : "+r"(count));
}
__attribute__((section(".text.moved"), aligned(4096), noinline, used)) void behind(void) { __asm__ volatile(""); }

__attribute__((noinline)) static void drive(void (*code)(long)) {
    struct timespec now, first;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &first);
    do {
        code(1000000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec - first.tv_sec + (now.tv_nsec - first.tv_nsec) / 1e9 < seconds);
}

static void *of_file(int file) {
    if (file < 0 || ftruncate(file, 4096) || pwrite(file, spin, sizeof spin, 0) != sizeof spin)
        exit(1);
    return mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    seconds = atof(argv[1]);
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/code-homes-%d", getpid());
    int segment = shmget(IPC_PRIVATE, 4096, 0600);
    void *shared = shmat(segment, 0, SHM_EXEC);
    shmctl(segment, IPC_RMID, 0);
    memcpy(shared, spin, sizeof spin);
    void *places[] = {of_file(memfd_create("doublemapper", 0)), of_file(open(path, O_RDWR | O_CREAT, 0600)), shared};
    unlink(path);
    static const char *names[] = {"in_memfd", "in_shm", "in_sysv"};
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    for (int i = 0; i < 3; i++)
        fprintf(map, "%lx %x %s\n", (long)places[i], (int)sizeof spin, names[i]);
    fclose(map);
    void *copy = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(copy, (void *)moved_text, 4096);
    if (mremap(copy, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)moved_text) == MAP_FAILED)
        return 1;
    for (int i = 0; i < 3; i++)
        drive((void (*)(long))places[i]);
    drive(moved_text);
}
