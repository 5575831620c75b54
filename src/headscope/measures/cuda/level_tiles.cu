// What needs levels, from S in tiles as `by_tile` left it. A block goes through several windows of one head.

#define DISTANCES (TILE - 1)
#define LEVEL_THREADS (LEVEL_WARPS * WARP)
#define BYTES 4           /* of a number */
#define NOWHERE BINS      /* the bin of what is no pair: lanes that part would have to wait for each other */
#define REACH (BINS + 1)  /* behind the bins of an id: Σ of the distances of its high pairs */
#define OF_ID (BINS + 2)  /* numbers of an id */
#define OF_LEVELS (RELATIONS * DISTANCES + 16) /* of two levels by relation and distance; what is no pair may be 15 tokens behind */
static_assert(BINS % 2 == 1, "half a word is left for what is no pair");

// What is known of the token at a position; where it does not count, its place is below zero.
struct alignas(16) LevelToken {
    int times, passed, place; // where the counts of its id begin, in bytes; how many thresholds it passes; among those that count
    float norm;
};

// What is found at the run's τ.
struct alignas(16) Found {
    int far, within, again; // Σ of the distances of high pairs; how many are in one sentence, and of repetitions
    int longest;            // where the counts of the longest output's id begin, in bytes
    int occurs, reach;      // how often the focal token occurs; Σ of the distances of its high pairs
};

// What is found at each threshold: high pairs; focal tokens; high pairs of the first of them, each once.
struct alignas(16) Chosen { int number, best, of_null, held; };
static_assert(sizeof(Found) == 32 && sizeof(Chosen) == 16, "as `level_tile_bytes` has it");

// What a block of `level_tile` has on the chip, in the same places for all windows. Doubles and u64 first.
struct LevelTile {
    double *sums;      // (warps, 3, THETAS): Σ S inside the mask, with its second token there, and with its first
    double *room;      // (4, 2): the lengths of warps' tokens: added up, the longest
    Found *found;
    Chosen *chosen;    // (STEPS,)
    LevelToken *token; // (TILE,)
    unsigned *mask;    // (THETAS, MASK): which tokens pass each threshold, as 16-bit floats
    int *null_;        // (K,)
    int *by_count;     // (K,)
    int *high;         // (kinds,): pairs that are high at the run's τ
    int *times;        // (K, OF_ID): pairs of each id by level; in the upper halves those with itself
    int *spare;        // (32,): what lanes count whose pair is not high
    int *table;        // (11, OF_LEVELS): pairs of all windows of the block, the odd bins in the upper halves

    __device__ LevelTile(double *shared) {
        sums = shared, room = sums + LEVEL_WARPS * 3 * THETAS, found = (Found *)(room + 8);
        chosen = (Chosen *)(found + 1), token = (LevelToken *)(chosen + STEPS), mask = (unsigned *)(token + TILE);
        null_ = (int *)(mask + THETAS * MASK), by_count = null_ + TILE, high = by_count + TILE;
        times = high + MOST_KINDS;
        spare = times + OF_ID * TILE, table = spare + WARP;
    }
};

// The tokens of a window, by the first four warps; a lane to a position.
__device__ inline void take_tokens(const Args &of, const LevelTile &on, int b, i64 head) {
    const int i = threadIdx.x, lane = i % WARP, wide = of.keys;
    const int *is_counting = of.is_counting + (i64)b * wide;
    const float squared = i < of.tokens ? of.squares[head * of.tokens + i] : 0.0f;
    const int passed = i < wide ? of.passed[head * wide + i] : 0;
    int place = 0, counting[TILE / WARP]; // how many count before this one; whether those of each stretch count
#pragma unroll
    for (int from = 0; from < TILE / WARP; from++) counting[from] = from * WARP + lane < wide ? is_counting[from * WARP + lane] : 0;
    bool counts = false;
#pragma unroll
    for (int from = 0; from < TILE / WARP; from++) {
        const unsigned others = __ballot_sync(FULL, counting[from]);
        if (from < i / WARP) place += __popc(others);
        if (from == i / WARP) place += __popc(others & ((1u << lane) - 1)), counts = others >> lane & 1;
    }
    LevelToken own = {0, 0, -1, 0.0f};
    double square = 0;
    if (counts) {
        square = (double)squared;
        own = {of.id_number[b * of.counting + place] * OF_ID * BYTES, passed, place, sqrtf(squared)};
    }
    on.token[i] = own;
    const double unit = own.norm * own.norm > 0 ? (double)(squared / (own.norm * own.norm)) : 0.0;
    const double diagonal = added(scaled_of[0] ? unit : square), longest = most(scaled_of[0] ? 1.0 : square);
    if (lane == 0) on.room[i / WARP * 2] = diagonal, on.room[i / WARP * 2 + 1] = longest;
}

