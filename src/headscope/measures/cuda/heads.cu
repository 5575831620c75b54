// What one head says of pairs, and where the bins of their order begin.

#define MOMENTS (2 * SHOWN + READINGS * MAPS + 1)

// What a contrast comes to in one band: comparisons won, twice, and how many pairs there are of each class.
struct Won { double twice; int n1, n0; };

// What a block of `by_order` has on the chip. Doubles and u64 first, for their alignment.
struct Order {
    double *room;     // (32, MOMENTS): what warps tell each other
    Won *won;         // (SHOWN, bands, contrasts + 1)
    u64 *keys;        // (K,)
    float *edges;     // (SHOWN, 16)
    float *sample;    // (SHOWN, 512)
    float *norms;     // (SOURCES, N): lengths of the vectors of tokens that count
    int *position;    // (N,)
    int *high;        // (N,): whether the token is high in attention
    int *histogram;   // (SHOWN, kinds, 16)
    int *regions;     // (READINGS, bands, 2, 16): of pairs at the edge of the mask, and wholly in it or out of it
    int *degree;      // (READINGS, N): top pairs of each token
    int *times;       // (READINGS, K): and of each id
    int *null_;       // (K,)
    int *count;       // (READINGS + 2,): top pairs of each reading; how many tokens are high; what varies
    int kinds, beside, tokens, ids; // how many there is room for; `beside`: numbers of a reading in `regions`

    __device__ Order(int kinds, int beside, int tokens, int ids) : kinds(kinds), beside(beside), tokens(tokens), ids(ids) {} // `Chip` lays it out otherwise
    __device__ Order(const Args &of, double *shared) : Order(of.bands * RELATIONS, of.bands * 2 * ORDER_BINS, of.counting, of.most_ids) {
        room = shared, won = (Won *)(room + WARP * MOMENTS);
        histogram = (int *)(won + SHOWN * of.bands * (CONTRASTS + 1)); // at sixteen bytes, as `regions`
        regions = histogram + SHOWN * kinds * ORDER_BINS;
        edges = (float *)(regions + READINGS * beside), sample = edges + SHOWN * ORDER_BINS;
        keys = (u64 *)(sample + SHOWN * SAMPLED), norms = (float *)(keys + of.most_ids);
        position = (int *)(norms + SOURCES * of.counting), high = position + of.counting;
        degree = high + of.counting, times = degree + READINGS * of.counting, null_ = times + READINGS * of.most_ids;
        count = null_ + of.most_ids;
    }
};

// The numbers that one head gives to pairs: S in each reading, and its attention maps.
struct Head {
    const float *matrix[SOURCES], *direct, *rows, *norms;
    const int *position;
    int tokens, n, counting;
    bool square; // rows are read as a square, not as a list of pairs

    __device__ Head(const Args &of, const Order &on, int b, int h) {
        const i64 head = (i64)b * of.heads + h, all = of.windows * of.heads, size = of.tokens * of.tokens;
        for (int s = 0; s < SOURCES; s++) matrix[s] = of.products + (s * all + head) * size;
        square = of.rows_square;
        direct = MAPS > 0 ? of.direct + head * of.most_pairs : 0;
        rows = MAPS > 1 ? of.rows + head * (square ? size : of.most_pairs) : 0;
        norms = on.norms, position = on.position, counting = of.counting;
        tokens = of.tokens, n = of.sizes[b];
    }
    __device__ inline float over_lengths(float x, int s, int i, int j) const {
        const float size = norms[s * counting + i] * norms[s * counting + j];
        return size > 0 ? x / size : 0.0f;
    }
};

// The same for all pairs of one token with those that come after it.
struct Row {
    const Head &own;
    const float *matrix[SOURCES], *direct, *rows;
    int i;

    struct Loaded { float product[SOURCES], direct, rows; }; // of one pair, as they come from memory

    __device__ Row(const Head &own, int i) : own(own), i(i) {
        const int begin = own.position[i] * own.tokens, first = pairs_of(i, own.n);
        for (int s = 0; s < SOURCES; s++) matrix[s] = own.matrix[s] + begin;
        direct = own.direct + first;
        rows = own.rows + (own.square ? begin : first);
    }
    __device__ inline void load(int j, Loaded &to) const {
        const int at = own.position[j];
        for (int s = 0; s < SOURCES; s++) to.product[s] = matrix[s][at];
        if (MAPS > 0) to.direct = direct[j];
        if (MAPS > 1) to.rows = rows[own.square ? at : j];
    }
    __device__ inline void shown(int j, const Loaded &from, float *x) const {
        for (int v = 0; v < READINGS; v++) {
            const int s = source_of[v];
            x[v] = scaled_of[v] ? own.over_lengths(from.product[s], s, i, j) : from.product[s];
        }
        if (MAPS > 0) x[READINGS] = from.direct;
        if (MAPS > 1) x[READINGS + 1] = from.rows;
    }
    __device__ inline void shown(int j, float *x) const {
        Loaded from;
        load(j, from);
        shown(j, from, x);
    }
};

