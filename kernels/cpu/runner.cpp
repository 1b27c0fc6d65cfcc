// The CPU kernel for one instruction set, compiled once for each with ISA being its name: slots are divided into tiles,
// and tiles among groups of threads. How they are divided changes the time of a call and never a bit of its result.
#include "runner.h"

#include <algorithm>
#include <map>
#include <memory>

#include "ahead.h"
#include "arithmetic/group_size.h"
#include "distributions/codes.h"
#include "layers/layers.h"

namespace ISA {

constexpr int64_t BYTES_PER_COPYING_THREAD = 1 << 18;  // fewer take less time than waking a thread; not measured
constexpr int64_t MEASURED_BYTES = 1 << 25;  // of states
constexpr int64_t MEASURED_PASSES = 2, PASSES_OF_ONE_ROW = 16;  // of many rows, and of one; between them as many rows as of one
constexpr int64_t MEASURED_ROWS[] = {1, 2, 3, 4, 6, 8, 12, 18, 24, TILE};
constexpr int64_t ROWS_PER_GROUP = 2;  // with fewer rows than this for each thread, threads share a tile
// A group that lost time at a barrier grows again after so many times as long, within these limits: where other programs
// keep the cores, attempts cost a few percent.
constexpr int SMALLER_FOR = 20;
constexpr auto MIN_SMALLER = std::chrono::milliseconds(5), MAX_SMALLER = std::chrono::milliseconds(1000);

// What passes cost a group of so many threads, of networks with a shape and a type of weights.
struct CostsKey {
    Shape shape;
    int64_t weight_type, group_threads;

    bool operator<(const CostsKey& other) const { return memcmp(this, &other, sizeof *this) < 0; }
};

// The costs that networks of this process have measured, which the next ones need not. One measures at a time.
struct SharedCosts {
    Mutex mutex;
    std::map<CostsKey, PassCosts> costs;
};
static SharedCosts shared_costs;

class IsaRunner final : public Runner {
    const Network network;
    const Weights& weights = network.weights;
    const CodeTables tables;
    ThreadPool threads;
    std::vector<std::unique_ptr<Tile>> tiles;  // one for each thread, as each may be a group of its own
    std::vector<Scratch> scratches;
    int largest_group;  // threads; below their number after other programs took cores from us
    Clock::time_point grow_at{};
    std::map<std::pair<int, int64_t>, GroupSize> sizes;  // by the most threads of a group, and the rows of its tile
    std::map<int, const PassCosts*> costs;               // by the threads of a group, as far as they have been needed
    const int64_t weight_type;
    GuessChance chance;

  public:
    IsaRunner(const Shape& shape, const Tensor* tensors, int64_t tensor_count, int64_t weight_type,
              int64_t thread_count)
        : network(shape, tensors, tensor_count, WeightType(weight_type)),
          threads(int(thread_count)),
          scratches(thread_count),
          largest_group(int(thread_count)),
          weight_type(weight_type) {
        for (Scratch& scratch : scratches) {
            tiles.push_back(std::make_unique<Tile>());
            network.allocate(*tiles.back());
            network.allocate(scratch);
        }
    }

