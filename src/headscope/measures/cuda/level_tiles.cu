// What needs levels, from S in tiles as `by_tile` left it. A block goes through several windows of one head.

#define THETAS 24 /* columns of the masks: thresholds, one for all tokens, and none */
#define ALL STEPS /* the column for all tokens */
#define MASK 68   /* words from threshold to threshold: the lanes that load a fragment hit different banks */
#define DISTANCES (TILE - 1)
#define LEVEL_WARPS 8
#define LEVEL_THREADS (LEVEL_WARPS * WARP)

// What is known of the token at a position; where it does not count, its place is below zero.
struct alignas(16) LevelToken {
    int times, passed, place; // where the counts of its id begin; how many thresholds it passes; among those that count
    float norm;
};

// What is found about the focal token at the run's τ, and besides.
struct alignas(16) Found {
    int held, occurs, longest;    // its high pairs; how often it occurs; where the counts of the longest output's id begin
    int within, again;            // high pairs in one sentence, and of repetitions
    u64 far, reach;               // Σ of the distances of high pairs: of all, and of its own
};
static_assert(sizeof(Found) == 48, "as `level_tile_bytes` has it");

// What a block of `level_tile` has on the chip, in the same places for all windows. Doubles and u64 first.
struct LevelTile {
    double *sums;      // (warps, 3, THETAS): Σ S inside the mask, with its second token there, and with its first
    double *room;      // (4, 2): the lengths of warps' tokens: added up, the longest
    Found *found;
    LevelToken *token; // (TILE,)
    unsigned *mask;    // (THETAS, MASK): which tokens pass each threshold, as 16-bit floats
    int *null_;        // (K,)
    int *high;         // (kinds,): pairs that are high at the run's τ
    int *times;        // (K, bins): pairs of each id by level; in the upper halves those with itself
    int *best_of;      // (2,): what `focal_tokens` found at the run's τ
    int *table;        // (11, relations, distances): pairs of all windows of the block, the odd bins in the upper halves

    __device__ LevelTile(double *shared) {
        sums = shared, room = sums + LEVEL_WARPS * 3 * THETAS, found = (Found *)(room + 8);
        token = (LevelToken *)(found + 1), mask = (unsigned *)(token + TILE);
        null_ = (int *)(mask + THETAS * MASK), high = null_ + TILE;
        times = high + MOST_KINDS, best_of = times + BINS * TILE;
        table = best_of + 4;
    }
    __device__ inline int times_of(int at) const { return times[at] & 0xffff; }
    __device__ inline int both_of(int at) const { return (unsigned)times[at] >> 16; }
};

// S of the tokens at two positions, in the main reading.
struct SimilarityInTiles {
    const float *similar;
    const LevelToken *token;

    __device__ inline float operator()(int i, int j) const {
        const float x = similar[i < j ? cell_of(i, j) : cell_of(j, i)], size = token[i].norm * token[j].norm;
        return !scaled_of[0] ? x : size > 0 ? x / size : 0.0f;
    }
};

