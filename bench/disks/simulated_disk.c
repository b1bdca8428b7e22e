/* A file whose reads, writes and flushes take the time that spinning disks would take.
 *
 *   simulated_disk MOUNTPOINT MEGABYTES NAME=VALUE...
 *
 * It shows one file, MOUNTPOINT/disk, kept in memory. A loop device over it is a disk. Names:
 *
 *   level=-1|0|1|5|10 (-1: a single disk) members=N chunk_kib=512 stripe_cache=256 (rows of 4 KiB) gather_us=1000
 *   rpm=7200 mb_s=150 seek_min_us=800 seek_max_us=14100 flush_us=8000 cache_mib=64 (0: off)
 *   ahead_kib=2048 queue=32 cached=256 (writes apart from each other) slower=1
 *
 * With slower=N all takes N times as long, so that a busy machine keeps up; what it tells is in the
 * disk's own time. For each line "tell" or "slower N" on its input it prints what was done so far as a
 * line of JSON, for SIGUSR1, too. It ends with its input.
 */
#define FUSE_USE_VERSION 34
#define _GNU_SOURCE
#include <errno.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../appliance/native/_wake_soon.h"
#include "array.h"

enum { FILE_INODE = 2, IN_FLIGHT = 256 };
static const double FOREVER_S = 3600;

typedef struct { int64_t count, bytes, linear_count, linear_bytes, end, waited_ns; } Asked;
typedef struct { Request request; fuse_req_t of; int64_t began; } Call;

static Array array;
static Asked asked[3]; /* by kind, as they came; linear: where the last of its kind ended */
static char *image;
static int64_t began_ns, base, slower = 1; /* at the time began_ns of the machine it was base for the disk */
static volatile sig_atomic_t must_tell;

static int64_t machine_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t now(void) { return base + (machine_ns() - began_ns) / slower; }

static void slow_down(int64_t wanted) {
    base = now();
    began_ns = machine_ns();
    if (wanted > 0) slower = wanted;
}

/* Calls of the file */

static void answer(Request *request, int64_t at) {
    Call *call = request->owner;
    asked[request->kind].waited_ns += at - call->began;
    if (request->kind == READ) fuse_reply_buf(call->of, image + request->offset, (size_t)request->size);
    else if (request->kind == WRITE) fuse_reply_write(call->of, (size_t)request->size);
    else fuse_reply_err(call->of, 0);
    free(call);
}

static void take(fuse_req_t of, Kind kind, int64_t offset, int64_t size) {
    Asked *counted = &asked[kind];
    counted->count++;
    counted->bytes += size;
    if (counted->end == offset) counted->linear_count++, counted->linear_bytes += size;
    counted->end = offset + size;
    Call *call = calloc(1, sizeof *call);
    int64_t at = now();
    *call = (Call){{.kind = kind, .offset = offset, .size = size, .done = answer, .owner = call}, of, at};
    array_run(&array, at);
    array_add(&array, &call->request, at);
}

static void on_read(fuse_req_t of, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *file) {
    (void)inode, (void)file;
    if (offset >= array.size) fuse_reply_buf(of, NULL, 0);
    else take(of, READ, offset, (int64_t)size < array.size - offset ? (int64_t)size : array.size - offset);
}

static void on_write(fuse_req_t of, fuse_ino_t inode, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *file) {
    (void)inode, (void)file;
    if (offset + (int64_t)size > array.size) {
        fuse_reply_err(of, ENOSPC);
        return;
    }
    memcpy(image + offset, bytes, size);
    take(of, WRITE, offset, (int64_t)size);
}

static void on_fsync(fuse_req_t of, fuse_ino_t inode, int only_data, struct fuse_file_info *file) {
    (void)inode, (void)only_data, (void)file;
    take(of, FLUSH, -1, 0);
}

/* What is discarded costs no memory any more. */
static void on_fallocate(fuse_req_t of, fuse_ino_t inode, int mode, off_t offset, off_t size,
                         struct fuse_file_info *file) {
    (void)inode, (void)mode, (void)file;
    off_t begin = (offset + PAGE - 1) / PAGE * PAGE, end = (offset + size) / PAGE * PAGE;
    memset(image + offset, 0, (size_t)((begin < offset + size ? begin : offset + size) - offset));
    if (begin < end) madvise(image + begin, (size_t)(end - begin), MADV_DONTNEED);
    if (end >= begin) memset(image + end, 0, (size_t)(offset + size - end));
    fuse_reply_err(of, 0);
}

static struct stat about(fuse_ino_t inode) {
    if (inode == FUSE_ROOT_ID) return (struct stat){.st_ino = inode, .st_mode = S_IFDIR | 0700, .st_nlink = 2};
    return (struct stat){.st_ino = inode, .st_mode = S_IFREG | 0600, .st_nlink = 1, .st_size = array.size};
}

static void on_lookup(fuse_req_t of, fuse_ino_t parent, const char *name) {
    struct fuse_entry_param entry = {.ino = FILE_INODE, .attr_timeout = FOREVER_S, .entry_timeout = FOREVER_S};
    entry.attr = about(FILE_INODE);
    if (parent != FUSE_ROOT_ID || strcmp(name, "disk")) fuse_reply_err(of, ENOENT);
    else fuse_reply_entry(of, &entry);
}

static void on_getattr(fuse_req_t of, fuse_ino_t inode, struct fuse_file_info *file) {
    struct stat stat = about(inode);
    (void)file;
    fuse_reply_attr(of, &stat, FOREVER_S);
}

