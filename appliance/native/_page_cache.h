// How much of a file is in the page cache, told without touching a page of it.
#pragma once
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451  // glibc before 2.38 has no name for it; the same on all processors
#endif

struct cached_range {
    uint64_t position, size;
};

struct cached_pages {
    uint64_t cached, dirty, being_written, evicted, recently_evicted;
};

// Whether the cache has each page of the range, if the kernel may be asked (Linux 6.5; a container
// may forbid it): 1 or 0, else -1. A page that is being read counts as there.
static inline int has_pages(int fd, int64_t position, int64_t size) {
    struct cached_range range = {(uint64_t)position, (uint64_t)size};
    struct cached_pages found = {0};
    const uint64_t page = (uint64_t)getpagesize();
    const uint64_t wanted = (range.position + range.size - 1) / page - range.position / page + 1;
    if (syscall(SYS_cachestat, fd, &range, &found, 0) != 0) return -1;
    return found.cached >= wanted;
}
