// Maps in tiles: attention from queries and keys, what it says of tokens and of pairs.

#define TO_ROOT 0.72134752f     /* half the logarithm of e to the base of two: roots of weights are powers of two */
#define FROM_ROOT 1.38629436f   /* and back */
#define FAR_BELOW -1000.0f      /* a power of two that is nothing */
#define SCALE 32768.0f          /* of roots, so that small ones have their digits in 16 bits, too */

// Scores of sixteen queries and half of the keys, by each of sixteen warps: as D of a product of matrices lies in lanes.
template <int KIND> __device__ inline void score(const unsigned *queries, const unsigned *keys, int depth, float (*sums)[4]) {
    const int lane = threadIdx.x % WARP, strip = threadIdx.x / WARP % 8 * 16, columns = threadIdx.x / WARP / 8 * 64;
    const unsigned *left = queries + (strip + lane % 16) * STRIDE + lane / 16 * 4;
    const unsigned *right = keys + (columns + lane % 8 + lane / 16 * 8) * STRIDE + lane / 8 % 2 * 4;
#pragma unroll 1
    for (int k = 0; k < depth; k += 8) {
        unsigned a[4], c[4];
        load_fragments(a, left + k);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            load_fragments(c, right + 16 * e * STRIDE + k);
            multiply_vectors<KIND>(sums[2 * e], a, c);
            multiply_vectors<KIND>(sums[2 * e + 1], a, c + 2);
        }
    }
}

// The same of all numbers of the vectors. The first stretch was fetched.
__device__ inline void score_all(const Args &of, Chip &on, int b, int h, float (*sums)[4]) {
    const int queries = of.queries_of[b], keys = of.keys_of[b], width = of.score_width;
    unsigned *left = on.word + TILE * STRIDE, *right = left + TILE * STRIDE;
    const i64 of_query = b * of.query_batch + h * of.query_head, of_key = b * of.key_batch + h * of.key_groups / of.heads * of.key_group;
#pragma unroll 1
    for (int first = 0; first < width; first += DEPTH) {
        if (first) {
            __syncthreads();
            fetch_vectors(left, of.queries, of_query, of.query_token, queries, first, width);
            fetch_vectors(right, of.score_keys, of_key, of.key_token, keys, first, width);
            copies_done();
            __syncthreads();
        }
        const int depth = width - first < DEPTH ? (width - first + 1) / 2 : DEPTH / 2;
        if (of.score_kind == 1) score<1>(left, right, depth, sums);
        else score<2>(left, right, depth, sums);
    }
}

// Scores to roots of weights that are not over their sum yet, with what half a row comes to.
__device__ inline void begin_softmax(const Args &of, const Chip &on, int b, float (*sums)[4]) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP;
    const int strip = warp % 8 * 16, columns = warp / 8 * 64, tokens = of.tokens, queries = of.queries_of[b], keys = of.keys_of[b];
    const float scaling = (float)of.scaling * TO_ROOT;
    const bool all = !of.allowed && keys == TILE; // are read
#pragma unroll
    for (int f = 0; f < 2; f++) { // the row g of the strip, and the row g + 8
        const int i = strip + g + 8 * f;
        float largest = -infinity(), sum = 0, spread = 0;
        if (!all) {
            const unsigned char *allowed = of.allowed ? of.allowed + ((i64)b * tokens + (i < queries ? i : 0)) * tokens : 0;
#pragma unroll
            for (int e = 0; e < 8; e++)
                for (int q = 2 * f; q < 2 * f + 2; q++) {
                    const int j = columns + 8 * e + 2 * t + q % 2;
                    if (j >= keys || (allowed && !allowed[j])) sums[e][q] = -infinity();
                }
        }
#pragma unroll
        for (int e = 0; e < 8; e++)
            for (int q = 2 * f; q < 2 * f + 2; q++) largest = fmaxf(largest, sums[e][q]);
        largest = most_of_four(largest) * scaling; // which is above zero
        const float from = largest == -infinity() ? 0.0f : largest;
#pragma unroll
        for (int e = 0; e < 8; e++)
            for (int q = 2 * f; q < 2 * f + 2; q++) {
                const float away = !all && sums[e][q] == -infinity() ? FAR_BELOW : fused(sums[e][q], scaling, -from);
                const float root = power_of_two(away), part = root * root;
                sums[e][q] = root;
                sum += part;
                spread = fused(part, away, spread);
            }
        sum = added_by_four(sum), spread = added_by_four(spread);
        if (t == 0) on.parts[warp / 8 * TILE + i] = {largest, sum, spread};
    }
}

