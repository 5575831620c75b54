// What needs levels, of the main reading.

__device__ __noinline__ int bin_near_edge(float x, double largest) {
    const double level = (double)x / largest;
    if (level < 0.0) return 0;
    int k = level < 1.0 ? (int)(level * 20.0) : BINS - 2;
    if (k < BINS - 2 && level >= level_edges[k + 1]) k++;
    if (k > 0 && level < level_edges[k]) k--;
    return k + 1;
}

// The bin of S: by float32, and with more digits where rounding might carry it across an edge.
__device__ inline int bin_of(float x, float factor, double largest) {
    const float place = x * factor, whole = place + 12582912.0f - 12582912.0f; // rounded to a whole number
    if (!(fabsf(place - whole) > 1e-4f)) return bin_near_edge(x, largest);
    return place < 0 ? 0 : (int)place + 1;
}

// What a block of `by_level` has on the chip. Doubles and u64 first, for their alignment.
// `SCRATCH`: what does not fit lies in the memory of the card.
template <bool SCRATCH> struct Levels {
    double *room;           // (32,)
    u64 *far;               // (2,): Σ of the distances of high pairs: of all, and of those with the focal token
    double *before, *after; // (2, N): Σ S of a token with those that come before it in the mask, and after it, in halves
    float *norms;           // (N,): lengths of the vectors of the main reading
    int *position, *id;     // (N,): of the tokens that count
    int *turn;              // (N,): larger for a token that joins the mask earlier
    int *null_;             // (K,)
    int *high;              // (kinds,): pairs that are high at the run's τ
    int *best_of;           // (2,): focal token at the run's τ, number of high pairs
    int *times, *both;      // (K, bins): pairs of each id by level, and those with itself; may lie elsewhere
    int *table;             // (11, relations, distances) or (bins, table): pairs of all windows of the block, or none

    __device__ Levels(const Args &of, double *shared, int kinds) {
        const int tokens = of.counting, ids = of.most_ids;
        room = shared;
        far = (u64 *)(room + WARP);
        before = room + WARP + 2, after = before + 2 * tokens;
        norms = (float *)(after + 2 * tokens);
        position = (int *)(norms + tokens), id = position + tokens, turn = id + tokens;
        null_ = turn + tokens, high = null_ + ids, best_of = high + kinds;
        int *next = best_of + 2;
        times = SCRATCH ? of.scratch + ((i64)blockIdx.y * of.heads + blockIdx.x) * 2 * BINS * ids : next;
        both = times + BINS * ids;
        if (!SCRATCH) next += 2 * BINS * ids;
        table = of.table_on_chip ? next : 0;
    }
    __device__ inline int times_of(int at) const { return times[at]; }
    __device__ inline int both_of(int at) const { return both[at]; }
};

// S of two tokens that count, in the main reading.
struct Similarity {
    const float *matrix, *norms;
    const int *position;
    int tokens;

    __device__ inline float operator()(int i, int j) const {
        float x = matrix[position[i] * tokens + position[j]];
        if (scaled_of[0]) {
            const float size = norms[i] * norms[j];
            x = size > 0 ? x / size : 0.0f;
        }
        return x;
    }
};

// Pairs by distance are counted in halves of words, since there are few of each: the odd bins in the upper halves.
template <class On> __device__ inline void count_pair(const Args &of, const On &on, int h, int bin, int kind, int away) {
    if (!on.table) {
        const int cell = of.by_band ? kind : (away - 1) * RELATIONS + kind % RELATIONS;
        atomicAdd(&of.pairs[((i64)h * BINS + bin) * of.table + cell], 1ull);
    } else if (of.by_band)
        atomicAdd(&on.table[bin * of.table + kind], 1);
    else {
        const int distances = of.table / RELATIONS;
        atomicAdd(&on.table[(bin / 2 * RELATIONS + kind % RELATIONS) * distances + away - 1], bin % 2 ? 1 << 16 : 1);
    }
}

