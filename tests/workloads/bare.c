/* Stacks through code without unwind information. Compiled three times and linked:
 *   -DPREFIX=bare     without unwind information and without frame pointers
 *   -DPREFIX=pointer  without unwind information, with frame pointers
 *   -DMAIN            with unwind information: calls the others in turns of half a second, and in a context of its own
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#ifndef MAIN
#define JOINED(a, b) a##_##b
#define NAMED(a, b) JOINED(a, b)

__attribute__((noinline)) long NAMED(PREFIX, spin)(long turns) {
    volatile long sum = 0;
    for (long i = 0; i < turns; i++) sum += i;
    return sum;
}

__attribute__((noinline)) long NAMED(PREFIX, deep)(int depth, long turns) {
    return depth == 0 ? NAMED(PREFIX, spin)(turns) + 1 : NAMED(PREFIX, deep)(depth - 1, turns) + 1;
}

__attribute__((noinline)) long NAMED(PREFIX, through)(long (*next)(int, long), long turns) {
    return next(3, turns) + 1;
}
#else

long bare_deep(int, long);
long pointer_deep(int, long);
long pointer_through(long (*)(int, long), long);

/* Has 360 bytes of locals that nothing writes: what an earlier call has left there looks like a return address. */
__asm__(".globl stale_kernel\n.type stale_kernel, @function\nstale_kernel:\n sub $360, %rsp\n"
        "1: dec %rdi\n jnz 1b\n add $360, %rsp\n ret\n.size stale_kernel, . - stale_kernel\n");
void stale_kernel(long);

/* Moves its stack pointer as OpenBLAS' kernels do, and keeps the old one in rbx. */
__asm__(".globl moved_kernel\n.type moved_kernel, @function\nmoved_kernel:\n sub $0x60, %rsp\n mov %rbx, (%rsp)\n"
        " mov %rbp, 8(%rsp)\n mov %rsp, %rbx\n sub $0x2080, %rsp\n and $-4096, %rsp\n xor %ebp, %ebp\n"
        "1: dec %rdi\n jnz 1b\n mov %rbx, %rsp\n mov (%rsp), %rbx\n mov 8(%rsp), %rbp\n add $0x60, %rsp\n ret\n"
        ".size moved_kernel, . - moved_kernel\n");
void moved_kernel(long);
static void (*volatile kernel)(long) = moved_kernel;

/* Moves its stack pointer as MKL's kernels for small matrices do, keeps the old one in the scratch memory, and uses rbp for something else. */
__asm__(".globl kept_kernel\n.type kept_kernel, @function\nkept_kernel:\n sub $0x40, %rsp\n mov %rbx, (%rsp)\n"
        " mov %rbp, 8(%rsp)\n mov %rsp, %rbp\n mov $0x1100, %eax\n sub %rax, %rsp\n and $-4096, %rsp\n mov %rbp, 0x98(%rsp)\n"
        " lea (%rdi,%rdi), %rbp\n xor %ebx, %ebx\n1: dec %rdi\n jnz 1b\n mov 0x98(%rsp), %rax\n mov %rax, %rsp\n"
        " mov (%rsp), %rbx\n mov 8(%rsp), %rbp\n add $0x40, %rsp\n ret\n.size kept_kernel, . - kept_kernel\n");
void kept_kernel(long);
static void (*volatile other_kernel)(long) = kept_kernel;

/* Is copied to a page of its own, and is what oneDNN makes at run time for AVX-512: rbp is used for something else. */
__asm__(".globl made_kernel, made_kernel_end\nmade_kernel:\n push %rbp\n mov %rsp, %rbp\n push %rbx\n push %r12\n push %r13\n"
        " push %r14\n push %r15\n mov $0x400, %ebp\n sub $0x60, %rsp\n1: dec %rdi\n jnz 1b\n add $0x60, %rsp\n pop %r15\n"
        " pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\nmade_kernel_end:\n");
extern const char made_kernel[], made_kernel_end[];
static void (*volatile made_code)(long);

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Calls through a pointer, as the C library does for the clock of the vDSO. */
__attribute__((noinline)) static double watch(double (*clock)(clockid_t)) { return clock(CLOCK_MONOTONIC) + 1; }

static ucontext_t outside, inside;
static volatile long sum;

void in_context(void) {
    for (;;) {
        for (long i = 0; i < 3000000; i++) sum += i;
        swapcontext(&inside, &outside);
    }
}

void enter_context(void) { swapcontext(&outside, &inside); }
void bare(void) { sum += bare_deep(3, 3000000); }
void pointer(void) { sum += pointer_deep(3, 3000000); }
void through(void) { sum += pointer_through(pointer_deep, 3000000); }
__attribute__((noinline)) void stale(void) {
    watch(now);
    stale_kernel(3000000);
}

/* A frame with pages that nothing touches. */
__attribute__((noinline)) void hollow_spin(long turns) {
    volatile char room[40960];
    room[0] = room[sizeof room - 1] = 1;
    for (long i = 0; i < turns; i++) sum += room[0];
}

void hollow(void) { hollow_spin(3000000); }
void moved(void) { kernel(6000000); }
void kept(void) { other_kernel(6000000); }

void made(void) {
    if (!made_code) {
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        made_code = memcpy(page, made_kernel, made_kernel_end - made_kernel);
    }
    made_code(6000000);
}

/* With an argument: only that part. */
int main(int argc, char **argv) {
    static char stack[1 << 16];
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = sizeof stack;
    makecontext(&inside, in_context, 0);
    void (*parts[])(void) = {hollow, bare, pointer, through, stale, moved, enter_context, kept, made};
    size_t first = argc > 1 ? (size_t)(argv[1][0] - '0') : 0;
    for (size_t i = first; i < (argc > 1 ? first + 1 : sizeof parts / sizeof *parts); i++)
        for (double begun = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
             now(CLOCK_MONOTONIC) < begun + 0.5 || now(CLOCK_PROCESS_CPUTIME_ID) < used + 0.3;)
            parts[i]();
    return 0;
}
#endif