    int64_t advance(const Slots& slots, const int64_t* chosen, int64_t chosen_count, int64_t passes, Ahead& ahead) override {
        std::vector<int64_t> in_flight;  // the two slots of a guided image side by side
        bool guided = false;
        for (int64_t i = 0; i < chosen_count; i++) {
            const int64_t b = chosen[i];
            if (!may_step(slots, b)) return -1;
            if (slots.position[b] >= end_of(slots, ahead, b) || slots.partner[b] < 0) continue;
            in_flight.push_back(b);
            if (!slots.partner[b]) continue;
            in_flight.push_back(b + slots.partner[b]);
            guided = true;
        }
        const int64_t count = int64_t(in_flight.size());
        if (!count || passes <= 0) return 0;

        // Groups of several threads only where there are too few rows to keep each thread busy with its own. Parts of
        // equal size that fit a tile; a multiple of the groups, so that none is idle in the last round.
        grow();
        const int64_t rows = largest_group > 1 ? ROWS_PER_GROUP : 1, wanted = (count + rows - 1) / rows;
        const int64_t groups = std::min<int64_t>(wanted, threads.count);
        const int64_t room = images_of_part(ahead, groups);
        const int64_t most = guided ? room - 1 : room;  // slots of a part, to which the second half of a pair is added
        const int64_t rounds = (count + groups * most - 1) / (groups * most), parts = std::min(count, rounds * groups);
        const auto begin_of = [&](int64_t part) {
            const int64_t begin = count * part / parts;
            return begin < count && slots.partner[in_flight[begin]] < 0 ? begin + 1 : begin;
        };

        const int most_threads = most_of_group(groups);
        GroupSize& size = sizes[{most_threads, (count + parts - 1) / parts}];
        const int threads_of_group = size.next(most_threads);
        const PassCosts* rule = ahead.widest ? nullptr : &costs_of(threads_of_group);
        for (Scratch& scratch : scratches) scratch.done = {};
        const auto began = Clock::now();

        // A part takes all its passes before the next one: its states are in cache from the second pass on.
        run_groups(groups, threads_of_group, parts, [&](int64_t part, Tile& tile, Scratch& scratch, const GroupMember& member) {
            if (member.rank == 0) {
                const int64_t begin = begin_of(part);
                tile.run_count = begin_of(part + 1) - begin;
                for (int64_t i = 0; i < tile.run_count; i++) {
                    tile.runs[i] = Run();
                    tile.runs[i].slot = in_flight[begin + i];
                }
            }
            for (int64_t pass = 0;; pass++) {
                // images that are done leave their rows to the others
                if (member.rank == 0) plan(tile, slots, ahead, rule, pass < passes);
                member.wait();
                if (!tile.rows) break;
                // read here: behind the next barriers rank 0 may already plan the pass that follows
                const bool keeps_pixels = weights.shape.causal_conv && !tile.is_sure;
                scratch.done.work += tile.rows + 1;
                run_network(tile, scratch, member, slots);
                for (int64_t i = member.rank; i < tile.run_count; i += member.size()) paint(tile, tile.runs + i, scratch, slots);
                member.wait();
                if (!keeps_pixels) continue;
                network.keep_pixels(tile, member, slots);
                member.wait();
            }
            network.add_kept(tile, member, slots);
            member.wait();  // else rank 0 could fill the tile anew before another thread has seen it empty
        });

        Done done;
        for (const Scratch& scratch : scratches) done += scratch.done;
        chance.add(done);
        ahead.passes += done.passes;
        ahead.computed += done.computed;
        ahead.painted += done.painted;
        ahead.wrong += done.wrong;
        size.took(std::chrono::duration<double>(Clock::now() - began).count() / double(done.work));
        return 0;
    }

    void read(const Slots& slots, int64_t start, int64_t stop, double* bits, float* parameters, uint32_t* intervals) override {
        const Shape& shape = weights.shape;
        const int64_t size = shape.step_bytes, steps = (stop - start) / size, P = parameters_of(shape);
        read_tiles(slots, start, steps, [&](int64_t b, int64_t begin, Tile& tile, Scratch& scratch, const GroupMember& member) {
            const uint8_t* image = slots.images + b * weights.bytes;
            run_network(tile, scratch, member, slots);
            for (int64_t r = member.rank; r < tile.rows; r += member.size()) {
                const float* p = network.parameters(tile, r);
                const int64_t step = b * steps + begin + r;
                write_bits(shape, p, image + tile.position[r], bits + step * size, scratch.distribution.data);
                if (parameters) memcpy(parameters + step * P, p, 4 * P);
                if (intervals) codec(scratch).write_intervals(p, image + tile.position[r], intervals + 2 * step * size);
            }
        });
    }

