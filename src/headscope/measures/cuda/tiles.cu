// Windows of at most 128 tokens, whose attention is computed from queries and keys: everything that needs no threshold,
// without leaving the chip. A block of eight warps to a head and a window.

// x / size as it is rounded everywhere else, for numbers of ordinary size: without the care for the others.
__device__ inline float quotient(float x, float size) {
    float over = reciprocal(size);
    over = fused(fused(-size, over, 1.0f), over, over);
    float q = x * over;
    q = fused(fused(-size, q, x), over, q);
    return fused(fused(-size, q, x), over, q);
}
#define SMALLEST 1e-12f /* lengths between which numbers are ordinary; zeros are, too */
#define LARGEST 1e12f

// What a block of `by_tile` has on the chip: what `by_order` has, and before that the map.
struct Chip : Order {
    unsigned *word;  // vectors; then the map, and its roots; then what maps say of pairs; then wins
    float *reads;    // (TILE,): how many tokens each may read
    int *place;      // (TILE,): the number of each token among those that count, or -1
    double *halves;  // (2, TILE): sums of columns
    float *divisors; // (N,): lengths of outputs, 1 where there is none

    __device__ Chip(const Args &of, double *shared) {
        const int kinds = of.bands * RELATIONS, strips = (of.tokens + 15) / 16, tiles = strips * (strips + 1) / 2;
        const int map = 16 * strips * PITCH, pairs = MAPS * tiles * CELLS, vectors = 2 * TILE * STRIDE;
        const int table = SHOWN * kinds * ORDER_BINS, looks = 2 * (WARP + 4 * TILE) + 2 * STEPS * CATEGORIES;
        word = (unsigned *)shared, won = (Won *)shared;
        histogram = (int *)(word + max_of(map, max_of(pairs, vectors))), sample = (float *)histogram;
        halves = (double *)histogram; // before `looks`
        edges = (float *)(histogram + max_of(table, max_of(looks, SHOWN * SAMPLED)));
        room = (double *)(edges + SHOWN * ORDER_BINS), keys = (u64 *)(room + 8 * MOMENTS + WARP);
        reads = (float *)(keys + TILE), norms = reads + TILE, divisors = norms + TILE;
        place = (int *)(divisors + TILE), position = place + TILE, high = position + TILE, null_ = high + TILE;
        regions = null_ + TILE;
        degree = regions + READINGS * of.bands * 2 * ORDER_BINS, times = degree + READINGS * TILE;
        count = times + READINGS * TILE;
    }
    __device__ static int max_of(int x, int y) { return x > y ? x : y; }
};

// S in tiles, for the kernels that come after; and lengths.
__device__ inline void multiply_outputs(const Args &of, Chip &on, int b, int h, int strips) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const int tiles = strips * (strips + 1) / 2, queries = of.queries_of[b], width = of.output_width;
    const i64 head = (i64)b * of.heads + h, from = b * of.output_batch + h * of.output_head;
    float sums[OF_WARP][2][4] = {};