// Bins of all pairs of a window, and what is counted by them.
#define AHEAD 4 /* columns of a lane that are on their way from memory at a time */
template <class On> __device__ inline void count_by_level(const Args &of, const On &on, const Similarity &S, int b, int h, int n, bool flat, double largest) {
    const int lane = threadIdx.x % WARP, lowest = of.lowest;
    const float factor = (float)(20.0 / largest);
    i64 distances = 0;
    FOR_ROWS(n) {
        const int at = on.position[i], id = on.id[i];
        const i64 row = b * of.most_pairs + pairs_of(i, n);
        const unsigned short *classes = (const unsigned short *)of.classes + row;
#pragma unroll 1
        for (int first = i + 1; first < n; first += AHEAD * WARP) {
            float x[AHEAD];
            int kinds[AHEAD];
#pragma unroll
            for (int e = 0; e < AHEAD; e++) {
                const int j = first + e * WARP + lane;
                if (j < n) { x[e] = S(i, j); kinds[e] = classes[j] / ORDER_BINS; }
            }
#pragma unroll
            for (int e = 0; e < AHEAD; e++) {
                const int j = first + e * WARP + lane, kind = kinds[e];
                if (j >= n) break;
                const int bin = flat ? 0 : bin_of(x[e], factor, largest), away = on.position[j] - at, other = on.id[j];
                count_pair(of, on, h, bin, kind, away);
                if (of.by_band) atomicAdd(&of.distance_sum[((i64)h * BINS + bin) * RELATIONS + kind % RELATIONS], (u64)away);
                for (int r = 0; r < of.customs; r++)
                    if (of.custom[r * of.windows * of.most_pairs + row + j]) {
                        const int cell = of.by_band ? kind : (away - 1) * RELATIONS + kind % RELATIONS;
                        atomicAdd(&of.custom_pairs[((r * of.heads + h) * BINS + bin) * of.table + cell], 1ull);
                    }
                if (flat) continue;
                atomicAdd(&on.times[id * BINS + bin], 1);
                atomicAdd(&on.times[other * BINS + bin], 1);
                if (other == id) atomicAdd(&on.both[id * BINS + bin], 1);
                if (bin >= lowest) { atomicAdd(&on.high[kind], 1); distances += away; }
            }
        }
    }
    distances = whole(distances);
    if (lane == 0 && distances) atomicAdd(&on.far[0], (u64)distances);
}

#define FEW 8 /* numbers that are on their way from memory at a time */

// Each pair belongs to the token that joins the mask later: Σ S of a token with those that are there before it, and with
// those that are not. A thread to a token and half of the others; columns are rows, as S is the same on both sides.
template <class On> __device__ inline void sums_by_turn(const On &on, const Similarity &S, int n) {
    for (int k = threadIdx.x; k < 2 * n; k += blockDim.x) {
        const int i = k % n, end = k < n ? n / 2 : n, turn = on.turn[i];
        double before = 0, after = 0;
        for (int first = k < n ? 0 : n / 2; first < end; first += FEW) {
            float x[FEW];
#pragma unroll
            for (int e = 0; e < FEW; e++) x[e] = first + e < end && first + e != i ? S(first + e, i) : 0.0f;
#pragma unroll
            for (int e = 0; e < FEW; e++) {
                if (first + e < end && on.turn[first + e] > turn) before += (double)x[e];
                else after += (double)x[e];
            }
        }
        on.before[k] = before, on.after[k] = after;
    }
}

// Tokens join the mask in the order of the thresholds they pass, the highest first. A warp to a threshold.
template <class On> __device__ inline void masks(const Args &of, const On &on, i64 head, int n, double largest) {
    const int lane = threadIdx.x % WARP;
    const double over = 1.0 / largest;
    for (int k = threadIdx.x / WARP; k < STEPS; k += blockDim.x / WARP) {
        double inside = 0, either = 0, whole = 0;
        int in = 0;
        for (int i = lane; i < n; i += WARP) {
            const double after = on.after[i] + on.after[n + i];
            whole += after;
            if (on.turn[i] >> 16 > k) { inside += on.before[i] + on.before[n + i]; either += after; in++; }
        }
        inside = added(inside), either = added(either), whole = added(whole);
        in = sum_of_warp(in);
        if (lane) continue;
        double *sums = of.mask_sum + (head * STEPS + k) * 3;
        int *number = of.mask_pairs + (head * STEPS + k) * 3, out = n - in;
        sums[0] = inside * over; sums[1] = (either - inside) * over; sums[2] = (whole - either) * over;
        number[0] = in * (in - 1) / 2; number[1] = in * out; number[2] = out * (out - 1) / 2;
    }
}

// How many pairs of an id are in a bin or in a higher one.
__device__ inline void add_up(int *bins) {
    for (int k = BINS - 1, sum = 0; k > 1; k--) bins[k] = sum += bins[k];
}

