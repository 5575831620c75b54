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
    const float middle = edges[7], range = fmaxf(fmaxf(edges[14] - middle, middle - edges[0]), fmaxf(fabsf(middle) * 1e-9f, 1e-15f));
    return {edges[3], middle, edges[11], over_power_of_two(range)};
}

// Where the bin of a value of a reading or map is in the table of edges, in bytes: as many lie below the value.
__device__ inline int bin_of_order(float x, const char *edges, const Four &quarters) {
    const bool high = x > quarters.at[1], higher = x > (high ? quarters.at[2] : quarters.at[0]);
    int at = high ? 8 * sizeof(float) : 0;
    if (higher) at += 4 * sizeof(float);
    Four three;
    load_four(three.at, (const float *)(edges + at));
    const bool above = x > three.at[1], next = x > (above ? three.at[2] : three.at[0]);
    if (above) at += 2 * sizeof(float);
    if (next) at += sizeof(float);
    return at;
}
#define LAST_BIN (int)((ORDER_BINS - 1) * sizeof(float))

// The four pairs of a lane in half a tile: their bins, what is counted by them, and moments; a reading or map after the other.
// What is not to be counted is counted where nobody asks for it: lanes that part would have to wait for each other.
struct PairsOfLane {
    int kind[HALF], region[HALF]; // in bytes of the tables
    bool by_region; // whether pairs are counted by region, too: the same for all of a head
    float moved[READINGS][HALF];

    // `skipped`: of the regions by how many tokens are high, the one that is not counted, see `count_pairs`; below zero: all of them.
    __device__ PairsOfLane(const Two &kinds, const Token &i, const Token &below, const Token &j, const Token &right, int skipped) : by_region(skipped >= 0) {
        for (int q = 0; q < HALF; q++) kind[q] = q % 2 ? kinds.at[q / 2] >> 16 : kinds.at[q / 2] & 0xffff;
        if (!by_region) return;
        const int high[HALF] = {i.high + j.high, i.high + right.high, below.high + j.high, below.high + right.high};
        for (int q = 0; q < HALF; q++) {
            const int band = (unsigned)kind[q] / (OF_KIND * RELATIONS) * 2 * OF_KIND, edge = band + (high[q] == 1 ? 0 : OF_KIND);
            region[q] = high[q] == skipped ? 2 * MOST_BANDS * OF_KIND : edge;
        }
    }
    // Those of a reading or map.
    template <int V> __device__ inline void count(const Chip &on, Middles &middles, const Four x, TopPairs &top) {
        Four quarters;
        load_four(quarters.at, on.quarters[V].at);
        const float scale = quarters.at[3], begin = -quarters.at[1] * scale; // by a power of two: nothing is rounded
        const char *edges = (const char *)(on.edges + V * ORDER_BINS);
        char *kinds = (char *)(on.histogram + V * on.kinds * ORDER_BINS), *regions = (char *)(on.regions + V * on.beside);
        int bins[HALF]; // all of them before any is counted: loads do not pass what counts
        float own[HALF]; // in the middle where there is no pair: nothing away from it, and not in the last bin
        for (int q = 0; q < HALF; q++) own[q] = kind[q] != NO_PAIR ? x.at[q] : quarters.at[1], bins[q] = bin_of_order(own[q], edges, quarters);
        for (int q = 0; q < HALF; q++) {
            const int bin = bins[q];
            atomicAdd((int *)(kinds + kind[q] + bin), 1);
            const float away = fused(own[q], scale, begin);
            middles.sums[V] += away;
            middles.sums[SHOWN + V] = fused(away, away, middles.sums[SHOWN + V]);
            if (V == 0) middles.largest = fmaxf(middles.largest, own[q]);
            if constexpr (V < READINGS) {
                top.of[q] = __ballot_sync(FULL, bin == LAST_BIN);
                moved[V][q] = away;
            } else
                for (int r = 0; r < READINGS; r++) {
                    float &sum = middles.sums[PRODUCTS + r * MAPS + V - READINGS];
                    sum = fused(moved[r][q], away, sum);
                }
        }
        if (V < READINGS && by_region) for (int q = 0; q < HALF; q++) atomicAdd((int *)(regions + region[q] + bins[q]), 1);
    }
};

