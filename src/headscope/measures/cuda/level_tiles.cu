// What needs levels, from S in tiles as `by_tile` left it. A block goes through several windows of one head.

#define THETAS 24 /* columns of the masks: thresholds, one for all tokens, and none */
#define ALL STEPS /* the column for all tokens */
#define MASK 68   /* words from threshold to threshold: the lanes that load a fragment hit different banks */

// What a block of `level_tile` has on the chip. Doubles and u64 first, for their alignment.
struct LevelTile {
    double *room;       // (32,)
    double *sums;       // (warps, 3, THETAS): Σ S inside the mask, with its second token there, and with its first
    u64 *far;           // (2,): Σ of the distances of high pairs: of all, and of those with the focal token
    unsigned *mask;     // (THETAS, MASK): which tokens pass each threshold, as 16-bit floats
    int *position, *id; // (N,): of the tokens that count
    int *place;         // (TILE,): the number of each token among those that count, or -1
    int *passed;        // (TILE,): how many thresholds each token passes
    float *norms;       // (N,): lengths of outputs
    int *null_;         // (K,)
    int *high;          // (kinds,): pairs that are high at the run's τ
    int *best_of;       // (2,): focal token at the run's τ, number of high pairs
    int *times, *both;  // (K, bins): pairs of each id by level, and those with itself
    int *table;         // (11, relations, distances): pairs of all windows of the block, the odd bins in the upper halves

    __device__ LevelTile(const Args &of, double *shared) {
        room = shared, sums = room + WARP, far = (u64 *)(sums + 8 * 3 * THETAS);
        mask = (unsigned *)(far + 2);
        position = (int *)(mask + THETAS * MASK), id = position + TILE, place = id + TILE, passed = place + TILE;
        norms = (float *)(passed + TILE), null_ = (int *)(norms + TILE), high = null_ + TILE;
        best_of = high + of.bands * RELATIONS, times = best_of + 2, both = times + BINS * of.most_ids;
        table = both + BINS * of.most_ids;
    }
};

// S of two tokens that count, in the main reading.
struct SimilarityInTiles {
    const float *similar, *norms;
    const int *position;
    int strips;

    __device__ inline float operator()(int i, int j) const {
        const float x = similar[i < j ? cell_of(position[i], position[j], strips) : cell_of(position[j], position[i], strips)];
        const float size = norms[i] * norms[j];
        return !scaled_of[0] ? x : size > 0 ? x / size : 0.0f;
    }
};

// Which tokens that count pass each threshold, and all of them: zeros and ones.
__device__ inline void lay_out_masks(const LevelTile &on, int tokens) {
    for (int k = threadIdx.x; k < THETAS * TILE / 2; k += blockDim.x) {
        const int row = k / (TILE / 2), at = k % (TILE / 2) * 2;
        unsigned word = 0;
        for (int e = 0; e < 2; e++) // 0x3c00 is one
            if (row == ALL || (row < STEPS && on.passed[at + e] > row)) word |= 0x3c00u << 16 * e;
        on.mask[row * MASK + k % (TILE / 2)] = word;
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
                const float own[3] = {inside[e][c], second[e][c], first[e][c]};
                for (int k = 0; k < 3; k++) {
                    double sum = (double)own[k];
                    for (int away = 4; away < WARP; away *= 2) sum += __shfl_xor_sync(FULL, sum, away);
                    if (lane < 4) to[k * THETAS + 8 * e + 2 * lane + c] = sum;
                }
            }
    }
};

// Levels of the pairs of a window, and what is counted by them.
__device__ inline void count_levels(const Args &of, const LevelTile &on, int b, int h, int strips, bool flat, double largest, float by) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP, lowest = of.lowest;
    const int tiles = strips * (strips + 1) / 2, distances = of.table / RELATIONS, n = of.sizes[b];
    const float factor = (float)(20.0 / largest);
    const i64 head = (i64)b * of.heads + h;
    const Kinds *kinds = (const Kinds *)(of.cells + (i64)b * tiles * CELLS) + lane;
    const Four *similar = (const Four *)(of.similar + head * tiles * CELLS) + lane;
    Masked masked;
    int far = 0;
