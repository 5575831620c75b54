// Windows that are too long for anything of the size of a map. Rows of S and of the scores of attention come in slabs, one
// after the other, and twice: first for what must be known of all pairs (sums of the map, the largest S, edges of order
// bins), then to count every pair. Tables lie in the memory of the card; none grows faster than the number of tokens.

#define LOG2_E 1.44269504f
#define LN_2 0.69314718

// A head of a window, numbered over both.
struct SlabHead {
    int b, h;
    i64 head;

    __device__ SlabHead(const Args &of, int number) : b(number / (int)of.heads), h(number % (int)of.heads), head(number) {}
};

// What makes the scores of a row its weights: the largest of them, and one over the sum of powers of two from there.
struct Softmax { float largest, over; };

// Scores of a head and what they say: A of two positions, from the score of the one for the other.
struct SlabMap {
    const u8 *allowed; // whether a token may read another; none where all may
    const Softmax *rows;
    float by;
    i64 row, column;

    __device__ SlabMap(const Args &of, const Slab &slab, const SlabHead &at)
        : allowed(slab.allowed ? slab.allowed + at.b * slab.allowed_batch : 0), rows((const Softmax *)slab.softmax + at.head * of.tokens),
          by((float)of.scaling * LOG2_E), row(slab.allowed_row), column(slab.allowed_column) {}
    __device__ inline bool may(int i, int j) const { return !allowed || allowed[i * row + j * column]; }
    __device__ inline float weight(float score, const Softmax &row) const { return power_of_two(score * by - row.largest) * row.over; }
};

// ------------------------------------------------------------------ what tokens read

// The softmax of each row but for its weights, and its entropy. A block to a row.
extern "C" __global__ void sum_rows(const __grid_constant__ Args of, const __grid_constant__ Slab slab) {
    const int thread = threadIdx.x, threads = blockDim.x, i = slab.first + blockIdx.y;
    const SlabHead at(of, blockIdx.x);
    const int keys = of.keys_of[at.b];
    const i64 row = at.head * of.tokens + i;
    const SlabMap map(of, slab, at);
    const float *scores = slab.scores + (at.head * slab.rows + blockIdx.y) * slab.columns;
    extern __shared__ double shared[];
    float largest = -infinity(), sum = 0, spread = 0;
    const bool reads = i < of.queries_of[at.b];
    for (int j = thread; j < keys && reads; j += threads)
        if (map.may(i, j)) largest = fmaxf(largest, scores[j] * map.by);
    largest = (float)most_of_all((double)largest, shared);
    for (int j = thread; j < keys && reads; j += threads) {
        if (!map.may(i, j)) continue;
        const float away = scores[j] * map.by - largest, weight = power_of_two(away);
        sum += weight, spread += weight * away;
    }
    const double whole = added_by_all((double)sum, shared), of_all = added_by_all((double)spread, shared);
    if (thread) return;
    const bool any = reads && !(whole == 0); // a sum that is no number stays so
    ((Softmax *)slab.softmax)[row] = {any ? largest : 0.0f, any ? (float)(1.0 / whole) : 0.0f};
    slab.spread[row] = any ? LN_2 * (log2(whole) - of_all / whole) : 0.0;
}

// Sums of columns, row after row. A thread to a column.
extern "C" __global__ void sum_columns(const __grid_constant__ Args of, const __grid_constant__ Slab slab) {
    const SlabHead at(of, blockIdx.x);
    const SlabMap map(of, slab, at);
    const int number = (int)slab.rows, left = of.queries_of[at.b] - (int)slab.first, rows = left < number ? left : number;
    for (int j = blockIdx.y * blockDim.x + threadIdx.x; j < of.keys_of[at.b]; j += gridDim.y * blockDim.x) {
        const float *scores = slab.scores + at.head * slab.rows * slab.columns + j;
        double sum = slab.column[at.head * of.tokens + j];
#pragma unroll 8
        for (int r = 0; r < rows; r++) {
            const int i = slab.first + r;
            if (map.may(i, j)) sum += (double)map.weight(scores[r * slab.columns], map.rows[i]);
        }
        slab.column[at.head * of.tokens + j] = sum;
    }
}

