// The sums of one layer of a batch, counted where the model runs. One block of threads to a head and a window, or to
// several windows of a head.
//
// What it takes and fills (struct Args), and the method's choices as constants, stand before this when it is compiled:
// see arguments.py. Counts are whole numbers and are added by atomics, whose order does not matter. Sums of floats are
// made in an order that the threads' numbers fix, one number for each head and window; those are added up elsewhere in
// the order of the windows.
//
// Shapes: B windows, H heads, T tokens, N that count, P pairs of these, K different ids; a kind of pair is a band of
// distances and a relation.

#define SHOWN (READINGS + MAPS)
#define BINS 21
#define ORDER_BINS 16
#define SAMPLED 512
#define CONTRASTS 3 /* of relations; the mask is one more */
#define WARP 32
#define FULL 0xffffffffu

// ------------------------------------------------------------------ threads together

__device__ inline double added(double x) { // over the lanes of a warp, in a fixed order
    for (int k = WARP / 2; k > 0; k /= 2) x += __shfl_xor_sync(FULL, x, k);
    return x;
}
__device__ inline u64 most(u64 x) {
    for (int k = WARP / 2; k > 0; k /= 2) { u64 y = __shfl_xor_sync(FULL, x, k); x = y > x ? y : x; }
    return x;
}

// The sum over all threads, known to all of them. `room` has 32 doubles.
__device__ inline double added_by_all(double x, double *room) {
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = added(x);
    __syncthreads();
    if (lane == 0) room[warp] = x;
    __syncthreads();
    return added(lane < warps ? room[lane] : 0.0);
}
__device__ inline double most_of_all(double x, double *room) {
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    for (int k = WARP / 2; k > 0; k /= 2) { double y = __shfl_xor_sync(FULL, x, k); x = y > x ? y : x; }
    __syncthreads();
    if (lane == 0) room[warp] = x;
    __syncthreads();
    x = room[lane < warps ? lane : 0];
    for (int k = WARP / 2; k > 0; k /= 2) { double y = __shfl_xor_sync(FULL, x, k); x = y > x ? y : x; }
    return x;
}

__device__ inline bool is_finite(double x) { return x - x == 0; }
__device__ inline double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }

// ------------------------------------------------------------------ attention

// Where one head looks: what tokens receive, how evenly they read, which are high; square roots of the weights.
extern "C" __global__ void attention(const Args *args) {
    const Args &of = *args, &batch = *args, &out = *args;
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x;
    const int tall = of.tokens, wide = of.keys, queries = batch.queries_of[b], keys = batch.keys_of[b];
    const i64 head = (i64)b * of.heads + h;
    const float *weights = args->weights + head * tall * wide;
    float *roots = out.roots ? out.roots + head * tall * wide : 0;
    const int *readable = batch.readable + (i64)b * tall, *category = batch.category + (i64)b * wide;
    const int *is_counting = batch.is_counting + (i64)b * wide;
    const double *even = batch.even + (i64)b * wide;
    extern __shared__ double shared[];
    double *column = shared, *factor = shared + wide, *room = factor + tall;
    int *counts = (int *)(room + 32); // (2, steps, categories)

    int reading = 0, several = 0;
    for (int i = 0; i < queries; i++) { reading += readable[i] >= 1; several += readable[i] >= 2; }
    for (int i = thread; i < tall; i += threads) factor[i] = i < queries && readable[i] >= 2 ? 1.0 / log((double)readable[i]) : 0.0;
    for (int k = thread; k < 2 * STEPS * CATEGORIES; k += threads) counts[k] = 0;
    __syncthreads();
    double spread = 0;
    for (int j = thread; j < wide; j += threads) {
        double sum = 0;
        for (int i = 0; i < tall; i++) {
            bool own = j < keys && i < queries && readable[i] >= 1;
            float w = own ? weights[(i64)i * wide + j] : 0.0f;
            if (roots) roots[(i64)i * wide + j] = sqrtf(w);
            sum += (double)w;
            if (w > 0.0f) spread -= (double)(w * logf(w)) * factor[i];
        }
        column[j] = sum;
    }
    double entropy = added_by_all(spread, room);
    double shares[CATEGORIES] = {}, carried[CATEGORIES] = {};
    const double *norms = args->value_norms;
    if (norms) norms += ((i64)b * of.value_groups + h * of.value_groups / of.heads) * wide;
    double largest = 0, largest_text = 0;
    bool good = true;
    for (int j = thread; j < keys; j += threads) {
        good = good && is_finite(column[j]) && (!norms || is_finite(norms[j]));
        shares[category[j]] += column[j];
        if (norms) carried[category[j]] += column[j] * norms[j];
        double received = even[j] > 0 ? column[j] / even[j] : 0.0;
        column[j] = received;
        largest = received > largest ? received : largest;
        if (is_counting[j]) largest_text = received > largest_text ? received : largest_text;
    }
    if (!good) *out.not_finite = 1;
    double whole = 0, sums[CATEGORIES];
    for (int k = 0; k < CATEGORIES; k++) {
        double share = added_by_all(shares[k], room);
        if (thread == 0) out.given[head * CATEGORIES + k] = share / (reading > 1 ? reading : 1);
        sums[k] = norms ? added_by_all(carried[k], room) : 0.0;
        whole += sums[k];
    }
    if (thread == 0) {
        out.entropy[head] = several > 0 ? entropy / several : 0.0;
        for (int k = 0; k < CATEGORIES; k++)
            out.weighted[head * CATEGORIES + k] = !norms ? not_a_number() : whole != 0 ? sums[k] / whole : 0.0;
    }
    largest = most_of_all(largest, room);
    largest_text = most_of_all(largest_text, room);
    for (int j = thread; j < wide; j += threads) {
        signed char high = 0, passed = 0;
        if (j < keys) {
            double received = largest > 0 ? column[j] / largest : 0.0;
            for (int k = 0; k < STEPS && received > thresholds[k]; k++) atomicAdd(&counts[k * CATEGORIES + category[j]], 1);
            if (is_counting[j] && largest_text > 0) {
                received = received / (largest_text / largest);
                high = received > of.theta;
                for (int k = 0; k < STEPS && received > thresholds[k]; k++) {
                    atomicAdd(&counts[(STEPS + k) * CATEGORIES + category[j]], 1);
                    passed = k + 1;
                }
            }
        }
        out.high[head * wide + j] = high;
        out.passed[head * wide + j] = passed;
    }
    __syncthreads();
    for (int k = thread; k < STEPS * CATEGORIES; k += threads) {
        if (counts[k]) atomicAdd(&out.attended[(i64)h * STEPS * CATEGORIES + k], (u64)counts[k]);
        if (counts[STEPS * CATEGORIES + k]) atomicAdd(&out.attended_text[(i64)h * STEPS * CATEGORIES + k], (u64)counts[STEPS * CATEGORIES + k]);
    }
}

