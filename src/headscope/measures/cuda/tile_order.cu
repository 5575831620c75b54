// What needs no threshold, of pairs in tiles: order bins, and what follows from them.

// S over two lengths, rounded as it is everywhere else.
__device__ inline float over_lengths(float x, const Token &i, const Token &j) {
    const float size = i.length * j.length, over = i.inverse * j.inverse, q = x * over; // but for its last digits
    return fused(fused(-size, q, x), over, q);
}
__device__ __noinline__ float over_unusual_lengths(float x, float size) { return size > 0 ? x / size : 0.0f; }

// 1 over the largest power of two that is not above x, which is positive and ordinary.
__device__ inline float over_power_of_two(float x) { return __uint_as_float(0x7f000000u - (__float_as_uint(x) & 0x7f800000u)); }

// What all threads know of the pairs that they met: values less the middle of the sample, by a power of two, and their
// squares and products. Float32 is enough for the few pairs of a thread, as numbers round their middle are small.
#define PRODUCTS (2 * SHOWN) /* the first of products */
struct Middles {
    float sums[SLOTS], largest; // of values, of squares, of products of readings with maps; S of the main reading

    __device__ Middles() : largest(-infinity()) { for (int k = 0; k < SLOTS; k++) sums[k] = 0; }

    // Those of a warp: each lane ends with one number, lane 2k and 2k + 1 with the k-th.
    __device__ inline void put(float *to) {
        const int lane = threadIdx.x % WARP;
        deal_out<SLOTS / 2, 1>(sums, 16);
        const float sum = sums[0] + __shfl_xor_sync(FULL, sums[0], 1);
        for (int k = WARP / 2; k > 0; k /= 2) largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, k));
        if (lane % 2 == 0) to[lane / 2] = lane / 2 < SLOTS - 1 ? sum : largest;
    }
};

// Of a reading or map: the edges at a quarter, in the middle and at three quarters, and what values are multiplied with.
__device__ inline Four quarters_of(const float *edges) {
    const float middle = edges[7], range = fmaxf(fmaxf(edges[14] - middle, middle - edges[0]), 1e-15f);
    return {edges[3], middle, edges[11], over_power_of_two(range)};
}

// Which pairs are counted by region: of the three the two with fewer pairs; see `count_pairs`.
struct Regions {
    int one, other; // tokens of the pair that are high

    __device__ Regions(int high, int n) : one(1), other(2 * high > n ? 0 : 2) {
        if (high < 2 || n - high < 2) one = other = -1;
    }
};

// What lies so many bytes from the beginning of a table.
template <class T> __device__ inline T &bytes_from(T *begin, int bytes) { return *(T *)((char *)begin + bytes); }

// How many edges lie below a value of a reading or map, in bytes of a table of whole numbers.
__device__ inline int bin_of_order(float x, const float *edges, const Four &quarters) {
    const bool high = x > quarters.at[1], higher = x > (high ? quarters.at[2] : quarters.at[0]);
    const int begin = (high ? 32 : 0) + (higher ? 16 : 0);
    const Four three = *(const Four *)&bytes_from(edges, begin);
    const bool above = x > three.at[1], next = x > (above ? three.at[2] : three.at[0]);
    return begin + (above ? 8 : 0) + (next ? 4 : 0);
}

// One pair: its bins, what is counted by them, and moments. What is not to be counted is counted where nobody asks for it:
// lanes that part would have to wait for each other.
__device__ inline void count_pair_of_tile(const Chip &on, Middles &middles, const float *x, int kind, const Token &i, const Token &j, const Regions &regions) {
    const bool real = kind != NO_PAIR;
    constexpr int BYTES = sizeof(int), none = BYTES * Chip::NOWHERE;
    const int region = i.high + j.high;
    const bool marked = real & ((region == regions.one) | (region == regions.other));
    const int of_region = kind / (OF_KIND * RELATIONS) * 2 * OF_KIND + (region != 1 ? OF_KIND : 0);
    float moved[SHOWN];
#pragma unroll
    for (int v = 0; v < SHOWN; v++) {
        const Four quarters = on.quarters[v];
        const int bin = bin_of_order(x[v], on.edges + v * ORDER_BINS, quarters);
        atomicAdd(&bytes_from(on.histogram + v * (MOST_KINDS + 1) * ORDER_BINS, kind + bin), 1);
        if (v < READINGS) {
            const int beside = v * MOST_BANDS * 2 * OF_KIND, to_degree = BYTES * (Chip::TO_DEGREE + v * TILE);
            const bool top = real & (bin == OF_KIND - BYTES);
            atomicAdd(&bytes_from(on.regions, marked ? of_region + beside + bin : none), 1);
            atomicAdd(&bytes_from(on.regions, top ? to_degree + i.place : none), 1);
            atomicAdd(&bytes_from(on.regions, top ? to_degree + j.place : none), 1);
        }
        moved[v] = real ? (x[v] - quarters.at[1]) * quarters.at[3] : 0.0f;
        middles.sums[v] += moved[v];
        middles.sums[SHOWN + v] = fused(moved[v], moved[v], middles.sums[SHOWN + v]);
    }
    middles.largest = fmaxf(middles.largest, real ? x[0] : -infinity());
    for (int k = 0; k < READINGS * MAPS; k++) {
        float &sum = middles.sums[PRODUCTS + k];
        sum = fused(moved[k / AT_LEAST_ONE(MAPS)], moved[READINGS + k % AT_LEAST_ONE(MAPS)], sum);
    }
}

