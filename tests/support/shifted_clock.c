// A machine whose clock was set: CLOCK_REALTIME of the process into which this is preloaded is off
// by what the file SHIFTED_CLOCK says, at any time, in milliseconds. What nobody can set stays.
//
//   the file   shift i64, and i64 whether the kernel says that the clock is kept right, in the
//              machine's own byte order; a shared mapping, so that a test sets the clock while the
//              process runs
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

struct told {
    volatile int64_t shift_ms;
    volatile int64_t is_kept_right;
};

static const struct told nothing;
static const struct told *told = &nothing;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SHIFTED_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *found;
    if (fd < 0)
        abort();
    found = mmap(NULL, sizeof(struct told), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (found == MAP_FAILED)
        abort();
    told = found;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int64_t ns;
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        ns = ((int64_t)now->tv_sec * 1000 + told->shift_ms) * 1000000 + now->tv_nsec;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec found;
    if (zone != NULL)
        memset(zone, 0, sizeof(struct timezone));
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (into != NULL)
        *into = found.tv_sec;
    return found.tv_sec;
}

int adjtimex(struct timex *asked)
{
    if (asked->modes != 0) {
        errno = EPERM;
        return -1;
    }
    memset(asked, 0, sizeof *asked);
    asked->status = told->is_kept_right ? STA_PLL : STA_UNSYNC;
    return told->is_kept_right ? TIME_OK : TIME_ERROR;
}