// ------------------------------------------------------------------ one head's matrices

struct Head {
    const float *matrix[SOURCES], *norms[SOURCES], *weights, *rows, *directions, *lengths;
    const int *positions, *readable;
    int tokens, n;

    __device__ Head(const Args *args, int b, int h) {
        const Args &of = *args;
        const i64 head = (i64)b * of.heads + h, all = of.windows * of.heads, square = of.tokens * of.tokens;
        for (int s = 0; s < SOURCES; s++) {
            matrix[s] = args->products + (s * all + head) * square;
            norms[s] = args->norms + (s * all + head) * of.tokens;
        }
        lengths = args->lengths + head * of.tokens;
        weights = MAPS > 0 ? args->weights + head * square : 0;
        rows = MAPS > 1 ? args->rows + head * square : 0;
        directions = MAPS > 0 ? args->directions + b * square : 0;
        positions = args->positions + b * of.counting;
        readable = args->readable + b * of.tokens;
        tokens = of.tokens;
        n = args->sizes[b];
    }
    __device__ float reading(int v, int i, int j) const { // S of two tokens that count
        const int s = source_of[v], pi = positions[i], pj = positions[j];
        float x = matrix[s][(i64)pi * tokens + pj];
        if (scaled_of[v]) {
            float size = norms[s][pi] * norms[s][pj];
            x = size > 0 ? x / size : 0.0f;
        }
        return x;
    }
    __device__ float shown(int v, int i, int j) const { // by a reading or a map
        if (v < READINGS) return reading(v, i, j);
        const int pi = positions[i], pj = positions[j];
        if (v == READINGS)
            return (weights[(i64)pi * tokens + pj] * (float)readable[pi] + weights[(i64)pj * tokens + pi] * (float)readable[pj]) * directions[(i64)pi * tokens + pj];
        return rows[(i64)pi * tokens + pj];
    }
};

// Every pair i < j, dealt out to the threads: a row to a warp, its columns to the lanes.
#define FOR_PAIRS(n)                                                                            \
    for (int i = threadIdx.x / WARP; i < (n) - 1; i += blockDim.x / WARP)                       \
        for (int j = i + 1 + threadIdx.x % WARP, p = i * (2 * (n) - i - 1) / 2 + j - i - 1; j < (n); j += WARP, p += WARP)