// The tokens of a window, by the first four warps; a lane to a position.
__device__ inline void take_tokens(const Args &of, const LevelTile &on, int b, i64 head) {
    const int i = threadIdx.x, lane = i % WARP, wide = of.keys;
    const int *is_counting = of.is_counting + (i64)b * wide;
    int place = 0, counts = 0;
    for (int from = 0; from <= i / WARP; from++) { // how many count before this one
        counts = from * WARP + lane < wide ? is_counting[from * WARP + lane] : 0;
        const unsigned others = __ballot_sync(FULL, counts);
        place += __popc(from < i / WARP ? others : others & ((1u << lane) - 1));
    }
    LevelToken own = {0, 0, -1, 0.0f};
    double square = 0;
    if (counts) {
        square = (double)of.squares[head * of.tokens + i];
        own = {of.id_number[b * of.counting + place] * BINS, of.passed[head * wide + i], place, sqrtf((float)square)};
    }
    on.token[i] = own;
    const double unit = own.norm * own.norm > 0 ? (double)((float)square / (own.norm * own.norm)) : 0.0;
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

// Σ S of the pairs of half a tile by where their tokens are, for all thresholds: S as the sum of two 16-bit floats, times
// the masks of its columns; what comes of a row counts where its token passes, too.
struct Masked {
    float inside[3][2], second[3][2], first[3][2]; // of the thresholds 8e + 2t + {0, 1}

    __device__ Masked() {
        for (int e = 0; e < 6; e++) inside[e / 2][e % 2] = second[e / 2][e % 2] = first[e / 2][e % 2] = 0;
    }
    __device__ inline void add(const float *x, float by, const unsigned *mask, int passed, int other_passed) {
        const int lane = threadIdx.x % WARP, t = lane % 4;
        unsigned high[4] = {}, low[4] = {}, ones[4];
        for (int q = 0; q < HALF; q++) {
            const float scaled = x[q] * by;
            const unsigned short half = to_half(scaled);
            high[q / 2] |= (unsigned)half << 16 * (q % 2);
            low[q / 2] |= (unsigned)to_half(scaled - from_half(half)) << 16 * (q % 2);
        }
        load_fragments(ones, mask); // eight tokens of each of three times eight thresholds
        float sums[3][4] = {};
        for (int e = 0; e < 3; e++) {
            const unsigned column[2] = {ones[e], 0};
            multiply_halves(sums[e], high, column);
            multiply_halves(sums[e], low, column);
        }
        for (int r = 0; r < 2; r++) {
            const float whole = __shfl_sync(FULL, sums[ALL / 8][2 * r + ALL % 2], lane / 4 * 4 + ALL % 8 / 2);
            const int own = (r ? other_passed : passed) - 2 * t;
            for (int e = 0; e < 3; e++)
                for (int c = 0; c < 2; c++) {
                    const float sum = sums[e][2 * r + c];
                    second[e][c] += sum;
                    if (own > 8 * e + c) { inside[e][c] += sum; first[e][c] += whole; }
                }
        }
    }
    // The sums of a warp.
    __device__ inline void put(double *to) const {
        const int lane = threadIdx.x % WARP;
        for (int e = 0; e < 3; e++)
            for (int c = 0; c < 2; c++) {
                float own[3] = {inside[e][c], second[e][c], first[e][c]};
                for (int k = 0; k < 3; k++) {
                    for (int away = 4; away < WARP; away *= 2) own[k] += __shfl_xor_sync(FULL, own[k], away);
                    if (lane < 4) to[k * THETAS + 8 * e + 2 * lane + c] = (double)own[k];
                }
            }
    }
};

// Levels of the pairs of a window, and what is counted by them.
__device__ inline void count_levels(const Args &of, const LevelTile &on, int b, int h, int halves, bool flat, double largest, float by) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP, lowest = of.lowest;
    const float factor = (float)(20.0 / largest);
    const short *kinds = of.cells + (i64)b * halves * (HALF * WARP) + lane;
    const float *similar = of.similar + ((i64)b * of.heads + h) * halves * (HALF * WARP) + lane;
    Masked masked;
    int far = 0;
#pragma unroll 1
    for (int half = warp; half < halves; half += LEVEL_WARPS) {
        float x[HALF];
        int own[HALF];
        for (int q = 0; q < HALF; q++) {
            x[q] = similar[(half * HALF + q) * WARP];
            own[q] = kinds[(half * HALF + q) * WARP];
        }
        const Strips at(half / 2);
        const int first = at.one + g, second = at.other + half % 2 * 8, away = second + 2 * t - first;
        const LevelToken *of_first = on.token + first, *of_second = on.token + second + 2 * t;
        const LevelToken token[4] = {of_first[0], of_first[8], of_second[0], of_second[1]};
#pragma unroll
        for (int q = 0; q < HALF; q++) {
            const int kind = own[q];
            if (kind == NO_PAIR) { x[q] = 0; continue; }
            const LevelToken &i = token[q / 2], &j = token[2 + q % 2];
            if (scaled_of[0]) x[q] = i.norm * j.norm > 0 ? x[q] / (i.norm * j.norm) : 0.0f;
            const int bin = flat ? 0 : bin_of(x[q], factor, largest), relation = kind / OF_KIND % RELATIONS;
            const int apart = away + q % 2 - q / 2 * 8;
            atomicAdd(&on.table[(bin / 2 * RELATIONS + relation) * DISTANCES + apart - 1], bin % 2 ? 1 << 16 : 1);
            for (int r = 0; r < of.customs; r++)
                if (of.custom[(r * of.windows + b) * of.most_pairs + pairs_of(i.place, of.sizes[b]) + j.place])
                    atomicAdd(&of.custom_pairs[((r * of.heads + h) * BINS + bin) * of.table + (apart - 1) * RELATIONS + relation], 1ull);
            if (bin < 2) continue; // below every threshold
            const bool same = i.times == j.times;
            atomicAdd(&on.times[i.times + bin], same ? 2 + (1 << 16) : 1);
            if (!same) atomicAdd(&on.times[j.times + bin], 1);
            if (bin >= lowest) { atomicAdd(&on.high[kind / OF_KIND], 1); far += apart; }
        }
        // Lane 8m + r names the r-th of the eight thresholds m: where its eight tokens begin.
        const unsigned *mask = on.mask + (lane < THETAS ? lane : 0) * MASK + second / 2;
        if (!flat) masked.add(x, by, mask, token[0].passed, token[1].passed);
    }
    masked.put(on.sums + warp * 3 * THETAS);
    far = sum_of_warp(far);
    if (lane == 0 && far) atomicAdd(&on.found->far, (u64)far);
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

// The high pairs of the focal token at the run's τ.
__device__ inline void follow_focal(const Args &of, const LevelTile &on, const SimilarityInTiles &S, double largest) {
    const int lane = threadIdx.x % WARP, tokens = of.tokens, best = on.best_of[0] * BINS;
    const float factor = (float)(20.0 / largest);
    int held = 0, occurs = 0, reach = 0;
    for (int i = threadIdx.x / WARP; i < tokens; i += LEVEL_WARPS) {
        if (on.token[i].place < 0 || on.token[i].times != best) continue; // the same for the whole warp
        occurs++;
        for (int j = lane; j < tokens; j += WARP) {
            if (on.token[j].place < 0 || j == i || (j < i && on.token[j].times == best)) continue; // met from its other side
            if (bin_of(S(i, j), factor, largest) >= of.lowest) { reach += j < i ? i - j : j - i; held++; }
        }
    }
    held = sum_of_warp(held), reach = sum_of_warp(reach);
    if (lane == 0 && occurs) atomicAdd(&on.found->occurs, occurs);
    if (lane == 0 && held) { atomicAdd(&on.found->held, held); atomicAdd(&on.found->reach, (u64)reach); }
}

// One window of a head. All threads come back from it, and nobody has left what it shares with others.
__device__ inline void level_of_tiles(const Args &of, LevelTile &on, int b, int h) {
    const int thread = threadIdx.x, warp = thread / WARP, halves = 2 * tiles_of_strips((of.tokens + 15) / 16);
    const int n = of.sizes[b], kinds = of.bands * RELATIONS, distinct = of.distinct[b];
    const i64 head = (i64)b * of.heads + h;
    if (n < 2) return;
    const double largest = (double)of.largest[head];
    if (!is_finite(largest)) return; // it was noticed before
    const bool flat = !(largest > 0);
    if (warp < TILE / WARP) take_tokens(of, on, b, head);
    lay_out_masks(of, on, b, head);
    for (int k = thread; k < BINS * distinct; k += LEVEL_THREADS) on.times[k] = 0;
    for (int k = thread; k < kinds; k += LEVEL_THREADS) on.high[k] = 0;
    for (int r = thread; r < distinct; r += LEVEL_THREADS) on.null_[r] = of.nulls[head * of.most_ids + r];
    if (thread == 0) *on.found = Found();
    __syncthreads();
    double diagonal = 0, longest = 0;
    for (int w = 0; w < TILE / WARP; w++) {
        diagonal += on.room[2 * w];
        longest = on.room[2 * w + 1] > longest ? on.room[2 * w + 1] : longest;
    }
    const float by = 16384.0f * over_power_of_two((float)longest); // no product is longer: fits into 16 bits, with room below
    count_levels(of, on, b, h, halves, flat, largest, by);
    if (thread == 0) { if (flat) of.flat[head] = 1; else of.diagonal[head] = diagonal / n / largest; }
    if (flat) return;
    __syncthreads();
    for (int t = thread; t < distinct; t += LEVEL_THREADS) add_up(on.times + t * BINS);
    sum_masks(of, on, head, n, 1.0 / ((double)by * largest));
    if (warp == LEVEL_WARPS - 1) look_about(on, kinds);
    match(on.high, 1, of.match_weights + (i64)b * COMPARISONS * 2 * kinds, kinds, of.matched + head * COMPARISONS * 2);
    __syncthreads();
    focal_tokens(of, on, b, head, distinct);
    __syncthreads();
    if (on.best_of[0] < 0) return;
    follow_focal(of, on, {of.similar + head * halves * (HALF * WARP), on.token}, largest);
    __syncthreads();
    if (thread) return;
    const Found &found = *on.found;
    const double number = on.best_of[1];
    of.frequency[head] = (double)found.occurs / n;
    of.reach[head] = (double)found.reach / found.held;
    of.longest[head] = found.longest == on.best_of[0] * BINS;
    double *row = of.row + head * 3;
    row[0] = (double)found.far / number, row[1] = found.within / number, row[2] = found.again / number;
}

extern "C" __global__ __launch_bounds__(LEVEL_THREADS, 3) void level_tile(const __grid_constant__ Args of) {
    const int h = blockIdx.x, words = (BINS + 1) / 2 * RELATIONS * DISTANCES;
    extern __shared__ double shared[];
    LevelTile on(shared);
    for (int k = threadIdx.x; k < words; k += LEVEL_THREADS) on.table[k] = 0;
    __syncthreads();
    for (int b = blockIdx.y; b < of.windows; b += gridDim.y) {
        level_of_tiles(of, on, b, h);
        __syncthreads();
    }
    add_halves(of, on.table, words, DISTANCES, h);
}

// ------------------------------------------------------------------ S added up over windows

#define TOGETHER 16 /* windows of a block: their sums are added up elsewhere, in their order */

// The outputs of one window, of tokens that count, on their way to the chip.
__device__ inline void fetch_counting(const Args &of, unsigned *to, int b, int h, int first) {
    const unsigned short *vectors = (const unsigned short *)of.outputs + b * of.output_batch + h * of.output_head;
    const int *is_counting = of.is_counting + (i64)b * of.keys;
    const int apart = of.output_token, width = of.output_width;
#pragma unroll 2
    for (int k = threadIdx.x; k < TILE * DEPTH / 8; k += TILE_THREADS) {
        const int i = k / (DEPTH / 8), at = first + k % (DEPTH / 8) * 8;
        const bool real = i < of.tokens && at < width && is_counting[i < of.tokens ? i : 0];
        copy_to_chip(to + i * STRIDE + k % (DEPTH / 8) * 4, real ? vectors + i * apart + at : vectors, real);
    }
}

// S of some windows of a head, added up: to (parts, H, tiles, 2, HALF, WARP).
extern "C" __global__ __launch_bounds__(TILE_THREADS, 2) void add_products(const __grid_constant__ Args of, float *to) {
    const int h = blockIdx.x, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, halves = 2 * tiles_of_strips((of.tokens + 15) / 16);
    const int begin = blockIdx.y * TOGETHER, windows = of.windows - begin < TOGETHER ? of.windows - begin : TOGETHER;
    const int stretches = (of.output_width + DEPTH - 1) / DEPTH, depth = of.output_width < DEPTH ? (of.output_width + 1) / 2 : DEPTH / 2;
    extern __shared__ double shared[];
    unsigned *vectors = (unsigned *)shared;
    const Places places;
    float sums[OF_WARP][HALF] = {}, own[OF_WARP][HALF] = {};
    fetch_counting(of, vectors, begin, h, 0);
#pragma unroll 1
    for (int step = 0; step < windows * stretches; step++) {
        const int next = step + 1, b = begin + step / stretches;
        copies_done();
        __syncthreads(); // and nobody reads what comes next
        if (next < windows * stretches)
            fetch_counting(of, vectors + next % 2 * TILE * STRIDE, begin + next / stretches, h, next % stretches * DEPTH);
        if (of.output_kind == 1) multiply_outputs<1>(vectors + step % 2 * TILE * STRIDE, places, halves, depth, own);
        else multiply_outputs<2>(vectors + step % 2 * TILE * STRIDE, places, halves, depth, own);
        if (next % stretches) continue;
        const float *squares = of.squares + ((i64)b * of.heads + h) * of.tokens;
#pragma unroll
        for (int m = 0; m < OF_WARP; m++) {
            const int half = warp + m * TILE_WARPS;
            if (half >= halves) break;
            for (int q = 0; q < HALF; q++) {
                if (scaled_of[0]) {
                    const Strips at(half / 2);
                    const int i = at.one + lane / 4 + q / 2 * 8, j = at.other + half % 2 * 8 + lane % 4 * 2 + q % 2;
                    const float size = i < of.tokens && j < of.tokens ? sqrtf(squares[i]) * sqrtf(squares[j]) : 0.0f;
                    own[m][q] = size > 0 ? own[m][q] / size : 0.0f;
                }
                sums[m][q] += own[m][q], own[m][q] = 0;
            }
        }
    }
    float *parts = to + (((i64)blockIdx.y * of.heads + h) * halves + warp) * HALF * WARP + lane;
#pragma unroll
    for (int m = 0; m < OF_WARP; m++) {
        if (warp + m * TILE_WARPS >= halves) break;
        for (int q = 0; q < HALF; q++) parts[(m * TILE_WARPS * HALF + q) * WARP] = sums[m][q];
    }
}

// These added up in their order: a block to a head and a tile, a thread to a pair.
extern "C" __global__ __launch_bounds__(256) void add_tiles(const __grid_constant__ Args of, const float *parts, double *sums, int length) {
    const int h = blockIdx.x, k = threadIdx.x, lane = k % WARP, q = k / WARP % HALF;
    const Strips at(blockIdx.y);
    const int i = at.one + lane / 4 + q / 2 * 8, j = at.other + k / (HALF * WARP) * 8 + lane % 4 * 2 + q % 2;
    if (i >= j || j >= of.tokens) return;
    const float *own = parts + ((i64)h * gridDim.y + blockIdx.y) * CELLS + k;
    double sum = 0;
    for (int part = 0; part < (of.windows + TOGETHER - 1) / TOGETHER; part++) sum += (double)own[(i64)part * of.heads * gridDim.y * CELLS];
    sums[((i64)h * length + i) * length + j] += sum;
}