template <bool UNUSUAL> __device__ inline void count_tiles(const Args &of, const Chip &on, Middles &middles, int b, i64 head, int n, int halves) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, first = threadIdx.x / WARP;
    const Regions regions(on.count[READINGS], n);
    const short *kinds = of.cells + ((i64)b * halves + first) * (HALF * WARP) + lane;
    const float *similar = of.similar + (head * halves + first) * (HALF * WARP) + lane, *direct = (const float *)on.word + first * HALF * WARP + lane;
#pragma unroll 1
    for (int half = first; half < halves; half += TILE_WARPS) {
        const Strips at(half / 2);
        const Token *of_one = on.token + at.one + g, *of_other = on.token + at.other + half % 2 * 8 + 2 * t;
#pragma unroll 1
        for (int r = 0; r < 2; r++) {
            const Token i = of_one[8 * r];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const Token j = of_other[c];
                const float s = similar[c * WARP];
                float x[SHOWN];
                for (int v = 0; v < READINGS; v++) {
                    if (!scaled_of[v]) x[v] = s;
                    else if (UNUSUAL) x[v] = over_unusual_lengths(s, i.length * j.length);
                    else x[v] = over_lengths(s, i, j);
                }
                for (int m = 0; m < MAPS; m++) x[READINGS + m] = direct[(m * MOST_HALVES * HALF + c) * WARP];
                count_pair_of_tile(on, middles, x, kinds[c * WARP], i, j, regions);
            }
            kinds += 2 * WARP, similar += 2 * WARP, direct += 2 * WARP;
        }
        const int others = (TILE_WARPS - 1) * HALF * WARP; // of other warps
        kinds += others, similar += others, direct += others;
    }
}

// The values of sampled pairs, one to a thread.
__device__ inline void sample_tiles(const Args &of, const Chip &on, int b, i64 head, int halves) {
    const float *similar = of.similar + head * halves * (HALF * WARP), *direct = (const float *)on.word, *rows = direct + MOST_HALVES * HALF * WARP;
    const int k = threadIdx.x;
    const bool unusual = *on.unusual;
    float x[SHOWN];
    for (int v = 0; v < SHOWN; v++) x[v] = infinity();
    if (k < of.sampled[b]) {
        const unsigned sample = of.samples[(i64)b * SAMPLED + k];
        const int i = on.position[sample >> 16], j = on.position[sample & 0xffff], cell = cell_of(i, j);
        const float own = similar[cell];
        for (int v = 0; v < READINGS; v++) {
            x[v] = scaled_of[v] ? over_lengths(own, on.token[i], on.token[j]) : own;
            if (scaled_of[v] && unusual) x[v] = over_unusual_lengths(own, on.token[i].length * on.token[j].length);
        }
        for (int m = 0; m < MAPS; m++) x[READINGS + m] = m ? rows[cell] : direct[cell];
    }
    for (int v = 0; v < SHOWN; v++) on.sample[v * SAMPLED + k] = x[v];
}