// What follows from these sums. A block to a head and a window.
extern "C" __global__ void look_along(const __grid_constant__ Args of, const __grid_constant__ Slab slab) {
    const int h = blockIdx.x, b = blockIdx.y;
    const i64 head = (i64)b * of.heads + h, row = head * of.tokens;
    extern __shared__ double shared[];
    Looks on(shared, slab.column + row, slab.lengths + row);
    if (of.values) value_lengths(of, on, b, h);
    double entropy = 0;
    for (int i = threadIdx.x; i < of.queries_of[b]; i += blockDim.x) entropy += slab.spread[row + i] * of.evenness[(i64)b * of.tokens + i];
    entropy = added_by_all(entropy, on.room); // waits for everybody
    __syncthreads();
    from_columns(of, on, b, h, entropy);
}

// ------------------------------------------------------------------ pairs

// What is known of a token that counts, in one head.
struct SlabToken {
    int place, reads;    // its number among those that count, or -1; how many it may read
    Softmax row;         // of what it reads
    float norms[SOURCES];

    __device__ inline void load(const Args &of, const Slab &slab, const SlabHead &at, int i) {
        place = i < of.tokens ? slab.places[(i64)at.b * of.tokens + i] : -1;
        if (place < 0) return;
        reads = of.readable[(i64)at.b * of.tokens + i], row = ((const Softmax *)slab.softmax)[at.head * of.tokens + i];
        for (int s = 0; s < SOURCES; s++) norms[s] = slab.norms[(at.head * SOURCES + s) * of.counting + place];
    }
};

// Numbers of the pairs of a slab.
struct SlabPairs {
    const SlabMap map;
    const float *similar, *scores, *turned;
    i64 apart, columns; // from source to source

    __device__ SlabPairs(const Args &of, const Slab &slab, const SlabHead &at) : map(of, slab, at), columns(slab.columns) {
        const i64 own = at.head * slab.rows * columns - slab.begin;
        similar = slab.similar + own, scores = slab.scores + own, turned = slab.turned + own;
        apart = of.windows * of.heads * slab.rows * columns;
    }
    // S in every reading, then the map, of the tokens i < j; i is that of a row.
    __device__ inline void shown(int row, int i, int j, const SlabToken &one, const SlabToken &other, float *x) const {
        const i64 at = row * columns + j;
        for (int v = 0; v < READINGS; v++) {
            const int s = source_of[v];
            const float product = similar[s * apart + at], size = one.norms[s] * other.norms[s];
            x[v] = !scaled_of[v] ? product : size > 0 ? product / size : 0.0f;
        }
        if (MAPS == 0) return;
        const bool there = map.may(i, j), back = map.may(j, i);
        const float forth = there ? map.weight(scores[at], one.row) : 0.0f, and_back = back ? map.weight(turned[at], other.row) : 0.0f;
        x[READINGS] = there || back ? (forth * (float)one.reads + and_back * (float)other.reads) * (1.0f / (there + back)) : 0.0f;
    }
};

// Numbers in their order: those that are larger have larger bits.
__device__ inline unsigned in_bits(float x) {
    const unsigned bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ inline float of_ordered(unsigned bits) { return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits); }

#define COLUMNS_AHEAD 4 /* that are on their way from memory at a time */

