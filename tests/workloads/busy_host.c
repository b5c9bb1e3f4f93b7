/* A host that is busy as an agent's host may be: busy_host SWITCHES PROCESSES PROGRAMS. On each CPU a pair of processes hands a byte to and
   fro, SWITCHES times a second in all; so many PROCESSES wake once a second; so many PROGRAMS are started a second. Until it is killed. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "burn.h"

#define TICK_NS 10000000

static int child(void) {
    if (fork() != 0) return 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return 1;
}

/* Sleeps until the next tick, without catching up. */
static void wait_tick(uint64_t *due) {
    uint64_t now = read_clock(CLOCK_MONOTONIC);
    *due = *due + TICK_NS > now ? *due + TICK_NS : now;
    struct timespec at = {*due / 1000000000, *due % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void hand_to_and_fro(int cpu, int a_tick) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    int to[2], fro[2];
    char byte = 0;
    if (pipe(to) || pipe(fro)) exit(1);
    if (child())
        for (;;)
            if (read(to[0], &byte, 1) != 1 || write(fro[1], &byte, 1) != 1) exit(1);
    for (uint64_t due = read_clock(CLOCK_MONOTONIC);; wait_tick(&due))
        for (int i = 0; i < a_tick; i += 2)
            if (write(to[1], &byte, 1) != 1 || read(fro[0], &byte, 1) != 1) exit(1);
}

static void start_programs(int a_second) {
    double owed = 0;
    for (uint64_t due = read_clock(CLOCK_MONOTONIC);; wait_tick(&due))
        for (owed += a_second / 100.0; owed >= 1; owed--) {
            if (fork() == 0) {
                execl("/bin/true", "true", NULL);
                _exit(1);
            }
            while (waitpid(-1, NULL, WNOHANG) > 0);
        }
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    int cpus = sysconf(_SC_NPROCESSORS_ONLN), processes = atoi(arguments[2]);
    for (int cpu = 0; cpu < cpus; cpu++)
        if (child()) hand_to_and_fro(cpu, atoi(arguments[1]) / 100 / cpus);
    for (int i = 0; i < processes; i++)
        if (child()) {
            usleep(i * (1000000ull / processes));
            for (;;) usleep(1000000);
        }
    start_programs(atoi(arguments[3]));
}