#pragma unroll 1
    for (int first = 0; first < width; first += DEPTH) {
        __syncthreads();
        load_vectors(on.word, of.outputs, from, of.output_token, queries, first, width);
        __syncthreads();
#pragma unroll
        for (int m = 0; m < OF_WARP; m++) {
            const int tile = warp + m * warps;
            if (tile >= tiles) break;
            const Strips at(tile, strips);
            const unsigned *left = on.word + (at.one + lane % 16) * STRIDE + lane / 16 * 4;
            const unsigned *right = on.word + (at.other + lane % 8 + lane / 16 * 8) * STRIDE + lane / 8 % 2 * 4;
#pragma unroll
            for (int k = 0; k < DEPTH / 2; k += 8) {
                if (first + 2 * k >= width) break;
                unsigned a[4], c[4];
                load_fragments(a, left + k);
                load_fragments(c, right + k);
                for (int e = 0; e < 2; e++)
                    if (of.output_kind == 1) multiply_bfloats(sums[m][e], a, c + 2 * e);
                    else multiply_halves(sums[m][e], a, c + 2 * e);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < OF_WARP; m++) {
        const int tile = warp + m * warps;
        if (tile >= tiles) break;
        const Strips at(tile, strips);
        Four *to = (Four *)(of.similar + (head * tiles + tile) * CELLS) + lane;
        for (int e = 0; e < 2; e++) {
            to[e * WARP] = {sums[m][e][0], sums[m][e][1], sums[m][e][2], sums[m][e][3]};
            if (at.one != at.other) continue;
            for (int q = 0; q < 4; q++) { // what would stand on the diagonal
                const int i = g + 8 * (q / 2), token = at.one + i;
                if (i != 8 * e + 2 * t + q % 2 || token >= of.tokens) continue;
                const float length = sqrtf(sums[m][e][q]);
                of.squares[head * of.tokens + token] = sums[m][e][q];
                if (on.place[token] < 0) continue;
                on.norms[on.place[token]] = length, on.divisors[on.place[token]] = length > 0 ? length : 1.0f;
                if (length > 0 && !(length > SMALLEST && length < LARGEST)) on.count[0] = 1; // an unusual one
            }
        }
    }
}

// How much the two tokens of each pair of a warp's tiles read each other.
__device__ inline void read_each_other_in_tiles(const Args &of, const Chip &on, int b, int strips, float (*direct)[2 * HALF]) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const int tiles = strips * (strips + 1) / 2, tokens = of.tokens;
    const float *map = (const float *)on.word;
#pragma unroll
    for (int m = 0; m < OF_WARP; m++) {
        const int tile = warp + m * warps;
        if (tile >= tiles) break;
        const Strips at(tile, strips);
        for (int s = 0; s < 2 * HALF; s++) {
            const int i = at.one + g + s % HALF / 2 * 8, j = at.other + s / HALF * 8 + 2 * t + s % 2;
            const float over = !of.allowed ? 0.5f : i < tokens && j < tokens ? of.directions[((i64)b * tokens + i) * tokens + j] : 0.0f;
            direct[m][s] = (map[i * PITCH + j] * on.reads[i] + map[j * PITCH + i] * on.reads[j]) * over;
        }
    }
}

// Rows of the map compared with rows, for a warp's tiles; see `compare_rows`.
__device__ inline void compare_rows_in_tiles(const Chip &on, int strips, int keys, float (*rows)[2 * HALF]) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP, tiles = strips * (strips + 1) / 2;
    const int left = (lane % 16) * PITCH + lane / 16 * 4, right = (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 4;
#pragma unroll
    for (int m = 0; m < OF_WARP; m++) {
        const int tile = warp + m * warps;
        if (tile >= tiles) break;
        const Strips at(tile, strips);
        const unsigned *a_row = on.word + at.one * PITCH + left, *b_row = on.word + at.other * PITCH + right;
        float sums[2][4] = {};
#pragma unroll 2
        for (int k = 0; k < keys; k += 8) multiply_rows(sums, a_row + k, b_row + k);
        for (int s = 0; s < 2 * HALF; s++) rows[m][s] = sums[s / HALF][s % HALF];
    }
}

