// Where one head looks: what tokens receive, how evenly they read, which are high; and what its map says of each pair.

// A number of the model's, in the precision that the model has it in: PRECISIONS in arguments.py.
__device__ inline float of_bits(unsigned half, int kind) { return kind == 1 ? __uint_as_float(half << 16) : from_half(half); }
__device__ inline float number(const void *from, i64 at, int kind) {
    if (kind == 0) return ((const float *)from)[at];
    return of_bits(((const unsigned short *)from)[at], kind);
}
// What a weight adds to the entropy of its row, but for its sign. A card's logarithm takes the smallest numbers for zero.
#define LEAST_WEIGHT 1.17549435e-38f /* below it numbers have fewer digits */
__device__ inline float of_entropy(float w) { return w >= LEAST_WEIGHT ? w * logarithm(w) : w * 0.0f; } // no number stays so
__device__ inline float weight(const Args &of, i64 at) { return number(of.weights, at, of.weights_kind); }

// What a block has on the chip, whatever the size of the window.
struct Looks {
    double *room;    // (32,)
    double *column;  // (keys,): the sum of each column of the map, then what the token receives
    double *lengths; // (keys,): of the value vectors
    int *counts;     // (2, steps, categories)

    __device__ Looks(double *shared, double *column, double *lengths)
        : room(shared), column(column), lengths(lengths), counts((int *)(room + WARP)) {}
    __device__ Looks(const Args &of, double *shared) {
        room = shared, column = room + WARP, lengths = column + of.keys;
        counts = (int *)(lengths + of.keys);
    }
};

struct alignas(16) Four { float at[4]; };
struct alignas(8) Two { unsigned at[2]; };
// Lengths of the value vectors: eight lanes to a vector, eight numbers to a lane where they can be loaded together.
__device__ inline void value_lengths(const Args &of, const Looks &on, int b, int h) {
    const int lane = threadIdx.x % WARP, group = h * of.value_groups / of.heads, width = of.value_width;
    const bool together = of.values_kind != 0 && width % 8 == 0 && of.value_token % 8 == 0 && of.value_group % 8 == 0 && of.value_batch % 8 == 0 && (i64)of.values % 16 == 0;
    const i64 begin = b * of.value_batch + group * of.value_group;
#pragma unroll 4
    for (int first = threadIdx.x / WARP * 4; first < of.keys; first += blockDim.x / WARP * 4) {
        const int j = first + lane / 8;
        const i64 at = begin + j * of.value_token;
        double sum = 0;
        if (j < of.keys && together)
            for (int k = lane % 8 * 8; k < width; k += 64) {
                const Four bits = *(const Four *)((const unsigned short *)of.values + at + k);
                for (int e = 0; e < 8; e++) {
                    const unsigned word = __float_as_uint(bits.at[e / 2]);
                    const double x = of_bits(e % 2 ? word >> 16 : word & 0xffff, of.values_kind);
                    sum = fma(x, x, sum);
                }
            }
        else if (j < of.keys)
            for (int k = lane % 8; k < width; k += 8) {
                const double x = number(of.values, at + k, of.values_kind);
                sum = fma(x, x, sum);
            }
        for (int k = 4; k > 0; k /= 2) sum += __shfl_xor_sync(FULL, sum, k);
        if (j < of.keys && lane % 8 == 0) on.lengths[j] = sqrt(sum);
    }
}

// How many thresholds a share passes: twentieths. They are looked up only where it is next to one.
static_assert(STEPS == 19 && thresholds[9] == 0.5, "they are");
__device__ inline int passed_by(double x) {
    if (!(x > 0)) return 0;
    const double place = x * (STEPS + 1);
    const int nearest = (int)(place + 0.5), below = (int)place;
    int passed = below;
    if (fabs(place - nearest) < 1e-6 && nearest > 0 && nearest <= STEPS) passed = nearest - !(x > thresholds[nearest - 1]);
    return passed < STEPS ? passed : STEPS;
}

// One more token that passes so many and no more.
template <class Count> __device__ inline void count_passed(Count *counts, int passed, int category) {
    if (passed) atomicAdd(&counts[(passed - 1) * CATEGORIES + category], (Count)1);
}

