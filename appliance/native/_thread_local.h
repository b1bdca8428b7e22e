// One pointer that each thread has for itself, in each module that includes this.
#pragma once

static thread_local void *thread_own;

static inline void *thread_kept(void) { return thread_own; }
static inline void thread_keep(void *what) { thread_own = what; }