// Which tokens that count pass each threshold, and all of them: zeros and ones.
__device__ inline void lay_out_masks(const Args &of, const LevelTile &on, int b, i64 head) {
    const int wide = of.keys;
    const signed char *passed = of.passed + head * wide;
    const int *is_counting = of.is_counting + (i64)b * wide;
    const int at = threadIdx.x % (TILE / 2) * 2;
    const bool one = at < wide && is_counting[at], two = at + 1 < wide && is_counting[at + 1];
    const int of_one = one ? passed[at] : 0, of_two = two ? passed[at + 1] : 0;
    for (int row = threadIdx.x / (TILE / 2); row < THETAS; row += LEVEL_THREADS / (TILE / 2)) { // 0x3c00 is one
        const bool first = row == ALL ? one : row < STEPS && of_one > row, second = row == ALL ? two : row < STEPS && of_two > row;
        on.mask[row * MASK + at / 2] = (first ? 0x3c00u : 0u) | (second ? 0x3c000000u : 0u);
    }
}

// S of the lane's pairs in half a tile, and what they are to each other, on their way from memory.
struct HalfTile {
    Four similar;
    Two kinds;

    __device__ inline void load(const Four *of_similar, const Two *of_kinds, int half) { similar = of_similar[half * WARP], kinds = of_kinds[half * WARP]; }
    __device__ inline unsigned kind(int q) const { return q % 2 ? kinds.at[q / 2] >> 16 : kinds.at[q / 2] & 0xffff; }
};

// Halves of tiles by the first strip, then by columns of eight tokens from that strip on.
struct HalfTiles {
    int columns, strip, column, half; // columns of the window; the half that has been come to

    __device__ HalfTiles(int columns, int number) : columns(columns), strip(0), column(number) { // the one of this number
        for (; strip < columns / 2 && column >= columns; strip++) column -= columns - 2 - 2 * strip; // a strip has none before itself
        find();
    }
    __device__ inline void find() { half = 2 * (tiles_of_strips(column / 2) + strip) + column % 2; }
    __device__ inline bool ends_strip() const { return column == columns - 1; }
    __device__ inline void next() {
        if (ends_strip()) { column = 2 * ++strip; find(); }
        else half += column % 2 ? column : 1, column++;
    }
};

// In the main reading.
__device__ inline float in_main_reading(float x, const LevelToken &i, const LevelToken &j) {
    return !scaled_of[0] ? x : i.norm * j.norm > 0 ? x / (i.norm * j.norm) : 0.0f;
}

// The bins of the four pairs of a lane in half a tile: see `bin_of`. Whole numbers from the digits of a sum with a large one.
__device__ inline void bins_of(const float *x, const bool *real, float factor, double largest, bool flat, unsigned *bins) {
    bool near = factor == infinity(); // an edge; or S is next to nothing
    for (int q = 0; q < HALF; q++) {
        const float place = real[q] ? fmaxf(x[q] * factor, -0.5f) : NOWHERE - 0.5f, moved = place + 12582912.0f, whole = moved - 12582912.0f;
        bins[q] = __float_as_uint(moved) - 0x4b400000u + (place > whole);
        near |= !(fabsf(place - whole) > 1e-4f);
    }
    if (!near || flat) return;
#pragma unroll
    for (int q = 0; q < HALF; q++) if (real[q]) bins[q] = bin_of(x[q], factor, largest);
}

