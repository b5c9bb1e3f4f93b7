/* Calls whose numbers are known: by two threads, a child, recursion, and one within a deeper frame of the caller of another. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

volatile double sum;

__attribute__((noinline)) void work(int turns) {
    for (int i = 0; i < turns; i++) sum += i * 0.5;
}

__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

__attribute__((noinline)) void deeper(int turns) {
    volatile char room[512];
    room[0] = (char)turns;
    work(turns + room[0] % 2);
}

static void *thread(void *unused) {
    for (int i = 0; i < 1000; i++) work(100);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, thread, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 300; i++) work(100);
        _exit(0);
    }
    waitpid(child, 0, 0);
    for (int i = 0; i < 200; i++) {
        work(100);
        deeper(100);
    }
    return fib(12) == 144 ? 0 : 1;
}
