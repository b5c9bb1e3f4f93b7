/* Code that is made at run time, runs for a moment and is gone, while the program goes on. Usage: made_code SECONDS BEFORE AFTER
   BEFORE is a library that is loaded first, AFTER one that is loaded last. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int main(int argc, char **argv) {
    /* dec %rdi; jnz: counts its argument down, and returns. */
    static const unsigned char spin[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
    if (argc != 4)
        return 2;
    dlopen(argv[2], RTLD_NOW);
    void *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return 1;
    memcpy(made, spin, sizeof spin);
    struct timespec begin, now;
    /* Loading may have taken as long. */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    do {
        ((void (*)(long))made)(1000000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < atof(argv[1]));
    munmap(made, 4096);
    dlopen(argv[3], RTLD_NOW);
}
