// What needs no threshold: order bins, and what follows from them.

// What all threads know of the pairs that they met.
struct Moments {
    double sums[2 * SHOWN + READINGS * MAPS]; // of values less those of the first pair, of their squares and products
    double from[SHOWN];                       // those of the first pair
    float largest;                            // S of the main reading
    int varies;                               // a bit for each whose values are not all the same

    __device__ Moments(const Head &own) : largest(-infinity()), varies(0) {
        for (int k = 0; k < 2 * SHOWN + READINGS * MAPS; k++) sums[k] = 0;
        float x[SHOWN];
        Row(own, 0).shown(1, x);
        for (int v = 0; v < SHOWN; v++) from[v] = (double)x[v];
    }
    __device__ inline void add(const float *x) {
        double away[SHOWN];
        largest = fmaxf(largest, x[0]);
        for (int v = 0; v < SHOWN; v++) {
            away[v] = (double)x[v] - from[v];
            if (away[v] != 0) varies |= 1 << v;
            sums[v] += away[v];
            sums[SHOWN + v] = fma(away[v], away[v], sums[SHOWN + v]);
        }
        for (int r = 0; r < READINGS; r++)
            for (int m = 0; m < MAPS; m++) {
                double &sum = sums[2 * SHOWN + r * MAPS + m];
                sum = fma(away[r], away[READINGS + m], sum);
            }
    }
};

#define WORD 4 /* bytes */
#define LAST (WORD * (ORDER_BINS - 1))

// The order bin of a value, in bytes: how many of the 15 edges lie below it.
__device__ inline int order_bin(float x, const char *edges) {
    int at = x > *(const float *)(edges + 7 * WORD) ? 11 * WORD : 3 * WORD;
    at += x > *(const float *)(edges + at) ? 2 * WORD : -2 * WORD;
    at += x > *(const float *)(edges + at) ? WORD : -WORD;
    return at + (x > *(const float *)(edges + at) ? WORD : 0);
}
__device__ inline void count_at(int *table, int bytes) { atomicAdd((int *)((char *)table + bytes), 1); }

// Bins, and what is counted by them. Of the three regions the two with fewer pairs are counted: those at the edge of the
// mask, and those inside it or, where more than half of the tokens are high, those outside.
#define DEEP 2 /* columns of a lane that are on their way from memory at a time */
__device__ inline void count_pairs(const Args &of, const Head &own, Order &on, Moments &moments, int b) {
    const int lane = threadIdx.x % WARP, bands = of.bands, table = bands * RELATIONS * ORDER_BINS, n = own.n;
    const int number = on.count[READINGS], other = 2 * number > n ? 0 : 2; // tokens of the pair that are high
    const bool masked = MAPS > 0 && number >= 2 && n - number >= 2;
    FOR_ROWS(n) {
        const Row row(own, i);
        const unsigned short *classes = (const unsigned short *)of.classes + b * of.most_pairs + pairs_of(i, n);
        const int high = on.high[i];
        int degree[READINGS] = {};
#pragma unroll 1
        for (int first = i + 1; first < n; first += DEEP * WARP) {
            Row::Loaded loaded[DEEP];
            int kinds[DEEP];
#pragma unroll
            for (int e = 0; e < DEEP; e++) {
                const int j = first + e * WARP + lane;
                if (j < n) { row.load(j, loaded[e]); kinds[e] = classes[j]; } // times sixteen
            }
#pragma unroll
            for (int e = 0; e < DEEP; e++) {
                if (first + e * WARP >= n) break; // for all lanes
                const int j = first + e * WARP + lane;
                int bin[SHOWN] = {};
                if (j < n) {
                    float x[SHOWN];
                    row.shown(j, loaded[e], x);
                    moments.add(x);
                    for (int v = 0; v < SHOWN; v++) {
                        bin[v] = order_bin(x[v], (const char *)(on.edges + v * ORDER_BINS));
                        count_at(on.histogram + v * table, WORD * kinds[e] + bin[v]);
                    }
                    const int region = high + on.high[j];
                    if (masked && (region == 1 || region == other)) {
                        int *at = on.regions + (kinds[e] / (ORDER_BINS * RELATIONS) * 2 + (region != 1)) * ORDER_BINS;
                        for (int r = 0; r < READINGS; r++) count_at(at + r * bands * 2 * ORDER_BINS, bin[r]);
                    }
                }
                for (int r = 0; r < READINGS; r++) {
                    degree[r] += __popc(__ballot_sync(FULL, bin[r] == LAST));
                    if (bin[r] == LAST) atomicAdd(&on.degree[r * of.counting + j], 1);
                }
            }
        }
        if (lane == 0) for (int r = 0; r < READINGS; r++) if (degree[r]) atomicAdd(&on.degree[r * of.counting + i], degree[r]);
    }
}