// S in a reading.
template <bool UNUSUAL> __device__ inline float in_reading(float x, bool scaled, const Token &i, const Token &j) {
    if (!scaled) return x;
    return UNUSUAL ? over_unusual_lengths(x, i.length * j.length) : over_lengths(x, i, j);
}

// The same of the four pairs of a lane.
template <bool UNUSUAL> __device__ inline Four in_reading(const Four &x, bool scaled, const Token &i, const Token &below, const Token &j, const Token &right) {
    return {in_reading<UNUSUAL>(x.at[0], scaled, i, j), in_reading<UNUSUAL>(x.at[1], scaled, i, right),
            in_reading<UNUSUAL>(x.at[2], scaled, below, j), in_reading<UNUSUAL>(x.at[3], scaled, below, right)};
}

template <bool UNUSUAL> __device__ inline void count_tiles(const Args &of, const Chip &on, Middles &middles, int b, i64 head, int n, int tiles) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const int high = on.count[READINGS], skipped = high < 2 || n - high < 2 ? -1 : 2 * high > n ? 2 : 0; // see `count_wins`
    const Two *kinds = (const Two *)(of.cells + (i64)b * tiles * CELLS) + lane;
    const Four *similar = (const Four *)(of.similar + head * tiles * CELLS) + lane;
    if (on.warp >= tiles) return;
    int half = 2 * on.tile_of(0), m = 0; // of a tile; of the tiles of the warp
    Four s = similar[half * WARP];
    Two kind = kinds[half * WARP];
#pragma unroll 1
    while (true) {
        const Four own = s;
        const Strips at = on.strips_of(m);
        const Token *of_one = on.token + at.one + g, *of_other = on.token + at.other + half % 2 * 8 + 2 * t;
        const Token i = of_one[0], below = of_one[8], j = of_other[0], right = of_other[1];
        const Four direct = on.direct()[half * WARP + lane], rows = on.rows()[half * WARP + lane];
        PairsOfLane pairs(kind, i, below, j, right, skipped);
        const int this_one = half;
        m += half % 2;
        const bool more = on.warp + m * TILE_WARPS < tiles && m < OF_WARP;
        half = half % 2 ? 2 * on.tile_of(m) : half + 1;
        if (more) s = similar[half * WARP], kind = kinds[half * WARP]; // on their way while pairs are counted
        TopPairs top;
        pairs.count<0>(on, middles, in_reading<UNUSUAL>(own, scaled_of[0], i, below, j, right), top);
        if (lane == 0) on.top[this_one] = top;
        if constexpr (READINGS > 1) {
            pairs.count<READINGS - 1>(on, middles, in_reading<UNUSUAL>(own, scaled_of[READINGS - 1], i, below, j, right), top);
            if (lane == 0) on.top[2 * MOST_TILES + this_one] = top;
        }
        if constexpr (MAPS > 0) pairs.count<READINGS>(on, middles, direct, top);
        if constexpr (MAPS > 1) pairs.count<READINGS + MAPS - 1>(on, middles, rows, top);
        if (!more) break;
    }
}

