/* Code that is made at run time, whose return address lies further up its stack than is looked through, above addresses that earlier calls have left.
   Other code takes its place again and again. Usage: deep_made_code SECONDS EACH (seconds until the code changes) */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef void (*made_function)(long);

/* Calls itself by a pointer, so that return addresses of such calls stay on the stack. */
__attribute__((noinline)) static void leave(int depth, void (*volatile next)(int, void *)) {
    volatile long room[4] = {depth};
    if (depth > 0)
        next(depth - 1, (void *)next);
    room[1] = room[0];
}

__attribute__((noinline)) static void drive(made_function made) {
    made(1000000);
    __asm__ volatile("");
}

/* sub $frame,%rsp; dec %rdi; jnz; add $frame,%rsp; ret */
static void make(unsigned char *page, int frame) {
    unsigned char code[] = {0x48, 0x81, 0xec, 0, 0, 0, 0, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x48, 0x81, 0xc4, 0, 0, 0, 0, 0xc3};
    memcpy(code + 3, &frame, 4);
    memcpy(code + 15, &frame, 4);
    memcpy(page, code, sizeof code);
}

static double cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    leave(30, (void (*volatile)(int, void *))leave);
    for (int turn = 0; cpu() < atof(argv[1]); turn++) {
        double begun = cpu();
        make(page, turn % 2 ? 0x390 : 0x450);
        while (cpu() - begun < atof(argv[2]))
            drive((made_function)page);
    }
}