// How S goes with each map, a lane to a correlation. Lanes have the sums of all pairs, in the order of `Moments`; `varies`
// has a bit for each whose values are not all the same.
__device__ inline void correlate(const Args &of, double sum, int varies, i64 head, int pairs) {
    const int lane = threadIdx.x % WARP, k = lane < READINGS * MAPS ? lane : 0, r = MAPS > 0 ? k / MAPS : 0, m = MAPS > 0 ? READINGS + k % MAPS : 0;
    const double x = __shfl_sync(FULL, sum, r), y = __shfl_sync(FULL, sum, m), over = 1.0 / pairs;
    const double xx = __shfl_sync(FULL, sum, SHOWN + r) - x * x * over, yy = __shfl_sync(FULL, sum, SHOWN + m) - y * y * over;
    const double xy = __shfl_sync(FULL, sum, 2 * SHOWN + k) - x * y * over;
    if (lane < READINGS * MAPS) of.correlation[head * READINGS * MAPS + lane] = varies >> r & varies >> m & 1 ? xy / sqrt(xx * yy) : 0.0;
}

// The moments of all threads: the largest S, and how S goes with each map. `own` as in `Moments`; a bit of `of_own` for each
// value that varies.
__device__ inline void join_moments(const Args &of, Order &on, const double *own, float own_largest, int of_own, i64 head, int pairs) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    const int number = 2 * SHOWN + READINGS * MAPS;
#pragma unroll
    for (int k = 0; k < number; k++) {
        const double sum = added(own[k]);
        if (lane == 0) on.room[warp * MOMENTS + k] = sum;
    }
    const double largest = most((double)own_largest);
    if (lane == 0) on.room[warp * MOMENTS + number] = largest;
    for (int v = 0; v < SHOWN; v++) if (__any_sync(FULL, of_own >> v & 1) && lane == 0) atomicOr(&on.count[READINGS + 1], 1 << v);
    __syncthreads();
    if (warp > 0) return;
    double all = 0;
    if (lane < MOMENTS) {
        all = on.room[lane];
        for (int w = 1; w < warps; w++) {
            const double x = on.room[w * MOMENTS + lane];
            all = lane < number ? all + x : x > all ? x : all;
        }
    }
    if (lane < SHOWN && !is_finite(all)) *of.not_finite = 1;
    const double first = __shfl_sync(FULL, all, 0), top = __shfl_sync(FULL, all, number);
    if (lane == 0) of.largest[head] = is_finite(first) ? (float)top : (float)first;
    correlate(of, all, on.count[READINGS + 1], head, pairs);
}

// Four numbers of a table, side by side.
struct alignas(16) FourCounts { int at[4]; };

// Wins of each contrast in each band: four lanes to a reading or map and a band, four bins to a lane. `Whole` holds half the
// square of the number of pairs; `warp` numbers the warps in the order in which they take what there is to do.
#define LANES (ORDER_BINS / 4)
template <class Whole> __device__ inline void count_wins(const Args &of, Order &on, int n, int warp) {
    const int quarter = threadIdx.x % LANES, bands = of.bands, number = on.count[READINGS];
    const bool masked = MAPS > 0 && number >= 2 && n - number >= 2, rest_is_inside = 2 * number > n;
    const int together = WARP / LANES, tasks = (SHOWN * bands + together - 1) / together * together; // lanes of a warp stay together
#pragma unroll 1
    for (int task = warp * together + threadIdx.x % WARP / LANES; task < tasks; task += blockDim.x / LANES) {
        const bool real = task < SHOWN * bands;
        const int v = real ? task / bands : 0, band = real ? task % bands : 0;
        const FourCounts *own = (const FourCounts *)(on.histogram + (v * on.kinds + band * RELATIONS) * ORDER_BINS) + quarter;
        FourCounts ones[CONTRASTS + 1] = {}, zeros[2] = {}, all = {};
        for (int r = 0; r < RELATIONS; r++) {
            const FourCounts counts = own[r * LANES];
            for (int e = 0; e < 4; e++) {
                all.at[e] += counts.at[e];
                if (r == UNRELATED) zeros[0].at[e] = counts.at[e];
                for (int c = 0; c < CONTRASTS; c++) if (contrasted[c] >> r & 1) ones[c].at[e] += counts.at[e];
            }
        }
        if (masked && v < READINGS) { // of the mask
            const FourCounts *region = (const FourCounts *)(on.regions + v * on.beside + band * 2 * ORDER_BINS) + quarter;
            const FourCounts edge = region[0], counted = region[LANES];
            for (int e = 0; e < 4; e++) {
                const int rest = all.at[e] - edge.at[e] - counted.at[e];
                ones[CONTRASTS].at[e] = rest_is_inside ? rest : counted.at[e];
                zeros[1].at[e] = rest_is_inside ? counted.at[e] : rest;
            }
        }
        int below[2]; // zeros in lower bins
        for (int k = 0; k < 2; k++) {
            int sum = zeros[k].at[0] + zeros[k].at[1] + zeros[k].at[2] + zeros[k].at[3];
            const int own_sum = sum;
            for (int away = 1; away < LANES; away *= 2) {
                const int other = __shfl_sync(FULL, sum, threadIdx.x % WARP - (quarter >= away ? away : 0));
                if (quarter >= away) sum += other;
            }
            below[k] = sum - own_sum;
        }
        for (int c = 0; c <= CONTRASTS; c++) {
            const FourCounts &zero = zeros[c == CONTRASTS];
            int lower = below[c == CONTRASTS], n1 = 0;
            Whole twice = 0;
            for (int e = 0; e < 4; e++) { // ties are half
                twice += (Whole)ones[c].at[e] * (Whole)(2 * lower + zero.at[e]);
                n1 += ones[c].at[e], lower += zero.at[e];
            }
            for (int away = 1; away < LANES; away *= 2) {
                twice += __shfl_xor_sync(FULL, twice, away);
                n1 += __shfl_xor_sync(FULL, n1, away);
            }
            if (quarter == LANES - 1 && real) on.won[(v * bands + band) * (CONTRASTS + 1) + c] = {(double)twice, n1, lower};
        }
    }
}

