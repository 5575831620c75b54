// What needs no threshold: order bins, and what follows from them.

#define MOMENTS (3 * SHOWN + READINGS * MAPS + 1)

// What a block of `by_order` has on the chip. Doubles and u64 first, for their alignment.
struct Order {
    double *room;     // (32, MOMENTS): what warps tell each other
    double *part;     // (SHOWN, bands, contrasts + 2): wins and weight of each band
    u64 *keys;        // (K,)
    float *edges;     // (SHOWN, 16)
    float *norms;     // (SOURCES, N): lengths of the vectors of tokens that count
    int *position;    // (N,)
    int *high;        // (N,): whether the token is high in attention
    int *histogram;   // (SHOWN, kinds, 16)
    int *regions;     // (READINGS, bands, 2, 16): of pairs at the edge of the mask, and wholly in it or out of it
    int *degree;      // (READINGS, N): top pairs of each token
    int *times;       // (READINGS, K): and of each id
    int *null_;       // (K,)
    int *count;       // (READINGS + 2,): top pairs of each reading; how many tokens are high

    __device__ Order(const Args &of, double *shared) {
        const int kinds = of.bands * RELATIONS;
        room = shared, part = room + WARP * MOMENTS;
        keys = (u64 *)(part + SHOWN * of.bands * (CONTRASTS + 2));
        edges = (float *)(keys + of.most_ids), norms = edges + SHOWN * ORDER_BINS;
        position = (int *)(norms + SOURCES * of.counting), high = position + of.counting;
        histogram = high + of.counting;
        regions = histogram + SHOWN * kinds * ORDER_BINS;
        degree = regions + READINGS * of.bands * 2 * ORDER_BINS;
        times = degree + READINGS * of.counting, null_ = times + READINGS * of.most_ids;
        count = null_ + of.most_ids;
    }
};

// The numbers that one head gives to pairs: S in each reading, and its attention maps.
struct Head {
    const float *matrix[SOURCES], *direct, *rows, *norms;
    const int *position;
    int tokens, n, pitch, counting;

    __device__ Head(const Args &of, const Order &on, int b, int h) {
        const i64 head = (i64)b * of.heads + h, all = of.windows * of.heads, square = of.tokens * of.tokens;
        for (int s = 0; s < SOURCES; s++) matrix[s] = of.products + (s * all + head) * square;
        direct = MAPS > 0 ? of.direct + head * of.most_pairs : 0;
        rows = MAPS > 1 ? of.rows + head * (of.rows_square ? square : of.most_pairs) : 0;
        pitch = of.rows_square ? of.tokens : 0;
        norms = on.norms, position = on.position, counting = of.counting;
        tokens = of.tokens, n = of.sizes[b];
    }
    // All of a pair; `at` is its number.
    __device__ inline void shown(int i, int j, int at, float *x) const {
        const int pi = position[i], pj = position[j];
        for (int v = 0; v < READINGS; v++) {
            const int s = source_of[v];
            x[v] = matrix[s][pi * tokens + pj];
            if (scaled_of[v]) {
                const float size = norms[s * counting + i] * norms[s * counting + j];
                x[v] = size > 0 ? x[v] / size : 0.0f;
            }
        }
        if (MAPS > 0) x[READINGS] = direct[at];
        if (MAPS > 1) x[READINGS + 1] = rows[pitch ? pi * pitch + pj : at];
    }
};

// The ids in the order in which the null gives them the sums of `by_count`.
__device__ inline void order_null(const Args &of, int b, int h, int distinct, u64 *keys, int *null_) {
    const i64 row = b * of.most_ids;
    const int *by_count = of.by_count + row, *firsts = of.firsts + row;
    const int *begins = of.class_begins + row, *ends = of.class_ends + row;
    const u64 seed = mix(of.number[b] ^ (((u64)of.layer << 32) + (u64)h));
    for (int r = threadIdx.x; r < distinct; r += blockDim.x) keys[r] = mix(seed + (u64)firsts[by_count[r]]);
    __syncthreads();
    for (int r = threadIdx.x; r < distinct; r += blockDim.x) {
        int place = begins[r];
        const int end = ends[r];
        const u64 own = keys[r];
        for (int s = begins[r]; s < end; s++) place += keys[s] < own || (keys[s] == own && s < r);
        null_[place] = by_count[r];
        of.nulls[((i64)b * of.heads + h) * of.most_ids + place] = by_count[r];
    }
}

