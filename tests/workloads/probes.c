/* Static probes (USDT) whose notes it writes itself, as a program built with sys/sdt.h has them, and ranges of known CPU time between them.

   probes known MS      each stretch so many milliseconds; said as `NS LABEL` at the end
   probes hostile       10 million begins without an end, ends without a begin, threads without number
   probes lying MS      notes that lead into an instruction, or to a counter among data: `NUMBERS DATA`, what these are without probes */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "burn.h"

/* How many listen to `app:work`, which is passed only where somebody does. */
__attribute__((section(".probes"))) volatile unsigned short listeners = 0;

/* The same for a probe whose counter has an odd address, which no kernel takes. */
__attribute__((section(".probes"))) volatile unsigned short odd[2] = {0, 0};
/* No counter, whatever a note says. */
volatile int data = 1;

/* An instruction, and a note of type 3: a place, the base's, that of the counter, provider, name, arguments. */
#define NOTE(instruction, place, provider, name, counter, ...)                                              \
    __asm__ volatile("1: " instruction "\n"                                                                 \
                     ".pushsection .note.stapsdt, \"\", \"note\"\n"                                          \
                     ".balign 4\n"                                                                           \
                     ".4byte 3f - 2f, 5f - 4f, 3\n"                                                          \
                     "2: .asciz \"stapsdt\"\n"                                                               \
                     "3: .balign 4\n"                                                                        \
                     "4: .8byte " place ", _.stapsdt.base, " counter "\n"                                           \
                     ".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"\"\n"                            \
                     "5: .balign 4\n"                                                                        \
                     ".popsection" : __VA_ARGS__ :: "memory")
#define PROBE(provider, name, counter) NOTE("nop", "1b", provider, name, counter)
/* Where the notes' base lies: who moves the file's parts moves it too. */
__asm__(".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection");

static void begin_request(void) { PROBE("app", "request__start", "0"); }
static void end_request(void) { PROBE("app", "request__done", "0"); }
static void fail_request(void) { PROBE("app", "request__failed", "0"); }
static void begin_work(void) { if (listeners) PROBE("app", "work__start", "listeners"); }
static void end_work(void) { if (listeners) PROBE("app", "work__done", "listeners"); }

static void begin_odd(void) { PROBE("app", "odd__start", "odd + 1"); PROBE("app", "odd__start", "0"); }
static void end_odd(void) { PROBE("app", "odd__done", "0"); }
static void begin_counted(void) { PROBE("app", "counted__start", "data"); }
static void end_counted(void) { PROBE("app", "counted__done", "0"); }
static void end_lie(void) { PROBE("app", "lie__done", "0"); }
static int begin_lie(void) {
    int number;
#if defined(__x86_64__)
    NOTE("movl $0x1234, %0", "1b + 1", "app", "lie__start", "0", "=a"(number));
#else
    NOTE("mov %w0, #0x1234", "1b", "app", "lie__start", "0", "=r"(number));
#endif
    return number;
}

static struct { const char *label; uint64_t ns; } truth[16];
static pthread_mutex_t of_truth = PTHREAD_MUTEX_INITIALIZER;
static int ms_each;

static void burn(const char *label) {
    uint64_t ns = burn_ms(ms_each);
    pthread_mutex_lock(&of_truth);
    for (int i = 0; i < 16; i++)
        if (!truth[i].label || !strcmp(truth[i].label, label)) {
            truth[i].label = label;
            truth[i].ns += ns;
            break;
        }
    pthread_mutex_unlock(&of_truth);
}

/* An end that no begin came before; a request that fails within its work, whose end does not come. */
static void *other(void *unused) {
    end_request();
    burn("[outside of ranges]");
    begin_request();
    begin_work();
    burn("request > work");
    fail_request();
    burn("[outside of ranges]");
    return unused;
}

static void known(void) {
    pthread_t thread;
    burn("[outside of ranges]");
    begin_request();
    burn("request");
    pthread_create(&thread, NULL, other, NULL);
    begin_work();
    burn("request > work");
    begin_work();
    burn("request > work");
    end_work();
    burn("request > work");
    end_work();
    burn("request");
    end_request();
    pthread_join(thread, NULL);
    begin_work();
    burn("work");
    end_work();
    burn("[outside of ranges]");
    for (int i = 0; i < 16 && truth[i].label; i++) printf("%llu %s\n", (unsigned long long)truth[i].ns, truth[i].label);
}

static void *endless(void *count) {
    for (long i = 0; i < (long)count; i++) begin_request();
    return NULL;
}

static void hostile(long begins) {
    pthread_t thread;
    for (int i = 0; i < 1000; i++) end_request();
    for (int i = 0; i < 2000; i++) {
        if (pthread_create(&thread, NULL, endless, (void *)20)) break;
        pthread_join(thread, NULL);
    }
    endless((void *)begins);
    burn_ms(300);
    puts("done");
}

static void lying(void) {
    int numbers = 0, changed = 0;
    begin_request();
    burn_ms(ms_each);
    end_request();
    begin_odd();
    burn_ms(ms_each);
    end_odd();
    for (int i = 0; i < 1000; i++) {
        begin_counted();
        numbers += begin_lie() == 0x1234;
        changed |= data != 1;
        end_lie();
        end_counted();
    }
    printf("%d %d\n", numbers, changed);
}

int main(int count, char **words) {
    ms_each = count > 2 ? atoi(words[2]) : 100;
    if (count > 1 && !strcmp(words[1], "hostile")) hostile(count > 2 ? atol(words[2]) : 200000);
    else if (count > 1 && !strcmp(words[1], "lying")) lying();
    else known();
    return 0;
}