// Attention from queries and keys, what it says of tokens and of pairs: `word` holds these in the end.
__device__ inline void look(const Args &of, Chip &on, int b, int h, int strips) {
    const int thread = threadIdx.x, threads = blockDim.x, lane = thread % WARP, g = lane / 4, t = lane % 4;
    const int warp = thread / WARP, warps = threads / WARP, padded = 16 * strips, tiles = strips * (strips + 1) / 2;
    const int keys = of.keys_of[b], strip = 16 * warp;
    float *map = (float *)on.word;
    Looks looks(of, (double *)on.histogram + 2 * TILE);
    double spread = 0;
    {
        float weights[TILE / 8][4];
        attention_of_strip(of, b, h, on.word, on.word + TILE * STRIDE, weights);
        __syncthreads(); // queries and keys have been read
        if (strip < padded)
#pragma unroll
            for (int f = 0; f < 2; f++) {
                const int i = strip + g + 8 * f;
                float of_row = 0;
#pragma unroll
                for (int e = 0; e < TILE / 8; e++) {
                    const float x = weights[e][2 * f], y = weights[e][2 * f + 1];
                    *(Pair *)(map + i * PITCH + 8 * e + 2 * t) = {x, y};
                    of_row += (x > 0.0f ? x * logarithm(x) : 0.0f) + (y > 0.0f ? y * logarithm(y) : 0.0f);
                }
                if (i < of.tokens) spread -= (double)of_row * of.evenness[(i64)b * of.tokens + i];
            }
    }
    if (of.values) value_lengths(of, looks, b, h);
    const double entropy = added_by_all(spread, looks.room); // waits for everybody
    for (int k = thread; k < 2 * TILE; k += threads) {
        const int j = k % TILE, end = k < TILE ? padded / 2 : padded;
        double sum = 0;
        for (int i = k < TILE ? 0 : padded / 2; i < end; i += 4) { // four floats have too few digits for an error
            const float *column = map + i * PITCH + j;
            sum += (double)((column[0] + column[PITCH]) + (column[2 * PITCH] + column[3 * PITCH]));
        }
        on.halves[k] = sum;
    }
    float direct[OF_WARP][2 * HALF] = {}, rows[OF_WARP][2 * HALF] = {};
    read_each_other_in_tiles(of, on, b, strips, direct);
    __syncthreads();
    for (int j = thread; j < keys; j += threads) looks.column[j] = on.halves[j] + on.halves[TILE + j];
    take_roots(on.word, padded);
    __syncthreads();
    compare_rows_in_tiles(on, strips, (keys + 7) / 8 * 8, rows);
    __syncthreads();
#pragma unroll
    for (int m = 0; m < OF_WARP; m++) {
        const int tile = warp + m * warps;
        if (tile >= tiles) break;
        for (int e = 0; e < 2; e++) {
            Four *to = (Four *)(on.word + (tile * 2 + e) * WARP * HALF) + lane;
            const float *x = direct[m] + HALF * e, *y = rows[m] + HALF * e;
            to[0] = {x[0], x[1], x[2], x[3]};
            to[tiles * CELLS / HALF] = {y[0], y[1], y[2], y[3]};
        }
    }
    from_columns(of, looks, b, h, entropy);
    __syncthreads();
}

// 1 over the largest power of two that is not above x, which is positive and ordinary.
__device__ inline float over_power_of_two(float x) { return __uint_as_float(0x7f000000u - (__float_as_uint(x) & 0x7f800000u)); }

// What all threads know of the pairs that they met: values less the middle of the sample, by a power of two, and their
// squares and products. Float32 is enough for the few pairs of a thread, as numbers round their middle are small.
struct Middles {
    float by[SHOWN], from[SHOWN];
    float sum[SHOWN], square[SHOWN], product[AT_LEAST_ONE(READINGS * MAPS)], farthest[SHOWN];
    float largest; // S of the main reading

    __device__ Middles(const Order &on) : largest(-infinity()) {
        for (int v = 0; v < SHOWN; v++) {
            const float *edges = on.edges + v * ORDER_BINS, middle = edges[7];
            const float range = fmaxf(fmaxf(edges[14] - middle, middle - edges[0]), 1e-15f);
            by[v] = over_power_of_two(range), from[v] = -middle * by[v];
            sum[v] = square[v] = farthest[v] = 0;
        }
        for (int k = 0; k < READINGS * MAPS; k++) product[k] = 0;
    }
    __device__ inline void add(const float *x) {
        float away[SHOWN];
        largest = fmaxf(largest, x[0]);
        for (int v = 0; v < SHOWN; v++) {
            away[v] = fused(x[v], by[v], from[v]);
            farthest[v] = fmaxf(farthest[v], fabsf(away[v]));
            sum[v] += away[v];
            square[v] = fused(away[v], away[v], square[v]);
        }
        for (int k = 0; k < READINGS * MAPS; k++) product[k] = fused(away[k / AT_LEAST_ONE(MAPS)], away[READINGS + k % AT_LEAST_ONE(MAPS)], product[k]);
    }
    __device__ inline void join(const Args &of, Order &on, i64 head, int pairs) const {
        double sums[2 * SHOWN + READINGS * MAPS];
        int varies = 0;
        for (int v = 0; v < SHOWN; v++) {
            sums[v] = (double)sum[v], sums[SHOWN + v] = (double)square[v];
            if (farthest[v] != 0) varies |= 1 << v;
        }
        for (int k = 0; k < READINGS * MAPS; k++) sums[2 * SHOWN + k] = (double)product[k];
        join_moments(of, on, sums, largest, varies, head, pairs);
    }
};

