// In place of threads.h where the target has no threads: all work is the caller's, who waits for nobody.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace ISA {

using Clock = std::chrono::steady_clock;

struct Mutex {};

struct Lock {
    explicit Lock(Mutex&) {}
};

struct LeftGroup {};

class Barrier {
  public:
    std::atomic<int> size{1};
    std::atomic<int64_t> lost_time{0};

    void start(int) {}
};

struct GroupMember {
    Barrier* barrier;
    int rank;

    int size() const { return 1; }
    int64_t begin(int64_t) const { return 0; }
    int64_t end(int64_t count) const { return count; }
    void wait() const {}
};

class ThreadPool {
  public:
    const int count = 1;

    explicit ThreadPool(int) {}

    void run(int, const std::function<void(int)>& job) { job(0); }
};

}  // namespace ISA