// How many top pairs each token has, and each id. A thread to a token and a reading.
__device__ inline void count_degrees(const Args &of, const Chip &on, int b, int n, int strips) {
    for (int k = TILE_THREADS - 1 - threadIdx.x; k < READINGS * TILE; k += TILE_THREADS) {
        const int place = k % TILE;
        if (place >= n) continue;
        const int id = of.id_number[b * of.counting + place], at = on.position[place], strip = at / 16, row = at % 8, second = at % 16 / 8;
        const TopPairs *top = on.top + k / TILE * 2 * MOST_TILES + 2 * tiles_of_strips(strip), *as_first = top + 2 * strip, *as_second = top + second;
        int degree = 0;
#pragma unroll 2
        for (int other = strip; other < strips; as_first += 2 * ++other) // as the first token of pairs: lanes 4g to 4g + 3
            for (int half = 0; half < 2; half++) {
                const Two own = ((const Two *)as_first[half].of)[second];
                degree += __popc((own.at[0] >> 4 * row & 15) | (own.at[1] >> 4 * row & 15) << 4);
            }
#pragma unroll 2
        for (int one = 0; one <= strip; one++, as_second += 2) { // as the second: every fourth lane
            const unsigned *own = as_second->of + row % 2;
            degree += __popc((own[0] >> row / 2 & 0x11111111u) | (own[2] >> row / 2 & 0x11111111u) << 1);
        }
        on.degree[k] = degree;
        if (degree) atomicAdd(&on.times[k / TILE * TILE + id], degree);
    }
}

// The values of sampled pairs; `samples` are those of this thread.
#define SAMPLES_OF_THREAD ((SAMPLED + TILE_THREADS - 1) / TILE_THREADS)
__device__ inline void sample_tiles(const Args &of, const Chip &on, i64 head, int tiles, const unsigned *samples) {
    const float *similar = of.similar + head * tiles * CELLS, *direct = (const float *)on.direct(), *rows = (const float *)on.rows();
    const bool unusual = *on.unusual;
#pragma unroll
    for (int m = 0; m < SAMPLES_OF_THREAD; m++) {
        const int k = threadIdx.x + m * TILE_THREADS;
        if (k >= SAMPLED) break;
        float x[SHOWN];
        for (int v = 0; v < SHOWN; v++) x[v] = infinity();
        if (samples[m]) { // of a pair: its second token is not the first one
            const int first = on.position[samples[m] >> 16], second = on.position[samples[m] & 0xffff], cell = cell_of(first, second);
            const Token i = on.token[first], j = on.token[second];
            const float own = similar[cell];
            for (int v = 0; v < READINGS; v++) x[v] = unusual ? in_reading<true>(own, scaled_of[v], i, j) : in_reading<false>(own, scaled_of[v], i, j);
            for (int e = 0; e < MAPS; e++) x[READINGS + e] = e ? rows[cell] : direct[cell];
        }
        for (int v = 0; v < SHOWN; v++) on.sample[v * SAMPLED + k] = x[v];
    }
}