// Everything that follows from the sums of the columns. Begins where all threads have them.
__device__ inline void from_columns(const Args &of, Looks &on, int b, int h, double entropy) {
    const Args &out = of;
    const int thread = threadIdx.x, threads = blockDim.x, lane = thread % WARP, warp = thread / WARP;
    const int wide = of.keys, keys = of.keys_of[b];
    const i64 head = (i64)b * of.heads + h;
    const int *category = of.category + (i64)b * wide, *is_counting = of.is_counting + (i64)b * wide;
    const double *even = of.even + (i64)b * wide;
    for (int c = warp; c < CATEGORIES; c += threads / WARP) { // a warp to a category
        double share = 0, carried = 0;
        for (int j = lane; j < keys; j += WARP)
            if (category[j] == c) { share += on.column[j]; carried += of.values ? on.column[j] * on.lengths[j] : 0.0; }
        share = added(share), carried = added(carried);
        if (lane == 0) { on.room[c] = share; on.room[CATEGORIES + c] = carried; }
    }
    __syncthreads();
    if (thread < CATEGORIES) {
        const int reading = of.readers[2 * b], several = of.readers[2 * b + 1];
        double whole = 0;
        for (int c = 0; c < CATEGORIES; c++) whole += on.room[CATEGORIES + c];
        const double share = on.room[thread], carried = on.room[CATEGORIES + thread];
        out.given[head * CATEGORIES + thread] = share / AT_LEAST_ONE(reading);
        out.weighted[head * CATEGORIES + thread] = !of.values ? not_a_number() : whole != 0 ? carried / whole : 0.0;
        if (thread == 0) out.entropy[head] = several > 0 ? entropy / several : 0.0;
        if (!is_finite(share) || !is_finite(whole) || !is_finite(entropy)) *out.not_finite = 1;
    }
    double largest = 0, largest_text = 0;
    for (int j = thread; j < keys; j += threads) {
        const double received = even[j] > 0 ? on.column[j] / even[j] : 0.0;
        on.column[j] = received;
        largest = received > largest ? received : largest;
        if (is_counting[j]) largest_text = received > largest_text ? received : largest_text;
    }
    for (int k = thread; k < 2 * STEPS * CATEGORIES; k += threads) on.counts[k] = 0;
    largest = most_of_all(largest, on.room);
    largest_text = most_of_all(largest_text, on.room);
    for (int j = thread; j < wide; j += threads) {
        signed char high = 0, passed = 0;
        if (j < keys) {
            double received = largest > 0 ? on.column[j] / largest : 0.0;
            count_passed(on.counts, passed_by(received), category[j]);
            if (is_counting[j] && largest_text > 0) {
                received = received / (largest_text / largest);
                high = received > of.theta;
                passed = passed_by(received);
                count_passed(on.counts + STEPS * CATEGORIES, passed, category[j]);
            }
        }
        out.high[head * wide + j] = high;
        out.passed[head * wide + j] = passed;
    }
    __syncthreads();
    for (int k = thread; k < STEPS * CATEGORIES; k += threads) {
        if (on.counts[k]) atomicAdd(&out.attended[(i64)h * STEPS * CATEGORIES + k], (u64)on.counts[k]);
        if (on.counts[STEPS * CATEGORIES + k]) atomicAdd(&out.attended_text[(i64)h * STEPS * CATEGORIES + k], (u64)on.counts[STEPS * CATEGORIES + k]);
    }
}

// A map of any size, read from memory; square roots of the weights for the product that compares rows.
extern "C" __global__ void attention(const __grid_constant__ Args of) {
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x;
    const int tall = of.tokens, wide = of.keys, queries = of.queries_of[b], keys = of.keys_of[b];
    const i64 head = (i64)b * of.heads + h;
    float *roots = of.roots ? of.roots + head * tall * wide : 0;
    const int *readable = of.readable + (i64)b * tall;
    const double *evenness = of.evenness + (i64)b * tall;
    extern __shared__ double shared[];
    Looks on(of, shared);
    if (of.values) value_lengths(of, on, b, h);
    double spread = 0;
    for (int j = thread; j < wide; j += threads) {
        double sum = 0;
        for (int i = 0; i < tall; i++) {
            const bool own = j < keys && i < queries && readable[i] >= 1;
            const float w = own ? weight(of, (head * tall + i) * wide + j) : 0.0f;
            if (roots) roots[(i64)i * wide + j] = sqrtf(w);
            sum += (double)w;
            spread -= (double)of_entropy(w) * evenness[i];
        }
        on.column[j] = sum;
    }
    const double entropy = added_by_all(spread, on.room);
    __syncthreads();
    from_columns(of, on, b, h, entropy);
}

