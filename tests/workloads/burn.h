/* CPU time of threads, by their own clock. */
#include <stdint.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}
static uint64_t cpu_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

/* Takes so many milliseconds; how many nanoseconds it were. */
static uint64_t burn_ms(int ms) {
    uint64_t from = cpu_ns(), now;
    volatile uint64_t x = 1;
    do {
        for (int i = 0; i < 1000; i++) x = x * 6364136223846793005ull + 1;
        now = cpu_ns();
    } while (now - from < ms * 1000000ull);
    return now - from;
}