// How the number of top pairs of a token goes with the length of its output: lengths less the first one. By one warp.
__device__ inline double with_lengths(const float *lengths, const int *degree, int n) {
    double sums[4] = {}; // of lengths, of their squares, of products with numbers, of squares of these
    int number = 0, of_x = 0, of_y = 0;
    const double first = (double)lengths[0];
    const int own = degree[0];
#pragma unroll 1
    for (int i = threadIdx.x % WARP; i < n; i += WARP) {
        const double x = (double)lengths[i] - first, y = degree[i];
        sums[0] += x, sums[1] += x * x, sums[2] += x * y, sums[3] += y * y, number += degree[i];
        of_x |= x != 0, of_y |= degree[i] != own;
    }
    add_all<4>(sums);
    number = sum_of_warp(number);
    if (!__any_sync(FULL, of_x) || !__any_sync(FULL, of_y)) return 0.0;
    const double over = 1.0 / n, mean = sums[0] * over;
    return (sums[2] - mean * number) / sqrt((sums[1] - mean * sums[0]) * (sums[3] - (double)number * number * over));
}

// The wins of a contrast in a reading or map, over the bands. By half a warp; `real` for all of it or for none.
__device__ inline void add_wins(const Args &of, const Order &on, i64 head, int k, bool real) {
    const int own = threadIdx.x % ORDER_BINS, bands = of.bands, v = k / (CONTRASTS + 1), c = k % (CONTRASTS + 1);
    double wins = 0, weight = 0;
    for (int band = own; band < bands && real; band += ORDER_BINS) {
        const Won won = on.won[(v * bands + band) * (CONTRASTS + 1) + c];
        if (!won.n1 || !won.n0) continue;
        const double over = 1.0 / (won.n1 + won.n0);
        wins += 0.5 * won.twice * over;
        weight += (double)won.n1 * won.n0 * over;
    }
    for (int away = ORDER_BINS / 2; away > 0; away /= 2) {
        wins += __shfl_xor_sync(FULL, wins, away);
        weight += __shfl_xor_sync(FULL, weight, away);
    }
    if (own || !real) return;
    if (v < READINGS) of.wins[(head * READINGS + v) * (CONTRASTS + 1) + c] = wins;
    else if (c < CONTRASTS) of.map_wins[(head * MAPS + v - READINGS) * CONTRASTS + c] = wins;
    if (v == 0 && c == CONTRASTS) of.inside[head] = weight;
}

// Whether a window has top pairs in a reading: neither too few pairs, nor too many of them in the last bin or none.
__device__ inline bool has_top(const Args &of, const Order &on, int r, int pairs) {
    return pairs >= of.fewest_for_top && on.count[r] * of.least_top >= pairs;
}

