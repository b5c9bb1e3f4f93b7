/* Static probes (USDT) whose notes it writes itself, as a program built with sys/sdt.h has them, and ranges of known CPU time between them.

   probes known MS      each stretch so many milliseconds; said as `NS LABEL` at the end
   probes hostile       10 million begins without an end, ends without a begin, threads without number */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "burn.h"

/* How many listen to `app:work`, which is passed only where somebody does. */
__attribute__((section(".probes"))) volatile unsigned short listeners = 0;

/* A `nop`, and a note of type 3: its address, the base's, that of the counter, provider, name, arguments. */
#define PROBE(provider, name, counter)                                                                      \
    __asm__ volatile("1: nop\n"                                                                              \
                     ".pushsection .note.stapsdt, \"\", \"note\"\n"                                          \
                     ".balign 4\n"                                                                           \
                     ".4byte 3f - 2f, 5f - 4f, 3\n"                                                          \
                     "2: .asciz \"stapsdt\"\n"                                                               \
                     "3: .balign 4\n"                                                                        \
                     "4: .8byte 1b, _.stapsdt.base, " counter "\n"                                           \
                     ".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"\"\n"                            \
                     "5: .balign 4\n"                                                                        \
                     ".popsection" ::: "memory")
/* Where the notes' base lies: who moves the file's parts moves it too. */
__asm__(".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection");

static void begin_request(void) { PROBE("app", "request__start", "0"); }
static void end_request(void) { PROBE("app", "request__done", "0"); }
static void fail_request(void) { PROBE("app", "request__failed", "0"); }
static void begin_work(void) { if (listeners) PROBE("app", "work__start", "listeners"); }
static void end_work(void) { if (listeners) PROBE("app", "work__done", "listeners"); }

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

int main(int count, char **words) {
    ms_each = count > 2 ? atoi(words[2]) : 100;
    if (count > 1 && !strcmp(words[1], "hostile")) hostile(count > 2 ? atol(words[2]) : 200000);
    else known();
    return 0;
}
