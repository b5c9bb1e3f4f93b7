/* Calls of calls, sorting and text for so many seconds: as work.* in other languages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int less(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static long sorting(void) {
    static int list[20000];
    for (int i = 0; i < 20000; i++) list[i] = i * 7919L % 10007;
    qsort(list, 20000, sizeof *list, less);
    return list[100];
}
static long texts(void) {
    char text[4000] = "";
    for (int i = 0; i < 500; i++) sprintf(text + strlen(text), "%d,", i);
    return (long)strlen(text);
}
int main(int argc, char **argv) {
    (void)argc;
    double end = clock() / (double)CLOCKS_PER_SEC + atof(argv[1]);
    long sum = 0;
    while (clock() / (double)CLOCKS_PER_SEC < end) sum += fib(22) + sorting() + texts();
    printf("%ld\n", sum);
}