// 512 values in their order, by one warp: lane k has those from 16k on. A network of comparisons, all in registers.
#define EACH 16
__device__ inline void sort(float *x, int lane) {
#pragma unroll
    for (int size = 2; size <= SAMPLED; size *= 2)
#pragma unroll
        for (int step = size / 2; step > 0; step /= 2) {
            if (step >= EACH) { // with the same place of another lane
                const bool low = ((lane * EACH & size) == 0) == ((lane * EACH & step) == 0);
#pragma unroll
                for (int r = 0; r < EACH; r++) {
                    const float y = __shfl_xor_sync(FULL, x[r], step / EACH);
                    x[r] = low ? fminf(x[r], y) : fmaxf(x[r], y);
                }
                continue;
            }
#pragma unroll
            for (int r = 0; r < EACH; r++) {
                if (r & step) continue;
                const bool up = ((lane * EACH + r) & size) == 0;
                const float low = fminf(x[r], x[r + step]), high = fmaxf(x[r], x[r + step]);
                x[r] = up ? low : high, x[r + step] = up ? high : low;
            }
        }
}

// Edges of the order bins: values of sampled pairs at sixteenths of their order. A warp to a reading or map.
__device__ inline void find_edges(const Args &of, const Head &own, Order &on, int b) {
    const int lane = threadIdx.x % WARP, sampled = of.sampled[b];
    const unsigned *samples = of.samples + (i64)b * SAMPLED;
    for (int v = threadIdx.x / WARP; v < SHOWN; v += blockDim.x / WARP) {
        float x[EACH];
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            x[r] = infinity();
            if (r * WARP + lane < sampled) {
                const unsigned pair = samples[r * WARP + lane];
                const int i = pair >> 16, j = pair & 0xffff;
                float all[SHOWN];
                own.shown(i, j, pairs_of(i, own.n) + j, all);
#pragma unroll
                for (int w = 0; w < SHOWN; w++) if (w == v) x[r] = all[w];
            }
        }
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
}