__device__ inline u64 mix(u64 x) { // the finaliser of SplitMix64
    x ^= x >> 30; x *= 0xBF58476D1CE4E5B9ull;
    x ^= x >> 27; x *= 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// The ids in the order in which the null gives them the sums of `by_count`.
__device__ inline void order_null(const Args *args, int b, int h, int distinct, u64 *keys, int *null_) {
    const i64 row = b * args->most_ids;
    const int *by_count = args->by_count + row, *firsts = args->firsts + row;
    const int *begins = args->class_begins + row, *ends = args->class_ends + row;
    const u64 seed = mix(args->number[b] ^ (((u64)args->layer << 32) + (u64)h));
    for (int r = threadIdx.x; r < distinct; r += blockDim.x) keys[r] = mix(seed + (u64)firsts[by_count[r]]);
    __syncthreads();
    for (int r = threadIdx.x; r < distinct; r += blockDim.x) {
        int place = begins[r];
        for (int s = begins[r]; s < ends[r]; s++) place += keys[s] < keys[r] || (keys[s] == keys[r] && s < r);
        null_[place] = by_count[r];
    }
    __syncthreads();
}

// The id with the largest sum, the smallest number among equals; and that of the null. By one warp.
__device__ inline void largest_id(const int *times, int stride, const int *by_count, const int *null_, int distinct, int &best, int &of_null) {
    u64 own = 0, other = 0;
    for (int r = threadIdx.x % WARP; r < distinct; r += WARP) {
        u64 one = ((u64)times[r * stride] << 32) | (u64)(0xffffffffu - (unsigned)r);
        own = one > own ? one : own;
        one = ((u64)times[by_count[r] * stride] << 32) | (u64)(0xffffffffu - (unsigned)null_[r]);
        other = one > other ? one : other;
    }
    best = (int)(0xffffffffu - (unsigned)(most(own) & 0xffffffffu));
    of_null = (int)(0xffffffffu - (unsigned)(most(other) & 0xffffffffu));
}

// a and b of each comparison, from how many pairs of each kind are high. A warp to each number.
__device__ inline void match(const int *kinds, int stride, const double *weights, int number, double *to) {
    for (int c = threadIdx.x / WARP; c < 2 * COMPARISONS; c += blockDim.x / WARP) {
        double sum = 0;
        for (int k = threadIdx.x % WARP; k < number; k += WARP) sum += kinds[k * stride] * weights[(i64)c * number + k];
        sum = added(sum);
        if (threadIdx.x % WARP == 0) to[c] = sum;
    }
}

// ------------------------------------------------------------------ what needs no threshold

// What a block of `by_order` has on the chip.
struct Order {
    double *room;     // (32,)
    double *part;     // (SHOWN, bands, contrasts + 2): wins and weight of each band
    u64 *keys;        // (K,)
    float *sample;    // (SHOWN, 512)
    float *edges;     // (SHOWN, 16)
    int *histogram;   // (SHOWN, kinds, 16)
    int *regions;     // (READINGS, bands, 2, 16): of pairs outside the mask, and inside
    int *degree;      // (READINGS, N): top pairs of each token
    int *times;       // (READINGS, K): and of each id
    int *null_;       // (K,)
    int *count;       // (READINGS + 2,): top pairs of each reading, and whether there is a mask

    __device__ Order(const Args &of, double *shared) {
        const int kinds = of.bands * RELATIONS;
        room = shared, part = room + WARP;
        keys = (u64 *)(part + SHOWN * of.bands * (CONTRASTS + 2));
        sample = (float *)(keys + of.most_ids), edges = sample + SHOWN * SAMPLED;
        histogram = (int *)(edges + SHOWN * ORDER_BINS);
        regions = histogram + SHOWN * kinds * ORDER_BINS;
        degree = regions + READINGS * of.bands * 2 * ORDER_BINS;
        times = degree + READINGS * of.counting, null_ = times + READINGS * of.most_ids;
        count = null_ + of.most_ids;
    }
};

// Edges of the order bins: the values of sampled pairs, sorted.
__device__ inline void find_edges(const Args &of, const Head &own, Order &on, int b) {
    const int thread = threadIdx.x, threads = blockDim.x, sampled = of.sampled[b];
    const int *samples = of.samples + (i64)b * SAMPLED * 3;
    for (int k = thread; k < SHOWN * SAMPLED; k += threads) {
        const int v = k / SAMPLED, *of_pair = samples + 3 * (k % SAMPLED);
        on.sample[k] = k % SAMPLED < sampled ? own.shown(v, of_pair[0], of_pair[1]) : __int_as_float(0x7f800000);
    }
    for (int size = 2; size <= SAMPLED; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int k = thread; k < SHOWN * SAMPLED / 2; k += threads) {
                int v = k / (SAMPLED / 2), r = k % (SAMPLED / 2);
                int low = 2 * r - (r & (step - 1)); // the lower of two places that are `step` apart
                float *x = on.sample + v * SAMPLED + low, *y = x + step;
                bool up = (low & size) == 0;
                if ((*x > *y) == up) { float z = *x; *x = *y; *y = z; }
            }
        }
    __syncthreads();
    for (int k = thread; k < SHOWN * ORDER_BINS; k += threads) {
        int v = k / ORDER_BINS, e = k % ORDER_BINS; // edge e stands between the bins e and e + 1
        on.edges[k] = e < ORDER_BINS - 1 ? on.sample[v * SAMPLED + sampled * (e + 1) / ORDER_BINS] : __int_as_float(0x7f800000);
    }
    __syncthreads();
}

// Bins and what is counted by them; squares and products about the means.
__device__ inline void count_by_order(const Args &of, const Head &own, Order &on, int b, i64 head, const double *centre, double *squares, double (*products)[MAPS > 0 ? MAPS : 1]) {
    const int bands = of.bands, kinds = bands * RELATIONS;
    const short *classes = of.classes + b * of.most_pairs;
    const signed char *high = of.high + head * of.keys;
    const bool masked = on.count[READINGS];
    FOR_PAIRS(own.n) {
        double away[SHOWN];
        const int kind = classes[p]; // times sixteen
        const int region = MAPS > 0 ? high[own.positions[i]] + high[own.positions[j]] : 1;
        for (int v = 0; v < SHOWN; v++) {
            const float x = own.shown(v, i, j);
            const float *edge = on.edges + v * ORDER_BINS;
            int bin = x > edge[7] ? 8 : 0;
            bin += x > edge[bin + 3] ? 4 : 0;
            bin += x > edge[bin + 1] ? 2 : 0;
            bin += x > edge[bin] ? 1 : 0;
            atomicAdd(&on.histogram[v * kinds * ORDER_BINS + kind + bin], 1);
            if (v < READINGS) {
                if (masked && region != 1) atomicAdd(&on.regions[((v * bands + kind / (ORDER_BINS * RELATIONS)) * 2 + region / 2) * ORDER_BINS + bin], 1);
                if (bin == ORDER_BINS - 1) { atomicAdd(&on.degree[v * of.counting + i], 1); atomicAdd(&on.degree[v * of.counting + j], 1); }
            }
            away[v] = (double)x - centre[v];
            squares[v] += away[v] * away[v];
        }
        for (int r = 0; r < READINGS; r++) for (int m = 0; m < MAPS; m++) products[r][m] += away[r] * away[READINGS + m];
    }
}