// What is counted of the pairs of a lane; places are in bytes from `times` on. What is no pair is counted where nobody looks, as
// are levels below every threshold.
struct LevelCounts {
    const LevelTile &on;
    int spare, high_begin, table_begin;
    int far[2]; // Σ of the distances of the high pairs of the lane's two tokens with those that come after

    __device__ LevelCounts(const LevelTile &on) : on(on), spare((int)(on.spare - on.times + threadIdx.x % WARP) * BYTES) {
        high_begin = (int)(on.high - on.times) * BYTES, table_begin = (int)(on.table - on.times) * BYTES;
        far[0] = far[1] = 0;
    }
    __device__ inline void add(int place, int number) const { atomicAdd((int *)((char *)on.times + place), number); }
    __device__ inline void count(bool real, unsigned kind, unsigned bin, unsigned lowest, const LevelToken &i, const LevelToken &j, int apart, int row) {
        const int level = bin * BYTES, relation = kind / OF_KIND % RELATIONS, away = (apart - 1) * BYTES + table_begin;
        const bool high = real & (bin >= lowest), same = i.times == j.times;
        add(bin / 2 * (OF_LEVELS * BYTES) + relation * (DISTANCES * BYTES) + away, bin % 2 * 0xffff + 1);
        add(i.times + level, same ? 1 + (1 << 16) : 1);
        add(j.times + level, 1);
        add(high ? kind / ORDER_BINS + high_begin : spare, 1);
        add(high & !same ? j.times + REACH * BYTES : spare, apart);
        far[row] += high ? apart : 0;
    }
    // The lane's tokens are done with.
    __device__ inline void end(const LevelToken &one, const LevelToken &below) {
        for (int r = 0; r < 2; r++) {
            if (far[r]) { add((r ? below : one).times + REACH * BYTES, far[r]); atomicAdd(&on.found->far, far[r]); }
            far[r] = 0;
        }
    }
};

// Levels of the pairs of a window, and what is counted by them. A warp goes through halves of tiles that follow each other: by the
// first strip, then by the second.
__device__ inline void count_levels(const Args &of, const LevelTile &on, int b, int h, int strips, bool flat, double largest, float by) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = warp_of_block(), lowest = of.lowest;
    const int tiles = tiles_of_strips(strips), end = 2 * tiles * (warp + 1) / LEVEL_WARPS;
    const float factor = flat ? 0.0f : (float)(20.0 / largest);
    const Two *kinds = (const Two *)(of.cells + (i64)b * tiles * CELLS) + lane;
    const Four *similar = (const Four *)(of.similar + ((i64)b * of.heads + h) * tiles * CELLS) + lane;
    Masked masked;
    LevelCounts counts(on);
    int k = 2 * tiles * warp / LEVEL_WARPS;
    HalfTiles at(2 * strips, k);
    HalfTile coming;
    if (k < end) coming.load(similar, kinds, at.half);
#pragma unroll 1
    for (; k < end; k++) {
        const HalfTile own = coming;
        const int first = 16 * at.strip + g, second = 8 * at.column + 2 * t, mask = 4 * at.column;
        const LevelToken one = on.token[first], below = on.token[first + 8], other = on.token[second], right = on.token[second + 1];
        const bool ends = at.ends_strip() || k + 1 == end;
        at.next();
        if (k + 1 < end) coming.load(similar, kinds, at.half);
        float x[HALF];
        bool real[HALF];
        unsigned bins[HALF];
        for (int q = 0; q < HALF; q++) {
            real[q] = own.kind(q) != NO_PAIR;
            x[q] = real[q] ? in_main_reading(own.similar.at[q], q / 2 ? below : one, q % 2 ? right : other) : 0.0f;
        }
        bins_of(x, real, factor, largest, flat, bins);
        for (int q = 0; q < HALF; q++)
            counts.count(real[q], own.kind(q), bins[q], lowest, q / 2 ? below : one, q % 2 ? right : other, second - first + q % 2 - q / 2 * 8, q / 2);
        if (flat) continue;
        // Lane 8m + r names the r-th of the eight thresholds m: where its eight tokens begin.
        masked.add(x, by, on.mask + (lane < THETAS ? lane : 0) * MASK + mask);
        if (ends) { masked.end(one.passed, below.passed); counts.end(one, below); }
    }
    masked.put(on.sums + warp * 3 * THETAS);
}

