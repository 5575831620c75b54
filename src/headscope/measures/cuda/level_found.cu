// What follows from levels in tiles: sums over masks, focal tokens, what high pairs are; and the kernel.

// Pairs inside the mask, at its edge and outside at every threshold, and the sums of their levels. By one warp, a lane to a
// threshold.
__device__ inline void sum_masks(const Args &of, const LevelTile &on, i64 head, int n, double over) {
    const int k = threadIdx.x % WARP;
    if (k >= STEPS) return;
    int in = 0; // tokens
    const Four *mask = (const Four *)(on.mask + k * MASK);
#pragma unroll
    for (int w = 0; w < TILE / 8; w++) {
        const Four eight = mask[w];
        for (int e = 0; e < 4; e++) in += __popc(__float_as_uint(eight.at[e]));
    }
    in /= 4; // a one has four bits
    double inside = 0, either = 0, whole = 0;
#pragma unroll
    for (int w = 0; w < LEVEL_WARPS; w++) {
        const double *own = on.sums + w * 3 * THETAS;
        inside += own[k], either += own[THETAS + k] + own[2 * THETAS + k], whole += own[THETAS + ALL];
    }
    const int out = n - in;
    double *sums = of.mask_sum + (head * STEPS + k) * 3;
    int *number = of.mask_pairs + (head * STEPS + k) * 3;
    sums[0] = inside * over, sums[1] = (either - 2 * inside) * over, sums[2] = (whole - either + inside) * over;
    number[0] = in * (in - 1) / 2, number[1] = in * out, number[2] = out * (out - 1) / 2;
}

// The longest output, the first of several; and what high pairs are. By one warp.
__device__ inline void look_about(const LevelTile &on, int kinds) {
    const int lane = threadIdx.x % WARP;
    unsigned longest = 0, place = FULL;
    for (int i = lane; i < TILE; i += WARP) { // lengths are not negative, so their bits are in their order
        const unsigned bits = __float_as_uint(on.token[i].norm);
        if (on.token[i].counts && (place == FULL || bits > longest)) { longest = bits; place = i; }
    }
    const unsigned most = largest_of_warp(longest);
    place = smallest_of_warp(longest == most ? place : FULL);
    int within = 0, again = 0;
    for (int k = lane; k < kinds; k += WARP) {
        within += (IN_SENTENCE >> (k % RELATIONS) & 1) * on.high[k];
        again += (REPEATED >> (k % RELATIONS) & 1) * on.high[k];
    }
    within = sum_of_warp(within), again = sum_of_warp(again);
    if (lane == 0) on.found()->longest = on.token[place].times, on.found()->within = within, on.found()->again = again;
}

// Focal tokens at every threshold, a few to a warp; a lane has the same ids at all of them. See `focal_tokens`.
__device__ inline void choose_tokens(const Args &of, const LevelTile &on, int distinct) {
    constexpr int OF_LANE = TILE / WARP, STEPS_OF_WARP = (STEPS + LEVEL_WARPS - 1) / LEVEL_WARPS;
    const int lane = threadIdx.x % WARP, warp = warp_of_block();
    unsigned own[STEPS_OF_WARP] = {}, own_id[STEPS_OF_WARP], other[STEPS_OF_WARP] = {}, other_id[STEPS_OF_WARP];
    int number[STEPS_OF_WARP] = {};
    for (int q = 0; q < STEPS_OF_WARP; q++) own_id[q] = other_id[q] = FULL;
#pragma unroll
    for (int e = 0; e < OF_LANE; e++) {
        const int r = lane + e * WARP;
        if (r >= distinct) break;
        const int second = on.by_count[r] * OF_ID; // where the counts begin that the null gives to an id
        const unsigned id = on.null_[r];
        for (int q = 0; q < STEPS_OF_WARP; q++) {
            const int k = warp + q * LEVEL_WARPS;
            const int *counts = on.times + (k < STEPS ? k : 0) + 2;
            const unsigned one = counts[r * OF_ID] & 0xffff, two = counts[second] & 0xffff;
            number[q] += one;
            if (own_id[q] == FULL || one > own[q]) { own[q] = one; own_id[q] = r; } // r grows
            if (other_id[q] == FULL || two > other[q] || (two == other[q] && id < other_id[q])) { other[q] = two; other_id[q] = id; }
        }
    }
#pragma unroll
    for (int q = 0; q < STEPS_OF_WARP; q++) {
        const int k = warp + q * LEVEL_WARPS;
        if (k >= STEPS) break;
        const int whole = sum_of_warp(number[q]) / 2; // every pair was counted for both of its tokens
        const unsigned most_own = largest_of_warp(own[q]), most_other = largest_of_warp(other[q]);
        const int best = smallest_of_warp(own[q] == most_own ? own_id[q] : FULL), of_null = smallest_of_warp(other[q] == most_other ? other_id[q] : FULL);
        const unsigned both = on.times[best * OF_ID + k + 2];
        if (lane == 0) on.chosen()[k] = {whole, best, of_null, (int)(both & 0xffff) - (int)(both >> 16)};
        if (k != of.at_tau) continue;
        int occurs = 0;
        for (int i = lane; i < TILE; i += WARP) occurs += on.token[i].counts && on.token[i].times == best * OF_ID * BYTES;
        occurs = sum_of_warp(occurs);
        if (lane == 0) on.found()->occurs = occurs, on.found()->reach = on.times[best * OF_ID + REACH];
    }
}