extern "C" __global__ void by_order(const Args *args) {
    const Args &of = *args, &batch = *args, &out = *args;
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x;
    const int lane = thread % WARP, warp = thread / WARP, warps = threads / WARP;
    const int n = batch.sizes[b], bands = of.bands, kinds = bands * RELATIONS, distinct = batch.distinct[b];
    const i64 head = (i64)b * of.heads + h;
    if (n < 2) return; // the outputs were cleared before
    const Head own(args, b, h);
    const int pairs = n * (n - 1) / 2;
    const signed char *high = out.high + head * of.keys;
    extern __shared__ double shared[];
    Order on(of, shared);
    double *room = on.room, *part = on.part;
    int *histogram = on.histogram, *regions = on.regions, *degree = on.degree, *times = on.times, *null_ = on.null_, *count = on.count;
    const int tables = (int)(count + READINGS + 2 - histogram);
    for (int k = thread; k < tables; k += threads) histogram[k] = 0;
    __syncthreads();
    if (thread < WARP) { // how many tokens are high in attention
        int number = 0;
        if (MAPS > 0) for (int i = lane; i < n; i += WARP) number += high[own.positions[i]];
        for (int k = WARP / 2; k > 0; k /= 2) number += __shfl_xor_sync(FULL, number, k);
        if (lane == 0) count[READINGS] = number >= 2 && n - number >= 2;
    }

    // Means, and whether there is anything but one value.
    double sum[SHOWN];
    float low[SHOWN], top[SHOWN];
    for (int v = 0; v < SHOWN; v++) { sum[v] = 0; low[v] = __int_as_float(0x7f800000); top[v] = -low[v]; }
    FOR_PAIRS(n) {
        for (int v = 0; v < SHOWN; v++) {
            float x = own.shown(v, i, j);
            sum[v] += (double)x;
            low[v] = x < low[v] ? x : low[v];
            top[v] = x > top[v] ? x : top[v];
        }
    }
    bool varies[SHOWN];
    double centre[SHOWN];
    for (int v = 0; v < SHOWN; v++) {
        double whole = added_by_all(sum[v], room);
        if (thread == 0 && !is_finite(whole)) *out.not_finite = 1;
        centre[v] = whole / pairs;
        double upper = most_of_all((double)top[v], room), lower = -most_of_all(-(double)low[v], room);
        varies[v] = upper != lower;
        if (v == 0 && thread == 0) out.largest[head] = is_finite(whole) ? (float)upper : (float)whole;
    }
    find_edges(of, own, on, b);
    double squares[SHOWN], products[READINGS][MAPS > 0 ? MAPS : 1];
    for (int v = 0; v < SHOWN; v++) squares[v] = 0;
    for (int r = 0; r < READINGS; r++) for (int m = 0; m < MAPS; m++) products[r][m] = 0;
    count_by_order(of, own, on, b, head, centre, squares, products);
    const bool masked = count[READINGS];
    for (int v = 0; v < SHOWN; v++) squares[v] = added_by_all(squares[v], room);
    for (int r = 0; r < READINGS; r++)
        for (int m = 0; m < MAPS; m++) {
            double both = added_by_all(products[r][m], room);
            bool any = varies[r] && varies[READINGS + m];
            if (thread == 0) out.correlation[(head * READINGS + r) * MAPS + m] = any ? both / sqrt(squares[r] * squares[READINGS + m]) : 0.0;
        }
    __syncthreads();

    // Wins of each contrast in each band; then over the bands, from the first to the last.
    for (int k = thread; k < SHOWN * bands * (CONTRASTS + 1); k += threads) {
        const int c = k % (CONTRASTS + 1), v = k / (CONTRASTS + 1) / bands, band = k / (CONTRASTS + 1) % bands;
        double *to = part + (v * bands + band) * (CONTRASTS + 2) + c;
        i64 n0 = 0, n1 = 0, won = 0;
        if (c < CONTRASTS) {
            const int *own_bins = histogram + (v * kinds + band * RELATIONS) * ORDER_BINS, *zeros = own_bins + UNRELATED * ORDER_BINS;
            for (int e = 0; e < ORDER_BINS; e++) { // those of the contrast against unrelated ones in lower bins
                i64 ones = 0;
                for (int r = 0; r < RELATIONS; r++) if (contrasted[c] >> r & 1) ones += own_bins[r * ORDER_BINS + e];
                won += ones * (2 * n0 + zeros[e]);
                n0 += zeros[e];
                n1 += ones;
            }
            *to = n0 > 0 ? 0.5 * won / (n1 + n0) : 0.0;
            continue;
        }
        to[0] = to[1] = 0.0;
        if (v < READINGS && masked) {
            const int *outside = regions + (v * bands + band) * 2 * ORDER_BINS, *inside = outside + ORDER_BINS;
            for (int e = 0; e < ORDER_BINS; e++) {
                won += (i64)inside[e] * (2 * n0 + outside[e]);
                n0 += outside[e];
                n1 += inside[e];
            }
            if (n0 > 0 && n1 > 0) { to[0] = 0.5 * won / (n1 + n0); to[1] = (double)(n1 * n0) / (n1 + n0); }
        }
    }
    __syncthreads();
    for (int k = thread; k < SHOWN * (CONTRASTS + 2); k += threads) {
        int v = k / (CONTRASTS + 2), c = k % (CONTRASTS + 2);
        double whole = 0;
        for (int band = 0; band < bands; band++) whole += part[(v * bands + band) * (CONTRASTS + 2) + c];
        if (v < READINGS && c <= CONTRASTS) out.wins[(head * READINGS + v) * (CONTRASTS + 1) + c] = whole;
        if (v >= READINGS && c < CONTRASTS) out.map_wins[(head * MAPS + v - READINGS) * CONTRASTS + c] = whole;
        if (v == 0 && c == CONTRASTS + 1) out.inside[head] = whole;
    }

    // Top pairs: those in the last bin, where there are enough.
    for (int r = 0; r < READINGS; r++) {
        int number = 0;
        for (int k = thread; k < kinds; k += threads) number += histogram[(r * kinds + k) * ORDER_BINS + ORDER_BINS - 1];
        if (number) atomicAdd(&count[r], number);
    }
    order_null(args, b, h, distinct, on.keys, null_); // waits for everybody
    const int *id_number = batch.id_number + b * of.counting, *by_count = batch.by_count + b * of.most_ids;
    for (int k = thread; k < READINGS * n; k += threads) {
        int r = k / n, i = k % n, own_degree = degree[r * of.counting + i];
        if (own_degree) atomicAdd(&times[r * of.most_ids + id_number[i]], own_degree);
    }
    __syncthreads();
    for (int r = 0; r < READINGS; r++) {
        const int *last = histogram + r * kinds * ORDER_BINS + ORDER_BINS - 1;
        if (pairs < of.fewest_for_top || count[r] * of.least_top < pairs) {
            if (thread == 0) atomicAdd(&out.top_few[h * READINGS + r], 1ull);
            continue; // for all threads
        }
        for (int k = thread; k < kinds; k += threads)
            if (last[k * ORDER_BINS]) atomicAdd(&out.top_pairs[((i64)h * READINGS + r) * kinds + k], (u64)last[k * ORDER_BINS]);
        match(last, ORDER_BINS, batch.match_weights + (i64)b * COMPARISONS * 2 * kinds, kinds, out.top_matched + (head * READINGS + r) * COMPARISONS * 2);
        if (warp == (2 * r) % warps) {
            int best, of_null;
            largest_id(times + r * of.most_ids, 1, by_count, null_, distinct, best, of_null);
            if (lane == 0) { out.top[head * READINGS + r] = best; out.top_null[head * READINGS + r] = of_null; }
        }
        if (warp == (2 * r + 1) % warps) { // the lengths of outputs and the number of top pairs
            const int *y = degree + r * of.counting;
            double x_sum = 0, y_sum = 0, xx = 0, yy = 0, xy = 0;
            int others = 0, of_y = 0;
            for (int i = lane; i < n; i += WARP) {
                x_sum += (double)own.lengths[own.positions[i]]; y_sum += y[i];
                others |= own.lengths[own.positions[i]] != own.lengths[own.positions[0]]; of_y |= y[i] != y[0];
            }
            x_sum = added(x_sum) / n; y_sum = added(y_sum) / n;
            others = __any_sync(FULL, others); of_y = __any_sync(FULL, of_y);
            for (int i = lane; i < n; i += WARP) {
                double dx = (double)own.lengths[own.positions[i]] - x_sum, dy = y[i] - y_sum;
                xx += dx * dx; yy += dy * dy; xy += dx * dy;
            }
            xx = added(xx); yy = added(yy); xy = added(xy);
            if (lane == 0) out.with_norms[head * READINGS + r] = others && of_y ? xy / sqrt(xx * yy) : 0.0;
        }
    }
}

