// Preloaded into a broker: a disk on which the log of one partition can no longer be synced.
//
//   SYNC_WAITS   while a file of this name is there, a sync of that log waits: records are written and
//                not durable
//   SYNC_FAILS   while a file of this name is there, it fails, with the errno that stands in it as a
//                number, or EIO. What was written stays where it is, as on a disk that took it all
//                the same.
//   SYNC_BELOW   whose files: a part of their path

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MICROSECONDS = 2000 };

static int is_there(const char *name) {
    const char *path = getenv(name);
    return path && access(path, F_OK) == 0;
}

static int is_of_log(int fd) {
    const char *below = getenv("SYNC_BELOW");
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0 || !below)
        return 0;
    path[size] = 0;
    return strstr(path, below) != NULL;
}

static int error_of_sync(void) {
    FILE *file = fopen(getenv("SYNC_FAILS"), "re");
    int error = EIO;
    if (file) {
        if (fscanf(file, "%d", &error) != 1)
            error = EIO;
        fclose(file);
    }
    return error;
}

static int sync_by(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (is_of_log(fd)) {
        while (is_there("SYNC_WAITS"))
            usleep(LOOK_MICROSECONDS);
        if (is_there("SYNC_FAILS")) {
            errno = error_of_sync();
            return -1;
        }
    }
    return real(fd);
}

int fdatasync(int fd) { return sync_by("fdatasync", fd); }

int fsync(int fd) { return sync_by("fsync", fd); }