    void read_layers(const Slots& slots, int64_t start, int64_t stop, int64_t depth, float* outputs) override {
        const int64_t D = weights.width, steps = (stop - start) / weights.shape.step_bytes;
        read_tiles(slots, start, steps, [&](int64_t b, int64_t begin, Tile& tile, Scratch& scratch, const GroupMember& member) {
            scratch.is_unfused = true;
            network.read_in(tile, scratch, member, slots);
            for (int64_t layer = 0;; layer++) {
                const float* x = network.output(layer, tile, scratch);
                float* to = outputs + ((layer * slots.count + b) * steps + begin) * D;
                for (int64_t r = member.rank; r < tile.rows; r += member.size())
                    memcpy(to + r * D, x + r * weights.padded_width, 4 * D);
                if (layer == depth) break;
                network.run_layer(layer, tile, scratch, member, slots);
            }
            scratch.is_unfused = false;
        });
    }

    int64_t follow(const Path& path, Draw draw, float guidance, uint8_t* drawn) override {
        const Shape& shape = weights.shape;
        const int64_t size = shape.step_bytes, P = parameters_of(shape);
        float* scratch = scratches[0].distribution.data;
        for (int64_t step = 0; step < path.steps; step++, draw.position += size) {
            const float* p = path.parameters + step * P;
            if (path.without) {
                if (draw_guided(shape, p, path.without + step * P, guidance, draw, drawn, scratch) != 0) return step;
            } else {
                draw_step(shape, p, draw, drawn, scratch);
            }
            if (memcmp(drawn, path.bytes + step * size, size)) return step;
        }
        return path.steps;
    }

    void copy_slots(const Slots& slots, const int64_t* sources, const int64_t* targets, int64_t count) override {
        const Shape& shape = weights.shape;
        const int64_t z_size = shape.heads * shape.key_width, s_size = z_size * shape.value_width, L = shape.layers;
        const int64_t convolutions = shape.causal_conv ? shape.blocks + L : 0;
        const int64_t kept = 4 * (shape.width + BEYOND) * shape.heads * shape.value_width;
        const int64_t parts = count * L, most = std::max<int64_t>(1, 4 * parts * s_size / BYTES_PER_COPYING_THREAD);
        if (!count) return;
        std::atomic<int64_t> next{0};
        // A part is one layer's state of one slot.
        threads.run(int(std::min<int64_t>({threads.count, parts, most})), [&](int) {
            for (int64_t part; (part = next.fetch_add(1)) < parts;) {
                const int64_t from = sources[part / L], to = targets[part / L], layer = part % L * slots.count;
                if (from == to) continue;
                memcpy(slots.s + (layer + to) * s_size, slots.s + (layer + from) * s_size, 4 * s_size);
                memcpy(slots.z + (layer + to) * z_size, slots.z + (layer + from) * z_size, 4 * z_size);
                if (part % L) continue;
                for (int64_t conv = 0; conv < convolutions; conv++)
                    memcpy(ConvState::of(shape, slots, conv, to).data, ConvState::of(shape, slots, conv, from).data, kept);
                memcpy(slots.images + to * weights.bytes, slots.images + from * weights.bytes, weights.bytes);
                slots.bits[to] = slots.bits[from];
            }
        });
    }

  private:
    // Whether a step of slot b reads and writes nothing but the arrays of its slots and the weights.
    bool may_step(const Slots& slots, int64_t b) const {
        const Shape& shape = weights.shape;
        if (b < 0 || b >= slots.count) return false;
        const int64_t position = slots.position[b], partner = slots.partner[b], other = b + partner;
        if (position < shape.first || (position < weights.bytes && (position - shape.first) % shape.step_bytes)) return false;
        const auto has_label = [&](int64_t slot) { return !shape.classes || uint64_t(slots.label[slot]) <= uint64_t(shape.classes); };
        if (!has_label(b) || !may_decode(slots, b)) return false;
        if (!partner || position >= weights.bytes) return true;
        if (other < 0 || other >= slots.count || !has_label(other)) return false;
        return slots.partner[other] == -partner && slots.position[other] == position && !slots.label[b] != !slots.label[other];
    }

    // Whether the slot has no code, or one that a decoder can read.
    static bool may_decode(const Slots& slots, int64_t b) {
        if (!slots.codes || !slots.codes->range[b]) return true;
        const int64_t range = slots.codes->range[b], value = slots.codes->value[b];
        const bool is_decoder = MIN_RANGE <= range && range <= MAX_RANGE && 0 <= value && value < range;
        return is_decoder && slots.codes->at[b] >= 0 && !slots.partner[b];
    }

