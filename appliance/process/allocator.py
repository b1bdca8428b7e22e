"""The allocator of the C library, for a process that serves for months."""

from __future__ import annotations

import ctypes

from appliance.process import event_log

log = event_log.named("process")

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
# Memory above this goes back to the kernel when it is freed. As much as a network thread keeps for
# its next frame (SPARE_MAX): what clients send again and again is below, and costs no page faults.
LARGE_BYTES = 4 << 20
KEPT_BYTES = 2 * LARGE_BYTES  # free at the end of a thread's heap; the allocator's own ratio


def tune() -> None:
    """By itself glibc moves both limits up to what was freed, to 32 and 64 MiB. From then on large
    requests were in the heaps of the threads, one beside the other with small objects between
    them, and stayed there: 122 MB with two network threads, 667 with sixteen."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return
    for option, size in ((M_MMAP_THRESHOLD, LARGE_BYTES), (M_TRIM_THRESHOLD, KEPT_BYTES)):
        if not mallopt(option, size):
            log.warning("the allocator took no limit", option=option, bytes=size)