#pragma unroll 1
    for (int half = warp; half < 2 * tiles; half += blockDim.x / WARP) {
        const Kinds own = kinds[half * WARP];
        const Four s = similar[half * WARP];
        const Strips at(half / 2, strips);
        const int first = at.one + g, second = at.other + half % 2 * 8, away = second + 2 * t - first;
        int token[4], times[4]; // two of one strip, two of the other
        for (int e = 0; e < 4; e++) {
            token[e] = on.place[e < 2 ? first + 8 * e : second + 2 * t + e - 2];
            times[e] = on.id[token[e] < 0 ? 0 : token[e]] * BINS;
        }
        float x[HALF];
#pragma unroll
        for (int q = 0; q < HALF; q++) {
            const int kind = own.of[q];
            x[q] = 0;
            if (kind < 0) continue;
            x[q] = s.at[q];
            if (scaled_of[0]) {
                const float size = on.norms[token[q / 2]] * on.norms[token[2 + q % 2]];
                x[q] = size > 0 ? x[q] / size : 0.0f;
            }
            const int bin = flat ? 0 : bin_of(x[q], factor, largest), relation = kind / ORDER_BINS % RELATIONS;
            const int apart = away + q % 2 - q / 2 * 8, cell = (bin / 2 * RELATIONS + relation) * distances + apart - 1;
            atomicAdd(&on.table[cell], bin % 2 ? 1 << 16 : 1);
            for (int r = 0; r < of.customs; r++) {
                const i64 pair = b * of.most_pairs + pairs_of(token[q / 2], n) + token[2 + q % 2];
                if (of.custom[r * of.windows * of.most_pairs + pair])
                    atomicAdd(&of.custom_pairs[((r * of.heads + h) * BINS + bin) * of.table + (apart - 1) * RELATIONS + relation], 1ull);
            }
            if (flat) continue;
            atomicAdd(&on.times[times[q / 2] + bin], 1);
            atomicAdd(&on.times[times[2 + q % 2] + bin], 1);
            if (times[q / 2] == times[2 + q % 2]) atomicAdd(&on.both[times[q / 2] + bin], 1);
            if (bin >= lowest) { atomicAdd(&on.high[kind / ORDER_BINS], 1); far += apart; }
        }
        // Lane 8m + r names the r-th of the eight thresholds m: where its eight tokens begin.
        const unsigned *mask = on.mask + (lane < THETAS ? lane : 0) * MASK + second / 2;
        if (!flat) masked.add(x, by, mask, on.passed[first], on.passed[first + 8]);
    }
    masked.put(on.sums + warp * 3 * THETAS);
    far = sum_of_warp(far);
    if (lane == 0 && far) atomicAdd(&on.far[0], (u64)far);
}

// Pairs inside the mask, at its edge and outside at every threshold, and the sums of their levels: from those of warps.
__device__ inline void sum_masks(const Args &of, const LevelTile &on, i64 head, int n, double over) {
    for (int k = threadIdx.x; k < STEPS; k += blockDim.x) {
        double inside = 0, either = 0, whole = 0;
        for (int w = 0; w < blockDim.x / WARP; w++) {
            const double *own = on.sums + w * 3 * THETAS;
            inside += own[k], either += own[THETAS + k] + own[2 * THETAS + k], whole += own[THETAS + ALL];
        }
        int in = 0;
        for (int i = 0; i < n; i++) in += on.passed[on.position[i]] > k;
        double *sums = of.mask_sum + (head * STEPS + k) * 3;
        int *number = of.mask_pairs + (head * STEPS + k) * 3, out = n - in;
        sums[0] = inside * over, sums[1] = (either - 2 * inside) * over, sums[2] = (whole - either + inside) * over;
        number[0] = in * (in - 1) / 2, number[1] = in * out, number[2] = out * (out - 1) / 2;
    }
}