    Codec codec(Scratch& scratch) const { return {weights.shape, tables, scratch.codec.data}; }

    // The most threads that each of so many groups may have.
    int most_of_group(int64_t groups) const {
        const int64_t limit = std::max<int64_t>(1, weights.shape.heads);  // further threads would have no head to compute
        return int(std::min<int64_t>({threads.count / groups, limit, largest_group}));
    }

    // Calls work(part, tile, scratch, member) for every part, on every member of the group that takes it. Groups have
    // `size` threads each and take the next part when they have finished one.
    template <class Work>
    void run_groups(int64_t groups, int size, int64_t parts, const Work& work) {
        std::atomic<int64_t> next{0};
        std::vector<int64_t> taken(groups);
        for (int64_t group = 0; group < groups; group++) tiles[group]->barrier.start(size);
        threads.run(int(groups) * size, [&](int rank) {
            const int64_t group = rank / size;
            Tile& tile = *tiles[group];
            const GroupMember member{&tile.barrier, rank % size};
            try {
                for (;;) {
                    if (member.rank == 0) taken[group] = next.fetch_add(1);
                    member.wait();
                    const int64_t part = taken[group];
                    if (part >= parts) return;
                    work(part, tile, scratches[rank], member);
                    member.wait();
                }
            } catch (const LeftGroup&) {
                // the other members finish what is left
            }
        });
        if (size > 1) shrink(groups, size);
    }

    // Calls work(slot, first step, tile, scratch, member) for every tile of `steps` successive steps of all slots, on every member
    // of the group that takes it. A part is one image; the rows of its tiles are steps whose bytes are all known.
    template <class Work>
    void read_tiles(const Slots& slots, int64_t start, int64_t steps, const Work& work) {
        const int64_t size = weights.shape.step_bytes;
        grow();
        const int64_t groups = std::min<int64_t>(slots.count, threads.count);
        run_groups(groups, most_of_group(groups), slots.count, [&](int64_t b, Tile& tile, Scratch& scratch, const GroupMember& member) {
            for (int64_t begin = 0; begin < steps; begin += TILE) {
                if (member.rank == 0) {
                    tile.rows = std::min(TILE, steps - begin);
                    tile.run_count = 1;
                    tile.runs[0] = Run();
                    tile.runs[0].slot = b;
                    tile.runs[0].rows = tile.runs[0].sure = tile.rows;
                    for (int64_t r = 0; r < tile.rows; r++) {
                        tile.slot[r] = b;
                        tile.label[r] = slots.label[b];
                        tile.position[r] = start + (begin + r) * size;
                    }
                }
                member.wait();
                work(b, begin, tile, scratch, member);
                member.wait();
            }
            if (member.rank == 0) slots.position[b] = start + steps * size;
        });
    }

    // Groups are as small as the smallest has become in a call, until the time that was lost is small compared with what followed.
    void shrink(int64_t groups, int size) {
        int smallest = size;
        for (int64_t group = 0; group < groups; group++) smallest = std::min(smallest, tiles[group]->barrier.size.load());
        if (smallest == size) return;
        int64_t lost = 0;
        for (int64_t group = 0; group < groups; group++) lost += tiles[group]->barrier.lost_time;
        const std::chrono::nanoseconds of_each(lost / (groups * (size - 1)));
        largest_group = smallest;
        grow_at = Clock::now() + std::clamp<Clock::duration>(SMALLER_FOR * of_each, MIN_SMALLER, MAX_SMALLER);
    }

    void grow() {
        if (largest_group < threads.count && Clock::now() >= grow_at) largest_group *= 2;
    }

    // How many slots a part of many has: those of a tile, or where rows of fewer images fill one at a lower cost, these.
    int64_t images_of_part(const Ahead& ahead, int64_t groups) {
        if (ahead.widest || most_of_group(groups) > 1) return TILE;
        const PassCosts& cost = costs_of(1);
        const int64_t fewer = std::max<int64_t>(int64_t(double(TILE) / chance.length()), 2);
        return cost.of_step(fewer) < CLEARLY_LESS * cost.of_step(TILE) ? fewer : TILE;
    }

