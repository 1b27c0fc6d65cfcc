// How a GroupSize chooses among sizes that take known times: `group_size THREADS CALLS`, and on each line of the standard input
// the seconds a step takes by THREADS threads, by half of them, and so on. For each line it makes CALLS calls and prints how
// often each of these sizes was chosen in the second half of them.
#include "arithmetic/group_size.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

int main(int, char** arguments) {
    const int most = std::atoi(arguments[1]), calls = std::atoi(arguments[2]);
    ISA::GroupSize group;
    for (std::string line; std::getline(std::cin, line);) {
        std::vector<double> seconds;
        std::istringstream numbers(line);
        for (double one; numbers >> one;) seconds.push_back(one);
        std::vector<int> chosen(seconds.size());
        for (int call = 0; call < calls; call++) {
            const int size = group.next(most);
            int halvings = 0;
            while (most >> halvings > size) halvings++;
            if (call >= calls / 2) chosen.at(halvings)++;
            group.took(seconds.at(halvings));
        }
        for (int count : chosen) printf("%d ", count);
        printf("\n");
    }
}