static void on_setattr(fuse_req_t of, fuse_ino_t inode, struct stat *stat, int which, struct fuse_file_info *file) {
    (void)stat, (void)which;
    on_getattr(of, inode, file);
}

static void on_open(fuse_req_t of, fuse_ino_t inode, struct fuse_file_info *file) {
    (void)inode;
    file->direct_io = 1;
    fuse_reply_open(of, file);
}

static void on_init(void *data, struct fuse_conn_info *connection) {
    (void)data;
    connection->max_background = IN_FLIGHT;
    connection->congestion_threshold = IN_FLIGHT;
}

static const struct fuse_lowlevel_ops CALLS = {
    .init = on_init, .lookup = on_lookup, .getattr = on_getattr, .setattr = on_setattr, .open = on_open,
    .read = on_read, .write = on_write, .fsync = on_fsync, .fallocate = on_fallocate,
};

/* What was done */

static void tell_asked(const char *name, const Asked *of) {
    printf("\"%s\": {\"count\": %ld, \"bytes\": %ld, \"linear_count\": %ld, \"linear_bytes\": %ld, \"waited_s\": %.6f}, ",
           name, of->count, of->bytes, of->linear_count, of->linear_bytes, (double)of->waited_ns / 1e9);
}

static void tell_moves(const char *name, Kind kind) {
    Moves all = {0};
    for (int i = 0; i < array.members; i++) {
        const int64_t *from = (const int64_t *)&array.disks[i].moves[kind];
        for (size_t at = 0; at < sizeof all / sizeof *from; at++) ((int64_t *)&all)[at] += from[at];
    }
    printf("\"%s\": {\"count\": %ld, \"bytes\": %ld, \"linear_count\": %ld, \"linear_bytes\": %ld, \"seeks\": %ld, "
           "\"seek_bytes\": %ld, \"seek_s\": %.6f, \"turn_s\": %.6f, \"transfer_s\": %.6f, \"cached\": %ld}, ",
           name, all.count, all.bytes, all.linear_count, all.linear_bytes, all.seeks, all.seek_bytes,
           (double)all.seek_ns / 1e9, (double)all.turn_ns / 1e9, (double)all.transfer_ns / 1e9, all.cached);
}

static void tell(void) {
    int64_t flushes = 0;
    for (int i = 0; i < array.members; i++) flushes += array.disks[i].flushes;
    printf("{\"seconds\": %.6f, \"slower\": %ld, \"members\": %ld, ", (double)now() / 1e9, slower, array.members);
    tell_asked("reads", &asked[READ]);
    tell_asked("writes", &asked[WRITE]);
    tell_asked("flushes", &asked[FLUSH]);
    tell_moves("platter_reads", READ);
    tell_moves("platter_writes", WRITE);
    printf("\"member_flushes\": %ld, \"whole_rows\": %ld, \"read_rows\": %ld}\n", flushes, array.whole_rows,
           array.read_rows);
    fflush(stdout);
}

static void on_signal(int number) { (void)number, must_tell = 1; }

/* The loop */

static void serve(struct fuse_session *session) {
    struct fuse_buf buffer = {.mem = NULL};
    struct pollfd polled[2] = {{.fd = fuse_session_fd(session), .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    char line[64];
    while (!fuse_session_exited(session)) {
        array_run(&array, now());
        int64_t next = array_next(&array), rest = (next == NEVER ? 1000000000 : next - now()) * (next == NEVER ? 1 : slower);
        if (rest < 0) rest = 0;
        struct timespec time = {rest / 1000000000, rest % 1000000000};
        if (ppoll(polled, 2, &time, NULL) < 0 && errno != EINTR) break;
        if (must_tell) must_tell = 0, tell();
        if (polled[0].revents && fuse_session_receive_buf(session, &buffer) > 0) fuse_session_process_buf(session, &buffer);
        if (polled[1].revents) {
            ssize_t got = read(0, line, sizeof line - 1);
            if (got <= 0) break;
            line[got] = 0;
            if (!strncmp(line, "slower ", 7)) slow_down(atoi(line + 7));
            tell();
        }
    }
}

int main(int count, char **words) {
    if (count < 3) return fprintf(stderr, "see the head of simulated_disk.c\n"), 2;
    array_defaults(&array, atoll(words[2]));
    for (int i = 3; i < count; i++)
        if (!strncmp(words[i], "slower=", 7)) slow_down(atoi(words[i] + 7));
        else if (!array_set(&array, words[i])) return fprintf(stderr, "simulated_disk: %s is no setting\n", words[i]), 2;
    base = 0, began_ns = machine_ns();
    const char *wrong = array_init(&array);
    if (wrong) return fprintf(stderr, "simulated_disk: %s\n", wrong), 2;
    image = mmap(NULL, (size_t)array.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image == MAP_FAILED) return perror("simulated_disk: memory"), 1;
    char *options[] = {words[0], "-o", "fsname=simulated_disk"};
    struct fuse_args args = FUSE_ARGS_INIT(3, options);
    struct fuse_session *session = fuse_session_new(&args, &CALLS, sizeof CALLS, NULL);
    if (!session || fuse_session_mount(session, words[1])) return 1;
    signal(SIGUSR1, on_signal);
    signal(SIGINT, SIG_IGN);
    wake_soon();
    serve(session);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    return 0;
}