// Sums over all pairs, of values less those of the first pair: of these, of their squares and products; the largest
// difference, and the largest S of the main reading.
__device__ inline void find_moments(const Args &of, const Head &own, Order &on, i64 head) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP, n = own.n;
    double sums[2 * SHOWN + READINGS * MAPS];
    float from[SHOWN], reach[SHOWN], largest = -infinity();
    for (int k = 0; k < 2 * SHOWN + READINGS * MAPS; k++) sums[k] = 0;
    for (int v = 0; v < SHOWN; v++) reach[v] = 0;
    own.shown(0, 1, pairs_of(0, n) + 1, from);
    FOR_ROWS(n) {
        const int row = pairs_of(i, n);
        FOR_COLUMNS(n) {
            if (j >= n) continue;
            float x[SHOWN];
            double away[SHOWN];
            own.shown(i, j, row + j, x);
            largest = fmaxf(largest, x[0]);
            for (int v = 0; v < SHOWN; v++) {
                reach[v] = fmaxf(reach[v], fabsf(x[v] - from[v]));
                away[v] = (double)x[v] - (double)from[v];
                sums[v] += away[v];
                sums[SHOWN + v] = fma(away[v], away[v], sums[SHOWN + v]);
            }
            for (int r = 0; r < READINGS; r++)
                for (int m = 0; m < MAPS; m++) {
                    double &sum = sums[2 * SHOWN + r * MAPS + m];
                    sum = fma(away[r], away[READINGS + m], sum);
                }
        }
    }
    double *to = on.room + warp * MOMENTS;
    for (int k = 0; k < 2 * SHOWN + READINGS * MAPS; k++) {
        const double sum = added(sums[k]);
        if (lane == 0) to[k] = sum;
    }
    for (int v = 0; v <= SHOWN; v++) {
        const double far = most((double)(v < SHOWN ? reach[v] : largest));
        if (lane == 0) to[2 * SHOWN + READINGS * MAPS + v] = far;
    }
    __syncthreads();
    if (warp > 0) return;
    double all = 0;
    if (lane < MOMENTS) {
        all = on.room[lane];
        for (int w = 1; w < warps; w++) {
            const double x = on.room[w * MOMENTS + lane];
            all = lane < 2 * SHOWN + READINGS * MAPS ? all + x : x > all ? x : all;
        }
    }
    const int pairs = n * (n - 1) / 2;
    const bool bad = lane < SHOWN && !is_finite(all);
    if (bad) *of.not_finite = 1;
    const bool any_bad = __any_sync(FULL, bad && lane == 0);
    const double top = __shfl_sync(FULL, all, MOMENTS - 1);
    if (lane == 0) of.largest[head] = any_bad ? (float)not_a_number() : (float)top;
    for (int r = 0; r < READINGS; r++)
        for (int m = 0; m < MAPS; m++) {
            const double x = __shfl_sync(FULL, all, r), y = __shfl_sync(FULL, all, READINGS + m);
            const double xx = __shfl_sync(FULL, all, SHOWN + r) - x * x / pairs, yy = __shfl_sync(FULL, all, SHOWN + READINGS + m) - y * y / pairs;
            const double xy = __shfl_sync(FULL, all, 2 * SHOWN + r * MAPS + m) - x * y / pairs;
            const double x_reach = __shfl_sync(FULL, all, 2 * SHOWN + READINGS * MAPS + r);
            const double y_reach = __shfl_sync(FULL, all, 2 * SHOWN + READINGS * MAPS + READINGS + m);
            if (lane == 0) of.correlation[(head * READINGS + r) * MAPS + m] = x_reach > 0 && y_reach > 0 ? xy / sqrt(xx * yy) : 0.0;
        }
}

// Bins, and what is counted by them. Of the three regions the two with fewer pairs are counted: those at the edge of the
// mask, and those inside it or, where more than half of the tokens are high, those outside.
__device__ inline void count_by_order(const Args &of, const Head &own, Order &on, int b) {
    const int lane = threadIdx.x % WARP, bands = of.bands, kinds = bands * RELATIONS, n = own.n;
    const short *classes = of.classes + b * of.most_pairs;
    const int number = on.count[READINGS], other = 2 * number > n ? 0 : 2; // tokens of the pair that are high
    const bool masked = number >= 2 && n - number >= 2;
    FOR_ROWS(n) {
        const int row = pairs_of(i, n), high = on.high[i];
        int degree[READINGS] = {};
        FOR_COLUMNS(n) {
            const bool is_pair = j < n;
            float x[SHOWN];
            int kind = 0, region = -1;
            if (is_pair) {
                own.shown(i, j, row + j, x);
                kind = classes[row + j]; // times sixteen
                region = high + on.high[j];
            }
            for (int v = 0; v < SHOWN; v++) {
                int bin = 0;
                if (is_pair) {
                    const float *edge = on.edges + v * ORDER_BINS;
                    bin = x[v] > edge[7] ? 8 : 0;
                    bin += x[v] > edge[bin + 3] ? 4 : 0;
                    bin += x[v] > edge[bin + 1] ? 2 : 0;
                    bin += x[v] > edge[bin] ? 1 : 0;
                    atomicAdd(&on.histogram[v * kinds * ORDER_BINS + kind + bin], 1);
                }
                if (v >= READINGS) continue;
                if (MAPS > 0 && masked && (region == 1 || region == other))
                    atomicAdd(&on.regions[((v * bands + kind / (ORDER_BINS * RELATIONS)) * 2 + (region != 1)) * ORDER_BINS + bin], 1);
                const unsigned top = __ballot_sync(FULL, bin == ORDER_BINS - 1);
                degree[v] += __popc(top);
                if (bin == ORDER_BINS - 1) atomicAdd(&on.degree[v * of.counting + j], 1);
            }
        }
        if (lane == 0) for (int v = 0; v < READINGS; v++) if (degree[v]) atomicAdd(&on.degree[v * of.counting + i], degree[v]);
    }
}