// ------------------------------------------------------------------ what needs levels, of the main reading

// The bin of a level: multiplied, and divided only where rounding might carry it across an edge.
__device__ inline int bin_of(float x, double largest, double factor) {
    double place = (double)x * factor, whole = rint(place);
    if (fabs(place - whole) < 1e-9 && place > -0.5 && place < 19.5) {
        double level = (double)x / largest;
        int k = (int)whole; // the edge in question
        return level < 0.0 ? 0 : k == 0 || level >= level_edges[k] ? k + 1 : k;
    }
    place = floor(place);
    return (int)(place < -1.0 ? -1.0 : place > 19.0 ? 19.0 : place) + 1;
}

// What a block of `by_level` has on the chip. Doubles and u64 first, for their alignment.
struct Levels {
    double *room;                // (32,)
    double *before, *after;      // (N,): Σ S of a token with those that come before it in the mask, and after it
    u64 *keys;                   // (K,)
    int *position, *id, *passed; // (N,): of the tokens that count
    int *null_;                  // (K,)
    int *high;                   // (kinds,): pairs that are high at the run's τ
    int *best_of;                // (4,): focal token at the run's τ, number of high pairs, Σ of their distances
    int *times, *both;           // (K, bins): pairs of each id by level, and those with itself; may lie elsewhere
    int *table;                  // (bins, table): pairs of all windows of the block; none where there is no room
    float *matrix;               // (n, n | 1): S on both sides of the diagonal; none where there is no room

