// What ahead.h takes for worth its cost: for each line of cases, how many rows a pass of some images has, each of whose guesses
// is right with a known chance.
#include "ahead.h"

#include <cstdio>

static void print(const char* name, double pass, double row, double image, int64_t images, double chance) {
    ISA::PassCosts costs;
    for (int64_t rows = 1; rows <= ISA::TILE; rows++) costs.rows[rows] = pass + row * double(rows);
    costs.image = image;
    int64_t rows = images;
    double expected = double(images), of_round = 1;
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        of_round *= chance;
        for (int64_t i = 0; i < images && rows < ISA::TILE; i++) {
            if (!costs.is_worth(of_round, 1, rows, expected, images)) continue;
            rows++;
            expected += of_round;
            has_grown = true;
        }
    }
    printf("%s: %d rows\n", name, int(rows));
}

int main() {
    print("one image, a pass that costs ten rows, sure", 10, 1, 0, 1, 1);
    print("one image, a pass that costs ten rows, chance 0.5", 10, 1, 0, 1, 0.5);
    print("one image, a pass that costs nothing beside its rows", 0, 1, 0, 1, 1);
    print("ten images, a pass that costs ten rows, sure", 10, 1, 0, 10, 1);
    print("ten images, states that cost three rows, sure", 0, 1, 3, 10, 1);
    print("ten images, states that cost three rows, chance 0.9", 0, 1, 3, 10, 0.9);
    print("noise", 10, 1, 3, 10, 0.01);

    // guesses are forgotten by and by, and the mean run follows them
    ISA::GuessChance seen;
    ISA::Done done;
    done.painted = 1000;
    done.guesses = 900;
    done.right_guesses = 750;
    for (int i = 0; i < 100; i++) seen.add(done);
    printf("chance %.2f, runs of %.1f steps\n", seen.value(), seen.length());
    done.right_guesses = 0;
    for (int i = 0; i < 300; i++) seen.add(done);
    printf("chance %.2f, runs of %.1f steps\n", seen.value(), seen.length());
}