// Wins of each contrast in each band: half a warp to a reading or map and a band, a lane to a bin.
__device__ inline void count_wins(const Args &of, Order &on, int n) {
    const int bin = threadIdx.x % ORDER_BINS, bands = of.bands, kinds = bands * RELATIONS;
    const int number = on.count[READINGS];
    const bool masked = MAPS > 0 && number >= 2 && n - number >= 2;
    const int tasks = (SHOWN * bands + 1) / 2 * 2; // the halves of a warp stay together
    for (int task = threadIdx.x / ORDER_BINS; task < tasks; task += blockDim.x / ORDER_BINS) {
        const bool real = task < SHOWN * bands;
        const int v = real ? task / bands : 0, band = real ? task % bands : 0;
        const int *own_bins = on.histogram + (v * kinds + band * RELATIONS) * ORDER_BINS + bin;
        int of_relation[RELATIONS], all = 0;
        for (int r = 0; r < RELATIONS; r++) all += of_relation[r] = own_bins[r * ORDER_BINS];
        int ones[CONTRASTS + 1], zeros[CONTRASTS + 1];
        for (int c = 0; c < CONTRASTS; c++) {
            ones[c] = 0, zeros[c] = of_relation[UNRELATED];
            for (int r = 0; r < RELATIONS; r++) ones[c] += contrasted[c] >> r & 1 ? of_relation[r] : 0;
        }
        ones[CONTRASTS] = zeros[CONTRASTS] = 0;
        if (masked && v < READINGS) {
            const int *region = on.regions + (v * bands + band) * 2 * ORDER_BINS + bin, counted = region[ORDER_BINS];
            const int rest = all - region[0] - counted;
            ones[CONTRASTS] = 2 * number > n ? rest : counted;
            zeros[CONTRASTS] = 2 * number > n ? counted : rest;
        }
        double *to = on.part + (v * bands + band) * (CONTRASTS + 2);
        for (int c = 0; c <= CONTRASTS; c++) {
            int below = zeros[c]; // in this bin or a lower one
            for (int k = 1; k < ORDER_BINS; k *= 2) {
                const int y = __shfl_sync(FULL, below, (threadIdx.x % WARP) - (bin >= k ? k : 0));
                if (bin >= k) below += y;
            }
            i64 won = (i64)ones[c] * (2 * below - zeros[c]), n1 = ones[c];
            for (int k = ORDER_BINS / 2; k > 0; k /= 2) { won += __shfl_xor_sync(FULL, won, k); n1 += __shfl_xor_sync(FULL, n1, k); }
            if (bin != ORDER_BINS - 1 || !real) continue;
            const i64 n0 = below;
            to[c] = n0 > 0 ? 0.5 * won / (n1 + n0) : 0.0;
            if (c == CONTRASTS) to[c + 1] = n0 > 0 && n1 > 0 ? (double)(n1 * n0) / (n1 + n0) : 0.0;
        }
    }
}

// How the number of top pairs of a token goes with the length of its output. By one warp.
__device__ inline double with_lengths(const float *lengths, const int *degree, int n) {
    const int lane = threadIdx.x % WARP;
    double x_sum = 0, y_sum = 0, xx = 0, yy = 0, xy = 0;
    int of_x = 0, of_y = 0;
    for (int i = lane; i < n; i += WARP) {
        x_sum += (double)lengths[i]; y_sum += degree[i];
        of_x |= lengths[i] != lengths[0]; of_y |= degree[i] != degree[0];
    }
    x_sum = added(x_sum) / n; y_sum = added(y_sum) / n;
    of_x = __any_sync(FULL, of_x); of_y = __any_sync(FULL, of_y);
    for (int i = lane; i < n; i += WARP) {
        const double dx = (double)lengths[i] - x_sum, dy = degree[i] - y_sum;
        xx += dx * dx; yy += dy * dy; xy += dx * dy;
    }
    xx = added(xx); yy = added(yy); xy = added(xy);
    return of_x && of_y ? xy / sqrt(xx * yy) : 0.0;
}

