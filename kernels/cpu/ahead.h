// Painting ahead: the guesses of an image's next bytes, and how many of them are worth their rows. A draw is a function of
// seed, image and position, so that a guess is checked exactly: what is here changes the time of a call, never a byte.
#pragma once
#include <cstring>

#include "abi.h"

namespace ISA {

struct Neighbour {
    int64_t up, left;
};
constexpr Neighbour PAINTED[] = {{0, 1}, {1, 1}, {1, 0}, {1, -1}};

// Writes to `guess` [step_bytes] what the neighbours of the pixel at `position` have, which are painted: left, above left,
// above and above right, as far as they are in the image. Returns false where they differ: there is no guess.
static inline bool guess_flat(const Shape& shape, const uint8_t* image, int64_t position, uint8_t* guess) {
    const int64_t y = position / shape.channels / shape.width, x = position / shape.channels % shape.width;
    memset(guess, 0, shape.step_bytes);  // of the first pixel
    bool is_first = true;
    for (const Neighbour& neighbour : PAINTED) {
        const int64_t column = x - neighbour.left;
        if (neighbour.up > y || column < 0 || column >= shape.width) continue;
        const uint8_t* bytes = image + position - (neighbour.up * shape.width + neighbour.left) * shape.channels;
        if (is_first) memcpy(guess, bytes, shape.step_bytes);
        if (memcmp(guess, bytes, shape.step_bytes)) return false;
        is_first = false;
    }
    return true;
}

constexpr int64_t TILE = 6 * 7;  // rows: enough work for each weight that is read, few enough that states stay in cache

constexpr double CLEARLY_LESS = 0.9;  // than what is measured with some error

// Seconds of a pass of one tile.
struct PassCosts {
    double rows[TILE + 1] = {};  // by the rows of one image
    double image = 0;            // of each further image, for its state

    // Whether further rows of an image, right with this chance, are worth their cost in a pass of some rows, of which so many
    // are expected to be right: they must clearly cost less than as many steps of the pass without them.
    bool is_worth(double chance, int64_t further, int64_t rows_before, double expected, int64_t images) const {
        const double seconds = rows[rows_before] + image * double(images);
        const double cost = rows[rows_before + further] - rows[rows_before];
        return cost * expected < CLEARLY_LESS * chance * double(further) * seconds;
    }

    // Seconds of a step where so many images share a tile, and painting ahead fills it.
    double of_step(int64_t images) const { return (rows[TILE] + image * double(images)) / double(TILE); }
};

// What a thread has done in a call.
struct Done {
    int64_t passes = 0, computed = 0, painted = 0, wrong = 0;  // as in Ahead
    int64_t guesses = 0, right_guesses = 0;                    // that there were, with a row or without
    int64_t work = 0;                                          // passes of tiles and their rows

    void operator+=(const Done& other) {
        passes += other.passes;
        computed += other.computed;
        painted += other.painted;
        wrong += other.wrong;
        guesses += other.guesses;
        right_guesses += other.right_guesses;
        work += other.work;
    }
};

// How often guesses are right: counted wherever there is one, whether it had a row or not.
class GuessChance {
    static constexpr int64_t REMEMBERED = 1 << 14;  // steps, beyond which older ones count half
    int64_t steps = 16, guesses = 8, right = 7;  // as if so many had been seen

  public:
    double value() const { return double(right) / double(guesses); }

    // The mean number of steps up to one whose byte has no right guess.
    double length() const { return double(steps) / double(steps - right); }

    void add(const Done& done) {
        steps += done.painted;
        guesses += done.guesses;
        right += done.right_guesses;
        for (; steps > REMEMBERED; steps /= 2) {
            guesses /= 2;
            right /= 2;
        }
    }
};

}  // namespace ISA