// Focal tokens at every threshold, a warp to each.
template <class On> __device__ inline void focal_tokens(const Args &of, const On &on, const int *by_count, int b, i64 head, int distinct) {
    const int lane = threadIdx.x % WARP;
    for (int k = threadIdx.x / WARP; k < STEPS; k += blockDim.x / WARP) {
        int number = 0, best, of_null;
        for (int t = lane; t < distinct; t += WARP) number += on.times_of(t * BINS + k + 2);
        number = sum_of_warp(number) / 2; // every pair was counted for both of its tokens
        largest_id([&](int t) { return on.times_of(t * BINS + k + 2); }, by_count, on.null_, distinct, best, of_null);
        if (lane) continue;
        of.high_pairs[head * STEPS + k] = number;
        of.focal[head * STEPS + k] = number ? best : -1;
        of.focal_null[head * STEPS + k] = number ? of_null : -1;
        of.focal_share[head * STEPS + k] = number ? (double)(on.times_of(best * BINS + k + 2) - on.both_of(best * BINS + k + 2)) / number : 0.0;
        if (k == of.at_tau) {
            on.best_of[0] = number ? best : -1, on.best_of[1] = number;
            if (number) of.focal_ids[head] = of.ids[b * of.most_ids + best];
        }
    }
}

// The focal token at the run's τ: how often it occurs, how far its high pairs reach, whether it has the longest output.
// `squares` of the lengths of outputs, so far from each other.
template <class On, class Pairs> __device__ inline void describe_focal(const Args &of, const On &on, const Pairs &S, const float *squares, int apart, int b, i64 head, int n, double largest) {
    const int thread = threadIdx.x, threads = blockDim.x, lane = thread % WARP, warp = thread / WARP, warps = threads / WARP;
    const int best = on.best_of[0], number = on.best_of[1], kinds = of.bands * RELATIONS;
    const float factor = (float)(20.0 / largest);
    i64 reach = 0;
    int held = 0, occurs = 0, within = 0, again = 0;
    for (int i = warp; i < n; i += warps) {
        if (on.id[i] != best) continue; // the same for the whole warp
        occurs += lane == 0;
        for (int j = lane; j < n; j += WARP) {
            if (j == i || (j < i && on.id[j] == best)) continue; // the second was met from its other side
            const int away = on.position[j] - on.position[i];
            if (bin_of(S(i, j), factor, largest) >= of.lowest) { reach += away < 0 ? -away : away; held++; }
        }
    }
    unsigned longest = 0, place = FULL;
    for (int i = lane; i < n; i += WARP) { // squares are not negative, so their bits are in their order
        const unsigned bits = __float_as_uint(sqrtf(squares[on.position[i] * apart]));
        if (place == FULL || bits > longest) { longest = bits; place = i; }
    }
    const unsigned most = largest_of_warp(longest);
    place = smallest_of_warp(longest == most ? place : FULL);
    for (int k = thread; k < kinds; k += threads) {
        within += (IN_SENTENCE >> (k % RELATIONS) & 1) * on.high[k];
        again += (REPEATED >> (k % RELATIONS) & 1) * on.high[k];
    }
    int *sums = (int *)on.room; // four whole numbers
    __syncthreads();
    if (thread < 4) sums[thread] = 0;
    __syncthreads();
    const int each[4] = {held, occurs, within, again};
    for (int k = 0; k < 4; k++) {
        const int sum = sum_of_warp(each[k]);
        if (lane == 0 && sum) atomicAdd(&sums[k], sum);
    }
    reach = whole(reach);
    if (lane == 0 && reach) atomicAdd(&on.far[1], (u64)reach);
    __syncthreads();
    if (thread == 0) {
        of.frequency[head] = (double)sums[1] / n;
        of.reach[head] = (double)on.far[1] / sums[0];
        of.longest[head] = on.id[place] == best;
        double *row = of.row + head * 3;
        row[0] = (double)on.far[0] / number; row[1] = (double)sums[2] / number; row[2] = (double)sums[3] / number;
    }
}

