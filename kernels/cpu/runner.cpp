// The native step for one instruction set: compiled once for each, WAY being its name. Seats in tiles, tiles in teams.
#include <algorithm>
#include <memory>

#include "network.h"
#include "runner.h"

namespace WAY {

constexpr int64_t ROWS_OF_A_TEAM = 2;  // fewer rows than this for each thread, and threads share a tile instead
// How long threads work apart after more than half of a call was lost to waiting: at first, and when that goes on.
constexpr auto APART = std::chrono::milliseconds(5), LONGEST_APART = std::chrono::milliseconds(160);

class Runner final : public Native {
    const Network network;
    Threads threads;
    std::vector<std::unique_ptr<Tile>> tiles;
    std::vector<Scratch> scratches;
    std::chrono::steady_clock::time_point apart_until{};
    std::chrono::milliseconds apart_for = APART;

  public:
    Runner(const Shape& shape, const float* const* tensors, Precision precision, int64_t count)
        : network(shape, tensors, precision), threads(int(count)) {
        for (int64_t i = 0; i < count; i++) {
            tiles.push_back(std::make_unique<Tile>());
            network.prepare(*tiles.back());
            scratches.push_back(network.scratch());
        }
    }

    void advance(const Seats& seats, int64_t steps) override {
        std::vector<int64_t> busy;
        for (int64_t b = 0; b < seats.rows; b++)
            if (seats.position[b] < network.bytes) busy.push_back(b);
        const int64_t count = int64_t(busy.size());
        if (!count) return;
        const int64_t wanted = apart() ? count : (count + ROWS_OF_A_TEAM - 1) / ROWS_OF_A_TEAM;
        const int64_t teams = std::min<int64_t>(wanted, threads.count);
        const int64_t rounds = (count + teams * TILE - 1) / (teams * TILE), pieces = std::min(count, rounds * teams);
        in_teams(teams, pieces, [&](int64_t piece, Tile& tile, Scratch& mine, const Member& me) {
            const int64_t begin = count * piece / pieces, end = count * (piece + 1) / pieces;
            for (int64_t step = 0; step < steps; step++) {
                if (me.rank == 0) {
                    tile.rows = 0;
                    for (int64_t i = begin; i < end; i++)
                        if (seats.position[busy[i]] < network.bytes) {
                            tile.seat[tile.rows] = busy[i];
                            tile.position[tile.rows++] = seats.position[busy[i]];
                        }
                }
                me.barrier->wait();
                if (!tile.rows) break;
                embed(tile, me, seats);
                network.run_layers(tile, mine, me, seats);
                for (int64_t r = me.rank; r < tile.rows; r += me.size()) paint(tile, r, mine, seats);
                me.barrier->wait();
            }
            me.barrier->wait();  // nobody fills the tile anew while another still looks whether it is empty
        });
    }

    void read(const Seats& seats, int64_t start, int64_t stop, double* bits, float* parameters) override {
        const int64_t count = stop - start, K = network.shape.components;
        const int64_t teams = std::min<int64_t>(seats.rows, threads.count);
        in_teams(teams, seats.rows, [&](int64_t b, Tile& tile, Scratch& mine, const Member& me) {
            for (int64_t begin = start; begin < stop; begin += TILE) {
                if (me.rank == 0) {
                    tile.rows = std::min(TILE, stop - begin);
                    for (int64_t r = 0; r < tile.rows; r++) tile.seat[r] = b, tile.position[r] = begin + r;
                }
                me.barrier->wait();
                embed(tile, me, seats);
                network.run_layers(tile, mine, me, seats);
                for (int64_t r = me.rank; r < tile.rows; r += me.size()) {
                    const uint8_t* image = seats.images + b * network.bytes;
                    const float* p = network.read_out(tile, r, image, mine);
                    const int64_t at = b * count + tile.position[r] - start;
                    bits[at] = bits_of(p, K, image[tile.position[r]], network.shape.exp_scale);
                    if (parameters) memcpy(parameters + at * 3 * K, p, 4 * 3 * K);
                }
                me.barrier->wait();
            }
            if (me.rank == 0) seats.position[b] = stop;
        });
    }

  private:
    // `pieces` of work over teams of equal size; a team takes the next piece when it has done one.
    template <class Work>
    void in_teams(int64_t teams, int64_t pieces, const Work& work) {
        const int64_t most = std::max<int64_t>(1, network.shape.heads);  // more threads than heads find nothing to do
        const int64_t size = apart() ? 1 : std::min(threads.count / teams, most);
        std::atomic<int64_t> next{0};
        std::vector<int64_t> taken(teams);
        const auto begun = std::chrono::steady_clock::now();
        for (int64_t team = 0; team < teams; team++) tiles[team]->barrier.size = int(size);
        threads.run([&](int rank) {
            const int64_t team = rank / size;
            if (team >= teams) return;
            Tile& tile = *tiles[team];
            const Member me{&tile.barrier, int(rank % size)};
            for (;;) {
                if (me.rank == 0) taken[team] = next.fetch_add(1);
                me.barrier->wait();
                const int64_t piece = taken[team];
                if (piece >= pieces) return;
                work(piece, tile, scratches[rank], me);
                me.barrier->wait();
            }
        });
        if (size == 1) return;
        int64_t lost = 0;
        for (int64_t team = 0; team < teams; team++) lost += tiles[team]->barrier.lost.exchange(0);
        const auto ended = std::chrono::steady_clock::now();
        const bool disturbed = std::chrono::nanoseconds(lost / (teams * (size - 1))) > (ended - begun) * 6 / 10;
        if (disturbed) apart_until = ended + apart_for;
        apart_for = disturbed ? std::min(2 * apart_for, LONGEST_APART) : APART;
    }

    // Whether other programs have lately taken processors from us: a team would wait for them at every meeting.
    bool apart() const { return std::chrono::steady_clock::now() < apart_until; }

    void embed(Tile& tile, const Member& me, const Seats& seats) const {
        for (int64_t r = me.rank; r < tile.rows; r += me.size())
            network.embed(seats.images + tile.seat[r] * network.bytes, tile.position[r],
                          tile.x.data + r * network.padded_width);
        me.barrier->wait();
    }

    // The byte of a row: drawn, or the known one; what it costs; one position on.
    void paint(Tile& tile, int64_t r, Scratch& mine, const Seats& seats) const {
        const int64_t b = tile.seat[r], position = tile.position[r], K = network.shape.components;
        const bool exp_scale = network.shape.exp_scale;
        uint8_t* image = seats.images + b * network.bytes;
        const float* parameters = network.read_out(tile, r, image, mine);
        uint8_t& byte = image[position];
        if (!seats.known[b * network.bytes + position])
            byte = sample(parameters, K, uniforms(seats.seed[b], seats.index[b], position), seats.temperature[b],
                          exp_scale);
        seats.bits[b] += bits_of(parameters, K, byte, exp_scale);
        seats.position[b] = position + 1;
    }
};

Native* create(const Shape& shape, const float* const* tensors, Precision precision, int64_t threads) {
    return new Runner(shape, tensors, precision, threads);
}

}  // namespace WAY
