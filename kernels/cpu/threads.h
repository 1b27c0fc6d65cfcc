// Threads that live as long as their network, and groups of them that share a tile and wait for each other at barriers.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sched.h>

namespace ISA {

static inline void spin_pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// A barrier for `size` threads, a few hundred nanoseconds when all of them run. Waiting threads spin: yielding at once
// gives another program its whole time slice at every barrier (measured: steps 20 times slower). If the system has
// given a member's core to another program the wait is long in any case, and is added to `long_waits`.
class Barrier {
    static constexpr auto LONG_WAIT = std::chrono::microseconds(1500), SPIN_LIMIT = std::chrono::microseconds(20000);
    // lines of cache of their own: spinning threads read only the second, which changes once a barrier
    alignas(64) std::atomic<int> arrived{0};
    alignas(64) std::atomic<unsigned> generation{0};

  public:
    int size = 1;
    std::atomic<int64_t> long_waits{0};  // nanoseconds, summed over the members

    void wait() {
        if (size == 1) return;
        // read before arriving: once the last one has arrived, the number changes
        const unsigned current = generation.load(std::memory_order_relaxed);
        // the last to arrive opens the barrier; it is ready for the next use before any other thread sees that
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
            arrived.store(0, std::memory_order_relaxed);
            generation.store(current + 1, std::memory_order_release);
            return;
        }
        const auto start = std::chrono::steady_clock::now();
        for (int spins = 1; generation.load(std::memory_order_acquire) == current; spins++) {
            spin_pause();
            // the clock costs more than a pause: look at it now and then. After SPIN_LIMIT another program needs this core.
            if (spins % 1024 == 0 && std::chrono::steady_clock::now() - start > SPIN_LIMIT) sched_yield();
        }
        const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - start;
        if (waited > LONG_WAIT) long_waits.fetch_add(waited.count(), std::memory_order_relaxed);
    }
};

// One thread of a group, and its share of `count` heads or columns.
struct GroupMember {
    Barrier* barrier;
    int rank;

    int size() const { return barrier->size; }
    int64_t begin(int64_t count) const { return count * rank / size(); }
    int64_t end(int64_t count) const { return count * (rank + 1) / size(); }
};

// `count` threads, the caller being one of them. Between two jobs they spin for a moment, as the next call is often
// near, and then sleep.
class ThreadPool {
    static constexpr auto SPIN_TIME = std::chrono::microseconds(100);

    std::mutex mutex;
    std::condition_variable started, finished;
    std::function<void(int)> job;
    alignas(64) std::atomic<uint64_t> jobs{0};
    alignas(64) std::atomic<int> unfinished{0};
    std::atomic<bool> closing{false};
    std::vector<std::thread> threads;

    // Returns when `condition()` holds; `changed` is notified under the mutex after each change.
    template <class Condition>
    void await(std::condition_variable& changed, Condition condition) {
        const auto until = std::chrono::steady_clock::now() + SPIN_TIME;
        do {
            for (int i = 0; i < 64; i++) {
                if (condition()) return;
                spin_pause();
            }
        } while (std::chrono::steady_clock::now() < until);
        std::unique_lock lock(mutex);
        changed.wait(lock, condition);
    }

    void work(int rank) {
        for (uint64_t done = 0;;) {
            await(started, [&] { return closing.load() || jobs.load() != done; });
            if (closing) return;
            done++;
            job(rank);
            if (unfinished.fetch_sub(1) == 1) {
                // with the mutex held the caller is either asleep, and is woken, or has not yet looked
                std::lock_guard lock(mutex);
                finished.notify_one();
            }
        }
    }

  public:
    const int count;

    explicit ThreadPool(int count) : count(count) {
        for (int rank = 1; rank < count; rank++) threads.emplace_back([this, rank] { work(rank); });
    }
    ~ThreadPool() {
        {
            std::lock_guard lock(mutex);
            closing = true;
        }
        started.notify_all();
        for (auto& thread : threads) thread.join();
    }

    // Calls next(rank) on all threads, the caller's rank being 0; returns when all are done.
    void run(std::function<void(int)> next) {
        {
            std::lock_guard lock(mutex);
            job = std::move(next);
            unfinished = count - 1;
            jobs++;
        }
        started.notify_all();
        job(0);
        await(finished, [&] { return unfinished.load() == 0; });
    }
};

}  // namespace ISA