// Levels of the pairs that have relations of the caller's own.
__device__ inline void count_customs(const Args &of, const LevelTile &on, int b, int h, bool flat, double largest) {
    const int n = of.sizes[b];
    const i64 own = ((i64)b * of.heads + h) * tiles_of_strips((of.tokens + 15) / 16) * CELLS;
    const int *position = of.positions + (i64)b * of.counting;
    FOR_ROWS(n) FOR_COLUMNS(n) {
        if (j >= n) continue;
        const int one = position[i], other = position[j], relation = of.classes[b * of.most_pairs + pairs_of(i, n) + j] / ORDER_BINS % RELATIONS;
        const float x = in_main_reading(of.similar[own + cell_of(one, other)], on.token[one], on.token[other]);
        const int bin = flat ? 0 : bin_of(x, (float)(20.0 / largest), largest);
        for (int r = 0; r < of.customs; r++)
            if (of.custom[(r * of.windows + b) * of.most_pairs + pairs_of(i, n) + j])
                atomicAdd(&of.custom_pairs[((r * of.heads + h) * BINS + bin) * of.table + (other - one - 1) * RELATIONS + relation], 1ull);
    }
}

// Pairs inside the mask, at its edge and outside at every threshold, and the sums of their levels. A warp to a threshold.
__device__ inline void sum_masks(const Args &of, const LevelTile &on, i64 head, int n, double over) {
    const int lane = threadIdx.x % WARP;
    for (int k = threadIdx.x / WARP; k < STEPS; k += LEVEL_WARPS) {
        const unsigned *mask = on.mask + k * MASK + lane;
        const int in = sum_of_warp(__popc(mask[0]) + __popc(mask[WARP])) / 4, out = n - in; // a one has four bits
        const double *own = on.sums + lane % LEVEL_WARPS * 3 * THETAS;
        double inside = own[k], either = own[THETAS + k] + own[2 * THETAS + k], whole = own[THETAS + ALL];
        for (int away = LEVEL_WARPS / 2; away > 0; away /= 2) {
            inside += __shfl_xor_sync(FULL, inside, away), either += __shfl_xor_sync(FULL, either, away);
            whole += __shfl_xor_sync(FULL, whole, away);
        }
        if (lane) continue;
        double *sums = of.mask_sum + (head * STEPS + k) * 3;
        int *number = of.mask_pairs + (head * STEPS + k) * 3;
        sums[0] = inside * over, sums[1] = (either - 2 * inside) * over, sums[2] = (whole - either + inside) * over;
        number[0] = in * (in - 1) / 2, number[1] = in * out, number[2] = out * (out - 1) / 2;
    }
}

// The longest output, the first of several; and what high pairs are. By one warp.
__device__ inline void look_about(const LevelTile &on, int kinds) {
    const int lane = threadIdx.x % WARP;
    unsigned longest = 0, place = FULL;
    for (int i = lane; i < TILE; i += WARP) { // lengths are not negative, so their bits are in their order
        const unsigned bits = __float_as_uint(on.token[i].norm);
        if (on.token[i].place >= 0 && (place == FULL || bits > longest)) { longest = bits; place = i; }
    }
    const unsigned most = largest_of_warp(longest);
    place = smallest_of_warp(longest == most ? place : FULL);
    int within = 0, again = 0;
    for (int k = lane; k < kinds; k += WARP) {
        within += (IN_SENTENCE >> (k % RELATIONS) & 1) * on.high[k];
        again += (REPEATED >> (k % RELATIONS) & 1) * on.high[k];
    }
    within = sum_of_warp(within), again = sum_of_warp(again);
    if (lane == 0) on.found->longest = on.token[place].times, on.found->within = within, on.found->again = again;
}

