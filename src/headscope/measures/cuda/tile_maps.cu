// Maps in tiles: attention from queries and keys, what it says of tokens and of pairs.

#define TO_ROOT 0.72134752f     /* half the logarithm of e to the base of two: roots of weights are powers of two */
#define FROM_ROOT 1.38629436f   /* and back */
#define FAR_BELOW -1000.0f      /* a power of two that is nothing */
#define SCALE 32768.0f          /* of roots, so that small ones have their digits in 16 bits, too */

// Scores of sixteen queries and three eighths of the keys, or what is left of these: a part of a row of each. Two parts to a
// warp, as D of a product of matrices lies in lanes.
#define PART 48  /* keys */
#define WIDE_OF 3 /* times sixteen keys of a part, at most */
#define PARTS_OF_WARP (8 * ROW_PARTS / TILE_WARPS)
static_assert((ROW_PARTS - 1) * PART < TILE && ROW_PARTS * PART >= TILE && PART == 16 * WIDE_OF, "parts make a row");
static_assert(PARTS_OF_WARP * TILE_WARPS == 8 * ROW_PARTS, "warps have as many parts each");
struct ScorePart {
    int strip, first, wide, number; // the first query, the first key, how many times sixteen keys, which of the parts

    __device__ ScorePart(const Chip &on, int k) { // of those of this warp
        const int part = on.warp + k * TILE_WARPS;
        number = part / 8, strip = part % 8 * 16, first = number * PART;
        const bool last = (k + 1) * TILE_WARPS > 8 * (ROW_PARTS - 1) && number == ROW_PARTS - 1;
        wide = last ? (TILE - (ROW_PARTS - 1) * PART) / 16 : WIDE_OF;
    }
};

// In lanes: scores of sixteen keys, of the queries g and g + 8 with 2t and 2t + 1, then with those eight further on.
typedef float Scores[WIDE_OF][2][4];

template <int KIND> __device__ inline void score(const unsigned *queries, const unsigned *keys, const ScorePart &part, Scores &scores) {
    const int lane = threadIdx.x % WARP;
    const unsigned *left = queries + (part.strip + lane % 16) * STRIDE + lane / 16 * 4;
    const unsigned *right = keys + (part.first + lane % 8 + lane / 16 * 8) * STRIDE + lane / 8 % 2 * 4;
#pragma unroll
    for (int k = 0; k < DEPTH / 2; k += 8) {
        unsigned a[4], c[4];
        load_fragments(a, left + k);
#pragma unroll
        for (int e = 0; e < WIDE_OF; e++) {
            if (e >= part.wide) break;
            load_fragments(c, right + 16 * e * STRIDE + k);
            multiply_vectors<KIND>(scores[e][0], a, c);
            multiply_vectors<KIND>(scores[e][1], a, c + 2);
        }
    }
}

// The same of all numbers of the vectors. The first stretch was fetched.
__device__ inline void score_all(const Args &of, Chip &on, int b, int h, Scores *scores) {
    unsigned *left = on.word + TILE * STRIDE, *right = left + TILE * STRIDE;
#pragma unroll 1
    for (int first = 0; first < of.score_width; first += DEPTH) {
        if (first) {
            __syncthreads();
            fetch_vectors(left, of.queries, begin_of_queries(of, b, h), of.query_token, on.window->queries, first, of.score_width);
            fetch_vectors(right, of.score_keys, begin_of_keys(of, b, h), of.key_token, on.window->keys, first, of.score_width);
            copies_done();
            __syncthreads();
        }
#pragma unroll
        for (int k = 0; k < PARTS_OF_WARP; k++) {
            if (of.score_kind == 1) score<1>(left, right, ScorePart(on, k), scores[k]);
            else score<2>(left, right, ScorePart(on, k), scores[k]);
        }
    }
}

// Scores to roots of weights that are not over their sum yet, with what a part of a row comes to.
__device__ inline void begin_softmax(const Args &of, const Chip &on, int b, const ScorePart &part, Scores &scores) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, tokens = of.tokens, queries = on.window->queries, keys = on.window->keys;
    const float scaling = (float)of.scaling * TO_ROOT;
    const bool all = !of.allowed && keys == TILE; // are read