// How much the two tokens of each pair read each other, of a map of any size.
extern "C" __global__ void read_each_other(const __grid_constant__ Args of) {
    const int h = blockIdx.x, b = blockIdx.y, n = of.sizes[b], tokens = of.tokens;
    const i64 head = (i64)b * of.heads + h, square = (i64)tokens * tokens;
    const int *positions = of.positions + (i64)b * of.counting, *readable = of.readable + (i64)b * tokens;
    const float *directions = of.directions + b * square;
    float *direct = of.direct + head * of.most_pairs;
    FOR_ROWS(n) FOR_COLUMNS(n) {
        if (j >= n) continue;
        const int pi = positions[i], pj = positions[j];
        const float there = weight(of, head * square + (i64)pi * tokens + pj), back = weight(of, head * square + (i64)pj * tokens + pi);
        direct[pairs_of(i, n) + j] = (there * (float)readable[pi] + back * (float)readable[pj]) * directions[(i64)pi * tokens + pj];
    }
}

// ------------------------------------------------------------------ maps that fit on the chip


struct Tile : Looks {
    double *halves; // (2, TILE): sums of the upper and of the lower half of each column
    float *reads;   // (TILE,): how many tokens each may read
    int *place;     // (TILE,): the number of each token among those that count, or -1
    int *position;  // (TILE,): of the tokens that count
    unsigned *word; // (T rounded up to 16, PITCH): the map in float32; then roots of it as sums of two 16-bit floats

    __device__ Tile(const Args &of, double *shared) : Looks(of, shared) {
        word = (unsigned *)(shared + (of.keys * 2 + WARP + STEPS * CATEGORIES + 1) / 2 * 2); // at 16 bytes
        const int rows = (of.tokens + 15) / 16 * 16;
        halves = (double *)(word + rows * PITCH);
        reads = (float *)(halves + 2 * TILE);
        place = (int *)(reads + TILE), position = place + TILE;
    }
};

// Four weights of a row, as many of them as there are; `whole` where the four can be loaded together.
__device__ inline Four four_weights(const Args &of, i64 at, int number, bool whole) {
    Four w = {};
    if (!whole)
        for (int e = 0; e < 4; e++) w.at[e] = e < number ? weight(of, at + e) : 0.0f;
    else if (of.weights_kind == 0)
        w = *(const Four *)((const float *)of.weights + at);
    else {
        const Two bits = *(const Two *)((const unsigned short *)of.weights + at);
        for (int e = 0; e < 4; e++) {
            const unsigned word = bits.at[e / 2];
            w.at[e] = of_bits(e % 2 ? word >> 16 : word & 0xffff, of.weights_kind);
        }
    }
    for (int e = 0; e < 4; e++) if (e >= number) w.at[e] = 0.0f;
    return w;
}

// The square roots of a map, each as two 16-bit floats h + l side by side in a word: 22 bits of it.
__device__ inline void take_roots(unsigned *word, int padded) {
    const int lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    for (int i = threadIdx.x / WARP; i < padded; i += warps)
        if (4 * lane < padded) {
            Four *at = (Four *)(word + i * PITCH + 4 * lane), w = *at;
            for (int e = 0; e < 4; e++) {
                const float root = sqrtf(w.at[e]);
                const unsigned short high = to_half(root);
                w.at[e] = __uint_as_float(high | (unsigned)to_half(root - from_half(high)) << 16);
            }
            *at = w;
        }
}

// Eight roots of each of 16 rows times those of 16 others. Words multiplied with words give h·h' + l·l', words with their
// halves exchanged h·l' + l·h': together r·r', good to what float32 can hold.
__device__ inline void multiply_rows(float (*sums)[4], const unsigned *left, const unsigned *right) {
    unsigned a[4], b[4];
    load_fragments(a, left);
    load_fragments(b, right);
    for (int e = 0; e < 2; e++) {
        const unsigned exchanged[2] = {halves_exchanged(b[2 * e]), halves_exchanged(b[2 * e + 1])};
        multiply_halves(sums[e], a, b + 2 * e);
        multiply_halves(sums[e], a, exchanged);
    }
}