// Focal tokens at every threshold, a warp to each; a lane has the same ids at all of them. See `focal_tokens`.
__device__ inline void choose_tokens(const Args &of, const LevelTile &on, int distinct) {
    constexpr int EACH_LANE = TILE / WARP;
    const int lane = threadIdx.x % WARP;
    int second[EACH_LANE]; // where the counts begin that the null gives to an id
    unsigned id[EACH_LANE];
    for (int e = 0; e < EACH_LANE; e++) {
        const int r = lane + e * WARP;
        second[e] = r < distinct ? on.by_count[r] * OF_ID : 0, id[e] = r < distinct ? on.null_[r] : FULL;
    }
#pragma unroll 1
    for (int k = warp_of_block(); k < STEPS; k += LEVEL_WARPS) {
        const int *counts = on.times + k + 2;
        unsigned own = 0, own_id = FULL, other = 0, other_id = FULL;
        int number = 0;
#pragma unroll
        for (int e = 0; e < EACH_LANE; e++) {
            const int r = lane + e * WARP;
            if (r >= distinct) break;
            const unsigned one = counts[r * OF_ID] & 0xffff, two = counts[second[e]] & 0xffff;
            number += one;
            if (own_id == FULL || one > own) { own = one; own_id = r; } // r grows
            if (other_id == FULL || two > other || (two == other && id[e] < other_id)) { other = two; other_id = id[e]; }
        }
        number = sum_of_warp(number) / 2; // every pair was counted for both of its tokens
        const unsigned most_own = largest_of_warp(own), most_other = largest_of_warp(other);
        const int best = smallest_of_warp(own == most_own ? own_id : FULL), of_null = smallest_of_warp(other == most_other ? other_id : FULL);
        const unsigned both = counts[best * OF_ID];
        if (lane == 0) on.chosen[k] = {number, best, of_null, (int)(both & 0xffff) - (int)(both >> 16)};
        if (k != of.at_tau) continue;
        int occurs = 0;
        for (int i = lane; i < TILE; i += WARP) occurs += on.token[i].place >= 0 && on.token[i].times == best * OF_ID * BYTES;
        occurs = sum_of_warp(occurs);
        if (lane == 0) on.found->occurs = occurs, on.found->reach = on.times[best * OF_ID + REACH];
    }
}

// What was found, a lane to a threshold or to a number. By one warp.
__device__ inline void put_found(const Args &of, const LevelTile &on, int b, i64 head, int n) {
    const int lane = threadIdx.x % WARP;
    const Found found = *on.found;
    const Chosen at_tau = on.chosen[of.at_tau];
    if (lane < STEPS) {
        const Chosen own = on.chosen[lane];
        const i64 place = head * STEPS + lane;
        of.high_pairs[place] = own.number;
        of.focal[place] = own.number ? own.best : -1, of.focal_null[place] = own.number ? own.of_null : -1;
        of.focal_share[place] = own.number ? (double)own.held / own.number : 0.0;
    }
    if (!at_tau.number) return;
    const double number = at_tau.number;
    const double above[5] = {(double)found.occurs, (double)found.reach, (double)found.far, (double)found.within, (double)found.again};
    const double below[5] = {(double)n, (double)at_tau.held, number, number, number};
    double *const to[5] = {of.frequency + head, of.reach + head, of.row + head * 3, of.row + head * 3 + 1, of.row + head * 3 + 2};
#pragma unroll
    for (int k = 0; k < 5; k++) if (lane == k) *to[k] = above[k] / below[k];
    if (lane == 5) of.longest[head] = found.longest == at_tau.best * OF_ID * BYTES;
    if (lane == 6) of.focal_ids[head] = of.ids[b * of.most_ids + at_tau.best];
}