// Roots of weights, as upper and lower halves in 16 bits: 22 bits of them; sums of columns, and how even each row is.
__device__ inline void end_softmax(const Args &of, const Chip &on, int b, float (*sums)[4]) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP;
    const int strip = warp % 8 * 16, columns = warp / 8 * 64, queries = of.queries_of[b];
    float of_columns[16], by[2];
#pragma unroll
    for (int f = 0; f < 2; f++) {
        const int i = strip + g + 8 * f;
        const RowPart one = on.parts[i], two = on.parts[TILE + i];
        const float largest = fmaxf(one.largest, two.largest);
        const float of_one = one.largest == -infinity() ? 0.0f : power_of_two(one.largest - largest);
        const float of_two = two.largest == -infinity() ? 0.0f : power_of_two(two.largest - largest);
        const float sum = of_one * of_one * one.sum + of_two * of_two * two.sum;
        const bool reads = i < queries && sum != 0; // a sum that is no number stays so
        by[f] = reads ? (warp < 8 ? of_one : of_two) * over_root(sum) * SCALE : 0.0f;
        if (t == 0 && warp < 8) {
            const float of_first = of_one > 0 ? of_one * of_one * (one.spread + one.sum * (one.largest - largest)) : 0.0f;
            const float of_second = of_two > 0 ? of_two * of_two * (two.spread + two.sum * (two.largest - largest)) : 0.0f;
            on.spread[i] = reads ? logarithm(sum) - FROM_ROOT * (of_first + of_second) / sum : 0.0f;
        }
    }
    unsigned *upper = on.word + (strip + g) * ROW + columns / 2 + t, *lower = upper + PLANE;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        of_columns[2 * e] = of_columns[2 * e + 1] = 0;
        for (int f = 0; f < 2; f++) {
            const float x = sums[e][2 * f] * by[f], y = sums[e][2 * f + 1] * by[f];
            of_columns[2 * e] = fused(x, x, of_columns[2 * e]), of_columns[2 * e + 1] = fused(y, y, of_columns[2 * e + 1]);
            const unsigned word = two_halves(x, y);
            upper[8 * f * ROW + 4 * e] = word;
            lower[8 * f * ROW + 4 * e] = two_halves(x - lower_half(word), y - upper_half(word));
        }
    }
    deal_out<8, 2>(of_columns, 16); // each lane ends with two of the sixteen columns
    *(Pair *)(on.of_strips + warp % 8 * TILE + columns + 8 * g + 2 * t) = {of_columns[0] * (1 / SCALE / SCALE), of_columns[1] * (1 / SCALE / SCALE)};
}

