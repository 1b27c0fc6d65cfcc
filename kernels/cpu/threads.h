// Threads that live as long as their network, and teams of them that meet at barriers inside one piece of work.
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

namespace WAY {

// A meeting of `size` threads, a few hundred nanoseconds when all of them run. Who waits spins: yielding at once gives a
// busy neighbour's program its whole time slice at every meeting (measured: steps 20 times slower). Where another program
// has taken a member's processor, the wait is long whatever one does, and `lost` tells.
class Barrier {
    static constexpr auto LONG = std::chrono::microseconds(1500), PATIENCE = std::chrono::microseconds(20000);
    alignas(64) std::atomic<int> arrived{0};
    alignas(64) std::atomic<unsigned> meeting{0};

  public:
    int size = 1;
    std::atomic<int64_t> lost{0};  // nanoseconds of long waits, all members together

    void wait() {
        if (size == 1) return;
        const unsigned now = meeting.load(std::memory_order_relaxed);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
            arrived.store(0, std::memory_order_relaxed);
            meeting.store(now + 1, std::memory_order_release);
            return;
        }
        const auto begun = std::chrono::steady_clock::now();
        for (int spins = 1; meeting.load(std::memory_order_acquire) == now; spins++) {
#if defined(__x86_64__)
            _mm_pause();
#endif
            if (spins % 1024) continue;
            if (std::chrono::steady_clock::now() - begun > PATIENCE) sched_yield();
        }
        const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - begun;
        if (waited > LONG) lost.fetch_add(waited.count(), std::memory_order_relaxed);
    }
};

// What one thread of a team knows of it.
struct Member {
    Barrier* barrier;
    int rank;

    int size() const { return barrier->size; }
    int64_t begin(int64_t count) const { return count * rank / size(); }
    int64_t end(int64_t count) const { return count * (rank + 1) / size(); }
};

// Threads that wait for work: awake for a moment after the last one, as the next call is often near, then asleep.
class Threads {
    static constexpr auto AWAKE = std::chrono::microseconds(100);

    std::mutex mutex;
    std::condition_variable begun, ended;
    std::function<void(int)> job;
    alignas(64) std::atomic<uint64_t> jobs{0};
    alignas(64) std::atomic<int> busy{0};
    std::atomic<bool> closing{false};
    std::vector<std::thread> others;

    // Returns at once when `there()` holds, looking again and again for a moment; else sleeps until told to look.
    template <class There>
    void await(std::condition_variable& told, There there) {
        const auto until = std::chrono::steady_clock::now() + AWAKE;
        do {
            for (int i = 0; i < 64; i++) {
                if (there()) return;
#if defined(__x86_64__)
                _mm_pause();
#endif
            }
        } while (std::chrono::steady_clock::now() < until);
        std::unique_lock lock(mutex);
        told.wait(lock, there);
    }

    void work(int rank) {
        for (uint64_t seen = 0;;) {
            await(begun, [&] { return closing.load() || jobs.load() != seen; });
            if (closing) return;
            seen++;
            job(rank);
            if (busy.fetch_sub(1) == 1) {
                std::lock_guard lock(mutex);
                ended.notify_one();
            }
        }
    }

  public:
    const int count;

    explicit Threads(int count) : count(count) {
        for (int rank = 1; rank < count; rank++) others.emplace_back([this, rank] { work(rank); });
    }
    ~Threads() {
        {
            std::lock_guard lock(mutex);
            closing = true;
        }
        begun.notify_all();
        for (auto& thread : others) thread.join();
    }

    // Calls job(rank) on all threads, the caller's being rank 0; returns when all are done.
    void run(std::function<void(int)> what) {
        {
            std::lock_guard lock(mutex);
            job = std::move(what);
            busy = count - 1;
            jobs++;
        }
        begun.notify_all();
        job(0);
        await(ended, [&] { return busy.load() == 0; });
    }
};

}  // namespace WAY