// Bins of the pairs of half a tile, and what is counted by them.
__device__ inline void count_tiles(const Args &of, const Chip &on, Middles &middles, int b, i64 head, int n, int strips, bool unusual) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const int tiles = strips * (strips + 1) / 2, bands = of.bands, table = bands * RELATIONS * ORDER_BINS;
    const int number = on.count[READINGS], other = 2 * number > n ? 0 : 2; // tokens of the pair that are high
    const bool masked = number >= 2 && n - number >= 2;
    const Kinds *kinds = (const Kinds *)(of.cells + (i64)b * tiles * CELLS) + lane;
    const Four *similar = (const Four *)(of.similar + head * tiles * CELLS) + lane, *direct = (const Four *)on.word + lane;
    const Four *rows = direct + tiles * CELLS / HALF;
    float middle[SHOWN], lower[SHOWN], upper[SHOWN]; // three of the edges
    for (int v = 0; v < SHOWN; v++) {
        const float *edges = on.edges + v * ORDER_BINS;
        lower[v] = edges[3], middle[v] = edges[7], upper[v] = edges[11];
    }
#pragma unroll 1
    for (int half = threadIdx.x / WARP; half < 2 * tiles; half += blockDim.x / WARP) {
        const Kinds own = kinds[half * WARP];
        const Four s = similar[half * WARP], d = direct[half * WARP], r = rows[half * WARP];
        const Strips at(half / 2, strips);
        int token[4]; // two of one strip, two of the other
        float divisor[4];
        for (int e = 0; e < 4; e++) {
            token[e] = on.place[e < 2 ? at.one + g + 8 * e : at.other + half % 2 * 8 + 2 * t + e - 2];
            divisor[e] = on.divisors[token[e] < 0 ? 0 : token[e]];
        }
#pragma unroll
        for (int q = 0; q < HALF; q++) {
            if (own.of[q] < 0) continue;
            const int kind = own.of[q], i = token[q / 2], j = token[2 + q % 2];
            float x[SHOWN];
            for (int v = 0; v < READINGS; v++) {
                const float size = divisor[q / 2] * divisor[2 + q % 2];
                x[v] = !scaled_of[v] ? s.at[q] : unusual ? s.at[q] / size : quotient(s.at[q], size);
            }
            for (int m = 0; m < MAPS; m++) x[READINGS + m] = m ? r.at[q] : d.at[q];
            middles.add(x);
            int bin[SHOWN];
            for (int v = 0; v < SHOWN; v++) {
                const bool high = x[v] > middle[v], higher = x[v] > (high ? upper[v] : lower[v]);
                bin[v] = (high ? 8 : 0) + (higher ? 4 : 0);
                const Four edges = *(const Four *)(on.edges + v * ORDER_BINS + bin[v]);
                for (int e = 0; e < 3; e++) if (x[v] > edges.at[e]) bin[v]++;
                atomicAdd(&on.histogram[v * table + kind + bin[v]], 1);
            }
            const int region = on.high[i] + on.high[j];
            if (masked && (region == 1 || region == other)) {
                int *to = on.regions + (kind / (ORDER_BINS * RELATIONS) * 2 + (region != 1)) * ORDER_BINS;
                for (int v = 0; v < READINGS; v++) atomicAdd(&to[v * bands * 2 * ORDER_BINS + bin[v]], 1);
            }
            for (int v = 0; v < READINGS; v++)
                if (bin[v] == ORDER_BINS - 1) {
                    atomicAdd(&on.degree[v * of.counting + i], 1);
                    atomicAdd(&on.degree[v * of.counting + j], 1);
                }
        }
    }
}

