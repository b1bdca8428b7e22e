// A thread that works for microseconds and sleeps again, and says so to the kernel.
#pragma once
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// Linux' `struct sched_attr`, first version: glibc before 2.41 has none.
struct sched_facts {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
};

// From Linux 6.12 on a thread that asks for short turns may interrupt one that takes the usual
// ones (1.4 ms on two cores) as soon as it has something to do; its share of the core stays what it
// was. Without it a request waits until a neighbour's turn is over. 0.1 ms is the least that Linux
// takes. Older kernels ignore it, and where a container forbids it all is as before.
static inline void wake_soon(void) {
    struct sched_facts facts = {0};
    if (syscall(SYS_sched_getattr, 0, &facts, sizeof facts, 0) != 0 || facts.policy != 0)
        return;  // SCHED_OTHER only: whoever chose another policy knows why
    facts.size = sizeof facts;
    facts.slice_ns = 100000;
    syscall(SYS_sched_setattr, 0, &facts, 0);
}
