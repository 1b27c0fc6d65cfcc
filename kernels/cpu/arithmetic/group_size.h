// How many threads share a tile of few rows.
#pragma once
#include <algorithm>

namespace ISA {

// Finds by trying how many threads are fastest: all of them, a half, a quarter, and so on. More threads have less work
// each and wait for each other just as often, and a wait takes several times as long where their cores share no cache.
// Every so many calls the next larger or smaller number is tried, for one call.
class GroupSize {
    static constexpr int FIRST_WAIT = 16, LAST_WAIT = 1024;  // calls; doubled while the fastest stays the fastest
    static constexpr double CLEARLY = 0.95;  // of the fastest's time, which a faster one needs at most

    int fastest = 0, current = 0, last_tried = 0;  // times that the largest number is halved
    int calls = 0, wait = FIRST_WAIT;
    double seconds = 0;  // a step of the fastest, averaged over the last calls

  public:
    // The size for the next call, of at most `most`.
    int next(int most) {
#ifdef SCANLINE_WHOLE_GROUPS  // of tests/kernels/cpu/sanitize.py: threads meet at barriers however busy the machine is
        return most;
#endif
        current = fastest;
        const bool larger = fastest > 0, smaller = most >> (fastest + 1) > 0;
        if (++calls < wait || !(larger || smaller)) return most >> current;
        calls = 0;
        wait = std::min(2 * wait, LAST_WAIT);
        current = last_tried = smaller && !(larger && last_tried == fastest + 1) ? fastest + 1 : fastest - 1;
        return most >> current;
    }

    // Notes the time of a step in the call that `next` was for.
    void took(double step) {
        if (current == fastest) {
            seconds = seconds ? 0.75 * seconds + 0.25 * step : step;
        } else if (step < CLEARLY * seconds) {
            fastest = current;
            seconds = step;
            wait = FIRST_WAIT;
        }
    }
};

}  // namespace ISA
