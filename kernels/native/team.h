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
// has taken a member's processor, the wait is long whatever one does, and `disturbed` tells.
class Barrier {
    static constexpr auto LONG = std::chrono::microseconds(300), PATIENCE = std::chrono::microseconds(20000);
    alignas(64) std::atomic<int> arrived{0};
    alignas(64) std::atomic<unsigned> meeting{0};

  public:
    int size = 1;
    std::atomic<bool> disturbed{false};

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
            const auto waited = std::chrono::steady_clock::now() - begun;
            if (waited > LONG) disturbed.store(true, std::memory_order_relaxed);
            if (waited > PATIENCE) sched_yield();
        }
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

class Threads {
    std::mutex mutex;
    std::condition_variable begun, ended;
    std::function<void(int)> job;
    uint64_t jobs = 0;
    int busy = 0;
    bool closing = false;
    std::vector<std::thread> others;

    void work(int rank) {
        for (uint64_t seen = 0;;) {
            {
                std::unique_lock lock(mutex);
                begun.wait(lock, [&] { return closing || jobs != seen; });
                if (closing) return;
                seen = jobs;
            }
            job(rank);
            std::lock_guard lock(mutex);
            if (--busy == 0) ended.notify_one();
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
        std::unique_lock lock(mutex);
        ended.wait(lock, [&] { return busy == 0; });
    }
};

}  // namespace WAY