#pragma unroll
    for (int f = 0; f < 2; f++) { // the row g of the strip, and the row g + 8
        const int i = part.strip + g + 8 * f;
        float largest = -infinity(), sum = 0, spread = 0;
        if (!all) {
            const unsigned char *allowed = of.allowed ? of.allowed + ((i64)b * tokens + (i < queries ? i : 0)) * tokens : 0;
            unsigned unread = 0; // a bit for each of the lane's keys
#pragma unroll 1
            for (int k = 0; k < 4 * WIDE_OF; k++) {
                const int j = part.first + k / 2 * 8 + 2 * t + k % 2;
                if (j >= keys || (allowed && !allowed[j])) unread |= 1u << k;
            }
#pragma unroll
            for (int k = 0; k < 4 * WIDE_OF; k++)
                if (unread >> k & 1) scores[k / 4][k / 2 % 2][2 * f + k % 2] = -infinity();
        }
#pragma unroll
        for (int e = 0; e < WIDE_OF; e++) {
            if (e >= part.wide) break;
            for (int c = 0; c < 2; c++)
                for (int q = 2 * f; q < 2 * f + 2; q++) largest = fmaxf(largest, scores[e][c][q]);
        }
        largest = most_of_four(largest) * scaling; // which is above zero
        const float from = largest == -infinity() ? 0.0f : largest;
#pragma unroll
        for (int e = 0; e < WIDE_OF; e++) {
            if (e >= part.wide) break;
            for (int c = 0; c < 2; c++)
                for (int q = 2 * f; q < 2 * f + 2; q++) {
                    const float away = not_below(FAR_BELOW, fused(scores[e][c][q], scaling, -from));
                    const float root = power_of_two(away), weight = root * root;
                    scores[e][c][q] = root;
                    sum += weight;
                    spread = fused(weight, away, spread);
                }
        }
        sum = added_by_four(sum), spread = added_by_four(spread);
        if (t == 0) on.parts[part.number * TILE + i] = {largest, sum, spread};
    }
}

// Roots of weights, as upper and lower halves in 16 bits: 22 bits of them; sums of columns, and how even each row is.
__device__ inline void end_softmax(const Args &of, const Chip &on, int b, const ScorePart &part, Scores &scores) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, queries = on.window->queries;
    float by[2];
#pragma unroll
    for (int f = 0; f < 2; f++) {
        const int i = part.strip + g + 8 * f;
        const RowPart of_lane = t < ROW_PARTS ? on.parts[t * TILE + i] : RowPart{-infinity(), 0, 0}; // a lane to a part
        const float away = of_lane.largest - most_of_four(of_lane.largest);
        const float of_part = of_lane.largest == -infinity() ? 0.0f : power_of_two(away), square = of_part * of_part;
        const float sum = added_by_four(square * of_lane.sum);
        const float spread = added_by_four(of_part > 0 ? square * fused(of_lane.sum, away, of_lane.spread) : 0.0f);
        const float own = __shfl_sync(FULL, of_part, lane / 4 * 4 + part.number);
        const bool reads = i < queries && sum != 0; // a sum that is no number stays so
        by[f] = reads ? own * over_root(sum) * SCALE : 0.0f;
        if (t == 0 && part.number == 0) on.spread[i] = reads ? logarithm(sum) - FROM_ROOT * spread / sum : 0.0f;
    }
    unsigned *upper = on.word + (part.strip + g) * ROW + part.first / 2 + t, *lower = upper + PLANE;
    float *to = on.of_strips + part.strip / 16 * TILE + part.first + lane / 16 * 8 + 2 * t + lane / 8 % 2;
#pragma unroll
    for (int e = 0; e < WIDE_OF; e++) {
        if (e >= part.wide) break;
        float of_columns[4]; // of these keys: 2t, 2t + 1, and those eight further on
        for (int c = 0; c < 2; c++) {
            of_columns[2 * c] = of_columns[2 * c + 1] = 0;
            for (int f = 0; f < 2; f++) {
                const float x = scores[e][c][2 * f] * by[f], y = scores[e][c][2 * f + 1] * by[f];
                of_columns[2 * c] = fused(x, x, of_columns[2 * c]), of_columns[2 * c + 1] = fused(y, y, of_columns[2 * c + 1]);
                const unsigned word = two_halves(x, y);
                upper[8 * f * ROW + 8 * e + 4 * c] = word;
                lower[8 * f * ROW + 8 * e + 4 * c] = two_halves(x - lower_half(word), y - upper_half(word));
            }
        }
        deal_out<2, 1>(of_columns, 16); // each lane ends with one of the sixteen, and shares it with another lane
        const float sum = of_columns[0] + __shfl_xor_sync(FULL, of_columns[0], 4);
        if (lane / 4 % 2 == 0) to[16 * e] = sum * (1 / SCALE / SCALE);
    }
}