// The largest S of the main reading, and the values of the pairs that are sampled. Some blocks to a head and a window.
extern "C" __global__ void meet_pairs(const __grid_constant__ Args of, const __grid_constant__ Slab slab) {
    const int thread = threadIdx.x, threads = blockDim.x;
    const SlabHead at(of, blockIdx.x);
    const SlabPairs pairs(of, slab, at);
    extern __shared__ double shared[];
    float largest = -infinity();
    const int *places = slab.places + (i64)at.b * of.tokens;
    const float *norms = slab.norms + (at.head * SOURCES + source_of[0]) * of.counting;
    for (int r = blockIdx.y; r < slab.rows; r += gridDim.y) {
        const int i = slab.first + r;
        SlabToken one;
        one.load(of, slab, at, i);
        if (one.place < 0) continue;
        const float *row = pairs.similar + source_of[0] * pairs.apart + r * pairs.columns;
        for (int begin = i + 1 + thread; begin < of.tokens; begin += COLUMNS_AHEAD * threads) {
            float x[COLUMNS_AHEAD];
            int place[COLUMNS_AHEAD];
#pragma unroll
            for (int e = 0; e < COLUMNS_AHEAD; e++) {
                const int j = begin + e * threads;
                place[e] = j < of.tokens ? places[j] : -1;
                x[e] = j < of.tokens ? row[j] : 0.0f;
            }
#pragma unroll
            for (int e = 0; e < COLUMNS_AHEAD; e++) {
                if (place[e] < 0) continue;
                const float size = scaled_of[0] ? one.norms[source_of[0]] * norms[place[e]] : 1.0f;
                largest = fmaxf(largest, !scaled_of[0] ? x[e] : size > 0 ? x[e] / size : 0.0f);
            }
        }
    }
    largest = (float)most_of_all((double)largest, shared);
    if (thread == 0) atomicMax(&slab.largest[at.head], in_bits(largest));
    for (int k = blockIdx.y * threads + thread; k < of.sampled[at.b]; k += gridDim.y * threads) {
        const unsigned sample = of.samples[(i64)at.b * SAMPLED + k];
        const int *position = of.positions + (i64)at.b * of.counting, i = position[sample >> 16], j = position[sample & 0xffff];
        if (i < slab.first || i >= slab.first + slab.rows) continue;
        SlabToken one, other;
        one.load(of, slab, at, i), other.load(of, slab, at, j);
        float x[SHOWN];
        pairs.shown(i - slab.first, i, j, one, other, x);
        for (int v = 0; v < READINGS + (MAPS > 0); v++) slab.sample[(at.head * SHOWN + v) * SAMPLED + k] = x[v];
    }
}

// Edges of order bins, a warp to a reading or map.
extern "C" __global__ void find_edges_of_slabs(const __grid_constant__ Args of, const __grid_constant__ Slab slab) {
    const SlabHead at(of, blockIdx.x);
    if (of.sizes[at.b] < 2) return;
    Order on(0, 0, 0, 0);
    on.sample = slab.sample + at.head * SHOWN * SAMPLED, on.edges = slab.edges + at.head * SHOWN * ORDER_BINS;
    sort_samples(of, on, at.b, blockIdx.y);
}

// A row of a block that counts, and what its pairs come to.
struct SlabRow {
    SlabToken token;
    int word, sentence, again, mark, id, high;
    int degree[READINGS], far; // top pairs; Σ of the distances of high pairs
    int times[BINS];           // pairs by level
};

// What a block that counts has on the chip.
struct Counted {
    double *room;    // (32, MOMENTS)
    unsigned *distances; // (2, bins, relations): Σ of distances, in units and in FAR: the chip adds 32 bits at a time
    int *histogram;  // (SHOWN, kinds, 16)
    int *regions;    // (READINGS, bands, 2, 16)
    int *levels;     // (bins, kinds)
    float *edges;    // (SHOWN, 16)
    SlabRow *rows;   // (SLAB_ROWS,)
    int cleared;     // whole numbers from `distances` on that begin at zero

    __device__ Counted(const Args &of, double *shared) {
        const int bands = of.bands, kinds = bands * RELATIONS;
        room = shared, distances = (unsigned *)(room + WARP * MOMENTS);
        histogram = (int *)(distances + 2 * BINS * RELATIONS), regions = histogram + SHOWN * kinds * ORDER_BINS;
        levels = regions + READINGS * bands * 2 * ORDER_BINS, edges = (float *)(levels + BINS * kinds);
        rows = (SlabRow *)(edges + SHOWN * ORDER_BINS), cleared = (int)((int *)edges - (int *)distances);
    }
};

#define FAR 4096 /* tokens */

// Pairs that follow each other in a column are mostly of one kind and level: they are counted together.
struct Run {
    int cell = -1, number = 0, far = 0; // far: Σ of distances

    __device__ inline void end(const Counted &on, int kinds) {
        if (!number) return;
        unsigned *to = on.distances + cell / kinds * RELATIONS + cell % kinds % RELATIONS;
        atomicAdd(&on.levels[cell], number);
        atomicAdd(to, (unsigned)far % FAR);
        atomicAdd(to + BINS * RELATIONS, (unsigned)far / FAR);
        number = far = 0;
    }
    __device__ inline void add(const Counted &on, int kinds, int to, int away) {
        if (to != cell) end(on, kinds);
        cell = to, number++, far += away;
    }
};