    // What passes cost a group of so many threads, measured when a network of this process asks for it first.
    const PassCosts& costs_of(int group_threads) {
        const PassCosts*& known = costs[group_threads];
        if (known) return *known;
        const Lock lock(shared_costs.mutex);
        const CostsKey key{weights.shape, weight_type, group_threads};
        auto found = shared_costs.costs.find(key);
        if (found == shared_costs.costs.end()) found = shared_costs.costs.emplace(key, measure(group_threads)).first;
        known = &found->second;
        return *known;
    }

    // The same, with images of its own.
    PassCosts measure(int group_threads) {
        const Shape& shape = weights.shape;
        const int64_t keys = shape.layers * shape.heads * shape.key_width;  // numbers of a slot's z
        const int64_t images = std::clamp<int64_t>(MEASURED_BYTES / (4 * keys * shape.value_width), 1, TILE);
        const int64_t convolutions = shape.causal_conv ? shape.blocks + shape.layers : 0;
        Array<float> s(images * keys * shape.value_width), z(images * keys);
        Array<float> pixels(convolutions * images * (shape.width + BEYOND) * weights.width);
        Array<uint8_t> bytes(images * weights.bytes);
        Array<int64_t> labels(images);
        Slots slots{};
        slots.count = images;
        slots.s = s.data;
        slots.z = z.data;
        slots.conv_state = pixels.data;
        slots.images = bytes.data;
        slots.label = labels.data;

        PassCosts cost;
        for (const int64_t rows : MEASURED_ROWS) cost.rows[rows] = seconds_of_pass(slots, group_threads, 1, rows);
        // Between those that are cheapest for their rows a line: one row more may cost much, and the next ones little.
        for (int64_t from = 1; from < TILE;) {
            int64_t to = TILE;
            const auto slope = [&](int64_t rows) { return (cost.rows[rows] - cost.rows[from]) / double(rows - from); };
            for (const int64_t rows : MEASURED_ROWS)
                if (rows > from && slope(rows) < slope(to)) to = rows;
            const double of_row = std::max(slope(to), 0.0);
            for (; from < to; from++) cost.rows[from + 1] = cost.rows[from] + of_row;
        }
        cost.image = std::max(seconds_of_pass(slots, group_threads, images, 1) - cost.rows[images], 0.0) / double(images);
        return cost;
    }

    // Seconds of a pass of the first slots with so many rows each, all right: the least of some, as other programs may have run.
    double seconds_of_pass(const Slots& slots, int group_threads, int64_t images, int64_t rows_each) {
        double least = 1e9;
        run_groups(1, group_threads, 1, [&](int64_t, Tile& tile, Scratch& scratch, const GroupMember& member) {
            if (member.rank == 0) {
                tile.run_count = images;
                tile.rows = images * rows_each;
                for (int64_t i = 0; i < images; i++) {
                    Run& run = tile.runs[i] = Run();
                    run.slot = i;
                    run.first = i * rows_each;
                    run.rows = rows_each;
                    run.sure = 1;
                    run.kept = rows_each - 1;
                }
                for (int64_t r = 0; r < tile.rows; r++) {
                    tile.slot[r] = r / rows_each;
                    tile.label[r] = 0;
                    tile.position[r] = weights.shape.first;
                }
            }
            member.wait();
            const int64_t passes = std::max(MEASURED_PASSES, PASSES_OF_ONE_ROW / tile.rows);
            for (int64_t i = 0; i < passes; i++) {
                const auto began = Clock::now();
                run_network(tile, scratch, member, slots);
                if (member.rank == 0) least = std::min(least, std::chrono::duration<double>(Clock::now() - began).count());
                member.wait();
            }
        });
        return least;
    }

    // All members of a group return when the parameters of all rows are there.
    void run_network(Tile& tile, Scratch& scratch, const GroupMember& member, const Slots& slots) const {
        network.read_in(tile, scratch, member, slots);
        network.run_layers(tile, scratch, member, slots);
        network.read_out(tile, scratch, member);
    }

