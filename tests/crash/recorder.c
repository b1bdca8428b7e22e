// Records what a process does to the files below one directory, and fails or kills on demand.
//
// Preloaded into the process under test. Every libc call that can change a file, a size or a name
// below CRASH_ROOT becomes one entry of the trace CRASH_TRACE, a shared mapping: what is in it
// survives SIGKILL, and several lives of a process share one trace. An entry carries two numbers
// from one global sequence, taken before and after the real call, so a reader knows what was over
// before what began.
//
//   CRASH_SKIP_SYNC=1          do not really sync (the trace says that we did)
//   CRASH_SYNC_MICROSECONDS=n  let each sync take that long, so that other threads get into it
//   CRASH_CACHE=1              model the page cache: bytes that a failed sync covered stay readable
//                              until posix_fadvise(DONTNEED) or recorder_drop_cache(), then the
//                              older bytes are back
//
// One file, though long: the wrappers share a table of descriptors, a lock order, an entry layout.
//
// Not seen: io_uring, raw syscall(), stores through a mapping, stdio's own buffers. Of these, a
// writable shared mapping and copies inside the kernel leave an "untraceable" entry that the reader
// refuses.
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// Keep in step with OPERATIONS in trace.py.
enum operation {
    NOTE = 1,
    OPEN,
    WRITE,
    TRUNCATE,
    ALLOCATE,
    RENAME,
    UNLINK,
    RMDIR,
    MKDIR,
    LINK,
    SYNC,
    SYNC_RANGE,
    SYNC_ALL,
    CLOSE,
    DUPLICATE,
    ADVISE,
    LOST,
    OUTSIDE,
    UNTRACEABLE
};

// Keep in step with CLASSES in trace.py.
enum fault_class {
    NO_FAULT,
    FAIL_OPEN,
    FAIL_CREATE,
    FAIL_WRITE,
    FAIL_PWRITE,
    FAIL_FSYNC,
    FAIL_FDATASYNC,
    FAIL_SYNCFS,
    FAIL_RENAME,
    FAIL_FTRUNCATE,
    FAIL_FALLOCATE,
    FAIL_UNLINK,
    FAIL_MKDIR,
    FAIL_ANY_SYNC, // the three kinds of sync as one
    FAIL_PREAD,
    FAIL_READ_ONLY // fstatvfs says so of the file system
};

// Followed by the path, the other path, the data, and padding to 8. ENTRY in trace.py is the same.
struct entry {
    _Atomic uint32_t size; // written last: zero means that nothing more follows
    uint32_t operation;
    uint64_t start, end;
    int64_t result;
    uint64_t handle; // names one successful open; never used twice, unlike a descriptor
    int64_t offset, length;
    int32_t error;
    uint32_t thread, flags, injected, path_size, other_size;
    uint64_t data_size;
};

struct trace {
    _Atomic uint64_t used, sequence, handles;
};

struct call {
    struct entry entry;
    const char *path, *other;
    const struct iovec *data;
    int data_count;
    int is_failing, is_short;
};

struct handle {
    uint64_t id; // 0: not below the root
    uint32_t flags;
    dev_t device;
    ino_t inode;
};

struct rule {
    enum fault_class fault_class;
    long nth, times, seen;
    int error, is_short; // a short write has no error: half the bytes are written
    char match[128];     // only paths that contain this
};

struct dirty { // CRASH_CACHE: what was written since the last good sync, and what it overwrote
    dev_t device;
    ino_t inode;
    off_t position;
    size_t size, old_size;
    char *old;
    int is_lost; // a sync of it failed
};

enum { DESCRIPTORS_MAX = 65536 };
static const uint64_t TRACE_BYTES_MAX = 4ull << 30; // sparse: costs what is used

static struct trace *trace;
static char root[PATH_MAX];
static size_t root_size;
static int is_sync_skipped, is_cache_modelled;
static long sync_microseconds;
static struct handle handles[DESCRIPTORS_MAX];
static pthread_rwlock_t
    running; // shared by every call, exclusive for the kill: no call is cut in half
static pthread_mutex_t names =
    PTHREAD_MUTEX_INITIALIZER; // one change of names at a time: exact order
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; // rule, fired, dirty
static struct rule rule;
static long fired;
static _Atomic long kill_at, mutations;
static struct dirty *dirties;
static size_t dirty_count, dirty_room;