// One more in a bin for each lane that counts; those in the bin of the first one, often most of them, are counted together.
__device__ inline void count_together(int *bins, int bin, bool counts) {
    const unsigned all = __ballot_sync(FULL, counts);
    const int first = __ffs((int)all) - 1, common = __shfl_sync(FULL, bin, first);
    const int number = __popc(__ballot_sync(FULL, counts && bin == common));
    if ((int)threadIdx.x % WARP == first) atomicAdd(&bins[common], number);
    else if (counts && bin != common) atomicAdd(&bins[bin], 1);
}

// Moments as in `Moments`, of values less the middle of their sample.
struct SlabMoments {
    double sums[2 * SHOWN + READINGS * MAPS];
    int varies;

    __device__ SlabMoments() : varies(0) { for (int k = 0; k < 2 * SHOWN + READINGS * MAPS; k++) sums[k] = 0; }
    __device__ inline void add(const float *x, const float *edges) {
        double away[SHOWN];
        for (int v = 0; v < READINGS + (MAPS > 0); v++) {
            away[v] = (double)x[v] - (double)edges[v * ORDER_BINS + ORDER_BINS / 2 - 1];
            if (away[v] != 0) varies |= 1 << v;
            sums[v] += away[v];
            sums[SHOWN + v] = fma(away[v], away[v], sums[SHOWN + v]);
        }
        if (MAPS > 0)
            for (int r = 0; r < READINGS; r++) {
                double &sum = sums[2 * SHOWN + r * MAPS];
                sum = fma(away[r], away[READINGS], sum);
            }
    }
    // Those of a block. Nobody uses `room` any more.
    __device__ inline void put(double *room, double *to, int *to_varies) const {
        const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
        for (int k = 0; k < 2 * SHOWN + READINGS * MAPS; k++) {
            const double sum = added(sums[k]);
            if (lane == 0) room[warp * MOMENTS + k] = sum;
        }
        for (int v = 0; v < SHOWN; v++) if (__any_sync(FULL, varies >> v & 1) && lane == 0) atomicOr(to_varies, 1 << v);
        __syncthreads();
        for (int k = threadIdx.x; k < 2 * SHOWN + READINGS * MAPS; k += blockDim.x) {
            double sum = 0;
            for (int w = 0; w < warps; w++) sum += room[w * MOMENTS + k];
            to[k] = sum;
        }
    }
};

// Counts of a block to those of the head.
__device__ inline void add_counts(const int *from, int *to, int number) {
    for (int k = threadIdx.x; k < number; k += blockDim.x) if (from[k]) atomicAdd(&to[k], from[k]);
}