// How much the tokens of pairs read each other, and rows of the map compared with rows, for the tiles of a warp.
typedef float OfTiles[OF_WARP][2][HALF];
__device__ inline void compare_in_tiles(const Args &of, const Chip &on, int b, int tiles, int keys, OfTiles &direct, OfTiles &rows) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, tokens = of.tokens;
    const Fragments<ROW> at_tiles(on);
    for (int k = 0; k < OF_WARP * 2 * HALF; k++) rows[k / 2 / HALF][k / HALF % 2][k % HALF] = 0;
#pragma unroll 1
    for (int k = 0; k < keys / 2; k += 8) {
        unsigned upper[4], lower[4], other[4], other_lower[4];
        const unsigned *left = on.word + at_tiles.left[0] + k, *right = on.word + at_tiles.right[0] + k;
        load_fragments(upper, left), load_fragments(lower, left + PLANE);
        load_fragments(other, right), load_fragments(other_lower, right + PLANE);
        FOR_TILES(tiles) {
            left = on.word + at_tiles.left[m] + k, right = on.word + at_tiles.right[m] + k;
            if (m && !on.same_one()) { load_fragments(upper, left); load_fragments(lower, left + PLANE); }
            if (m && !on.same_other()) { load_fragments(other, right); load_fragments(other_lower, right + PLANE); }
            for (int half = 0; half < 2; half++) {
                multiply_halves(rows[m][half], upper, other + 2 * half);
                multiply_halves(rows[m][half], upper, other_lower + 2 * half);
                multiply_halves(rows[m][half], lower, other + 2 * half);
            }
        }
    }
    FOR_TILES(tiles) {
        const Strips at = on.strips_of(m);
        float x[2][HALF], y[2][HALF];
        const unsigned *left = on.word + at_tiles.left[m], *right = on.word + at_tiles.right[m];
        unsigned there[4], there_lower[4], back[4], back_lower[4]; // roots of the tile; and of the tile across the diagonal, turned
        load_fragments(there, left + at.other / 2);
        load_fragments(there_lower, left + at.other / 2 + PLANE);
        load_turned(back, right + at.one / 2);
        load_turned(back_lower, right + at.one / 2 + PLANE);
        for (int half = 0; half < 2; half++)
            for (int q = 0; q < HALF; q++) {
                const int to = 2 * half + q / 2;
                x[half][q] = q % 2 ? upper_half(there[to]) + upper_half(there_lower[to]) : lower_half(there[to]) + lower_half(there_lower[to]);
                y[half][q] = q % 2 ? upper_half(back[to]) + upper_half(back_lower[to]) : lower_half(back[to]) + lower_half(back_lower[to]);
                direct[m][half][q] = fused(x[half][q], x[half][q], y[half][q] * y[half][q]); // but for a factor
            }
        if (!of.allowed) continue; // all tokens read as many
        for (int half = 0; half < 2; half++)
            for (int q = 0; q < HALF; q++) {
                const int i = at.one + g + q / 2 * 8, j = at.other + 8 * half + 2 * t + q % 2;
                const float over = i < tokens && j < tokens ? of.directions[((i64)b * tokens + i) * tokens + j] : 0.0f;
                direct[m][half][q] = (x[half][q] * x[half][q] * on.reads[i] + y[half][q] * y[half][q] * on.reads[j]) * over;
            }
    }
}