// One window of a head. What a thread has on the chip is overwritten only after a barrier that follows its last use.
__device__ inline void level_of_tiles(const Args &of, LevelTile &on, int b, int h) {
    const int thread = threadIdx.x, warp = thread / WARP, strips = (of.tokens + 15) / 16;
    const int n = of.sizes[b], kinds = of.bands * RELATIONS, distinct = of.distinct[b];
    const i64 head = (i64)b * of.heads + h;
    if (n < 2) return;
    const double largest = (double)of.largest[head];
    if (!is_finite(largest)) return; // it was noticed before
    const bool flat = !(largest > 0);
    for (int r = LEVEL_THREADS - 1 - thread; r < distinct; r += LEVEL_THREADS) {
        on.null_[r] = of.nulls[head * of.most_ids + r];
        on.by_count[r] = of.by_count[b * of.most_ids + r];
    }
    if (warp < TILE / WARP) take_tokens(of, on, b, head);
    lay_out_masks(of, on, b, head);
    for (int k = thread; k < OF_ID * distinct; k += LEVEL_THREADS) on.times[k] = 0;
    for (int k = thread; k < kinds; k += LEVEL_THREADS) on.high[k] = 0;
    if (thread == 0) *on.found = {};
    __syncthreads();
    double diagonal = 0, longest = 0;
    for (int w = 0; w < TILE / WARP; w++) {
        diagonal += on.room[2 * w];
        longest = on.room[2 * w + 1] > longest ? on.room[2 * w + 1] : longest;
    }
    // No product is longer: fits into 16 bits, with room below. Of outputs that are nearly nothing it is no more than a float can be.
    const float by = fminf(16384.0f * over_power_of_two((float)longest), 1.7014118e38f);
    count_levels(of, on, b, h, strips, flat, largest, by);
    if (of.customs) count_customs(of, on, b, h, flat, largest);
    if (thread == 0) { if (flat) of.flat[head] = 1; else of.diagonal[head] = diagonal / n / largest; }
    __syncthreads();
    if (flat) return;
    for (int t = thread; t < distinct; t += LEVEL_THREADS) add_up(on.times + t * OF_ID);
    sum_masks(of, on, head, n, 1.0 / ((double)by * largest));
    if (warp == LEVEL_WARPS - 1) look_about(on, kinds);
    match(on.high, of.match_weights + (i64)b * COMPARISONS * 2 * kinds, kinds, of.matched + head * COMPARISONS * 2);
    __syncthreads();
    choose_tokens(of, on, distinct);
    __syncthreads();
    if (warp == 0) put_found(of, on, b, head, n); // while the others begin with the next window
}

// Pairs of all windows of the block, to those of others.
__device__ inline void put_pairs_by_level(const Args &of, const LevelTile &on, int h) {
    u64 *pairs = of.pairs + (i64)h * BINS * of.table;
    for (int k = threadIdx.x; k < (BINS + 1) / 2 * RELATIONS * DISTANCES; k += LEVEL_THREADS) {
        const int two = k / (RELATIONS * DISTANCES), rest = k % (RELATIONS * DISTANCES), cell = rest % DISTANCES * RELATIONS + rest / DISTANCES;
        const unsigned number = on.table[two * OF_LEVELS + rest];
        for (int odd = 0; odd < 2; odd++) {
            const unsigned own = odd ? number >> 16 : number & 0xffff;
            if (own && 2 * two + odd < BINS) atomicAdd(&pairs[(2 * two + odd) * of.table + cell], (u64)own);
        }
    }
}

extern "C" __global__ __launch_bounds__(LEVEL_THREADS, 3) void level_tile(const __grid_constant__ Args of) {
    const int h = blockIdx.x;
    extern __shared__ double shared[];
    LevelTile on(shared);
    for (int k = threadIdx.x; k < (BINS + 1) / 2 * OF_LEVELS; k += LEVEL_THREADS) on.table[k] = 0;
    __syncthreads();
    for (int b = blockIdx.y; b < of.windows; b += gridDim.y) level_of_tiles(of, on, b, h);
    __syncthreads();
    put_pairs_by_level(of, on, h);
}