__attribute__((constructor)) static void start(void) {
    const char *name = getenv("CRASH_TRACE"), *below = getenv("CRASH_ROOT");
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&running, &attributes);
    if (!name || !below || !realpath(below, root)) return;
    int fd = syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || syscall(SYS_ftruncate, fd, TRACE_BYTES_MAX) < 0) abort();
    void *mapped = mmap(NULL, TRACE_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) abort();
    syscall(SYS_close, fd);
    root_size = strlen(root);
    is_sync_skipped = getenv("CRASH_SKIP_SYNC") != NULL;
    is_cache_modelled = getenv("CRASH_CACHE") != NULL;
    if (getenv("CRASH_SYNC_MICROSECONDS"))
        sync_microseconds = atol(getenv("CRASH_SYNC_MICROSECONDS"));
    trace = mapped;
    uint64_t unused = 0;
    atomic_compare_exchange_strong(&trace->used, &unused, sizeof *trace);
}

static int is_below(const char *path) {
    return trace && path && !strncmp(path, root, root_size) &&
           (path[root_size] == '/' || !path[root_size]);
}

// The absolute path of `path` as seen from `directory`, in `full`.
static const char *absolute(int directory, const char *path, char *full) {
    char link[64], base[PATH_MAX];
    if (!path || path[0] == '/') return path;
    if (directory == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t size = readlink(link, base, sizeof base - 1);
    if (size < 0) return NULL;
    base[size] = 0;
    if ((size_t)snprintf(full, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return NULL;
    return full;
}

static uint64_t tick(void) { return atomic_fetch_add(&trace->sequence, 1) + 1; }

static void emit(struct call *call) {
    struct entry *entry = &call->entry;
    entry->path_size = call->path ? strlen(call->path) : 0;
    entry->other_size = call->other ? strlen(call->other) : 0;
    entry->data_size = 0;
    for (int i = 0; i < call->data_count; i++) entry->data_size += call->data[i].iov_len;
    uint64_t size = sizeof *entry + entry->path_size + entry->other_size + entry->data_size;
    size = (size + 7) & ~7ull;
    uint64_t at = atomic_fetch_add(&trace->used, size);
    if (at + size + sizeof *entry > TRACE_BYTES_MAX) abort();
    char *to = (char *)trace + at;
    memcpy(to + 4, (char *)entry + 4, sizeof *entry - 4);
    char *body = to + sizeof *entry;
    if (call->path) memcpy(body, call->path, entry->path_size);
    if (call->other) memcpy(body + entry->path_size, call->other, entry->other_size);
    body += entry->path_size + entry->other_size;
    for (int i = 0; i < call->data_count; i++) {
        memcpy(body, call->data[i].iov_base, call->data[i].iov_len);
        body += call->data[i].iov_len;
    }
    atomic_store(&((struct entry *)to)->size, (uint32_t)size);
}

static void choose_fault(struct call *call, enum fault_class fault_class, const char *path) {
    int is_sync = fault_class >= FAIL_FSYNC && fault_class <= FAIL_SYNCFS;
    pthread_mutex_lock(&guard);
    int is_chosen =
        rule.fault_class == fault_class || (rule.fault_class == FAIL_ANY_SYNC && is_sync);
    if (fault_class && is_chosen && (!path || strstr(path, rule.match))) {
        rule.seen++;
        if (rule.seen >= rule.nth && rule.seen < rule.nth + rule.times) {
            fired++;
            call->is_short = rule.is_short;
            call->is_failing = !rule.is_short;
            call->entry.error = rule.error;
            call->entry.injected = 1;
        }
    }
    pthread_mutex_unlock(&guard);
}

static void die(void) {
    pthread_rwlock_wrlock(&running);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

// Before the real call. A caller must not make it when call->is_failing.
static void begin(struct call *call, enum operation operation, enum fault_class fault_class) {
    int is_mutation = fault_class != FAIL_OPEN && operation != NOTE && operation != ADVISE;
    if (is_mutation && kill_at && atomic_fetch_add(&mutations, 1) + 1 >= kill_at) die();
    pthread_rwlock_rdlock(&running);
    call->entry.operation = operation;
    call->entry.thread = syscall(SYS_gettid);
    choose_fault(call, fault_class, call->path);
    call->entry.start = tick();
}

// After the real call: `result` as libc would return it, errno set by it.
static long finish(struct call *call, long result) {
    int error = call->is_failing ? call->entry.error : result < 0 ? errno : 0;
    if (call->is_failing) result = -1;
    call->entry.result = result;
    call->entry.error = error;
    call->entry.end = tick();
    emit(call);
    pthread_rwlock_unlock(&running);
    if (result < 0) errno = error;
    return result;
}

// ---- descriptors ----

static struct handle *handle_of(int fd) {
    static struct handle none;
    if (!trace || fd < 0) return &none;
    if (fd >= DESCRIPTORS_MAX) abort();
    return &handles[fd];
}

static void remember(int fd, uint64_t id, uint32_t flags) {
    struct stat status;
    if (fd >= DESCRIPTORS_MAX || fstat(fd, &status) < 0) abort();
    handles[fd] = (struct handle){id, flags, status.st_dev, status.st_ino};
}

static const char *path_of(int fd, char *full) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, full, PATH_MAX - 1);
    full[size < 0 ? 0 : size] = 0;
    return full;
}

static int do_open(int directory, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    const char *where = absolute(directory, path, full);
    int is_writing = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    struct call call = {.path = where};
    if (!is_below(where)) {
        int fd = syscall(SYS_openat, directory, path, flags, mode);
        if (trace && fd >= 0 && is_writing && where && strncmp(where, "/dev/", 5)) {
            call.entry = (struct entry){
                .operation = OUTSIDE, .start = tick(), .end = tick(), .flags = flags};
            emit(&call);
        }
        return fd;
    }
    pthread_mutex_lock(&names);
    begin(&call, (flags & O_TMPFILE) == O_TMPFILE ? UNTRACEABLE : OPEN,
          (flags & (O_CREAT | O_TRUNC)) ? FAIL_CREATE : FAIL_OPEN);
    call.entry.flags = flags;
    int fd = call.is_failing ? -1 : syscall(SYS_openat, directory, path, flags, mode);
    if (fd >= 0) {
        call.entry.handle = atomic_fetch_add(&trace->handles, 1) + 1;
        remember(fd, call.entry.handle, flags);
    }
    fd = finish(&call, fd);
    pthread_mutex_unlock(&names);
    return fd;
}

#define MODE_OF(flags, mode)               \
    mode_t mode = 0;                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest;                      \
        va_start(rest, flags);             \
        mode = va_arg(rest, mode_t);       \
        va_end(rest);                      \
    }
int open(const char *path, int flags, ...) {
    MODE_OF(flags, mode) return do_open(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE_OF(flags, mode) return do_open(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char *path, int flags, ...) {
    MODE_OF(flags, mode) return do_open(at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
    MODE_OF(flags, mode) return do_open(at, path, flags, mode);
}
int __open_2(const char *path, int flags) { return do_open(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return do_open(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char *path, int flags) { return do_open(at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return do_open(at, path, flags, 0); }
int creat(const char *path, mode_t mode) {
    return do_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

int close(int fd) {
    struct handle *handle = handle_of(fd);
    if (!handle->id) return syscall(SYS_close, fd);
    struct call call = {.entry.handle = handle->id};
    handle->id = 0; // before the call: the number may be another file's the moment it returns
    begin(&call, CLOSE, FAIL_OPEN);
    return finish(&call, syscall(SYS_close, fd));
}

static int copied(int from, int to) {
    if (to < 0 || from == to || !trace) return to;
    if (handle_of(from)->id)
        remember(to, handle_of(from)->id, handle_of(from)->flags);
    else
        handle_of(to)->id = 0;
    return to;
}
int dup(int fd) { return copied(fd, syscall(SYS_dup, fd)); }
int dup2(int fd, int to) { return fd == to ? to : copied(fd, syscall(SYS_dup3, fd, to, 0)); }
int dup3(int fd, int to, int flags) { return copied(fd, syscall(SYS_dup3, fd, to, flags)); }

// fcntl is how Python duplicates a descriptor.
static int do_fcntl(int fd, int command, long argument) {
    int result = syscall(SYS_fcntl, fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, result) : result;
}
int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    long argument = va_arg(rest, long);
    va_end(rest);
    return do_fcntl(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    long argument = va_arg(rest, long);
    va_end(rest);
    return do_fcntl(fd, command, argument);
}

// ---- the modelled page cache ----

static void cache_write(struct handle *handle, int fd, off_t position, size_t size) {
    char full[64];
    snprintf(full, sizeof full, "/proc/self/fd/%d", fd);
    int reader = syscall(SYS_openat, AT_FDCWD, full, O_RDONLY | O_CLOEXEC, 0);
    char *old = calloc(1, size + 1);
    ssize_t got = syscall(SYS_pread64, reader, old, size, position);
    syscall(SYS_close, reader);
    pthread_mutex_lock(&guard);
    if (dirty_count == dirty_room) {
        dirty_room = dirty_room ? dirty_room * 2 : 64;
        dirties = realloc(dirties, dirty_room * sizeof *dirties);
    }
    dirties[dirty_count++] =
        (struct dirty){handle->device, handle->inode, position, size, got < 0 ? 0 : got, old, 0};
    pthread_mutex_unlock(&guard);
}

static int is_rewritten(size_t at) {
    struct dirty *old = &dirties[at];
    for (size_t i = at + 1; i < dirty_count; i++) {
        struct dirty *later = &dirties[i];
        if (later->device == old->device && later->inode == old->inode && !later->is_lost &&
            later->position <= old->position &&
            later->position + later->size >= old->position + old->size)
            return 1;
    }
    return 0;
}

// A good sync makes dirty bytes safe, a failed one makes them lost until they are written again;
// `handle` NULL means every file.
static void cache_sync(struct handle *handle, int is_good) {
    size_t kept = 0;
    pthread_mutex_lock(&guard);
    for (size_t i = 0; i < dirty_count; i++) {
        struct dirty *dirty = &dirties[i];
        int is_covered =
            !handle || (dirty->device == handle->device && dirty->inode == handle->inode);
        if (is_covered && !is_good) dirty->is_lost = 1;
        if (is_covered && is_good && (!dirty->is_lost || is_rewritten(i)))
            free(dirty->old);
        else
            dirties[kept++] = *dirty;
    }
    dirty_count = kept;
    pthread_mutex_unlock(&guard);
}

// The kernel forgets its pages: what a failed sync covered and nobody wrote again is as before.
static void cache_drop(struct handle *handle, int fd) {
    struct stat status;
    char full[PATH_MAX];
    snprintf(full, sizeof full, "/proc/self/fd/%d", fd);
    int writer = syscall(SYS_openat, AT_FDCWD, full, O_WRONLY | O_CLOEXEC, 0);
    pthread_mutex_lock(&guard);
    for (size_t i = dirty_count; i-- > 0;) {
        struct dirty *dirty = &dirties[i];
        if (!dirty->is_lost || dirty->device != handle->device || dirty->inode != handle->inode)
            continue;
        if (!is_rewritten(i) && fstat(writer, &status) == 0 && status.st_size > dirty->position) {
            size_t size = status.st_size - dirty->position;
            if (size > dirty->size) size = dirty->size;
            if (syscall(SYS_pwrite64, writer, dirty->old, size, dirty->position) < 0) abort();
        }
        struct call call = {.path = path_of(fd, full)};
        call.entry = (struct entry){.operation = LOST,
                                    .handle = handle->id,
                                    .start = tick(),
                                    .end = tick(),
                                    .offset = dirty->position,
                                    .length = dirty->size};
        emit(&call);
        free(dirty->old);
        memmove(dirty, dirty + 1, (--dirty_count - i) * sizeof *dirty);
    }
    pthread_mutex_unlock(&guard);
    syscall(SYS_close, writer);
}

int posix_fadvise(int fd, off_t position, off_t size, int advice) {
    struct handle *handle = handle_of(fd);
    if (handle->id && advice == POSIX_FADV_DONTNEED) {
        struct call call = {.entry = {.handle = handle->id, .offset = position, .length = size}};
        begin(&call, ADVISE, NO_FAULT);
        finish(&call, 0);
        if (is_cache_modelled) cache_drop(handle, fd);
    }
    return syscall(SYS_fadvise64, fd, position, size, advice) < 0 ? errno : 0;
}
int posix_fadvise64(int fd, off_t position, off_t size, int advice) {
    return posix_fadvise(fd, position, size, advice);
}

// ---- what the engine asks a file system ----

// Of a call that changes nothing, and is no entry of the trace.
static int is_failing(enum fault_class fault_class, int fd) {
    char full[PATH_MAX];
    struct call call = {.is_failing = 0};
    if (rule.fault_class != fault_class || !handle_of(fd)->id) return 0;
    choose_fault(&call, fault_class, path_of(fd, full));
    errno = call.entry.error;
    return call.is_failing;
}

ssize_t pread(int fd, void *data, size_t size, off_t position) {
    if (is_failing(FAIL_PREAD, fd)) return -1;
    return syscall(SYS_pread64, fd, data, size, position);
}
ssize_t pread64(int fd, void *data, size_t size, off_t position) {
    return pread(fd, data, size, position);
}

int fstatvfs64(int fd, struct statvfs64 *status) {
    static int (*real)(int, struct statvfs64 *);
    if (!real) real = (int (*)(int, struct statvfs64 *))dlsym(RTLD_NEXT, "fstatvfs64");
    int result = real(fd, status);
    if (result == 0 && is_failing(FAIL_READ_ONLY, fd)) status->f_flag |= ST_RDONLY;
    return result;
}

// ---- data ----

enum { AT_CURRENT = -1 };

static ssize_t real_write(int fd, const struct iovec *parts, int count, off_t position, int flags) {
    if (position == AT_CURRENT) return syscall(SYS_writev, fd, parts, count);
    return syscall(SYS_pwritev2, fd, parts, count, position, 0L, flags);
}

static ssize_t write_half(int fd, const struct iovec *parts, int count, off_t position) {
    size_t total = 0, left;
    for (int i = 0; i < count; i++) total += parts[i].iov_len;
    left = (total + 1) / 2;
    ssize_t done = 0;
    for (int i = 0; i < count && left; i++) {
        struct iovec part = {parts[i].iov_base, parts[i].iov_len < left ? parts[i].iov_len : left};
        ssize_t wrote =
            real_write(fd, &part, 1, position == AT_CURRENT ? position : position + done, 0);
        if (wrote < 0) return done ? done : wrote;
        done += wrote;
        left -= part.iov_len;
    }
    return done;
}

static ssize_t do_write(int fd, const struct iovec *parts, int count, off_t position, int flags) {
    struct handle *handle = handle_of(fd);
    if (!handle->id) return real_write(fd, parts, count, position, flags);
    char full[PATH_MAX];
    struct stat status;
    struct call call = {
        .entry.handle = handle->id, .path = path_of(fd, full), .data = parts, .data_count = count};
    off_t at = position == AT_CURRENT ? syscall(SYS_lseek, fd, 0, SEEK_CUR) : position;
    if (handle->flags & O_APPEND && fstat(fd, &status) == 0) at = status.st_size;
    size_t total = 0;
    for (int i = 0; i < count; i++) total += parts[i].iov_len;
    begin(&call, WRITE, position == AT_CURRENT ? FAIL_WRITE : FAIL_PWRITE);
    if (is_cache_modelled) cache_write(handle, fd, at, total);
    ssize_t wrote = -1;
    if (call.is_short)
        wrote = write_half(fd, parts, count, position);
    else if (!call.is_failing)
        wrote = real_write(fd, parts, count, position, flags);
    call.entry.offset = at;
    call.entry.length = wrote;
    return finish(&call, wrote);
}

ssize_t write(int fd, const void *data, size_t size) {
    if (!handle_of(fd)->id) return syscall(SYS_write, fd, data, size);
    return do_write(fd, &(struct iovec){(void *)data, size}, 1, AT_CURRENT, 0);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return do_write(fd, parts, count, AT_CURRENT, 0);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t position) {
    if (!handle_of(fd)->id) return syscall(SYS_pwrite64, fd, data, size, position);
    return do_write(fd, &(struct iovec){(void *)data, size}, 1, position, 0);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t position) {
    return pwrite(fd, data, size, position);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t position) {
    return do_write(fd, parts, count, position, 0);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t position) {
    return do_write(fd, parts, count, position, 0);
}
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t position, int flags) {
    return do_write(fd, parts, count, position, flags);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off_t position, int flags) {
    return do_write(fd, parts, count, position, flags);
}

int ftruncate(int fd, off_t size) {
    struct handle *handle = handle_of(fd);
    if (!handle->id) return syscall(SYS_ftruncate, fd, size);
    char full[PATH_MAX];
    struct call call = {.entry = {.handle = handle->id, .length = size}, .path = path_of(fd, full)};
    begin(&call, TRUNCATE, FAIL_FTRUNCATE);
    return finish(&call, call.is_failing ? -1 : syscall(SYS_ftruncate, fd, size));
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
int truncate(const char *path, off_t size) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = ftruncate(fd, size), error = errno;
    close(fd);
    errno = error;
    return result;
}
int truncate64(const char *path, off_t size) { return truncate(path, size); }

int fallocate(int fd, int mode, off_t position, off_t size) {
    struct handle *handle = handle_of(fd);
    if (!handle->id) return syscall(SYS_fallocate, fd, mode, position, size);
    char full[PATH_MAX];
    struct call call = {.path = path_of(fd, full)};
    call.entry =
        (struct entry){.handle = handle->id, .offset = position, .length = size, .flags = mode};
    begin(&call, ALLOCATE, FAIL_FALLOCATE);
    return finish(&call, call.is_failing ? -1 : syscall(SYS_fallocate, fd, mode, position, size));
}
int fallocate64(int fd, int mode, off_t position, off_t size) {
    return fallocate(fd, mode, position, size);
}
int posix_fallocate(int fd, off_t position, off_t size) {
    int before = errno, result = fallocate(fd, 0, position, size) < 0 ? errno : 0;
    errno = before;
    return result;
}
int posix_fallocate64(int fd, off_t position, off_t size) {
    return posix_fallocate(fd, position, size);
}

// ---- durability ----

static int do_sync(int fd, enum operation operation, enum fault_class fault_class, long number) {
    struct handle *handle = handle_of(fd);
    if (!handle->id) return syscall(number, fd);
    char full[PATH_MAX];
    struct call call = {.entry.handle = handle->id, .path = path_of(fd, full)};
    begin(&call, operation, fault_class);
    if (sync_microseconds) usleep(sync_microseconds);
    int result = call.is_failing ? -1 : is_sync_skipped ? 0 : syscall(number, fd);
    if (is_cache_modelled) cache_sync(operation == SYNC_ALL ? NULL : handle, result == 0);
    return finish(&call, result);
}
int fsync(int fd) { return do_sync(fd, SYNC, FAIL_FSYNC, SYS_fsync); }
int fdatasync(int fd) { return do_sync(fd, SYNC, FAIL_FDATASYNC, SYS_fdatasync); }
int syncfs(int fd) { return do_sync(fd, SYNC_ALL, FAIL_SYNCFS, SYS_syncfs); }
int sync_file_range(int fd, off_t position, off_t size, unsigned int flags) {
    struct handle *handle = handle_of(fd);
    if (!handle->id) return syscall(SYS_sync_file_range, fd, position, size, flags);
    struct call call = {.entry = {.handle = handle->id, .offset = position, .length = size}};
    begin(&call, SYNC_RANGE, NO_FAULT);
    return finish(&call,
                  is_sync_skipped ? 0 : syscall(SYS_sync_file_range, fd, position, size, flags));
}

// ---- names ----

static int do_rename(int from_at, const char *from, int to_at, const char *to, unsigned int flags) {
    char full[PATH_MAX], other[PATH_MAX];
    struct call call = {.path = absolute(from_at, from, full), .other = absolute(to_at, to, other)};
    if (!is_below(call.path) && !is_below(call.other))
        return syscall(SYS_renameat2, from_at, from, to_at, to, flags);
    pthread_mutex_lock(&names);
    begin(&call, flags & ~RENAME_NOREPLACE ? UNTRACEABLE : RENAME, FAIL_RENAME);
    int result = call.is_failing ? -1 : syscall(SYS_renameat2, from_at, from, to_at, to, flags);
    result = finish(&call, result);
    pthread_mutex_unlock(&names);
    return result;
}
int rename(const char *from, const char *to) { return do_rename(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_at, const char *from, int to_at, const char *to) {
    return do_rename(from_at, from, to_at, to, 0);
}
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned int flags) {
    return do_rename(from_at, from, to_at, to, flags);
}

int unlinkat(int directory, const char *path, int flags) {
    char full[PATH_MAX];
    struct call call = {.path = absolute(directory, path, full)};
    if (!is_below(call.path)) return syscall(SYS_unlinkat, directory, path, flags);
    pthread_mutex_lock(&names);
    begin(&call, flags & AT_REMOVEDIR ? RMDIR : UNLINK, FAIL_UNLINK);
    int result =
        finish(&call, call.is_failing ? -1 : syscall(SYS_unlinkat, directory, path, flags));
    pthread_mutex_unlock(&names);
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int directory, const char *path, mode_t mode) {
    char full[PATH_MAX];
    struct call call = {.path = absolute(directory, path, full)};
    if (!is_below(call.path)) return syscall(SYS_mkdirat, directory, path, mode);
    pthread_mutex_lock(&names);
    begin(&call, MKDIR, FAIL_MKDIR);
    int result = finish(&call, call.is_failing ? -1 : syscall(SYS_mkdirat, directory, path, mode));
    pthread_mutex_unlock(&names);
    return result;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    char full[PATH_MAX], other[PATH_MAX];
    struct call call = {.path = absolute(from_at, from, full), .other = absolute(to_at, to, other)};
    if (!is_below(call.other)) return syscall(SYS_linkat, from_at, from, to_at, to, flags);
    pthread_mutex_lock(&names);
    begin(&call, LINK, NO_FAULT);
    int result = finish(&call, syscall(SYS_linkat, from_at, from, to_at, to, flags));
    pthread_mutex_unlock(&names);
    return result;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

// ---- what the model cannot follow ----

static void refuse(int fd) {
    char full[PATH_MAX];
    struct call call = {.entry.handle = handle_of(fd)->id, .path = path_of(fd, full)};
    begin(&call, UNTRACEABLE, NO_FAULT);
    finish(&call, 0);
}
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t position) {
    if (fd >= 0 && (protection & PROT_WRITE) && (flags & MAP_SHARED) && handle_of(fd)->id)
        refuse(fd);
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, position);
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t position) {
    return mmap64(at, size, protection, flags, fd, position);
}
ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t size,
                        unsigned int flags) {
    if (handle_of(to)->id) refuse(to);
    return syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
}
ssize_t sendfile(int to, int from, off_t *position, size_t size) {
    if (handle_of(to)->id) refuse(to);
    return syscall(SYS_sendfile, to, from, position, size);
}
ssize_t sendfile64(int to, int from, off_t *position, size_t size) {
    return sendfile(to, from, position, size);
}

// ---- for the test, through ctypes ----

void recorder_note(const char *data, size_t size) {
    struct call call = {.data = &(struct iovec){(void *)data, size}, .data_count = 1};
    begin(&call, NOTE, NO_FAULT);
    finish(&call, 0);
}

// From now on fail calls nth, nth+1, ... nth+times-1 of a class on paths that contain `match`.
void recorder_fail(int fault_class, long nth, long times, int error, int is_short,
                   const char *match) {
    pthread_mutex_lock(&guard);
    rule = (struct rule){fault_class, nth, times, 0, error, is_short, ""};
    snprintf(rule.match, sizeof rule.match, "%s", match);
    fired = 0;
    pthread_mutex_unlock(&guard);
}

long recorder_fired(void) { return fired; }

long recorder_seen(void) { return rule.seen; }

// Power to this process ends before the nth change from now on.
void recorder_kill_at(long nth) {
    atomic_store(&mutations, 0);
    atomic_store(&kill_at, nth);
}

void recorder_kill(void) { die(); }

// The machine forgets its page cache.
void recorder_drop_cache(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) abort();
    cache_drop(handle_of(fd), fd);
    close(fd);
}
