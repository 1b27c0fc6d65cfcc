// Threads that live as long as their network, and groups of them that share a tile and wait for each other at barriers.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ISA {

using Clock = std::chrono::steady_clock;
using Mutex = std::mutex;
using Lock = std::lock_guard<Mutex>;

static inline void spin_pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// Spins until `condition()` holds, for `limit` at most. Returns whether it holds.
template <class Condition>
static inline bool spin_until(const Condition& condition, Clock::duration limit) {
    Clock::time_point until{};
    do {
        for (int i = 0; i < 64; i++) {
            if (condition()) return true;
            spin_pause();
        }
        // the first 64 pauses are most waits, and need no clock
        if (until == Clock::time_point{}) until = Clock::now() + limit;
    } while (Clock::now() < until);
    return condition();
}

// Thrown by Barrier::wait in a thread without which the group goes on.
struct LeftGroup {};

// A barrier for the first `size` threads of a group, a few hundred nanoseconds where all of them run. Waiting threads
// spin, and sleep after SPIN_LIMIT: by then the system has given the core of a late thread to another program, or to the
// very thread that waits for it. Further barriers would cost a time slice each: once a member has slept for TOLERATED on
// the average (a thread that is woken takes some of it), the group is halved at the next barrier.
class Barrier {
    static constexpr auto SPIN_LIMIT = std::chrono::microseconds(200);
#ifdef SCANLINE_WHOLE_GROUPS  // as in GroupSize
    static constexpr auto TOLERATED = std::chrono::hours(1);
#else
    static constexpr auto TOLERATED = std::chrono::microseconds(1000);
#endif

    // lines of cache of their own: spinning threads read only the second, which changes once a barrier
    alignas(64) std::atomic<int> arrived{0};
    alignas(64) std::atomic<unsigned> generation{0};
    alignas(64) std::atomic<int> asleep{0};
    std::atomic<bool> disturbed{false};
    std::mutex mutex;
    std::condition_variable opened;

  public:
    std::atomic<int> size{1};           // changes only while all members wait
    std::atomic<int64_t> lost_time{0};  // nanoseconds of the waits that ended asleep, summed over the members

    // For a group of `members` threads, none of which has come yet.
    void start(int members) {
        size = members;
        lost_time = 0;
        disturbed = false;
    }

    // Returns when all members have called it. Throws LeftGroup where the group goes on without the caller.
    void wait(int rank) {
        const int members = size.load(std::memory_order_relaxed);
        if (members == 1) return;
        // read before arriving: once the last one has arrived, the number changes
        const unsigned current = generation.load(std::memory_order_relaxed);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == members)
            open(current);
        else if (!spin_until([&] { return generation.load(std::memory_order_acquire) != current; }, SPIN_LIMIT))
            sleep(current, members);
        if (rank >= size.load(std::memory_order_relaxed)) throw LeftGroup();
    }

  private:
    // By the last to arrive: the barrier is ready for the next use before any other thread sees that it is open.
    void open(unsigned current) {
        arrived.store(0, std::memory_order_relaxed);
        if (disturbed.load(std::memory_order_relaxed)) {
            disturbed.store(false, std::memory_order_relaxed);
            size.store(size.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
        }
        // both sequentially consistent: either this thread sees the sleeper, or the sleeper sees the new number
        generation.store(current + 1);
        if (!asleep.load()) return;
        { std::lock_guard lock(mutex); }
        opened.notify_all();
    }

    void sleep(unsigned current, int members) {
        const auto start = Clock::now();
        {
            std::unique_lock lock(mutex);
            asleep++;
            opened.wait(lock, [&] { return generation.load() != current; });
            asleep--;
        }
        const std::chrono::nanoseconds waited = Clock::now() - start + SPIN_LIMIT;
        const std::chrono::nanoseconds lost(lost_time.fetch_add(waited.count(), std::memory_order_relaxed));
        if (lost + waited > TOLERATED * (members - 1)) disturbed.store(true, std::memory_order_relaxed);
    }
};

// One thread of a group, and its share of `count` heads or columns between two barriers.
struct GroupMember {
    Barrier* barrier;
    int rank;

    int size() const { return barrier->size.load(std::memory_order_relaxed); }
    int64_t begin(int64_t count) const { return count * rank / size(); }
    int64_t end(int64_t count) const { return count * (rank + 1) / size(); }
    void wait() const { barrier->wait(rank); }
};

// `count` threads, the caller being one of them. Between two jobs they spin for a moment, as the next call is often
// near, and then sleep.
class ThreadPool {
    static constexpr auto SPIN_TIME = std::chrono::microseconds(100);

    struct Worker {
        alignas(64) std::atomic<uint64_t> jobs{0};
        std::condition_variable started;
        std::thread thread;
    };

    std::mutex mutex;
    std::condition_variable finished;
    std::function<void(int)> job;
    alignas(64) std::atomic<int> unfinished{0};
    std::atomic<bool> closing{false};
    std::vector<std::unique_ptr<Worker>> workers;  // of the ranks from 1 on

    // Returns when `condition()` holds; `changed` is notified under the mutex after each change.
    template <class Condition>
    void await(std::condition_variable& changed, const Condition& condition) {
        if (spin_until(condition, SPIN_TIME)) return;
        std::unique_lock lock(mutex);
        changed.wait(lock, condition);
    }

    void work(Worker& self, int rank) {
        for (uint64_t done = 0;;) {
            await(self.started, [&] { return closing.load() || self.jobs.load() != done; });
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

    void end() {
        {
            std::lock_guard lock(mutex);
            closing = true;
        }
        for (auto& worker : workers) worker->started.notify_one();
        for (auto& worker : workers)
            if (worker->thread.joinable()) worker->thread.join();
    }

  public:
    const int count;

    explicit ThreadPool(int count) : count(count) {
        try {
            for (int rank = 1; rank < count; rank++) {
                workers.push_back(std::make_unique<Worker>());
                Worker& worker = *workers.back();
                worker.thread = std::thread([this, &worker, rank] { work(worker, rank); });
            }
        } catch (...) {  // the system starts no more of them
            end();
            throw;
        }
    }
    ~ThreadPool() { end(); }

    // Calls next(rank) on the first `wanted` threads, the caller's rank being 0; returns when all are done. The others
    // are not woken: where cores are shared, waiting for one of them takes as long as another program's time slice.
    void run(int wanted, std::function<void(int)> next) {
        {
            std::lock_guard lock(mutex);
            job = std::move(next);
            unfinished = wanted - 1;
            for (int rank = 1; rank < wanted; rank++) workers[rank - 1]->jobs++;
        }
        for (int rank = 1; rank < wanted; rank++) workers[rank - 1]->started.notify_one();
        job(0);
        await(finished, [&] { return unfinished.load() == 0; });
    }
};

}  // namespace ISA