    __device__ Levels(const Args &of, double *shared, int kinds) {
        const int tokens = of.counting, ids = of.most_ids;
        room = shared;
        before = room + WARP, after = before + tokens;
        keys = (u64 *)(after + tokens);
        position = (int *)(keys + ids), id = position + tokens, passed = id + tokens;
        null_ = passed + tokens, high = null_ + ids, best_of = high + kinds;
        int *next = best_of + 4;
        times = of.scratch ? of.scratch + ((i64)blockIdx.y * of.heads + blockIdx.x) * 2 * BINS * ids : next;
        both = times + BINS * ids;
        if (!of.scratch) next += 2 * BINS * ids;
        table = of.table_on_chip ? next : 0;
        if (table) next += BINS * of.table;
        matrix = of.matrix_on_chip ? (float *)next : 0;
    }
};

// S of a pair of tokens, in either order.
__device__ inline float similarity(const Head &own, const float *matrix, int i, int j) {
    if (matrix) return matrix[i * (own.n | 1) + j];
    return i < j ? own.reading(0, i, j) : own.reading(0, j, i);
}

// Bins of all pairs of a window, a row to a warp: every pair is met from both sides, so that what belongs to a token is
// known without adding across warps. Lane k counts the pairs of the row that fall into bin k, from ballots of the bins.
__device__ inline void levels_of_rows(const Args &of, const Head &own, Levels &on, int b, int h, bool flat, double largest) {
    const int lane = threadIdx.x % WARP, warps = blockDim.x / WARP, n = own.n, lowest = of.lowest;
    const double factor = 20.0 / largest;
    const short *classes = of.classes + b * of.most_pairs;
    u64 *pairs = of.pairs + (i64)h * BINS * of.table;
    for (int i = threadIdx.x / WARP; i < n; i += warps) {
        const int at = on.position[i], id = on.id[i], passed = on.passed[i];
        double before = 0, after = 0;
        int in_bin = 0, distances = 0;
        for (int first = 0; first < n; first += WARP) {
            const int j = first + lane;
            const bool is_pair = j < n && j != i;
            const float x = is_pair ? similarity(own, on.matrix, i, j) : 0.0f;
            const int bin = !is_pair ? WARP - 1 : flat ? 0 : bin_of(x, largest, factor);
            unsigned same = FULL;
            for (int k = 0; k < 5; k++) {
                const unsigned ones = __ballot_sync(FULL, bin >> k & 1);
                same &= lane >> k & 1 ? ones : ~ones;
            }
            in_bin += __popc(same);
            if (!is_pair) continue; // lanes meet again at the next ballot
            if (MAPS > 0) {
                const bool ahead = on.passed[j] > passed || (on.passed[j] == passed && j < i);
                if (ahead) before += (double)x;
                else after += (double)x;
            }
            if (j < i) continue;
            const int p = i * (2 * n - i - 1) / 2 + j - i - 1;
            const int kind = classes[p] / ORDER_BINS, away = on.position[j] - at;
            const int cell = of.by_band ? kind : (away - 1) * RELATIONS + kind % RELATIONS;
            if (on.table) atomicAdd(&on.table[bin * of.table + cell], 1);
            else atomicAdd(&pairs[bin * of.table + cell], 1ull);
            if (of.by_band) atomicAdd(&of.distance_sum[((i64)h * BINS + bin) * RELATIONS + cell % RELATIONS], (u64)away);
            for (int r = 0; r < of.customs; r++)
                if (of.custom[(r * of.windows + b) * of.most_pairs + p])
                    atomicAdd(&of.custom_pairs[((r * of.heads + h) * BINS + bin) * of.table + cell], 1ull);
            if (flat) continue;
            if (on.id[j] == id) atomicAdd(&on.both[id * BINS + bin], 1);
            if (bin >= lowest) { atomicAdd(&on.high[kind], 1); distances += away; }
        }
        if (flat) continue;
        if (lane < BINS && in_bin) atomicAdd(&on.times[id * BINS + lane], in_bin);
        for (int k = WARP / 2; k > 0; k /= 2) distances += __shfl_xor_sync(FULL, distances, k);
        if (lane == 0 && distances) atomicAdd(&on.best_of[2], distances);
        if (MAPS > 0) {
            before = added(before), after = added(after);
            if (lane == 0) { on.before[i] = before; on.after[i] = after; }
        }
    }
}

// Tokens join the mask in the order of the thresholds they pass, the highest first. A warp to a threshold.
__device__ inline void masks(const Args &of, const Levels &on, i64 head, int n, double largest) {
    const int lane = threadIdx.x % WARP;
    for (int k = threadIdx.x / WARP; k < STEPS; k += blockDim.x / WARP) {
        double inside = 0, either = 0, whole = 0;
        int in = 0;
        for (int i = lane; i < n; i += WARP) {
            whole += on.after[i];
            if (on.passed[i] > k) { inside += on.before[i]; either += on.after[i]; in++; }
        }
        inside = added(inside), either = added(either), whole = added(whole);
        for (int e = WARP / 2; e > 0; e /= 2) in += __shfl_xor_sync(FULL, in, e);
        if (lane) continue;
        double *sums = of.mask_sum + (head * STEPS + k) * 3;
        int *number = of.mask_pairs + (head * STEPS + k) * 3, out = n - in;
        sums[0] = inside / largest; sums[1] = (either - inside) / largest; sums[2] = (whole - either) / largest;
        number[0] = in * (in - 1) / 2; number[1] = in * out; number[2] = out * (out - 1) / 2;
    }
}