    // The position from which on no step of slot b begins.
    int64_t end_of(const Slots& slots, const Ahead& ahead, int64_t b) const {
        return ahead.stop ? std::min(ahead.stop[b], weights.bytes) : weights.bytes;
    }

    // Fills a tile with the next pass of its runs' images. What the last one has kept aside of right rows is there until it is
    // over; where there is no next pass, the tile has no rows. rule: null where rows need not be worth their cost.
    void plan(Tile& tile, const Slots& slots, const Ahead& ahead, const PassCosts* rule, bool is_next) const {
        std::swap(tile.keys, tile.last_keys);
        tile.rows = 0;
        for (Run* run = tile.runs; run < tile.runs + tile.run_count; run++) {
            run->kept_first = run->first + run->sure;
            run->kept = run->right - run->sure;
            run->rows = is_next && slots.position[run->slot] < end_of(slots, ahead, run->slot);
            if (slots.partner[run->slot] < 0) run->rows = run[-1].rows;
            run->sure = run->rows;
            run->right = 0;
            run->chance = 1;
            tile.rows += run->rows;
        }
        guess(tile, slots, ahead, rule);

        int64_t row = 0;
        tile.is_sure = true;
        for (Run* run = tile.runs; run < tile.runs + tile.run_count; run++) {
            run->first = row;
            tile.is_sure &= run->rows == run->sure;
            for (int64_t step = 0; step < run->rows; step++, row++) {
                tile.slot[row] = run->slot;
                tile.position[row] = slots.position[run->slot] + step * weights.shape.step_bytes;
                tile.label[row] = slots.label[run->slot];
            }
        }
    }

    // Gives the images of a tile further rows in turn, as long as there is room, and writes the guesses that these read.
    void guess(Tile& tile, const Slots& slots, const Ahead& ahead, const PassCosts* rule) const {
        const int64_t widest = ahead.widest ? ahead.widest : TILE, images = tile.rows;
        double expected = double(tile.rows);  // rows that are right
        bool has_grown = true;
        for (int64_t rows = 1; rows < widest && has_grown; rows++) {
            has_grown = false;
            for (Run* run = tile.runs; run < tile.runs + tile.run_count; run++) {
                const int64_t b = run->slot, partner = slots.partner[b], further = partner ? 2 : 1;
                const int64_t guessed = slots.position[b] + (rows - 1) * weights.shape.step_bytes;
                if (run->rows != rows || partner < 0 || tile.rows + further > TILE) continue;
                if (guessed + weights.shape.step_bytes >= end_of(slots, ahead, b)) continue;
                const double right = is_known(slots, b, guessed) ? run->chance : run->chance * chance.value();
                if (rule && !rule->is_worth(right, further, tile.rows, expected, images)) continue;
                if (!guess_step(*run, slots, guessed)) continue;
                if (partner) run[1].rows = run->rows, run[1].sure = run->sure;
                run->chance = right;
                expected += right * double(further);
                tile.rows += further;
                has_grown = true;
            }
        }
    }

    // Adds a row to a run, and writes the bytes that it reads of the step before it, at `position`: those of a guided image to
    // both of its slots. Returns false, with nothing changed, where there is no guess.
    bool guess_step(Run& run, const Slots& slots, int64_t position) const {
        const int64_t size = weights.shape.step_bytes, b = run.slot, partner = slots.partner[b];
        uint8_t* image = slots.images + b * weights.bytes;
        uint8_t guess[MAX_CHANNELS];
        memcpy(run.before + (run.rows - 1) * size, image + position, size);
        if (is_known(slots, b, position)) {
            run.sure += run.sure == run.rows;
        } else if (guess_flat(weights.shape, image, position, guess)) {
            for (int64_t c = 0; c < size; c++)
                if (has_code(slots, b) || !slots.known[b * weights.bytes + position + c]) image[position + c] = guess[c];
            if (partner) memcpy(image + partner * weights.bytes + position, image + position, size);
        } else {
            return false;
        }
        run.rows++;
        return true;
    }

    // Whether all bytes of a step are given.
    bool is_known(const Slots& slots, int64_t b, int64_t position) const {
        const uint8_t* known = slots.known + b * weights.bytes + position;
        return !has_code(slots, b) && std::all_of(known, known + weights.shape.step_bytes, [](uint8_t each) { return each != 0; });
    }

