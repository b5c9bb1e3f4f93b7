/* What an OpenTelemetry SDK does to publish the spans that threads work for (OTEP 4947), and what their attributes are called (OTEP 4719): a
   part of spans.c, a library that it is linked with, or one that spans.py loads. */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

__thread void *otel_thread_ctx_v1;

/* Others read it as soon as it is there. */
void publish(void *record) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *(void *volatile *)&otel_thread_ctx_v1 = record;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* A field of a protobuf message that has bytes: its number, its length in two bytes, which suffice here, and the bytes. */
static size_t field(uint8_t *to, int number, const void *bytes, size_t length) {
    to[0] = number << 3 | 2;
    to[1] = length | 0x80;
    to[2] = length >> 7;
    memmove(to + 3, bytes, length);
    return length + 3;
}

static struct header {
    char signature[8];
    uint32_t version, bytes;
    uint64_t published;
    void *payload;
} *header;

/* Says what attributes are called, by number; once more where there are more. */
void name_attributes(int count, const char **names) {
    static uint8_t payloads[2][16384];
    static int round;
    uint8_t list[8192], value[8192], *payload = payloads[round++ & 1];
    static const char key[] = "threadlocal.attribute_key_map";
    size_t length = 0, at = 0;
    for (int i = 0; i < count; i++) {
        size_t text = field(value, 1, names[i], strlen(names[i]));
        length += field(list + length, 1, value, text);
    }
    length = field(value, 5, list, length);
    at = field(list, 1, key, sizeof key - 1);
    at += field(list + at, 2, value, length);
    at = field(payload, 2, list, at);
    if (!header) {
        int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, 4096)) return;
        header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        close(fd);
        madvise(header, 4096, MADV_DONTFORK);
    }
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    __atomic_store_n(&header->published, 0, __ATOMIC_SEQ_CST);
    header->version = 2;
    header->bytes = at;
    header->payload = payload;
    __atomic_store_n(&header->published, now.tv_sec * 1000000000ull + now.tv_nsec, __ATOMIC_SEQ_CST);
    memcpy(header->signature, "OTEL_CTX", 8);
}