// The values of sampled pairs.
__device__ inline void sample_tiles(const Args &of, const Chip &on, int b, i64 head, int strips, bool unusual) {
    const int tiles = strips * (strips + 1) / 2, sampled = of.sampled[b];
    const unsigned *samples = of.samples + (i64)b * SAMPLED;
    const float *similar = of.similar + head * tiles * CELLS, *direct = (const float *)on.word, *rows = direct + tiles * CELLS;
    for (int k = threadIdx.x; k < SAMPLED; k += blockDim.x) {
        float x[SHOWN];
        for (int v = 0; v < SHOWN; v++) x[v] = infinity();
        if (k < sampled) {
            const int i = samples[k] >> 16, j = samples[k] & 0xffff, cell = cell_of(on.position[i], on.position[j], strips);
            const float own = similar[cell], size = on.divisors[i] * on.divisors[j];
            for (int v = 0; v < READINGS; v++) x[v] = !scaled_of[v] ? own : unusual ? own / size : quotient(own, size);
            for (int m = 0; m < MAPS; m++) x[READINGS + m] = m ? rows[cell] : direct[cell];
        }
        for (int v = 0; v < SHOWN; v++) on.sample[v * SAMPLED + k] = x[v];
    }
}

extern "C" __global__ __launch_bounds__(256, 2) void by_tile(const __grid_constant__ Args of) {
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x;
    const int n = of.sizes[b], distinct = of.distinct[b], strips = (of.tokens + 15) / 16, pairs = n * (n - 1) / 2;
    const i64 head = (i64)b * of.heads + h;
    extern __shared__ double shared[];
    Chip on(of, shared);
    for (int i = thread; i < TILE; i += threads) {
        on.place[i] = -1;
        on.reads[i] = i < of.tokens ? (float)of.readable[(i64)b * of.tokens + i] : 0.0f;
        on.position[i] = i < n ? of.positions[(i64)b * of.counting + i] : 0;
        on.divisors[i] = 1.0f;
    }
    if (thread == 0) on.count[0] = 0;
    __syncthreads();
    for (int i = thread; i < n; i += threads) on.place[on.position[i]] = i;
    multiply_outputs(of, on, b, h, strips); // waits for everybody
    look(of, on, b, h, strips);             // likewise, in the end, too
    const bool unusual = on.count[0];
    if (n < 2) return; // the outputs were cleared before
    null_keys(of, b, h, distinct, on.keys);
    sample_tiles(of, on, b, head, strips, unusual);
    __syncthreads();
    if (thread / WARP < SHOWN) sort_samples(of, on, b, thread / WARP);
    else place_null(of, b, h, distinct, on.keys, on.null_, thread - SHOWN * WARP, threads - SHOWN * WARP);
    __syncthreads();
    for (int k = thread; k < SHOWN * of.bands * RELATIONS * ORDER_BINS; k += threads) on.histogram[k] = 0;
    for (int k = thread; k < on.count + READINGS + 2 - on.regions; k += threads) on.regions[k] = 0;
    __syncthreads();
    for (int i = thread; i < n; i += threads) {
        on.high[i] = of.high[head * of.keys + on.position[i]];
        if (on.high[i]) atomicAdd(&on.count[READINGS], 1);
    }
    __syncthreads();
    Middles middles(on);
    count_tiles(of, on, middles, b, head, n, strips, unusual);
    middles.join(of, on, head, pairs); // waits for everybody
    sum_up(of, on, b, h, n, pairs, distinct);
}