// The largest S, and how S goes with each map, from what warps found. By one warp, a lane to a number.
__device__ inline void join_middles(const Args &of, const Chip &on, i64 head, int pairs) {
    const int lane = threadIdx.x % WARP, slot = lane % SLOTS;
    double sum = 0, top = -1e300;
#pragma unroll 4
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

// From vectors to what pairs say, and to a sample of it. All threads come back from it, and nobody has left what it shares with others.
__device__ inline void begin_tile(const Args &of, Chip &on, int b, int h, int tiles) {
    const int thread = threadIdx.x, tokens = of.tokens, queries = of.queries_of[b], keys = of.keys_of[b], n = of.sizes[b], distinct = of.distinct[b];
    // What this thread wants of a token, or of an id, is on its way while vectors are fetched: nothing passes those.
    const i64 row = (i64)b * of.keys;
    int readable = 0, position = 0, category = 0, first = 0;
    bool counts = false;
    double even = 0;
    const u64 number = of.number[b];
    if (thread < tokens) readable = of.readable[(i64)b * tokens + thread];
    if (thread < of.keys) category = of.category[row + thread], counts = of.is_counting[row + thread], even = of.even[row + thread];
    if (thread < of.counting) position = of.positions[b * of.counting + thread];
    if (thread >= TILE && thread - TILE < of.most_ids) first = of.firsts[b * of.most_ids + thread - TILE];
    if (thread == 0) *on.window = {n, distinct, queries, keys};
    static_assert(TILE_WARPS % KINDS_OF_VECTORS == 0, "warps to each");
    const int kind = on.warp / (TILE_WARPS / KINDS_OF_VECTORS);
    if (kind != OF_VALUES || of.values)
        fetch_vectors<TILE_THREADS / KINDS_OF_VECTORS>(on.word + kind * TILE * STRIDE, vectors_of(of, kind, b, h, queries, keys), 0);
    if (thread < TILE) {
        const bool read = thread < keys;
        on.token[thread] = {0.0f, 0.0f, 0, read ? category | (counts ? COUNTS : 0) : 0};
        on.reads[thread] = (float)readable, on.even[thread] = read ? even : 0.0;
        on.position[thread] = thread < n ? position : 0;
    } else if (thread - TILE < distinct) on.keys[thread - TILE] = null_key(of, number, h, first);
#pragma unroll 1
    for (int k = thread; k < Chip::CLEARED; k += TILE_THREADS) on.regions[k] = 0; // and what lies behind it
    similarities(of, on, b, h, tiles); // waits for everybody
    OfTiles direct, rows;
    look_in_tiles(of, on, b, h, tiles, direct, rows);
    unsigned samples[SAMPLES_OF_THREAD];
    for (int m = 0; m < SAMPLES_OF_THREAD; m++) {
        const int k = thread + m * TILE_THREADS;
        samples[m] = k < of.sampled[b] ? of.samples[(i64)b * SAMPLED + k] : 0;
    }
    __syncthreads(); // nobody reads the map any more
    put_pairs(on, tiles, direct, rows);
    if (thread < on.window->counting) on.norms[thread] = on.token[on.position[thread]].length;
    __syncthreads();
    sample_tiles(of, on, (i64)b * of.heads + h, tiles, samples);
    __syncthreads();
}

// What needs the edges of order bins, and beside it what has nothing to do with them: a few warps to each.
__device__ inline void find_edges_of_tile(const Args &of, Chip &on, int b, int h) {
    const int warp = on.warp, lane = threadIdx.x % WARP;
    constexpr int of_null = TILE_WARPS - SHOWN - 4; // the warps that are left
    static_assert(of_null >= 1, "there are warps for everything");
    const i64 head = (i64)b * of.heads + h;
    if (warp < SHOWN) {
        sort_samples(of, on, b, warp);
        __syncwarp();
        if (lane == 0) on.quarters[warp] = quarters_of(on.edges + warp * ORDER_BINS);
    } else if (warp < SHOWN + 2) receive(of, on, b, h, head, warp == SHOWN);
    else if (warp == SHOWN + 2) give_to_categories(of, on, b, head);
    else if (warp == SHOWN + 3) take_entropy(of, on, b, head);
    else place_null(of, b, h, on.window->different, on.keys, on.null_, threadIdx.x - (SHOWN + 4) * WARP, of_null * WARP);
}

extern "C" __global__ __launch_bounds__(TILE_THREADS, 2) void by_tile(const __grid_constant__ Args of) {
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x;
    const int strips = (of.tokens + 15) / 16, tiles = tiles_of_strips(strips);
    const i64 head = (i64)b * of.heads + h;
    extern __shared__ double shared[];
    Chip on(shared, strips);
    begin_tile(of, on, b, h, tiles);
    find_edges_of_tile(of, on, b, h);
    __syncthreads();
    const int n = on.window->counting;
    if (n < 2) return; // what pairs come to was cleared before
    Four *to = (Four *)on.histogram;
#pragma unroll 1
    for (int k = thread; k < SHOWN * (MOST_KINDS + 1) * ORDER_BINS / 4; k += TILE_THREADS) to[k] = {0.0f, 0.0f, 0.0f, 0.0f};
    __syncthreads();
    {
        Middles middles;
        if (*on.unusual) count_tiles<true>(of, on, middles, b, head, n, tiles);
        else count_tiles<false>(of, on, middles, b, head, n, tiles);
        middles.put(on.middles + on.warp * SLOTS);
    }
    __syncthreads();
    if (on.warp == 0) join_middles(of, on, head, n * (n - 1) / 2);
    count_degrees(of, on, b, n, strips);
    sum_up(of, on, b, h, n, n * (n - 1) / 2, on.window->different);
}