// The largest S, and how S goes with each map, from what warps found. By one warp, a lane to a number.
__device__ inline void join_middles(const Args &of, const Chip &on, i64 head, int pairs) {
    const int lane = threadIdx.x % WARP, slot = lane % SLOTS;
    double sum = 0, top = -1e300;
    for (int w = 0; w < TILE_WARPS; w++) {
        const double own = (double)on.middles[w * SLOTS + slot];
        sum += own, top = own > top ? own : top;
    }
    const double largest = __shfl_sync(FULL, top, SLOTS - 1);
    if (lane < SHOWN && !is_finite(sum)) *of.not_finite = 1;
    const double first = __shfl_sync(FULL, sum, 0);
    if (lane == 0) of.largest[head] = is_finite(first) ? (float)largest : (float)first;
    correlate(of, sum, __ballot_sync(FULL, sum != 0) >> SHOWN, head, pairs); // squares that are not zero
}

// From vectors to what pairs say. All threads come back from it, and nobody has left what it shares with others.
__device__ inline void begin_tile(const Args &of, Chip &on, int b, int h, int n, int halves) {
    const int thread = threadIdx.x, tokens = of.tokens, queries = of.queries_of[b], keys = of.keys_of[b];
    const i64 of_query = b * of.query_batch + h * of.query_head, of_key = b * of.key_batch + h * of.key_groups / of.heads * of.key_group;
    fetch_vectors(on.word, of.outputs, b * of.output_batch + h * of.output_head, of.output_token, queries, 0, of.output_width);
    fetch_vectors(on.word + TILE * STRIDE, of.queries, of_query, of.query_token, queries, 0, of.score_width);
    fetch_vectors(on.word + 2 * TILE * STRIDE, of.score_keys, of_key, of.key_token, keys, 0, of.score_width);
    if (thread < TILE) {
        on.token[thread] = {0.0f, 0.0f, 0, 0};
        on.reads[thread] = thread < tokens ? (float)of.readable[(i64)b * tokens + thread] : 0.0f;
        on.position[thread] = thread < n ? of.positions[(i64)b * of.counting + thread] : 0;
    }
    if (thread == 0) *on.unusual = 0;
    measure_values(of, on, b, h);
    similarities(of, on, b, h, halves); // waits for everybody
    look_in_tiles(of, on, b, h, halves);
    if (thread < n) on.token[on.position[thread]].place = thread * (int)sizeof(int);
    __syncthreads();
}

extern "C" __global__ __launch_bounds__(TILE_THREADS, 2) void by_tile(const __grid_constant__ Args of) {
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, warp = thread / WARP, lane = thread % WARP;
    const int n = of.sizes[b], distinct = of.distinct[b], halves = 2 * tiles_of_strips((of.tokens + 15) / 16);
    const i64 head = (i64)b * of.heads + h;
    extern __shared__ double shared[];
    Chip on(shared);
    begin_tile(of, on, b, h, n, halves);
    if (n < 2) return; // the outputs were cleared before
    if (thread < distinct) null_keys(of, b, h, distinct, on.keys);
    sample_tiles(of, on, b, head, halves);
    __syncthreads();
    if (warp < SHOWN) {
        sort_samples(of, on, b, warp);
        __syncwarp();
        if (lane == 0) on.quarters[warp] = quarters_of(on.edges + warp * ORDER_BINS);
    } else if (warp < SHOWN + 4) place_null(of, b, h, distinct, on.keys, on.null_, thread - SHOWN * WARP, 4 * WARP);
    else {
        for (int k = thread - (SHOWN + 4) * WARP; k < on.count + READINGS + 2 - on.regions; k += TILE_THREADS - (SHOWN + 4) * WARP) on.regions[k] = 0;
        for (int i = thread - (SHOWN + 4) * WARP; i < n; i += TILE_THREADS - (SHOWN + 4) * WARP) on.norms[i] = on.token[on.position[i]].length;
    }
    __syncthreads();
    Four *to = (Four *)on.histogram;
    for (int k = thread; k < SHOWN * (MOST_KINDS + 1) * ORDER_BINS / 4; k += TILE_THREADS) to[k] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (warp < 4) {
        const int number = sum_of_warp(thread < n ? on.token[on.position[thread]].high : 0);
        if (lane == 0 && number) atomicAdd(&on.count[READINGS], number);
    }
    __syncthreads();
    {
        Middles middles;
        if (*on.unusual) count_tiles<true>(of, on, middles, b, head, n, halves);
        else count_tiles<false>(of, on, middles, b, head, n, halves);
        middles.put(on.middles + warp * SLOTS);
    }
    __syncthreads();
    if (warp == TILE_WARPS - 1) join_middles(of, on, head, n * (n - 1) / 2);
    sum_up(of, on, b, h, n, n * (n - 1) / 2, distinct);
}