// One window of a head. All threads come back from it, and nobody has left what it shares with others.
__device__ inline void level_of_tiles(const Args &of, LevelTile &on, int b, int h) {
    const int thread = threadIdx.x, threads = blockDim.x, strips = (of.tokens + 15) / 16;
    const int n = of.sizes[b], kinds = of.bands * RELATIONS, distinct = of.distinct[b];
    const i64 head = (i64)b * of.heads + h;
    if (n < 2) return;
    const double largest = (double)of.largest[head];
    if (!is_finite(largest)) return; // it was noticed before
    const bool flat = !(largest > 0);
    for (int k = thread; k < BINS * distinct; k += threads) on.times[k] = on.both[k] = 0;
    for (int k = thread; k < kinds; k += threads) on.high[k] = 0;
    for (int r = thread; r < distinct; r += threads) on.null_[r] = of.nulls[head * of.most_ids + r];
    for (int i = thread; i < TILE; i += threads) on.place[i] = -1, on.passed[i] = 0;
    if (thread < 2) { on.best_of[thread] = 0; on.far[thread] = 0; }
    __syncthreads();
    double diagonal = 0, longest = 0;
    for (int i = thread; i < n; i += threads) {
        const int at = of.positions[b * of.counting + i];
        const float square = of.squares[head * of.tokens + at], norm = sqrtf(square);
        on.position[i] = at, on.place[at] = i, on.norms[i] = norm;
        on.id[i] = of.id_number[b * of.counting + i];
        on.passed[at] = of.passed[head * of.keys + at];
        diagonal += (double)(!scaled_of[0] ? square : norm * norm > 0 ? square / (norm * norm) : 0.0f);
        longest = (double)square > longest ? (double)square : longest;
    }
    diagonal = added_by_all(diagonal, on.room); // waits for everybody
    longest = scaled_of[0] ? 1.0 : most_of_all(longest, on.room);
    const float by = 16384.0f * over_power_of_two((float)longest); // no product is longer: fits into 16 bits, with room below
    lay_out_masks(on, of.tokens);
    __syncthreads();
    count_levels(of, on, b, h, strips, flat, largest, by);
    if (flat) { if (thread == 0) of.flat[head] = 1; return; }
    if (thread == 0) of.diagonal[head] = diagonal / n / largest;
    __syncthreads();
    sum_masks(of, on, head, n, 1.0 / ((double)by * largest));
    add_up_bins(on, distinct);
    __syncthreads();
    focal_tokens(of, on, b, head, distinct);
    __syncthreads();
    if (on.best_of[0] < 0) return;
    match(on.high, 1, of.match_weights + (i64)b * COMPARISONS * 2 * kinds, kinds, of.matched + head * COMPARISONS * 2);
    const SimilarityInTiles S = {of.similar + head * (strips * (strips + 1) / 2) * CELLS, on.norms, on.position, strips};
    describe_focal(of, on, S, of.squares + head * of.tokens, 1, b, head, n, largest);
}

extern "C" __global__ __launch_bounds__(256, 3) void level_tile(const __grid_constant__ Args of) {
    const int h = blockIdx.x, distances = of.table / RELATIONS;
    extern __shared__ double shared[];
    LevelTile on(of, shared);
    const int words = (BINS + 1) / 2 * of.table;
    for (int k = threadIdx.x; k < words; k += blockDim.x) on.table[k] = 0;
    __syncthreads();
    for (int b = blockIdx.y; b < of.windows; b += gridDim.y) {
        level_of_tiles(of, on, b, h);
        __syncthreads();
    }
    add_halves(of, on.table, words, distances, h);
}

// The sum of S over windows, in their order: a block to a head and a tile, a thread to a pair.
extern "C" __global__ __launch_bounds__(256) void add_tiles(const __grid_constant__ Args of, double *sums, int length) {
    const int h = blockIdx.x, strips = (of.tokens + 15) / 16, tiles = strips * (strips + 1) / 2, windows = of.windows;
    const Strips at(blockIdx.y, strips);
    for (int k = threadIdx.x; k < CELLS; k += blockDim.x) {
        const int lane = k / HALF % WARP, q = k % HALF;
        const int i = at.one + lane / 4 + q / 2 * 8, j = at.other + k / (HALF * WARP) * 8 + lane % 4 * 2 + q % 2;
        if (i >= j || j >= of.tokens) continue;
        const i64 cell = (i64)blockIdx.y * CELLS + k, apart = of.heads * tiles * CELLS;
        const float *similar = of.similar + (i64)h * tiles * CELLS + cell;
        const short *cells = of.cells + cell;
        const float *squares = of.squares + (i64)h * of.tokens;
        double sum = 0;
        for (int begin = 0; begin < windows; begin += MANY) {
            float x[MANY];
#pragma unroll
            for (int e = 0; e < MANY; e++) {
                const i64 b = begin + e < windows ? begin + e : begin;
                const bool pair = begin + e < windows && cells[b * tiles * CELLS] >= 0;
                x[e] = pair ? similar[b * apart] : 0.0f;
                if (scaled_of[0] && pair) {
                    const float *own = squares + b * of.heads * of.tokens, size = sqrtf(own[i]) * sqrtf(own[j]);
                    x[e] = size > 0 ? x[e] / size : 0.0f;
                }
            }
#pragma unroll
            for (int e = 0; e < MANY; e++) sum += (double)x[e];
        }
        sums[((i64)h * length + i) * length + j] += sum;
    }
}