// What was found, a lane to a threshold or to a number. By one warp.
__device__ inline void put_found(const Args &of, const LevelTile &on, int turn, int h) {
    const int lane = threadIdx.x % WARP;
    const Found found = on.both[turn];
    const Chosen *chosen = on.of_both + turn * STEPS;
    const Chosen at_tau = chosen[of.at_tau];
    const int b = found.window, n = found.counting;
    const i64 head = (i64)b * of.heads + h;
    if (b == NO_WINDOW) return;
    if (lane < STEPS) {
        const Chosen own = chosen[lane];
        const i64 place = head * STEPS + lane;
        of.high_pairs[place] = own.number;
        of.focal[place] = own.number ? own.best : -1, of.focal_null[place] = own.number ? own.of_null : -1;
        of.focal_share[place] = own.number ? (double)own.held / own.number : 0.0;
    }
    if (!at_tau.number) return;
    const double number = at_tau.number;
    const double above[5] = {(double)found.occurs, (double)found.reach, (double)found.far, (double)found.within, (double)found.again};
    const double below[5] = {(double)n, (double)at_tau.held, number, number, number};
    double *const to[5] = {of.frequency + head, of.reach + head, of.row + head * 3, of.row + head * 3 + 1, of.row + head * 3 + 2};
#pragma unroll
    for (int k = 0; k < 5; k++) if (lane == k) *to[k] = above[k] / below[k];
    if (lane == 5) of.longest[head] = found.longest == at_tau.best * OF_ID * BYTES;
    if (lane == 6) of.focal_ids[head] = of.ids[b * of.most_ids + at_tau.best];
}

// What is read of another window is to come nearer meanwhile: S to the card's cache, and later what comes first to the processor's.
__device__ inline void call_similar(const Args &of, int b, int h) {
    const i64 cells = tiles_of_strips((of.tokens + 15) / 16) * CELLS;
    const float *similar = of.similar + ((i64)b * of.heads + h) * cells;
    for (int k = threadIdx.x * (LINE / 4); k < cells; k += LEVEL_THREADS * (LINE / 4)) call(similar + k);
}
__device__ inline void call_window(const Args &of, int b, int h) {
    const i64 head = (i64)b * of.heads + h;
    const int i = threadIdx.x, r = LEVEL_THREADS - 1 - i;
    if (i < of.tokens) call_near(of.id_at + (i64)b * of.tokens + i), call_near(of.squares + head * of.tokens + i), call_near(of.passed + head * of.keys + i);
    if (r < of.most_ids) call_near(of.nulls + head * of.most_ids + r), call_near(of.by_count + b * of.most_ids + r);
    if (i == 0) call_near(of.sizes + b), call_near(of.distinct + b), call_near(of.largest + head);
}

