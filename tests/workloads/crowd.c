/* Children of a tenth of a millisecond, one after the other, for so many seconds or until there were so many, each of so many nanoseconds then; says
 * the CPU time of all in microseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

static double used_us(int who) {
    struct rusage used;
    getrusage(who, &used);
    return 1e6 * (used.ru_utime.tv_sec + used.ru_stime.tv_sec) + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

int main(int count, char **arguments) {
    uint64_t until = read_clock(CLOCK_MONOTONIC) + (count > 1 ? atoi(arguments[1]) : 3) * 1000000000ull;
    uint64_t each = count > 3 ? atol(arguments[3]) : 100000;
    for (long left = count > 2 ? atol(arguments[2]) : -1; left; left--) {
        if (read_clock(CLOCK_MONOTONIC) > until)
            break;
        pid_t child = vfork();
        if (child == 0) {
            for (uint64_t from = cpu_ns(); cpu_ns() - from < each;);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    printf("%.0f\n", used_us(RUSAGE_SELF) + used_us(RUSAGE_CHILDREN));
    return 0;
}