    static bool has_code(const Slots& slots, int64_t b) { return slots.codes && slots.codes->range[b]; }

    // Paints the steps of an image's run up to and with the first that differs from its guess; of a guided image, both slots
    // with the run of the first, which the other's follows.
    void paint(Tile& tile, Run* run, Scratch& scratch, const Slots& slots) const {
        const int64_t size = weights.shape.step_bytes, b = run->slot, partner = slots.partner[b];
        if (!run->rows || partner < 0) return;
        const int64_t position = slots.position[b];
        Done& done = scratch.done;
        uint8_t* image = slots.images + b * weights.bytes;
        bool is_right = true;
        for (; is_right && run->right < run->rows; run->right++) {
            const int64_t at = position + run->right * size;
            uint8_t guess[MAX_CHANNELS];
            memcpy(guess, image + at, size);
            paint_row(tile, run->first + run->right, run->first + run->right + run->rows, scratch, slots);
            is_right = !memcmp(guess, image + at, size);
            if (is_known(slots, b, at) || !guess_flat(weights.shape, image, at, guess)) continue;
            done.guesses++;
            done.right_guesses += !memcmp(guess, image + at, size);
        }
        done.passes++;
        done.computed += run->rows;
        done.painted += run->right;
        done.wrong += run->right < run->rows;
        // guesses behind a wrong one leave no trace
        const int64_t dropped = std::max<int64_t>(run->rows - 1 - run->right, 0) * size, at = position + run->right * size;
        memcpy(image + at, run->before + run->right * size, dropped);
        if (!partner) return;
        run[1].right = run->right;
        memcpy(image + partner * weights.bytes + at, run->before + run->right * size, dropped);
    }

    // Paints the bytes of a row's step that are not known, adds their cost, and moves the slot to the next step; of a guided
    // image, both slots with the row of the first and that of the `other`.
    void paint_row(Tile& tile, int64_t r, int64_t other_row, Scratch& scratch, const Slots& slots) const {
        const Shape& shape = weights.shape;
        const int64_t b = tile.slot[r], position = tile.position[r], at = b * weights.bytes + position, partner = slots.partner[b];
        const Draw draw{slots.seed[b], slots.index[b], position, slots.temperature[b], slots.known + at};
        double bits[MAX_CHANNELS];
        const float* p = network.parameters(tile, r);
        float* memory = scratch.distribution.data;
        uint8_t* bytes = slots.images + at;
        if (!partner) {
            if (const Codes* codes = slots.codes; codes && codes->range[b]) {
                codec(scratch).decode(p, {codes->code + b * codes->width, codes->width, codes->at[b], codes->value[b], codes->range[b]}, bytes);
                write_bits(shape, p, bytes, bits, memory);
            } else {
                paint_step(shape, p, draw, bytes, bits, memory);
            }
            return finish(slots, b, position, bits);
        }
        const float* other = network.parameters(tile, other_row);
        const bool has_class = slots.label[b] != 0;
        const float failed = draw_guided(shape, has_class ? p : other, has_class ? other : p, slots.guidance[b], draw, bytes, memory);
        memcpy(bytes + partner * weights.bytes, bytes, shape.step_bytes);
        for (const int64_t slot : {b, b + partner}) {
            write_bits(shape, slot == b ? p : other, bytes, bits, memory);
            bits[0] += failed;
            finish(slots, slot, position, bits);
        }
    }

    // Adds the cost of a slot's step, and moves it to the next one.
    void finish(const Slots& slots, int64_t b, int64_t position, const double* bits) const {
        for (int64_t c = 0; c < weights.shape.step_bytes; c++) {
            slots.bits[b] += bits[c];
            if (slots.known[b * weights.bytes + position + c]) slots.known_bits[b] += bits[c];
        }
        slots.position[b] = position + weights.shape.step_bytes;
    }
};

Runner* create(const Shape& shape, const Tensor* tensors, int64_t count, int64_t weight_type, int64_t threads) {
    return new IsaRunner(shape, tensors, count, weight_type, threads);
}

}  // namespace ISA