// How much the tokens of pairs read each other, and rows of the map compared with rows, for the halves of tiles of a warp.
__device__ inline void compare_in_tiles(const Args &of, const Chip &on, int b, int halves, int keys, float (*direct)[HALF], float (*rows)[HALF]) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP, tokens = of.tokens;
#pragma unroll
    for (int m = 0; m < OF_WARP; m++) {
        const int half = warp + m * TILE_WARPS;
        for (int q = 0; q < HALF; q++) rows[m][q] = direct[m][q] = 0;
        if (half >= halves) break;
        const Strips at(half / 2);
        const int second = at.other + half % 2 * 8;
        const unsigned *left = on.word + (at.one + lane % 16) * ROW;
        const unsigned *right = on.word + lane / 16 * PLANE + (second + lane % 8) * ROW + lane / 8 % 2 * 4;
#pragma unroll 2
        for (int k = 0; k < keys / 2; k += 8) {
            unsigned upper[4], lower[4], other[4];
            load_fragments(upper, left + lane / 16 * 4 + k);
            load_fragments(lower, left + lane / 16 * 4 + k + PLANE);
            load_fragments(other, right + k);
            multiply_halves(rows[m], upper, other);
            multiply_halves(rows[m], upper, other + 2);
            multiply_halves(rows[m], lower, other);
        }
        unsigned there[4], back[4];
        load_fragments(there, left + lane / 16 * PLANE + second / 2);
        load_turned(back, right + at.one / 2);
        for (int q = 0; q < HALF; q++) {
            const int i = at.one + g + q / 2 * 8, j = second + 2 * t + q % 2, r = q / 2;
            const float x = q % 2 ? upper_half(there[r]) + upper_half(there[r + 2]) : lower_half(there[r]) + lower_half(there[r + 2]);
            const float y = q % 2 ? upper_half(back[r]) + upper_half(back[r + 2]) : lower_half(back[r]) + lower_half(back[r + 2]);
            direct[m][q] = fused(x, x, y * y); // but for a factor, where all tokens read as many
            if (!of.allowed) continue;
            const float over = i < tokens && j < tokens ? of.directions[((i64)b * tokens + i) * tokens + j] : 0.0f;
            direct[m][q] = (x * x * on.reads[i] + y * y * on.reads[j]) * over;
        }
    }
}

// What they say of pairs, where the map was. All threads have left it.
__device__ inline void put_pairs(const Chip &on, int halves, float (*direct)[HALF], float (*rows)[HALF]) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float *to = (float *)on.word + warp * HALF * WARP + lane;
#pragma unroll
    for (int m = 0; m < OF_WARP; m++) {
        if (warp + m * TILE_WARPS >= halves) break;
        for (int q = 0; q < HALF; q++) {
            to[(m * TILE_WARPS * HALF + q) * WARP] = direct[m][q];
            to[((m * TILE_WARPS + MOST_HALVES) * HALF + q) * WARP] = rows[m][q];
        }
    }
}

// The sums of four columns, by each lane of a warp.
__device__ inline void add_columns(const Chip &on, double *sums) {
    for (int e = 0; e < 4; e++) sums[e] = 0;
#pragma unroll
    for (int s = 0; s < 8; s++) {
        const Four own = ((const Four *)(on.of_strips + s * TILE))[threadIdx.x % WARP];
        for (int e = 0; e < 4; e++) sums[e] += (double)own.at[e];
    }
}

// What each category is given. By one warp.
__device__ inline void give_to_categories(const Args &of, const Chip &on, int b, i64 head) {
    const int lane = threadIdx.x % WARP, keys = of.keys_of[b];
    const int *category = of.category + (i64)b * of.keys;
    double sums[4], share = 0, carried = 0; // lanes keep those of a category each
    int own[4];
    add_columns(on, sums);
    for (int e = 0; e < 4; e++) own[e] = 4 * lane + e < keys ? category[4 * lane + e] : -1;
#pragma unroll 1
    for (int c = 0; c < CATEGORIES; c++) {
        double of_all = 0, of_values = 0;
        for (int e = 0; e < 4; e++)
            if (own[e] == c) { of_all += sums[e]; of_values += sums[e] * (double)on.lengths[4 * lane + e]; }
        of_all = added(of_all), of_values = added(of_values);
        if (lane == c) { share = of_all; carried = of_values; }
    }
    const double whole = added(carried);
    if (lane >= CATEGORIES) return;
    of.given[head * CATEGORIES + lane] = share / AT_LEAST_ONE(of.readers[2 * b]);
    of.weighted[head * CATEGORIES + lane] = !of.values ? not_a_number() : whole != 0 ? carried / whole : 0.0;
    if (!is_finite(share) || !is_finite(whole)) *of.not_finite = 1;
}

// How evenly tokens read. By one warp.
__device__ inline void take_entropy(const Args &of, const Chip &on, int b, i64 head) {
    double sum = 0;
    for (int i = threadIdx.x % WARP; i < of.tokens; i += WARP) sum += (double)on.spread[i] * of.evenness[(i64)b * of.tokens + i];
    sum = added(sum);
    const int several = of.readers[2 * b + 1];
    if (threadIdx.x % WARP == 0) of.entropy[head] = several > 0 ? sum / several : 0.0;
    if (!is_finite(sum)) *of.not_finite = 1;
}