// Keys of the null: of an id that first counts there, in a window with this number.
__device__ inline u64 null_key(const Args &of, u64 number, int h, int first) {
    return mix(mix(number ^ (((u64)of.layer << 32) + (u64)h)) + (u64)first);
}
__device__ inline void null_keys(const Args &of, int b, int h, int distinct, u64 *keys) {
    for (int r = threadIdx.x; r < distinct; r += blockDim.x) keys[r] = null_key(of, of.number[b], h, of.firsts[b * of.most_ids + r]);
}

// The ids in the order in which the null gives them the sums of `by_count`, by some of the threads. Keys are compared by their
// upper halves, which are hardly ever equal.
__device__ inline void place_null(const Args &of, int b, int h, int distinct, const u64 *keys, int *null_, int first, int step) {
    const i64 row = b * of.most_ids;
    const int *by_count = of.by_count + row, *begins = of.class_begins + row, *ends = of.class_ends + row;
#pragma unroll 1
    for (int r = first; r < distinct; r += step) {
        const int begin = begins[r], end = ends[r], id = by_count[r];
        const u64 own = keys[r];
        int place = begin, equal = 0;
#pragma unroll 4
        for (int s = begin; s < end; s++) {
            const unsigned upper = (unsigned)(keys[s] >> 32);
            place += upper < (unsigned)(own >> 32), equal += upper == (unsigned)(own >> 32);
        }
        if (equal > 1) { // not it alone
            place = begin;
            for (int s = begin; s < end; s++) place += keys[s] < own || (keys[s] == own && s < r);
        }
        null_[place] = id;
        of.nulls[((i64)b * of.heads + h) * of.most_ids + place] = id;
    }
}

// 512 values in their order, by one warp: lane k has those from 16k on. A network of comparisons, all in registers.
#define EACH 16
__device__ inline void in_order(float &x, float &y) {
    const float low = fminf(x, y);
    y = fmaxf(x, y), x = low;
}
__device__ inline void sort(float *x, int lane) {
#pragma unroll
    for (int size = 2; size <= EACH; size *= 2) // those of a lane
#pragma unroll
        for (int step = size / 2; step > 0; step /= 2)
#pragma unroll
            for (int r = 0; r < EACH; r++)
                if (!(r & step)) in_order(x[r & size ? r + step : r], x[r & size ? r : r + step]);
#pragma unroll 1
    for (int lanes = 1; lanes < WARP; lanes *= 2) { // two sequences, of so many lanes each, to one
        float y[EACH];
#pragma unroll
        for (int r = 0; r < EACH; r++) y[r] = __shfl_xor_sync(FULL, x[EACH - 1 - r], 2 * lanes - 1); // one of them backwards
        bool upper = lane & lanes;
#pragma unroll
        for (int r = 0; r < EACH; r++) x[r] = (x[r] < y[r]) != upper ? x[r] : y[r];
#pragma unroll 1
        for (int step = lanes / 2; step > 0; step /= 2) {
            upper = lane & step;
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                const float other = __shfl_xor_sync(FULL, x[r], step);
                x[r] = (x[r] < other) != upper ? x[r] : other;
            }
        }
#pragma unroll
        for (int step = EACH / 2; step > 0; step /= 2)
#pragma unroll
            for (int r = 0; r < EACH; r++)
                if (!(r & step)) in_order(x[r], x[r + step]);
    }
}

// Edges of the order bins of a reading or map: values of sampled pairs at sixteenths of their order. By one warp.
__device__ inline void sort_samples(const Args &of, Order &on, int b, int v) {
    const int lane = threadIdx.x % WARP, sampled = of.sampled[b];
    float x[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) x[r] = on.sample[v * SAMPLED + r * WARP + lane];
    sort(x, lane);
    const int at = lane < ORDER_BINS - 1 ? sampled * (lane + 1) / ORDER_BINS : 0; // the edge of this lane
    float edge = 0;
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const float y = __shfl_sync(FULL, x[r], at / EACH);
        if (r == at % EACH) edge = y;
    }
    if (lane < ORDER_BINS) on.edges[v * ORDER_BINS + lane] = lane < ORDER_BINS - 1 ? edge : infinity();
}

// The same for all of them, by all threads.
__device__ inline void find_edges(const Args &of, const Head &own, Order &on, int b) {
    const int sampled = of.sampled[b];
    const unsigned *samples = of.samples + (i64)b * SAMPLED;
    for (int k = threadIdx.x; k < SAMPLED; k += blockDim.x) {
        float x[SHOWN];
        for (int v = 0; v < SHOWN; v++) x[v] = infinity();
        if (k < sampled) Row(own, samples[k] >> 16).shown(samples[k] & 0xffff, x);
        for (int v = 0; v < SHOWN; v++) on.sample[v * SAMPLED + k] = x[v];
    }
    __syncthreads();
    for (int v = threadIdx.x / WARP; v < SHOWN; v += blockDim.x / WARP) sort_samples(of, on, b, v);
}
