// A disk on which some names cannot be opened: whatever process this is preloaded into gets EIO.
//
//   FAILING_OPENS   a file with a name on each line, without its folders; it is read at every call,
//                   so that a test changes it while the process runs
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NAMES_MAX = 4096 };

static int fails(const char *path)
{
    char names[NAMES_MAX + 2] = "\n", line[300] = "\n";
    const char *told = getenv("FAILING_OPENS");
    const char *name = strrchr(path, '/');
    ssize_t size;
    int fd;
    name = name == NULL ? path : name + 1;
    if (told == NULL || *name == '\0' || strlen(name) > sizeof line - 3)
        return 0;
    fd = (int)syscall(SYS_openat, AT_FDCWD, told, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size = read(fd, names + 1, NAMES_MAX);
    close(fd);
    if (size <= 0)
        return 0;
    names[size + 1] = '\0';
    strcat(strcat(line, name), "\n");
    if (strstr(names, line) == NULL)
        return 0;
    errno = EIO;
    return 1;
}

#define OPENS_AT(called)                                                                         \
    int called(int directory, const char *path, int flags, ...)                                  \
    {                                                                                            \
        va_list more;                                                                            \
        mode_t mode;                                                                             \
        va_start(more, flags);                                                                   \
        mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                         \
        va_end(more);                                                                            \
        return fails(path) ? -1 : (int)syscall(SYS_openat, directory, path, flags, mode);        \
    }

OPENS_AT(openat)
OPENS_AT(openat64)