extern "C" __global__ __launch_bounds__(256, 3) void by_order(const Args *args) {
    const Args &of = *args, &out = *args;
    const int h = blockIdx.x, b = blockIdx.y, thread = threadIdx.x, threads = blockDim.x;
    const int lane = thread % WARP, warp = thread / WARP, warps = threads / WARP;
    const int n = of.sizes[b], bands = of.bands, kinds = bands * RELATIONS, distinct = of.distinct[b];
    const i64 head = (i64)b * of.heads + h;
    if (n < 2) return; // the outputs were cleared before
    extern __shared__ double shared[];
    Order on(of, shared);
    const Head own(of, on, b, h);
    const int pairs = n * (n - 1) / 2;
    const int tables = (int)(on.count + READINGS + 2 - on.histogram);
    for (int k = thread; k < tables; k += threads) on.histogram[k] = 0;
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
    find_edges(of, own, on, b);
    find_moments(of, own, on, head); // waits for everybody
    count_by_order(of, own, on, b);
    order_null(of, b, h, distinct, on.keys, on.null_); // waits for everybody
    count_wins(of, on, n);
    for (int r = 0; r < READINGS; r++) { // top pairs: those in the last bin
        int number = 0;
        for (int k = thread; k < kinds; k += threads) number += on.histogram[(r * kinds + k) * ORDER_BINS + ORDER_BINS - 1];
        if (number) atomicAdd(&on.count[r], number);
    }
    const int *id_number = of.id_number + b * of.counting, *by_count = of.by_count + b * of.most_ids;
    for (int k = thread; k < READINGS * n; k += threads) {
        const int r = k / n, i = k % n, own_degree = on.degree[r * of.counting + i];
        if (own_degree) atomicAdd(&on.times[r * of.most_ids + id_number[i]], own_degree);
    }
    __syncthreads();
    for (int k = thread; k < SHOWN * (CONTRASTS + 2); k += threads) { // over the bands, from the first to the last
        const int v = k / (CONTRASTS + 2), c = k % (CONTRASTS + 2);
        double whole = 0;
        for (int band = 0; band < bands; band++) whole += on.part[(v * bands + band) * (CONTRASTS + 2) + c];
        if (v < READINGS && c <= CONTRASTS) out.wins[(head * READINGS + v) * (CONTRASTS + 1) + c] = whole;
        if (v >= READINGS && c < CONTRASTS) out.map_wins[(head * MAPS + v - READINGS) * CONTRASTS + c] = whole;
        if (v == 0 && c == CONTRASTS + 1) out.inside[head] = whole;
    }
    for (int r = 0; r < READINGS; r++) {
        const int *last = on.histogram + r * kinds * ORDER_BINS + ORDER_BINS - 1;
        if (pairs < of.fewest_for_top || on.count[r] * of.least_top < pairs) {
            if (thread == 0) atomicAdd(&out.top_few[h * READINGS + r], 1ull);
            continue; // for all threads
        }
        for (int k = thread; k < kinds; k += threads)
            if (last[k * ORDER_BINS]) atomicAdd(&out.top_pairs[((i64)h * READINGS + r) * kinds + k], (u64)last[k * ORDER_BINS]);
        match(last, ORDER_BINS, of.match_weights + (i64)b * COMPARISONS * 2 * kinds, kinds, out.top_matched + (head * READINGS + r) * COMPARISONS * 2);
        if (warp == (2 * r + 2) % warps) {
            int best, of_null;
            largest_id(on.times + r * of.most_ids, 1, by_count, on.null_, distinct, best, of_null);
            if (lane == 0) { out.top[head * READINGS + r] = best; out.top_null[head * READINGS + r] = of_null; }
        }
        if (warp == (2 * r + 3) % warps) {
            const double with = with_lengths(on.norms + OUTPUTS * of.counting, on.degree + r * of.counting, n);
            if (lane == 0) out.with_norms[head * READINGS + r] = with;
        }
    }
}
