/* Spans of known CPU time on several threads, published by spans_sdk.c.

   spans known MS     each stretch so many milliseconds; said as `NS LABEL` at the end, and those of one trace as `NS trace > span ID > LABEL`
   spans hostile      records that lie in no memory, without end, that change while they are read, values without number */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "burn.h"

void publish(void *record);
void name_attributes(int count, const char **names);

struct record {
    uint8_t trace[16], span[8], valid, flags;
    uint16_t length;
    uint8_t attributes[1024];
} __attribute__((packed, aligned(8)));

static const char *TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

static void make(struct record *record, int trace, int span) {
    memset(record, 0, sizeof *record);
    for (int i = 0; i < 16; i++) {
        unsigned byte;
        sscanf(TRACE + 2 * i, "%2x", &byte);
        record->trace[i] = byte;
    }
    record->trace[15] += trace;
    record->span[7] = span;
    record->valid = 1;
}
static void add(struct record *record, int number, const char *value) {
    uint8_t *to = record->attributes + record->length;
    to[0] = number;
    to[1] = strlen(value);
    memcpy(to + 2, value, to[1]);
    record->length += to[1] + 2;
}

static struct { const char *label; int span; uint64_t ns; } truth[32];
static pthread_mutex_t of_truth = PTHREAD_MUTEX_INITIALIZER;
static int ms_each;

/* CPU time of this label, in a span of the first trace or (0) not. */
static void burn(const char *label, int span) {
    uint64_t ns = burn_ms(ms_each);
    pthread_mutex_lock(&of_truth);
    for (int i = 0; i < 32; i++)
        if (!truth[i].label || (!strcmp(truth[i].label, label) && truth[i].span == span)) {
            truth[i].label = label;
            truth[i].span = span;
            truth[i].ns += ns;
            break;
        }
    pthread_mutex_unlock(&of_truth);
}

/* One record for all spans of the thread, which is not valid while it changes. */
static void *in_place(void *unused) {
    struct record record;
    make(&record, 1, 3);
    add(&record, 1, "/b");
    publish(&record);
    burn("http.route=/b", 0);
    record.valid = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    burn("[outside of ranges]", 0);
    add(&record, 2, "PUT");
    add(&record, 1, "/c");
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    record.valid = 1;
    burn("http.route=/c > http.method=PUT", 0);
    publish(NULL);
    return unused;
}

static void *bare(void *unused) {
    struct record record;
    make(&record, 0, 5);
    add(&record, 0, "00f067aa0ba902b7");
    publish(&record);
    burn("[span without attributes]", 5);
    publish(NULL);
    return unused;
}

static void known(void) {
    static const char *names[] = {"local_root", "http.route", "http.method", "db"};
    pthread_t others[2];
    struct record request, query;
    /* Until it is found where a library has the variable. */
    burn("[outside of ranges]", 0);
    name_attributes(3, names);
    pthread_create(&others[0], NULL, in_place, NULL);
    pthread_create(&others[1], NULL, bare, NULL);
    make(&request, 0, 1);
    add(&request, 1, "/a");
    add(&request, 2, "GET");
    make(&query, 0, 2);
    query.length = request.length;
    memcpy(query.attributes, request.attributes, request.length);
    add(&query, 3, "select");
    publish(&request);
    burn("http.route=/a > http.method=GET", 1);
    /* A name that came later. */
    name_attributes(4, names);
    publish(&query);
    burn("http.route=/a > http.method=GET > db=select", 2);
    publish(&request);
    burn("http.route=/a > http.method=GET", 1);
    publish(NULL);
    burn("[outside of ranges]", 0);
    pthread_join(others[0], NULL);
    pthread_join(others[1], NULL);
    for (int i = 0; i < 32 && truth[i].label; i++) {
        printf("%llu %s\n", (unsigned long long)truth[i].ns, truth[i].label);
        if (truth[i].span) printf("%llu trace > span %016x > %s\n", (unsigned long long)truth[i].ns, truth[i].span, truth[i].label);
    }
}

static struct record torn;
static volatile int is_over;

static void *tear(void *unused) {
    for (uint64_t i = 1; !is_over; i++) {
        for (int at = 0; at < 64; at++) torn.attributes[(i * 31 + at) % sizeof torn.attributes] = i * at;
        torn.length = i;
    }
    return unused;
}

static void hostile(void) {
    static const char *names[] = {"route\x1b[31m > x", "id"};
    struct record record;
    char value[32];
    pthread_t other;
    name_attributes(2, names);
    ms_each = 50;
    void *places[] = {(void *)1, (void *)-4096l, (void *)0xffff800000000000ul, "", (char *)&record + sizeof record - 1};
    for (int i = 0; i < 5; i++) publish(places[i]), burn("", 0);
    make(&record, 0, 1);
    add(&record, 0, "[more ranges]");
    record.length = 0xffff;
    publish(&record);
    burn("", 0);
    make(&torn, 0, 1);
    pthread_create(&other, NULL, tear, NULL);
    publish(&torn);
    burn("", 0);
    is_over = 1;
    pthread_join(other, NULL);
    uint64_t from = cpu_ns();
    static struct record turns[2];
    volatile int spin;
    for (uint64_t i = 0; cpu_ns() - from < 500000000; i++) {
        struct record *next = &turns[i & 1];
        make(next, i, i);
        snprintf(value, sizeof value, "%llu", (unsigned long long)i);
        add(next, 1, value);
        publish(next);
        for (spin = 0; spin < 20000; spin++);
    }
    puts("done");
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    ms_each = count > 2 ? atoi(arguments[2]) : 100;
    if (!strcmp(what, "known")) known();
    else if (!strcmp(what, "hostile")) hostile();
    else return 2;
    return 0;
}
