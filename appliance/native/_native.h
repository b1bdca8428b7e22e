// The few lines that Cython cannot say: who frees a shared object, and the planted mutants.
#pragma once
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

// Bytes that a read is about to fill. A vector writes zeros into what it grows by, which costs as
// much as the copy that follows, and makes memory real that a slow client may never fill.
template <class T>
struct no_zeros : std::allocator<T> {
    template <class U> struct rebind { using other = no_zeros<U>; };
    template <class U> void construct(U *at) { ::new (static_cast<void *>(at)) U; }
    template <class U, class... Values> void construct(U *at, Values &&...values) {
        ::new (static_cast<void *>(at)) U(std::forward<Values>(values)...);
    }
};
using raw_bytes = std::vector<uint8_t, no_zeros<uint8_t>>;

inline void set_errno(int value) { errno = value; }

// A shared_ptr whose last owner calls `release` (which closes, unlinks and deletes).
template <class T>
std::shared_ptr<T> own(T *object, void (*release)(T *)) {
    return std::shared_ptr<T>(object, release);
}

// A value with all its fields zero: those of a local that Cython declares are whatever was there.
template <class T>
T zeroed() { return T(); }

// Waits until notified or `deadline_ns` (CLOCK_MONOTONIC) has passed; false when it has passed.
inline bool wait_until(std::condition_variable_any &changed, std::mutex &guard,
                       int64_t deadline_ns) {
#ifdef __SANITIZE_THREAD__
    // The thread sanitizer of gcc 12 does not know pthread_cond_clockwait, which a monotonic wait
    // uses.
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t left = deadline_ns - (now.tv_sec * 1000000000LL + now.tv_nsec);
    auto when = std::chrono::system_clock::now() + std::chrono::nanoseconds(left > 0 ? left : 0);
    return changed.wait_until(guard, when) == std::cv_status::no_timeout;
#else
    std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
    return changed.wait_until(guard, deadline) == std::cv_status::no_timeout;
#endif
}

// Its wait without an end is one of a day, again and again, which is code of headers. The library's
// own is in libstdc++ since GCC 12, and a wheel that calls it runs on no older system, as RHEL 9.
class condition : public std::condition_variable_any {
  public:
    void wait(std::mutex &guard) {
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        ::wait_until(*this, guard, (now.tv_sec + 86400LL) * 1000000000LL);
    }
};

// Locks a mutex until the function that declares it ends, whichever return it takes. C++ destroys
// locals in reverse order: declared last, it unlocks before what the others hold is freed.
class scope_lock {
    std::mutex *locked = nullptr;

  public:
    scope_lock() = default;
    scope_lock(const scope_lock &) = delete;
    scope_lock &operator=(const scope_lock &) = delete;
    ~scope_lock() { if (locked != nullptr) locked->unlock(); }
    void hold(std::mutex &guard) { guard.lock(); locked = &guard; }
    bool try_hold(std::mutex &guard) {
        if (!guard.try_lock()) return false;
        locked = &guard;
        return true;
    }
    void release() { locked->unlock(); locked = nullptr; }
};

// A counter with one writer at a time: readers may see it a moment late, and nobody pays for a
// locked instruction.
inline void count_own(std::atomic<int64_t> &counter, int64_t more) {
    counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

// Counters that several threads move: each has a cache line of its own, readers take the sum.
class counter_lines {
    struct alignas(64) line {
        std::atomic<int64_t> counts[8];
    };
    std::vector<line> lines;

  public:
    explicit counter_lines(size_t threads) : lines(threads) {
        for (auto &each : lines)
            for (auto &count : each.counts) count.store(0, std::memory_order_relaxed);
    }
    void add(size_t thread, size_t what, int64_t more) {
        count_own(lines[thread].counts[what], more);
    }
    int64_t sum(size_t what) const {
        int64_t total = 0;
        for (auto &each : lines) total += each.counts[what].load(std::memory_order_relaxed);
        return total;
    }
};

// Planted durability bugs. A release build has none: `mutant("x")` is the constant false there.
// The crash tests build a second copy with APPLIANCE_MUTANTS=1 and name one in the environment.
#ifdef APPLIANCE_MUTANTS
#include <cstdlib>
#include <cstring>
inline bool mutant(const char *name) {
    const char *active = std::getenv("APPLIANCE_MUTANT");
    return active != nullptr && std::strcmp(active, name) == 0;
}
#else
inline constexpr bool mutant(const char *) { return false; }
#endif