// Every pair of SLAB_ROWS rows with the tokens that come after them. A thread to a column.
extern "C" __global__ __launch_bounds__(SLAB_THREADS, 2) void count_slab(const __grid_constant__ Args of, const __grid_constant__ Slab slab) {
    const int thread = threadIdx.x, threads = blockDim.x, bands = of.bands, kinds = bands * RELATIONS, tokens = of.tokens;
    const SlabHead at(of, blockIdx.x);
    const int n = of.sizes[at.b], begin = blockIdx.y * SLAB_ROWS, left = (int)slab.rows - begin, rows = left < SLAB_ROWS ? left : SLAB_ROWS;
    const i64 of_window = (i64)at.b * of.counting;
    if (n < 2) return;
    extern __shared__ double shared[];
    const Counted on(of, shared);
    const SlabPairs pairs(of, slab, at);
    for (int k = thread; k < on.cleared; k += threads) ((int *)on.distances)[k] = 0;
    for (int k = thread; k < SHOWN * ORDER_BINS; k += threads) on.edges[k] = slab.edges[at.head * SHOWN * ORDER_BINS + k];
    for (int r = thread; r < rows; r += threads) {
        SlabRow &row = on.rows[r];
        row = SlabRow();
        row.token.load(of, slab, at, slab.first + begin + r);
        const i64 place = of_window + row.token.place;
        if (row.token.place < 0) continue;
        row.word = of.word[place], row.sentence = of.sentence[place], row.again = of.same[place], row.mark = of.mark[place];
        row.id = of.id_number[place], row.high = of.high[at.head * of.keys + slab.first + begin + r];
    }
    __syncthreads();
    const double largest = (double)of_ordered(slab.largest[at.head]);
    const bool flat = !(largest > 0);
    const float factor = (float)(20.0 / largest);
    const int number = slab.high_tokens[at.head], other_region = 2 * number > n ? 0 : 2;
    const bool masked = MAPS > 0 && number >= 2 && n - number >= 2;
    SlabMoments moments;
    // Each column belongs to the same thread wherever a slab begins; lanes of a warp stay together.
    for (int first = (int)slab.begin / threads * threads; first < tokens; first += threads) {
        const int j = first + thread;
        SlabToken own;
        own.load(of, slab, at, j);
        const bool counts = own.place >= 0 && j > slab.first + begin;
        if (!__any_sync(FULL, counts)) continue;
        const i64 place = of_window + (counts ? own.place : 0);
        const int word = of.word[place], sentence = of.sentence[place], again = of.same[place], mark = of.mark[place], id = of.id_number[place];
        const int high = counts ? of.high[at.head * of.keys + j] : 0;
        int degree[READINGS] = {}, far = 0;
        Run run;
        for (int r = 0; r < rows; r++) {
            SlabRow &row = on.rows[r];
            const int i = slab.first + begin + r, away = j - i;
            const bool real = counts && away > 0;
            if (row.token.place < 0 || !__any_sync(FULL, real)) continue;
            bool is_top[READINGS] = {};
            int bin = 0;
            if (real) {
                const int equal = 4 * same(row.word, word) + 2 * same(row.sentence, sentence) + same(row.again, again);
                const int relation = relation_of[24 * row.mark + 8 * mark + equal], band = of.band_of[away - 1], kind = band * RELATIONS + relation;
                float x[SHOWN];
                pairs.shown(begin + r, i, j, row.token, own, x);
                moments.add(x, on.edges);
                const int region = row.high + high;
                const bool marked = masked && (region == 1 || region == other_region);
                for (int v = 0; v < READINGS + (MAPS > 0); v++) {
                    const int order = order_bin(x[v], (const char *)(on.edges + v * ORDER_BINS)) / WORD;
                    atomicAdd(&on.histogram[(v * kinds + kind) * ORDER_BINS + order], 1);
                    if (v >= READINGS) continue;
                    if (marked) atomicAdd(&on.regions[((v * bands + band) * 2 + (region != 1)) * ORDER_BINS + order], 1);
                    is_top[v] = order == ORDER_BINS - 1, degree[v] += is_top[v];
                }
                bin = flat ? 0 : bin_of(x[0], factor, largest);
                run.add(on, kinds, bin * kinds + kind, away);
                for (int c = 0; c < of.customs; c++)
                    if (of.custom[(c * of.windows + at.b) * of.most_pairs + pairs_of(row.token.place, n) + own.place])
                        atomicAdd(&of.custom_pairs[((c * of.heads + at.h) * BINS + bin) * of.table + kind], 1ull);
            }
            for (int v = 0; v < READINGS; v++) {
                const int number = __popc(__ballot_sync(FULL, is_top[v]));
                if (number && thread % WARP == 0) atomicAdd(&row.degree[v], number);
            }
            const bool counted = bin >= 2, is_high = counted && bin >= of.lowest; // the others are below every threshold
            if (!__any_sync(FULL, counted)) continue;
            count_together(row.times, bin, counted);
            const int reach = sum_of_warp(is_high ? away : 0);
            if (reach && thread % WARP == 0) atomicAdd(&row.far, reach);
            if (!counted) continue;
            atomicAdd(&slab.times[(at.head * BINS + bin) * of.counting + own.place], 1);
            if (is_high) far += away;
            if (id != row.id) continue;
            atomicAdd(&slab.both[(at.head * of.most_ids + id) * BINS + bin], 1);
            if (is_high) atomicAdd(&slab.both_far[at.head * of.most_ids + id], (u64)away);
        }
        run.end(on, kinds);
        for (int v = 0; v < READINGS; v++) if (degree[v]) atomicAdd(&slab.degree[(at.head * READINGS + v) * of.counting + own.place], degree[v]);
        if (far) atomicAdd(&slab.far[at.head * of.counting + own.place], (u64)far);
    }
    moments.put(on.room, slab.moments + (at.head * slab.blocks + (slab.first + begin) / SLAB_ROWS) * MOMENTS, &slab.varies[at.head]); // waits for everybody
    for (int k = thread; k < BINS * RELATIONS; k += threads) {
        const u64 far = on.distances[k] + (u64)on.distances[BINS * RELATIONS + k] * FAR;
        if (far) atomicAdd(&slab.distances[at.head * BINS * RELATIONS + k], far);
    }
    add_counts(on.histogram, slab.histogram + at.head * SHOWN * kinds * ORDER_BINS, SHOWN * kinds * ORDER_BINS);
    add_counts(on.regions, slab.regions + at.head * READINGS * bands * 2 * ORDER_BINS, READINGS * bands * 2 * ORDER_BINS);
    add_counts(on.levels, slab.levels + at.head * BINS * kinds, BINS * kinds);
    for (int k = thread; k < rows * (READINGS + 1 + BINS); k += threads) {
        const int r = k % rows, what = k / rows;
        const SlabRow &row = on.rows[r];
        if (row.token.place < 0) continue;
        if (what < READINGS) { if (row.degree[what]) atomicAdd(&slab.degree[(at.head * READINGS + what) * of.counting + row.token.place], row.degree[what]); }
        else if (what == READINGS) { if (row.far) atomicAdd(&slab.far[at.head * of.counting + row.token.place], (u64)row.far); }
        else if (row.times[what - READINGS - 1]) atomicAdd(&slab.times[(at.head * BINS + what - READINGS - 1) * of.counting + row.token.place], row.times[what - READINGS - 1]);
    }
}