__device__ inline int passed_by(double x) { // thresholds
    int k = x > 0 ? (int)(x * 20.0) : 0;
    if (k > STEPS) k = STEPS;
    if (k < STEPS && x > thresholds[k]) k++;
    while (k > 0 && !(x > thresholds[k - 1])) k--;
    return k;
}

// What tokens receive, and which of them are high. By one warp.
__device__ inline void receive(const Args &of, const Chip &on, int b, int h, i64 head) {
    const int lane = threadIdx.x % WARP, wide = of.keys, keys = of.keys_of[b];
    const int *category = of.category + (i64)b * wide, *is_counting = of.is_counting + (i64)b * wide;
    const double *even = of.even + (i64)b * wide;
    double received[4], largest = 0, largest_text = 0;
    int counting = 0;
    for (int k = lane; k < 2 * (STEPS + 1) * CATEGORIES; k += WARP) on.counts[k] = 0;
    add_columns(on, received);
    for (int e = 0; e < 4; e++) {
        const int j = 4 * lane + e;
        received[e] = j < keys && even[j] > 0 ? received[e] / even[j] : 0.0;
        largest = received[e] > largest ? received[e] : largest;
        if (j >= keys || !is_counting[j]) continue;
        counting |= 1 << e;
        largest_text = received[e] > largest_text ? received[e] : largest_text;
    }
    largest = most(largest), largest_text = most(largest_text); // waits for the lanes
    for (int e = 0; e < 4; e++) {
        const int j = 4 * lane + e;
        if (j >= wide) break;
        double share = j < keys && largest > 0 ? received[e] / largest : 0.0;
        int high = 0, passed = 0;
        if (j < keys) atomicAdd(&on.counts[passed_by(share) * CATEGORIES + category[j]], 1);
        if (counting >> e & 1 && largest_text > 0) {
            share = share / (largest_text / largest);
            high = share > of.theta, passed = passed_by(share);
            atomicAdd(&on.counts[(STEPS + 1 + passed) * CATEGORIES + category[j]], 1);
        }
        on.token[j].high = high;
        of.high[head * wide + j] = high, of.passed[head * wide + j] = passed;
    }
    __syncwarp();
    if (lane >= 2 * CATEGORIES) return;
    u64 *to = (lane < CATEGORIES ? of.attended : of.attended_text) + (i64)h * STEPS * CATEGORIES + lane % CATEGORIES;
    const int *own = on.counts + lane / CATEGORIES * (STEPS + 1) * CATEGORIES + lane % CATEGORIES;
    int sum = 0;
#pragma unroll 1
    for (int k = STEPS; k > 0; k--) { // tokens that pass so many or more
        sum += own[k * CATEGORIES];
        if (sum) atomicAdd(&to[(k - 1) * CATEGORIES], (u64)sum);
    }
}

// Attention, and all that it says. What is fetched of queries and keys is there.
__device__ inline void look_in_tiles(const Args &of, Chip &on, int b, int h, int halves) {
    const int warp = threadIdx.x / WARP, keys = of.keys_of[b];
    const i64 head = (i64)b * of.heads + h;
    {
        float sums[8][4] = {};
        score_all(of, on, b, h, sums);
        begin_softmax(of, on, b, sums);
        __syncthreads(); // nobody reads vectors any more
        take_lengths(of, on, head, halves);
        end_softmax(of, on, b, sums);
    }
    __syncthreads();
    if (warp == TILE_WARPS - 1) receive(of, on, b, h, head); // these have fewer tiles than others
    if (warp == TILE_WARPS - 2) give_to_categories(of, on, b, head);
    if (warp == TILE_WARPS - 3) take_entropy(of, on, b, head);
    float direct[OF_WARP][HALF], rows[OF_WARP][HALF];
    compare_in_tiles(of, on, b, halves, (keys + 15) / 16 * 16, direct, rows);
    __syncthreads();
    put_pairs(on, halves, direct, rows);
}