// One window of a head. All threads come back from it, and nobody has left what it shares with others.
template <class On> __device__ inline void level_of_window(const Args &of, On &on, int b, int h) {
    const int thread = threadIdx.x, threads = blockDim.x;
    const int n = of.sizes[b], kinds = of.bands * RELATIONS, distinct = of.distinct[b];
    const i64 head = b * of.heads + h;
    if (n < 2) return;
    const double largest = (double)of.largest[head];
    if (!is_finite(largest)) return; // it was noticed before
    const bool flat = !(largest > 0);
    const float *matrix = of.products + (source_of[0] * of.windows * of.heads + head) * of.tokens * of.tokens;
    const Similarity S = {matrix, on.norms, on.position, (int)of.tokens};
    for (int k = thread; k < BINS * distinct; k += threads) on.times[k] = on.both[k] = 0;
    for (int k = thread; k < kinds; k += threads) on.high[k] = 0;
    for (int r = thread; r < distinct; r += threads) on.null_[r] = of.nulls[head * of.most_ids + r];
    if (thread < 2) { on.best_of[thread] = 0; on.far[thread] = 0; }
    double diagonal = 0;
    for (int i = thread; i < n; i += threads) {
        const int at = of.positions[b * of.counting + i];
        const float square = matrix[at * (of.tokens + 1)], norm = sqrtf(square);
        on.position[i] = at;
        on.id[i] = of.id_number[b * of.counting + i];
        on.turn[i] = (MAPS > 0 ? of.passed[head * of.keys + at] << 16 : 0) + 0xffff - i;
        on.norms[i] = norm;
        diagonal += (double)(!scaled_of[0] ? square : norm * norm > 0 ? square / (norm * norm) : 0.0f);
    }
    diagonal = added_by_all(diagonal, on.room); // waits for everybody
    count_by_level(of, on, S, b, h, n, flat, largest);
    if (flat) { if (thread == 0) of.flat[head] = 1; return; }
    if (thread == 0) of.diagonal[head] = diagonal / n / largest;
    if (MAPS > 0) sums_by_turn(on, S, n);
    __syncthreads();
    if (MAPS > 0) masks(of, on, head, n, largest);
    for (int t = thread; t < 2 * distinct; t += threads) add_up((t % 2 ? on.both : on.times) + t / 2 * BINS);
    __syncthreads();
    focal_tokens(of, on, of.by_count + b * of.most_ids, b, head, distinct);
    __syncthreads();
    if (on.best_of[0] < 0) return;
    for (int k = thread; k < kinds; k += threads) of.high_kinds[head * kinds + k] = on.high[k];
    const float *outputs = of.products + (OUTPUTS * of.windows * of.heads + head) * of.tokens * of.tokens;
    describe_focal(of, on, S, outputs, of.tokens + 1, b, head, n, largest);
}

// Pairs that were counted in halves of words, to those of all windows.
__device__ inline void add_halves(const Args &of, const int *table, int words, int distances, int h) {
    u64 *pairs = of.pairs + (i64)h * BINS * of.table;
    for (int k = threadIdx.x; k < words; k += blockDim.x) {
        const unsigned number = table[k];
        if (!number) continue;
        const int bin = k / (distances * RELATIONS) * 2, cell = k % distances * RELATIONS + k / distances % RELATIONS;
        if (number & 0xffff) atomicAdd(&pairs[bin * of.table + cell], (u64)(number & 0xffff));
        if (number >> 16) atomicAdd(&pairs[(bin + 1) * of.table + cell], (u64)(number >> 16));
    }
}

// A block goes through several windows of one head, so that it can add up their pairs on the chip.
template <bool SCRATCH> __device__ inline void levels_of_head(const Args &of) {
    const int h = blockIdx.x, distances = of.table / RELATIONS;
    extern __shared__ double shared[];
    Levels<SCRATCH> on(of, shared, of.bands * RELATIONS);
    const int words = !on.table ? 0 : of.by_band ? BINS * of.table : (BINS + 1) / 2 * of.table;
    for (int k = threadIdx.x; k < words; k += blockDim.x) on.table[k] = 0;
    __syncthreads();
    for (int b = blockIdx.y; b < of.windows; b += gridDim.y) {
        level_of_window(of, on, b, h);
        __syncthreads();
    }
    if (!of.by_band) { add_halves(of, on.table, words, distances, h); return; }
    for (int k = threadIdx.x; k < words; k += blockDim.x)
        if (on.table[k]) atomicAdd(&of.pairs[(i64)h * BINS * of.table + k], (u64)on.table[k]);
}
extern "C" __global__ __launch_bounds__(256, 3) void by_level(const __grid_constant__ Args of) { levels_of_head<false>(of); }
extern "C" __global__ __launch_bounds__(256, 3) void by_level_of_many(const __grid_constant__ Args of) { levels_of_head<true>(of); }