// How many pairs are in the last bin of a reading, and what they are. By one warp.
__device__ inline void describe_top(const Args &of, const Order &on, int b, int h, int r, int pairs) {
    const int lane = threadIdx.x % WARP, kinds = of.bands * RELATIONS, *last = on.histogram + r * on.kinds * ORDER_BINS + ORDER_BINS - 1;
    int number = 0;
#pragma unroll 2
    for (int k = lane; k < kinds; k += WARP) number += last[k * ORDER_BINS];
    number = sum_of_warp(number);
    if (lane == 0) on.count[r] = number;
    __syncwarp();
    if (!has_top(of, on, r, pairs)) {
        if (lane == 0) atomicAdd(&of.top_few[h * READINGS + r], 1ull);
        return;
    }
    int *to = of.top_kinds + (((i64)b * of.heads + h) * READINGS + r) * kinds;
#pragma unroll 1
    for (int k = lane; k < kinds; k += WARP) to[k] = last[k * ORDER_BINS];
}

// What follows from the bins of all pairs, and from top pairs of each token and id. All threads have counted; the first warp may
// have begun with something that takes as long.
__device__ inline void sum_up(const Args &of, Order &on, int b, int h, int n, int pairs, int distinct) {
    const int lane = threadIdx.x % WARP, warp = warp_of_block(), warps = blockDim.x / WARP;
    const i64 head = (i64)b * of.heads + h;
    constexpr int WINS = (SHOWN * (CONTRASTS + 1) + 1) / 2;
    if (pairs < 1 << 16) count_wins<unsigned>(of, on, n, warps - 1 - warp);
    else count_wins<i64>(of, on, n, warps - 1 - warp);
    for (int r = warp - 1 + (warp == 0) * warps; r < READINGS; r += warps) describe_top(of, on, b, h, r, pairs);
    __syncthreads();
    for (int task = warp; task < 2 * READINGS + WINS; task += warps) { // the longest come first
        const int r = task % READINGS, k = 2 * (task - 2 * READINGS) + lane / ORDER_BINS;
        if (task >= 2 * READINGS) add_wins(of, on, head, k, k < SHOWN * (CONTRASTS + 1));
        else if (!has_top(of, on, r, pairs)) continue;
        else if (task < READINGS) {
            const double with = with_lengths(on.norms + OUTPUTS * on.tokens, on.degree + r * on.tokens, n);
            if (lane == 0) of.with_norms[head * READINGS + r] = with;
        } else {
            int best, of_null;
            largest_id([&](int t) { return on.times[r * on.ids + t]; }, of.by_count + b * of.most_ids, on.null_, distinct, best, of_null);
            if (lane == 0) { of.top[head * READINGS + r] = best; of.top_null[head * READINGS + r] = of_null; }
        }
    }
}

extern "C" __global__ __launch_bounds__(256, 3) void by_order(const __grid_constant__ Args of) {
    const Args &out = of;
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x;
    const int n = of.sizes[b], distinct = of.distinct[b];
    const i64 head = (i64)b * of.heads + h;
    if (n < 2) return; // the outputs were cleared before
    extern __shared__ double shared[];
    Order on(of, shared);
    const Head own(of, on, b, h);
    const int pairs = n * (n - 1) / 2;
    const int tables = (int)((int *)on.edges - on.histogram), sums = (int)(on.count + READINGS + 2 - on.degree);
    for (int k = thread; k < tables; k += threads) on.histogram[k] = 0;
    for (int k = thread; k < sums; k += threads) on.degree[k] = 0;
    __syncthreads();
    for (int i = thread; i < n; i += threads) {
        const int at = of.positions[b * of.counting + i];
        on.position[i] = at;
        on.high[i] = MAPS > 0 ? out.high[head * of.keys + at] : 0;
        if (on.high[i]) atomicAdd(&on.count[READINGS], 1);
        for (int s = 0; s < SOURCES; s++) {
            const float square = own.matrix[s][at * of.tokens + at];
            on.norms[s * of.counting + i] = sqrtf(square);
        }
    }
    __syncthreads();
    null_keys(of, b, h, distinct, on.keys);
    find_edges(of, own, on, b); // waits for everybody
    place_null(of, b, h, distinct, on.keys, on.null_, thread, threads);
    __syncthreads();
    Moments moments(own);
    count_pairs(of, own, on, moments, b);
    join_moments(of, on, moments.sums, moments.largest, moments.varies, head, pairs); // waits for everybody
    for (int k = thread; k < READINGS * n; k += threads) {
        const int degree = on.degree[k / n * on.tokens + k % n];
        if (degree) atomicAdd(&on.times[k / n * on.ids + of.id_number[b * of.counting + k % n]], degree);
    }
    sum_up(of, on, b, h, n, pairs, distinct);
}