// What they say of pairs, where the map was. All threads have left it.
__device__ inline void put_pairs(const Chip &on, int tiles, const OfTiles &direct, const OfTiles &rows) {
    const int lane = threadIdx.x % WARP;
    FOR_TILES(tiles)
        for (int half = 0; half < 2; half++) {
            const float *one = direct[m][half], *other = rows[m][half];
            on.direct()[(2 * on.tile_of(m) + half) * WARP + lane] = {one[0], one[1], one[2], one[3]};
            on.rows()[(2 * on.tile_of(m) + half) * WARP + lane] = {other[0], other[1], other[2], other[3]};
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
    const int lane = threadIdx.x % WARP, keys = on.window->keys;
    const int *category = of.category + (i64)b * of.keys;
    double sums[4], share = 0, carried = 0; // lanes keep those of a category each
    int own[4];
    add_columns(on, sums);
    for (int e = 0; e < 4; e++) own[e] = 4 * lane + e < keys ? category[4 * lane + e] : -1;
#pragma unroll 1
    for (int c = 0; c < CATEGORIES; c++) {
        double of_all = 0, of_values = 0;
        for (int e = 0; e < 4; e++)
            if (own[e] == c) { of_all += sums[e]; of_values += of.values ? sums[e] * (double)on.lengths[4 * lane + e] : 0.0; }
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

// The four numbers of a lane, one after the other: the next one comes first.
template <class T> __device__ inline void turn(T *x) {
    const T first = x[0];
    x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = first;
}

// What tokens receive, and how many thresholds they pass, of all tokens or of those of the text: those that count. The second
// says which tokens are high. By one warp.
__device__ inline void receive(const Args &of, const Chip &on, int b, int h, i64 head, bool text) {
    const int lane = threadIdx.x % WARP, wide = of.keys, keys = on.window->keys;
    const int *category = of.category + (i64)b * wide, *is_counting = of.is_counting + (i64)b * wide;
    const double *even = of.even + (i64)b * wide;
    int *counts = on.counts + text * (STEPS + 1) * CATEGORIES;
    double received[4], by[4], largest = 0, largest_text = 0;
    int own[4], counting = 0;
    for (int e = 0; e < 4; e++) {
        const int j = 4 * lane + e < keys ? 4 * lane + e : 0;
        by[e] = even[j], own[e] = category[j];
        if (4 * lane + e < keys && is_counting[j]) counting |= 1 << e;
    }
    for (int k = lane; k < (STEPS + 1) * CATEGORIES; k += WARP) counts[k] = 0;
    add_columns(on, received);
#pragma unroll 1 // dividing takes much code, and code that is used once takes a while to come
    for (int e = 0; e < 4; e++, turn(received), turn(by)) {
        received[0] = 4 * lane + e < keys && by[0] > 0 ? received[0] / by[0] : 0.0;
        largest = received[0] > largest ? received[0] : largest;
        if (counting >> e & 1) largest_text = received[0] > largest_text ? received[0] : largest_text;
    }
    largest = most(largest), largest_text = most(largest_text); // waits for the lanes
    int number = 0; // of high tokens
#pragma unroll 1
    for (int e = 0; e < 4; e++, turn(received), turn(own)) {
        const int j = 4 * lane + e;
        double share = j < keys && largest > 0 ? received[0] / largest : 0.0;
        const bool counts_too = text ? counting >> e & 1 && largest_text > 0 : j < keys;
        if (text && counts_too) share = share / (largest_text / largest);
        const int passed = counts_too ? passed_by(share) : 0, high = counts_too && share > of.theta;
        if (counts_too) atomicAdd(&counts[passed * CATEGORIES + own[0]], 1);
        if (!text || j >= wide) continue;
        on.token[j].high = high, number += high;
        of.high[head * wide + j] = high, of.passed[head * wide + j] = passed;
    }
    number = sum_of_warp(number); // waits for the lanes
    if (text && lane == 0) on.count[READINGS] = number;
    u64 *to = (text ? of.attended_text : of.attended) + (i64)h * STEPS * CATEGORIES;
#pragma unroll 1
    for (int c = 0; c < CATEGORIES; c++) {
        int sum = lane <= STEPS ? counts[lane * CATEGORIES + c] : 0; // then of tokens that pass so many or more
        for (int away = 1; away <= STEPS; away *= 2) {
            const int more = __shfl_sync(FULL, sum, (lane + away) % WARP);
            if (lane + away < WARP) sum += more;
        }
        if (lane > 0 && sum) atomicAdd(&to[(lane - 1) * CATEGORIES + c], (u64)sum);
    }
}

// Attention, and what it says of pairs. What is fetched of vectors is there.
__device__ inline void look_in_tiles(const Args &of, Chip &on, int b, int h, int tiles, OfTiles &direct, OfTiles &rows) {
    if (of.values_kind == 1) measure_values<1>(of, on, on.word + 3 * TILE * STRIDE, b, h);
    else if (of.values) measure_values<2>(of, on, on.word + 3 * TILE * STRIDE, b, h);
    {
        Scores scores[PARTS_OF_WARP] = {};
        score_all(of, on, b, h, scores);
#pragma unroll
        for (int k = 0; k < PARTS_OF_WARP; k++) begin_softmax(of, on, b, ScorePart(on, k), scores[k]);
        __syncthreads(); // nobody reads vectors any more
        take_lengths(of, on, (i64)b * of.heads + h);
#pragma unroll
        for (int k = 0; k < PARTS_OF_WARP; k++) end_softmax(of, on, b, ScorePart(on, k), scores[k]);
    }
    __syncthreads();
    compare_in_tiles(of, on, b, tiles, (on.window->keys + 15) / 16 * 16, direct, rows);
}
