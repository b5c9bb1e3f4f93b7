/* Memory that never answers: pages of a file whose file system reads no page. `stuck WHAT SECONDS ARGUMENT`, or a library with `stuck_page`.
 *
 * serve      mounts that file system on the folder ARGUMENT, where it has one file, `file`; as root, for whom others may use it
 * version    looks like a Python whose version lies in the file ARGUMENT
 * zeros      its command line has ARGUMENT MiB of zeros, which take no memory
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <linux/prctl.h>

enum { PAGE = 4096, FILE_BYTES = 1 << 20 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static const char *mounted_at;

static void leave(int unused) {
    (void)unused;
    umount2(mounted_at, MNT_DETACH);
    _exit(0);
}

/* Mounts, says so, and answers everything but reads. */
__attribute__((unused)) static void serve(const char *folder) {
    char options[128];
    int fuse = open("/dev/fuse", O_RDWR);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
    mkdir(folder, 0755);
    if (fuse < 0 || mount("stuck", folder, "fuse", MS_NOSUID | MS_NODEV, options)) fail("mount");
    mounted_at = folder;
    signal(SIGTERM, leave);
    signal(SIGALRM, leave);
    puts("mounted"), fflush(stdout);
    static char in[1 << 20], out[4096];
    while (1) {
        if (read(fuse, in, sizeof in) < 0) {
            if (errno == EINTR || errno == ENOENT) continue;
            _exit(0);
        }
        struct fuse_in_header *asked = (void *)in;
        struct fuse_out_header *head = (void *)out;
        void *body = head + 1;
        int is_root = asked->nodeid == 1, length = 0;
        struct fuse_attr facts = {.ino = is_root ? 1 : 2, .mode = is_root ? S_IFDIR | 0755 : S_IFREG | 0644};
        facts.nlink = 1, facts.size = is_root ? 0 : FILE_BYTES, facts.blksize = PAGE;
        memset(out, 0, sizeof out);
        head->unique = asked->unique;
        switch (asked->opcode) {
        case FUSE_INIT: {
            struct fuse_init_out *made = body;
            made->major = 7, made->minor = 31, made->max_write = PAGE, length = sizeof *made;
            break;
        }
        case FUSE_LOOKUP: {
            struct fuse_entry_out *entry = body;
            entry->nodeid = 2, entry->entry_valid = entry->attr_valid = 3600;
            facts.ino = 2, facts.mode = S_IFREG | 0644, facts.size = FILE_BYTES;
            entry->attr = facts, length = sizeof *entry;
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out *attributes = body;
            attributes->attr_valid = 3600, attributes->attr = facts, length = sizeof *attributes;
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out *opened = body;
            /* Else whoever opens it next waits for a page that somebody reads, which is not what is tried here. */
            opened->open_flags = FOPEN_KEEP_CACHE, length = sizeof *opened;
            break;
        }
        case FUSE_READ: case FUSE_FORGET: case FUSE_INTERRUPT: continue;
        case FUSE_FLUSH: case FUSE_RELEASE: break;
        default: head->error = -ENOSYS;
        }
        head->len = sizeof *head + length;
        (void)!write(fuse, out, head->len);
    }
}

/* A page of such a file, at this address if it is not 0. */
void *stuck_page(const char *path, void *at) {
    int file = open(path, O_RDONLY);
    void *page = mmap(at, PAGE, PROT_READ, MAP_PRIVATE | (at ? MAP_FIXED : 0), file, 0);
    if (file < 0 || page == MAP_FAILED) fail(path);
    return page;
}

#ifndef LIBRARY
/* What an interpreter's file is known by. */
char _PyRuntime[1 << 16] __attribute__((aligned(4096))) = {1};
char Py_Version[PAGE] __attribute__((aligned(4096))) = {1};
int _PyEval_EvalFrameDefault(void) { return 1; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Often enough to be sampled, and no more: what is to be seen is how others fare. */
__attribute__((noinline)) long hot(double until) {
    volatile long sum = 0;
    do {
        for (long i = 0; i < 100000; i++) sum += i;
        usleep(500);
    } while (now() < until);
    return sum;
}

/* Says that the command line lies elsewhere (prctl(2), PR_SET_MM_MAP, which takes no right). */
static void move_arguments(char *start, unsigned long bytes) {
    static char text[4096];
    unsigned long field[52] = {0};
    FILE *stat = fopen("/proc/self/stat", "r");
    if (!stat || !fread(text, 1, sizeof text - 1, stat)) fail("stat");
    int number = 3;
    for (char *word = strtok(strrchr(text, ')') + 2, " "); word && number < 52; word = strtok(NULL, " "))
        field[number++] = strtoul(word, NULL, 10);
    struct prctl_mm_map map = {.start_code = field[26], .end_code = field[27], .start_stack = field[28],
        .start_data = field[45], .end_data = field[46], .start_brk = field[47], .brk = (unsigned long)sbrk(0),
        .arg_start = (unsigned long)start, .arg_end = (unsigned long)start + bytes, .env_start = field[50],
        .env_end = field[51], .exe_fd = -1};
    if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0)) fail("PR_SET_MM_MAP");
}

int main(int count, char **words) {
    if (count < 4) return 2;
    alarm(strcmp(words[1], "serve") ? 0 : atoi(words[2]));
    if (!strcmp(words[1], "serve")) serve(words[3]);
    if (!strcmp(words[1], "version")) stuck_page(words[3], Py_Version);
    else {
        unsigned long bytes = atol(words[3]) << 20;
        move_arguments(mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), bytes);
    }
    hot(now() + atof(words[2]));
    return 0;
}
#endif