// One window of a head. All threads come back from it, and nobody has left what it shares with others.
__device__ inline void level_of_window(const Args *args, Levels &on, int b, int h) {
    const Args &of = *args, &out = *args;
    const int thread = threadIdx.x, threads = blockDim.x, lane = thread % WARP, warp = thread / WARP, warps = threads / WARP;
    const int n = of.sizes[b], kinds = of.bands * RELATIONS, distinct = of.distinct[b], lowest = of.lowest;
    const i64 head = b * of.heads + h;
    if (n < 2) return;
    const Head own(args, b, h);
    const double largest = (double)out.largest[head];
    if (!is_finite(largest)) return; // it was noticed before
    const bool flat = !(largest > 0);
    for (int k = thread; k < BINS * distinct; k += threads) on.times[k] = on.both[k] = 0;
    for (int k = thread; k < kinds; k += threads) on.high[k] = 0;
    if (thread < 4) on.best_of[thread] = 0;
    for (int i = thread; i < n; i += threads) {
        on.position[i] = own.positions[i];
        on.id[i] = of.id_number[b * of.counting + i];
        on.passed[i] = MAPS > 0 ? out.passed[head * of.keys + own.positions[i]] : 0;
    }
    if (on.matrix)
        FOR_PAIRS(n) on.matrix[i * (n | 1) + j] = on.matrix[j * (n | 1) + i] = own.reading(0, i, j);
    __syncthreads();
    levels_of_rows(of, own, on, b, h, flat, largest);
    if (flat) { if (thread == 0) out.flat[head] = 1; return; }
    double diagonal = 0;
    for (int i = thread; i < n; i += threads) {
        int at = own.positions[i], s = source_of[0];
        float x = own.matrix[s][(i64)at * own.tokens + at];
        if (scaled_of[0]) { float size = own.norms[s][at] * own.norms[s][at]; x = size > 0 ? x / size : 0.0f; }
        diagonal += (double)x;
    }
    diagonal = added_by_all(diagonal, on.room); // waits for everybody
    if (thread == 0) out.diagonal[head] = diagonal / n / largest;
    if (MAPS > 0) masks(of, on, head, n, largest);
    for (int t = thread; t < distinct; t += threads) // how many pairs in this bin or higher
        for (int k = BINS - 2; k > 1; k--) {
            on.times[t * BINS + k] += on.times[t * BINS + k + 1];
            on.both[t * BINS + k] += on.both[t * BINS + k + 1];
        }
    order_null(args, b, h, distinct, on.keys, on.null_); // waits for everybody
    const int *by_count = of.by_count + b * of.most_ids;
    for (int k = warp; k < STEPS; k += warps) { // a warp to a threshold
        const int *times = on.times + k + 2;
        int number = 0, best, of_null;
        for (int t = lane; t < distinct; t += WARP) number += times[t * BINS];
        for (int e = WARP / 2; e > 0; e /= 2) number += __shfl_xor_sync(FULL, number, e);
        number /= 2; // every pair was counted for both of its tokens
        largest_id(times, BINS, by_count, on.null_, distinct, best, of_null);
        if (lane == 0) {
            out.high_pairs[head * STEPS + k] = number;
            out.focal[head * STEPS + k] = number ? best : -1;
            out.focal_null[head * STEPS + k] = number ? of_null : -1;
            out.focal_share[head * STEPS + k] = number ? (double)(times[best * BINS] - on.both[best * BINS + k + 2]) / number : 0.0;
            if (k == of.at_tau) { on.best_of[0] = number ? best : -1; on.best_of[1] = number; }
        }
    }
    __syncthreads();
    const int best = on.best_of[0], number = on.best_of[1];
    if (best < 0) return;
    match(on.high, 1, of.match_weights + (i64)b * COMPARISONS * 2 * kinds, kinds, out.matched + head * COMPARISONS * 2);
    const double factor = 20.0 / largest;
    i64 reach = 0, held = 0, occurs = 0;
    u64 longest = 0;
    for (int i = warp; i < n; i += warps) {
        if (on.id[i] != best) continue; // the same for the whole warp
        occurs += lane == 0;
        for (int j = lane; j < n; j += WARP) {
            if (j == i || (j < i && on.id[j] == best)) continue; // the second was met from its other side
            int away = on.position[j] - on.position[i];
            if (bin_of(similarity(own, on.matrix, i, j), largest, factor) >= lowest) { reach += away < 0 ? -away : away; held++; }
        }
    }
    for (int i = thread; i < n; i += threads) { // lengths are not negative, so their bits are in their order
        u64 one = ((u64)__float_as_uint(own.lengths[own.positions[i]]) << 32) | (u64)(0xffffffffu - (unsigned)i);
        longest = one > longest ? one : longest;
    }
    double within = 0, again = 0; // sums of whole numbers, so exact
    for (int k = thread; k < kinds; k += threads) {
        within += (IN_SENTENCE >> (k % RELATIONS) & 1) * on.high[k];
        again += (REPEATED >> (k % RELATIONS) & 1) * on.high[k];
    }
    const double far = added_by_all((double)reach, on.room), pairs_held = added_by_all((double)held, on.room);
    const double times_in_all = added_by_all((double)occurs, on.room);
    within = added_by_all(within, on.room), again = added_by_all(again, on.room);
    longest = most(longest);
    __syncthreads();
    if (lane == 0) ((u64 *)on.room)[warp] = longest;
    __syncthreads();
    longest = most(((u64 *)on.room)[lane < warps ? lane : 0]);
    if (thread == 0) {
        out.frequency[head] = times_in_all / n;
        out.reach[head] = far / pairs_held;
        out.longest[head] = on.id[0xffffffffu - (unsigned)(longest & 0xffffffffu)] == best;
        double *row = out.row + head * 3;
        row[0] = (double)on.best_of[2] / number; row[1] = within / number; row[2] = again / number;
    }
}