// Rows of the map compared with rows: Σ_k √(A_ik·A_jk), for blocks of 16 by 16 pairs, a warp to a block.
__device__ inline void compare_rows(const Args &of, const Tile &on, i64 head, int n, int tokens, int keys) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, strips = (tokens + 15) / 16;
    float *rows = of.rows + head * of.most_pairs;
    // Where the lane's row of four 8 by 4 words begins: of the left factor, and of the right one.
    const int left = (lane % 16) * PITCH + lane / 16 * 4, right = (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 4;
    for (int block = threadIdx.x / WARP; block < strips * (strips + 1) / 2; block += blockDim.x / WARP) {
        int strip = 0, column = block;
        while (column >= strips - strip) { column -= strips - strip; strip++; }
        column += strip;
        float sums[2][4] = {};
        const unsigned *a_row = on.word + 16 * strip * PITCH + left, *b_row = on.word + 16 * column * PITCH + right;
        for (int k = 0; k < keys; k += 8) multiply_rows(sums, a_row + k, b_row + k);
        for (int e = 0; e < 2; e++)
            for (int q = 0; q < 4; q++) {
                const int i = on.place[16 * strip + g + 8 * (q / 2)], j = on.place[16 * column + 8 * e + 2 * t + q % 2];
                if (i >= 0 && i < j) rows[pairs_of(i, n) + j] = sums[e][q];
            }
    }
}

// A map that fits on the chip, with what it says of each pair.
extern "C" __global__ __launch_bounds__(256, 3) void attention_tile(const __grid_constant__ Args of) {
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x;
    const int lane = thread % WARP, warp = thread / WARP, warps = threads / WARP;
    const int tokens = of.tokens, queries = of.queries_of[b], keys = of.keys_of[b], n = of.sizes[b];
    const int padded = (tokens + 15) / 16 * 16;
    const i64 head = (i64)b * of.heads + h, square = (i64)tokens * tokens;
    const double *evenness = of.evenness + (i64)b * tokens;
    extern __shared__ double shared[];
    Tile on(of, shared);
    float *map = (float *)on.word;
    for (int i = thread; i < TILE; i += threads) {
        on.place[i] = -1;
        on.reads[i] = i < tokens ? (float)of.readable[(i64)b * tokens + i] : 0.0f;
        on.position[i] = i < n ? of.positions[(i64)b * of.counting + i] : 0;
    }
    __syncthreads();
    for (int i = thread; i < n; i += threads) on.place[on.position[i]] = i;
    if (of.values) value_lengths(of, on, b, h);
    double spread = 0;
#pragma unroll 4
    for (int i = warp; i < padded; i += warps) {
        const bool reads = i < queries && on.reads[i] >= 1;
        float of_row = 0;
        const Four w = four_weights(of, head * square + i * tokens + 4 * lane, reads ? keys - 4 * lane : 0, reads && 4 * lane < tokens && tokens % 4 == 0);
        if (4 * lane < padded) *(Four *)(map + i * PITCH + 4 * lane) = w;
        for (int e = 0; e < 4; e++) of_row += of_entropy(w.at[e]);
        if (reads) spread -= (double)of_row * evenness[i];
    }
    const double entropy = added_by_all(spread, on.room); // waits for everybody
    for (int k = thread; k < 2 * TILE; k += threads) {
        const int j = k % TILE, end = k < TILE ? padded / 2 : padded;
        double sum = 0;
        if (j < padded)
            for (int i = k < TILE ? 0 : padded / 2; i < end; i++) sum += (double)map[i * PITCH + j];
        on.halves[k] = sum;
    }
    FOR_ROWS(n) {
        const int pi = on.position[i];
        const float *directions = of.directions + b * square + pi * tokens, reads = on.reads[pi];
        float *direct = of.direct + head * of.most_pairs + pairs_of(i, n);
        float over[TILE / WARP];
#pragma unroll
        for (int e = 0; e < TILE / WARP; e++) {
            const int j = i + 1 + e * WARP + lane;
            over[e] = j < n ? directions[on.position[j]] : 0.0f;
        }
#pragma unroll
        for (int e = 0; e < TILE / WARP; e++) {
            const int j = i + 1 + e * WARP + lane;
            if (j >= n) break;
            const int pj = on.position[j];
            direct[j] = (map[pi * PITCH + pj] * reads + map[pj * PITCH + pi] * on.reads[pj]) * over[e];
        }
    }
    __syncthreads();
    for (int j = thread; j < keys; j += threads) on.column[j] = on.halves[j] + on.halves[TILE + j];
    take_roots(on.word, padded);
    __syncthreads();
    compare_rows(of, on, head, n, tokens, (keys + 7) / 8 * 8);
    from_columns(of, on, b, h, entropy);
}
