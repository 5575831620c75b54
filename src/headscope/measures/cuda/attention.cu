// Where one head looks: what tokens receive, how evenly they read, which are high; and what its map says of each pair.

__device__ inline float weight(const Args &of, i64 at) { // of attention, in the precision that the model gave it in
    if (of.weights_kind == 0) return ((const float *)of.weights)[at];
    const unsigned short bits = ((const unsigned short *)of.weights)[at];
    return of.weights_kind == 1 ? __uint_as_float((unsigned)bits << 16) : from_half(bits);
}

// What a block has on the chip, whatever the size of the window.
struct Looks {
    double *room;   // (32,)
    double *column; // (keys,): the sum of each column of the map, then what the token receives
    int *counts;    // (2, steps, categories)
    float *next;    // what comes after

    __device__ Looks(const Args &of, double *shared) {
        room = shared, column = room + WARP;
        counts = (int *)(column + of.keys);
        next = (float *)(counts + 2 * STEPS * CATEGORIES);
    }
};

// Everything that follows from the sums of the columns. Begins where all threads have them.
__device__ inline void from_columns(const Args &of, Looks &on, int b, int h, double entropy) {
    const Args &out = of;
    const int thread = threadIdx.x, threads = blockDim.x, lane = thread % WARP, warp = thread / WARP;
    const int wide = of.keys, keys = of.keys_of[b];
    const i64 head = (i64)b * of.heads + h;
    const int *category = of.category + (i64)b * wide, *is_counting = of.is_counting + (i64)b * wide;
    const double *even = of.even + (i64)b * wide, *norms = of.value_norms;
    if (norms) norms += ((i64)b * of.value_groups + h * of.value_groups / of.heads) * wide;
    for (int c = warp; c < CATEGORIES; c += threads / WARP) { // a warp to a category
        double share = 0, carried = 0;
        for (int j = lane; j < keys; j += WARP)
            if (category[j] == c) { share += on.column[j]; carried += norms ? on.column[j] * norms[j] : 0.0; }
        share = added(share), carried = added(carried);
        if (lane == 0) { on.room[c] = share; on.room[CATEGORIES + c] = carried; }
    }
    __syncthreads();
    if (thread == 0) {
        const int reading = of.readers[2 * b], several = of.readers[2 * b + 1];
        double whole = 0;
        for (int c = 0; c < CATEGORIES; c++) whole += on.room[CATEGORIES + c];
        bool good = is_finite(whole) && is_finite(entropy);
        for (int c = 0; c < CATEGORIES; c++) {
            good = good && is_finite(on.room[c]);
            out.given[head * CATEGORIES + c] = on.room[c] / AT_LEAST_ONE(reading);
            out.weighted[head * CATEGORIES + c] = !norms ? not_a_number() : whole != 0 ? on.room[CATEGORIES + c] / whole : 0.0;
        }
        out.entropy[head] = several > 0 ? entropy / several : 0.0;
        if (!good) *out.not_finite = 1;
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
            for (int k = 0; k < STEPS && received > thresholds[k]; k++) atomicAdd(&on.counts[k * CATEGORIES + category[j]], 1);
            if (is_counting[j] && largest_text > 0) {
                received = received / (largest_text / largest);
                high = received > of.theta;
                for (int k = 0; k < STEPS && received > thresholds[k]; k++) {
                    atomicAdd(&on.counts[(STEPS + k) * CATEGORIES + category[j]], 1);
                    passed = k + 1;
                }
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
extern "C" __global__ void attention(const Args *args) {
    const Args &of = *args;
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x;
    const int tall = of.tokens, wide = of.keys, queries = of.queries_of[b], keys = of.keys_of[b];
    const i64 head = (i64)b * of.heads + h;
    float *roots = of.roots ? of.roots + head * tall * wide : 0;
    const int *readable = of.readable + (i64)b * tall;
    const double *evenness = of.evenness + (i64)b * tall;
    extern __shared__ double shared[];
    Looks on(of, shared);
    double spread = 0;
    for (int j = thread; j < wide; j += threads) {
        double sum = 0;
        for (int i = 0; i < tall; i++) {
            const bool own = j < keys && i < queries && readable[i] >= 1;
            const float w = own ? weight(of, (head * tall + i) * wide + j) : 0.0f;
            if (roots) roots[(i64)i * wide + j] = sqrtf(w);
            sum += (double)w;
            if (w > 0.0f) spread -= (double)(w * __logf(w)) * evenness[i];
        }
        on.column[j] = sum;
    }
    const double entropy = added_by_all(spread, on.room);
    __syncthreads();
    from_columns(of, on, b, h, entropy);
}

// How much the two tokens of each pair read each other, of a map of any size.
extern "C" __global__ void read_each_other(const Args *args) {
    const Args &of = *args;
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

#define TILE 128  /* tokens at most */
#define PITCH 132 /* words from row to row: the lanes that load a fragment hit different banks */

struct Tile : Looks {
    double *halves; // (2, TILE): sums of the upper and of the lower half of each column
    float *reads;   // (TILE,): how many tokens each may read
    int *place;     // (TILE,): the number of each token among those that count, or -1
    unsigned *word; // (TILE, PITCH): the map in float32; then roots of its weights as the sum of two 16-bit floats

    __device__ Tile(const Args &of, double *shared) : Looks(of, shared) {
        halves = (double *)next;
        reads = (float *)(halves + 2 * TILE);
        place = (int *)(reads + TILE);
        word = (unsigned *)(place + TILE);
    }
};

// Rows of the map compared with rows: Σ_k √(A_ik·A_jk), for blocks of 16 by 16 pairs, a warp to a block.
//
// A root r is h + l, two 16-bit floats side by side in a word, so 22 bits of it. Words multiplied with words give
// h·h' + l·l', words with their halves exchanged h·l' + l·h': together r·r', good to what float32 can hold.
__device__ inline void compare_rows(const Args &of, const Tile &on, i64 head, int n, int tokens, int keys) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, strips = (tokens + 15) / 16;
    float *rows = of.rows + head * of.most_pairs;
    for (int block = threadIdx.x / WARP; block < strips * (strips + 1) / 2; block += blockDim.x / WARP) {
        int strip = 0, column = block;
        while (column >= strips - strip) { column -= strips - strip; strip++; }
        column += strip;
        float sums[2][4] = {};
        const unsigned *upper = on.word + (16 * strip + g) * PITCH + t, *lower = upper + 8 * PITCH;
        const unsigned *left = on.word + (16 * column + g) * PITCH + t, *right = left + 8 * PITCH;
        for (int k = 0; k < keys; k += 8) {
            const unsigned a[4] = {upper[k], lower[k], upper[k + 4], lower[k + 4]};
            const unsigned b[2][2] = {{left[k], left[k + 4]}, {right[k], right[k + 4]}};
            for (int e = 0; e < 2; e++) {
                const unsigned exchanged[2] = {b[e][0] >> 16 | b[e][0] << 16, b[e][1] >> 16 | b[e][1] << 16};
                multiply_halves(sums[e], a, b[e]);
                multiply_halves(sums[e], a, exchanged);
            }
        }
        for (int e = 0; e < 2; e++)
            for (int q = 0; q < 4; q++) {
                const int i = on.place[16 * strip + g + 8 * (q / 2)], j = on.place[16 * column + 8 * e + 2 * t + q % 2];
                if (i >= 0 && i < j) rows[pairs_of(i, n) + j] = sums[e][q];
            }
    }
}

extern "C" __global__ __launch_bounds__(256, 3) void attention_tile(const Args *args) {
    const Args &of = *args;
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x;
    const int lane = thread % WARP, warp = thread / WARP, warps = threads / WARP;
    const int tokens = of.tokens, queries = of.queries_of[b], keys = of.keys_of[b], n = of.sizes[b];
    const int padded = (tokens + 15) / 16 * 16;
    const i64 head = (i64)b * of.heads + h, square = (i64)tokens * tokens;
    const int *readable = of.readable + (i64)b * tokens, *positions = of.positions + (i64)b * of.counting;
    const double *evenness = of.evenness + (i64)b * tokens;
    extern __shared__ double shared[];
    Tile on(of, shared);
    float *map = (float *)on.word;
    for (int i = thread; i < TILE; i += threads) {
        on.place[i] = -1;
        on.reads[i] = i < tokens ? (float)readable[i] : 0.0f;
    }
    __syncthreads();
    for (int i = thread; i < n; i += threads) on.place[positions[i]] = i;
    double spread = 0;
    for (int i = warp; i < padded; i += warps) {
        const bool reads = i < queries && on.reads[i] >= 1;
        float of_row = 0;
        for (int j = lane; j < padded; j += WARP) {
            const float w = reads && j < keys ? weight(of, head * square + i * tokens + j) : 0.0f;
            map[i * PITCH + j] = w;
            if (w > 0.0f) of_row += w * __logf(w);
        }
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
    const float *directions = of.directions + b * square;
    float *direct = of.direct + head * of.most_pairs;
    FOR_ROWS(n) FOR_COLUMNS(n) {
        if (j >= n) continue;
        const int pi = positions[i], pj = positions[j];
        direct[pairs_of(i, n) + j] = (map[pi * PITCH + pj] * on.reads[pi] + map[pj * PITCH + pi] * on.reads[pj]) * directions[pi * tokens + pj];
    }
    __syncthreads();
    for (int j = thread; j < keys; j += threads) on.column[j] = on.halves[j] + on.halves[TILE + j];
    for (int i = warp; i < padded; i += warps)
        for (int j = lane; j < padded; j += WARP) {
            const float root = sqrtf(map[i * PITCH + j]);
            const unsigned short high = to_half(root);
            on.word[i * PITCH + j] = high | (unsigned)to_half(root - from_half(high)) << 16;
        }
    __syncthreads();
    compare_rows(of, on, head, n, tokens, (keys + 7) / 8 * 8);
    from_columns(of, on, b, h, entropy);
}