// A block goes through several windows of one head, so that it can add up their pairs on the chip.
extern "C" __global__ __launch_bounds__(1024) void by_level(const Args *args) {
    const Args &of = *args;
    const int h = blockIdx.x;
    extern __shared__ double shared[];
    Levels on(of, shared, of.bands * RELATIONS);
    const int cells = on.table ? BINS * of.table : 0;
    for (int k = threadIdx.x; k < cells; k += blockDim.x) on.table[k] = 0;
    __syncthreads();
    for (int b = blockIdx.y; b < of.windows; b += gridDim.y) {
        level_of_window(args, on, b, h);
        __syncthreads();
    }
    u64 *pairs = of.pairs + (i64)h * cells;
    for (int k = threadIdx.x; k < cells; k += blockDim.x)
        if (on.table[k]) atomicAdd(&pairs[k], (u64)on.table[k]);
}

// ------------------------------------------------------------------ over heads and windows

// How many different tokens the heads of a layer have chosen: a thread to a window and step. (B, H, steps) to (steps, H + 1).
extern "C" __global__ void count_unique(const int *chosen, const int *sizes, u64 *counts, int windows, int heads, int steps) {
    for (int place = blockIdx.x * blockDim.x + threadIdx.x; place < windows * steps; place += gridDim.x * blockDim.x) {
        const int b = place / steps, k = place % steps;
        if (sizes[b] < 2) continue;
        int unique = 0;
        for (int h = 0; h < heads; h++) {
            int token = chosen[((i64)b * heads + h) * steps + k];
            bool fresh = token >= 0;
            for (int other = 0; other < h && fresh; other++) fresh = chosen[((i64)b * heads + other) * steps + k] != token;
            unique += fresh;
        }
        atomicAdd(&counts[(i64)k * (heads + 1) + unique], 1ull);
    }
}

// What each head made of each window, added up in the order of the windows: a thread to a number.
extern "C" __global__ void add_windows(const Sum *sums, int windows) {
    const Sum sum = sums[blockIdx.y];
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < sum.number; e += gridDim.x * blockDim.x) {
        double total = 0;
        i64 count = 0;
        if (sum.kind == ADD_DOUBLES)
            for (int b = 0; b < windows; b++) total += ((const double *)sum.from)[b * sum.number + e];
        else
            for (int b = 0; b < windows; b++) {
                const int x = ((const int *)sum.from)[b * sum.number + e];
                count += sum.kind == ADD_COUNTS ? x : x > 0 && x < FEW_PAIRS;
            }
        if (sum.kind == ADD_DOUBLES) ((double *)sum.to)[e] += total;
        else ((i64 *)sum.to)[e] += count;
    }
}

// What heads drawn from all layers would have: a block to a window. `top` (L, B, H, readings), `drawn` (LH + 1,), to (B, readings).
extern "C" __global__ void mixed(const int *top, const double *drawn, const int *distinct, double *to, int layers, int windows, int heads, int most_ids) {
    extern __shared__ double shared[];
    double *room = shared;
    int *times = (int *)(room + 32); // (K,)
    const int b = blockIdx.x, r = blockIdx.y;
    for (int t = threadIdx.x; t < most_ids; t += blockDim.x) times[t] = 0;
    __syncthreads();
    for (int k = threadIdx.x; k < layers * heads; k += blockDim.x) {
        int token = top[(((i64)(k / heads) * windows + b) * heads + k % heads) * READINGS + r];
        if (token >= 0) atomicAdd(&times[token], 1);
    }
    __syncthreads();
    double sum = 0;
    for (int t = threadIdx.x; t < distinct[b]; t += blockDim.x) sum += times[t] ? drawn[times[t]] : 0.0;
    sum = added_by_all(sum, room);
    if (threadIdx.x == 0) to[b * READINGS + r] = sum;
}

// The sum of S over windows, in their order: a block to a head and a position, a thread to another position.
extern "C" __global__ void add_matrices(const Args *args, const int *place_of, int windows, double *sums, int length) {
    const Args &of = *args;
    const int h = blockIdx.x, i = blockIdx.y, s = source_of[0];
    for (int j = i + 1 + threadIdx.x; j < of.tokens; j += blockDim.x) {
        double sum = 0;
        for (int b = 0; b < windows; b++) {
            const int *counts = place_of + (i64)b * of.tokens; // whether a token counts
            if (!counts[i] || !counts[j]) continue;
            const i64 head = ((i64)s * windows + b) * of.heads + h;
            float x = args->products[(head * of.tokens + i) * of.tokens + j];
            if (scaled_of[0]) {
                float size = args->norms[head * of.tokens + i] * args->norms[head * of.tokens + j];
                x = size > 0 ? x / size : 0.0f;
            }
            sum += (double)x;
        }
        sums[((i64)h * length + i) * length + j] += sum;
    }
}