// ------------------------------------------------------------------ what pairs come to

// What follows from order bins. A block to a head and a window.
extern "C" __global__ void end_order(const __grid_constant__ Args of, const __grid_constant__ Slab slab) {
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x, bands = of.bands, kinds = bands * RELATIONS;
    const int n = of.sizes[b], distinct = of.distinct[b], pairs = n * (n - 1) / 2;
    const i64 head = (i64)b * of.heads + h;
    if (n < 2) return;
    extern __shared__ double shared[];
    Order on(kinds, bands * 2 * ORDER_BINS, of.counting, of.most_ids);
    on.room = shared, on.won = (Won *)(on.room + WARP * MOMENTS);
    on.histogram = (int *)(on.won + SHOWN * bands * (CONTRASTS + 1)), on.regions = on.histogram + SHOWN * kinds * ORDER_BINS;
    on.count = on.regions + READINGS * on.beside;
    on.norms = slab.norms + head * SOURCES * of.counting, on.degree = slab.degree + head * READINGS * of.counting;
    on.times = slab.id_times + head * READINGS * of.most_ids, on.keys = slab.keys + head * of.most_ids, on.null_ = slab.null_ + head * of.most_ids;
    const int *histogram = slab.histogram + head * SHOWN * kinds * ORDER_BINS, *regions = slab.regions + head * READINGS * on.beside;
    for (int k = thread; k < SHOWN * kinds * ORDER_BINS; k += threads) on.histogram[k] = histogram[k];
    for (int k = thread; k < READINGS * on.beside; k += threads) on.regions[k] = regions[k];
    for (int k = thread; k < READINGS + 2; k += threads) on.count[k] = k == READINGS ? slab.high_tokens[head] : 0;
    null_keys(of, b, h, distinct, on.keys);
    for (int k = thread; k < READINGS * n; k += threads) {
        const int degree = on.degree[k / n * on.tokens + k % n];
        if (degree) atomicAdd(&on.times[k / n * on.ids + of.id_number[b * of.counting + k % n]], degree);
    }
    double sums[2 * SHOWN + READINGS * MAPS] = {};
    const double *moments = slab.moments + head * slab.blocks * MOMENTS;
    for (int k = thread; k < slab.blocks; k += threads)
        for (int e = 0; e < 2 * SHOWN + READINGS * MAPS; e++) sums[e] += moments[k * MOMENTS + e];
    __syncthreads();
    place_null(of, b, h, distinct, on.keys, on.null_, thread, threads);
    join_moments(of, on, sums, of_ordered(slab.largest[head]), slab.varies[head], head, pairs); // waits for everybody
    sum_up(of, on, b, h, n, pairs, distinct);
}

// What a block of `end_levels` has: tables of ids in the memory of the card, the rest on the chip.
struct SlabLevels {
    const int *times, *both; // (K, bins)
    const int *null_;        // (K,)
    int *best_of;            // (2,)
    int *high;               // (kinds,)

    __device__ inline int times_of(int at) const { return times[at]; }
    __device__ inline int both_of(int at) const { return both[at]; }
};