// One window of a head. What a thread has on the chip is overwritten only after a barrier that follows its last use.
__device__ inline void level_of_tiles(const Args &of, LevelTile &on, int b, int h) {
    const int thread = threadIdx.x, warp = warp_of_block(), strips = (of.tokens + 15) / 16, following = b + gridDim.y;
    const i64 head = (i64)b * of.heads + h;
    const LevelWindow own(of, b, head);
    const int n = own.n, kinds = of.bands * RELATIONS, distinct = own.distinct;
    const double largest = (double)own.largest;
    if (following < of.windows) call_similar(of, following, h);
    if (n < 2) return;
    if (!is_finite(largest)) return; // it was noticed before
    const bool flat = !(largest > 0);
    if (LEVEL_THREADS - 1 - thread < distinct) on.null_[LEVEL_THREADS - 1 - thread] = own.null_, on.by_count[LEVEL_THREADS - 1 - thread] = own.by_count;
    if (warp < TILE / WARP) take_tokens(on, own);
    lay_out_masks(on, own);
    Four *times = (Four *)on.times;
    for (int k = thread; k < (OF_ID * distinct + 3) / 4; k += LEVEL_THREADS) times[k] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = thread; k < kinds; k += LEVEL_THREADS) on.high[k] = 0;
    if (thread == 0) *on.found() = {0, 0, 0, 0, 0, 0, b, n};
    __syncthreads();
    double diagonal = 0, longest = 0;
    for (int w = 0; w < TILE / WARP; w++) {
        diagonal += on.room[2 * w];
        longest = on.room[2 * w + 1] > longest ? on.room[2 * w + 1] : longest;
    }
    // No product is longer: fits into 16 bits, with room below. Of outputs that are nearly nothing it is no more than a float can be.
    const float by = fminf(16384.0f * over_power_of_two((float)longest), 1.7014118e38f);
    count_levels(of, on, b, h, strips, flat, largest, by);
    if (of.customs) count_customs(of, on, b, h, flat, largest);
    if (thread == 0) { if (flat) of.flat[head] = 1; else of.diagonal[head] = diagonal / n / largest; }
    __syncthreads();
    if (flat) return;
    if (following < of.windows) call_window(of, following, h);
    for (int t = thread; t < distinct; t += LEVEL_THREADS) add_up(on.times + t * OF_ID);
    static_assert(LEVEL_WARPS - 4 >= TILE / WARP, "warps for ids, and one for each of these");
    if (warp == LEVEL_WARPS - 4) put_found(of, on, !on.turn, h); // of the window before
    if (warp == LEVEL_WARPS - 3) sum_masks(of, on, head, n, 1.0 / ((double)by * largest));
    if (warp == LEVEL_WARPS - 2) for (int k = thread % WARP; k < kinds; k += WARP) of.high_kinds[head * kinds + k] = on.high[k];
    if (warp == LEVEL_WARPS - 1) look_about(on, kinds);
    __syncthreads();
    choose_tokens(of, on, distinct);
    __syncthreads();
    on.turn = !on.turn;
}

// Pairs of all windows of the block, to those of others.
__device__ inline void put_pairs_by_level(const Args &of, const LevelTile &on, int h) {
    u64 *pairs = of.pairs + (i64)h * BINS * of.table;
    for (int k = threadIdx.x; k < (BINS + 1) / 2 * RELATIONS * DISTANCES; k += LEVEL_THREADS) {
        const int two = k / (RELATIONS * DISTANCES), rest = k % (RELATIONS * DISTANCES), cell = rest % DISTANCES * RELATIONS + rest / DISTANCES;
        const unsigned number = on.table[two * OF_LEVELS + rest];
        for (int odd = 0; odd < 2; odd++) {
            const unsigned own = odd ? number >> 16 : number & 0xffff;
            if (own && 2 * two + odd < BINS) atomicAdd(&pairs[(2 * two + odd) * of.table + cell], (u64)own);
        }
    }
}

extern "C" __global__ __launch_bounds__(LEVEL_THREADS, 3) void level_tile(const __grid_constant__ Args of) {
    const int h = blockIdx.x;
    extern __shared__ double shared[];
    LevelTile on(shared);
    for (int k = threadIdx.x; k < (BINS + 1) / 2 * OF_LEVELS; k += LEVEL_THREADS) on.table[k] = 0;
    if (threadIdx.x == 0) on.both[1].window = NO_WINDOW;
    __syncthreads();
    for (int b = blockIdx.y; b < of.windows; b += gridDim.y) level_of_tiles(of, on, b, h);
    __syncthreads();
    if (warp_of_block() == 0) put_found(of, on, !on.turn, h);
    put_pairs_by_level(of, on, h);
}