// The first token with the longest output. By one warp; known to all of it.
__device__ inline int longest_output(const float *lengths, int n) {
    unsigned longest = 0, place = FULL;
    for (int i = threadIdx.x % WARP; i < n; i += WARP) { // lengths are not negative, so their bits are in their order
        const unsigned bits = __float_as_uint(lengths[i]);
        if (place == FULL || bits > longest) { longest = bits; place = i; }
    }
    const unsigned most = largest_of_warp(longest);
    return (int)smallest_of_warp(longest == most ? place : FULL);
}

// What follows from levels, but for the sums of masks. A block to a head and a window.
extern "C" __global__ void end_levels(const __grid_constant__ Args of, const __grid_constant__ Slab slab) {
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x, kinds = of.bands * RELATIONS;
    const int n = of.sizes[b], distinct = of.distinct[b];
    const i64 head = (i64)b * of.heads + h;
    if (n < 2) return;
    extern __shared__ double shared[];
    const double largest = (double)of_ordered(slab.largest[head]);
    if (!is_finite(largest)) return; // it was noticed before
    const int *levels = slab.levels + head * BINS * kinds;
    for (int k = thread; k < BINS * kinds; k += threads) if (levels[k]) atomicAdd(&of.pairs[(i64)h * BINS * of.table + k], (u64)levels[k]);
    const u64 *distances = slab.distances + head * BINS * RELATIONS;
    for (int k = thread; k < BINS * RELATIONS; k += threads) if (distances[k]) atomicAdd(&of.distance_sum[(i64)h * BINS * RELATIONS + k], distances[k]);
    if (!(largest > 0)) { if (thread == 0) of.flat[head] = 1; return; }
    int *times = slab.level_times + head * of.most_ids * BINS, *both = slab.both + head * of.most_ids * BINS;
    const int *of_tokens = slab.times + head * BINS * of.counting;
    for (int k = thread; k < BINS * n; k += threads) {
        const int number = of_tokens[k / n * of.counting + k % n];
        if (number) atomicAdd(&times[of.id_number[b * of.counting + k % n] * BINS + k / n], number);
    }
    const SlabLevels on = {times, both, slab.null_ + head * of.most_ids, (int *)(shared + WARP), (int *)(shared + WARP) + 2};
    for (int k = thread; k < kinds; k += threads) {
        int number = 0;
        for (int bin = (int)of.lowest; bin < BINS; bin++) number += levels[bin * kinds + k];
        on.high[k] = of.high_kinds[head * kinds + k] = number;
    }
    __syncthreads();
    for (int t = thread; t < 2 * distinct; t += threads) add_up((t % 2 ? both : times) + t / 2 * BINS);
    __syncthreads();
    focal_tokens(of, on, of.by_count + b * of.most_ids, b, head, distinct);
    __syncthreads();
    const int best = on.best_of[0], number = on.best_of[1];
    if (best < 0) return;
    if (thread >= WARP) return;
    i64 reach = 0, occurs = 0, within = 0, again = 0, far = 0;
    for (int i = thread; i < n; i += WARP)
        if (of.id_number[b * of.counting + i] == best) { occurs++; reach += (i64)slab.far[head * of.counting + i]; }
    for (int k = thread; k < kinds; k += WARP) {
        within += (IN_SENTENCE >> (k % RELATIONS) & 1) * on.high[k];
        again += (REPEATED >> (k % RELATIONS) & 1) * on.high[k];
    }
    for (int k = (int)of.lowest * RELATIONS + thread; k < BINS * RELATIONS; k += WARP) far += (i64)distances[k];
    reach = whole(reach), occurs = whole(occurs), within = whole(within), again = whole(again), far = whole(far);
    const int longest = longest_output(slab.norms + (head * SOURCES + OUTPUTS) * of.counting, n);
    if (thread) return;
    const int held = times[best * BINS + of.lowest] - both[best * BINS + of.lowest]; // pairs that contain it
    of.frequency[head] = (double)occurs / n;
    of.reach[head] = (double)(reach - (i64)slab.both_far[head * of.most_ids + best]) / held; // each of two of its tokens was met twice
    of.longest[head] = of.id_number[b * of.counting + longest] == best;
    double *row = of.row + head * 3;
    row[0] = (double)far / number, row[1] = (double)within / number, row[2] = (double)again / number;
}
