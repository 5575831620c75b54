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
            const int kind = on.warp < TILE_WARPS / 2 ? OF_QUERIES : OF_KEYS;
            fetch_vectors<TILE_THREADS / 2>(kind == OF_KEYS ? right : left, vectors_of(of, kind, b, h, on.window->queries, on.window->keys), first);
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
template <int COMMON> __device__ inline void multiply_roots(const Chip &on, const Fragments<ROW> &at_tiles, int tiles, int keys, OfTiles &rows) {
#pragma unroll 1
    for (int k = 0; k < keys / 2; k += 8) {
        unsigned upper[4], lower[4], other[4], other_lower[4];
        const unsigned *left = on.word + at_tiles.left[0] + k, *right = on.word + at_tiles.right[0] + k;
        load_fragments(upper, left), load_fragments(lower, left + PLANE);
        load_fragments(other, right), load_fragments(other_lower, right + PLANE);
        FOR_TILES(COMMON != UNKNOWN, tiles) {
            left = on.word + at_tiles.left[m] + k, right = on.word + at_tiles.right[m] + k;
            if (m && (COMMON == UNKNOWN ? !on.same_one() : COMMON != SAME_ONE)) { load_fragments(upper, left); load_fragments(lower, left + PLANE); }
            if (m && (COMMON == UNKNOWN ? !on.same_other() : COMMON != SAME_OTHER)) { load_fragments(other, right); load_fragments(other_lower, right + PLANE); }
            for (int half = 0; half < 2; half++) {
                multiply_halves(rows[m][half], upper, other + 2 * half);
                multiply_halves(rows[m][half], upper, other_lower + 2 * half);
                multiply_halves(rows[m][half], lower, other + 2 * half);
            }
        }
    }
}
__device__ inline void compare_in_tiles(const Args &of, const Chip &on, int b, int tiles, int keys, OfTiles &direct, OfTiles &rows) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, tokens = of.tokens;
    const Fragments<ROW> at_tiles(on);
    for (int k = 0; k < OF_WARP * 2 * HALF; k++) rows[k / 2 / HALF][k / HALF % 2][k % HALF] = 0;
    if (on.same_other()) multiply_roots<SAME_OTHER>(on, at_tiles, tiles, keys, rows);
    else if (on.same_one()) multiply_roots<SAME_ONE>(on, at_tiles, tiles, keys, rows);
    else multiply_roots<UNKNOWN>(on, at_tiles, tiles, keys, rows);
    FOR_TILES(false, tiles) {
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
    FOR_TILES(false, tiles)
        for (int half = 0; half < 2; half++) {
            const float *one = direct[m][half], *other = rows[m][half];
            on.direct()[(2 * on.tile_of(m) + half) * WARP + lane] = {one[0], one[1], one[2], one[3]};
            on.rows()[(2 * on.tile_of(m) + half) * WARP + lane] = {other[0], other[1], other[2], other[3]};
        }
}

// What each token receives, added up over strips, and over what it would receive if all read evenly. A thread to a token.
__device__ inline void sum_columns_of_tile(const Chip &on) {
    const int j = threadIdx.x;
    double sum = 0;
#pragma unroll
    for (int s = 0; s < 8; s++) sum += (double)on.of_strips[s * TILE + j];
    const double even = on.even[j];
    on.put_column(j, sum, even > 0 ? sum / even : 0.0);
}

// What each category is given: four lanes to a category. By one warp. The code of this and of what follows is short rather than
// fast: what a block runs once waits for it.
__device__ inline void give_to_categories(const Args &of, const Chip &on, int b, i64 head) {
    const int lane = threadIdx.x % WARP, c = lane / 4;
    static_assert(4 * CATEGORIES <= WARP, "there are lanes");
    double sums[2] = {}; // of weights, and of what they carry
#pragma unroll 4
    for (int j = lane % 4; j < TILE; j += 4) {
        const double column = (on.token[j].what & ~COUNTS) == c ? on.column(j) : 0.0;
        sums[0] += column, sums[1] += of.values ? column * (double)on.lengths[j] : 0.0;
    }
#pragma unroll 1
    for (int away = 1; away < 4; away *= 2)
        for (int k = 0; k < 2; k++) sums[k] += __shfl_xor_sync(FULL, sums[k], away);
    double whole = 0;
    for (int k = 0; k < CATEGORIES; k++) whole += __shfl_sync(FULL, sums[1], 4 * k);
    if (lane % 4 || c >= CATEGORIES) return;
    of.given[head * CATEGORIES + c] = sums[0] / AT_LEAST_ONE(of.readers[2 * b]);
    of.weighted[head * CATEGORIES + c] = !of.values ? not_a_number() : whole != 0 ? sums[1] / whole : 0.0;
    if (!is_finite(sums[0]) || !is_finite(whole)) *of.not_finite = 1;
}

// How evenly tokens read. By one warp.
__device__ inline void take_entropy(const Args &of, const Chip &on, int b, i64 head) {
    const int lane = threadIdx.x % WARP, several = of.readers[2 * b + 1];
    double sum = 0;
#pragma unroll 1
    for (int i = lane; i < of.tokens; i += WARP) sum += (double)on.spread[i] * of.evenness[(i64)b * of.tokens + i];
    add_all<1>(&sum);
    if (lane == 0) of.entropy[head] = several > 0 ? sum / several : 0.0;
    if (!is_finite(sum)) *of.not_finite = 1;
}

// What tokens receive, and how many thresholds they pass, of all tokens or of those of the text: those that count. The second
// says which tokens are high. By one warp.
__device__ inline void receive(const Args &of, const Chip &on, int b, int h, i64 head, bool text) {
    const int lane = threadIdx.x % WARP, wide = of.keys, keys = on.window->keys;
    u64 *counts = (text ? of.attended_text : of.attended) + (i64)h * STEPS * CATEGORIES;
    double largest = 0, largest_text = 0;
#pragma unroll 1
    for (int j = lane; j < TILE; j += WARP) {
        const double received = on.received(j);
        largest = received > largest ? received : largest;
        if (on.token[j].what & COUNTS) largest_text = received > largest_text ? received : largest_text;
    }
    largest = largest_of_warp(largest), largest_text = largest_of_warp(largest_text);
    int number = 0; // of high tokens
#pragma unroll 1
    for (int j = lane; j < TILE; j += WARP) {
        const int what = on.token[j].what;
        const bool counts_too = text ? what & COUNTS && largest_text > 0 : j < keys;
        double share = largest > 0 ? on.received(j) / largest : 0.0;
        if (text && counts_too) share = share / (largest_text / largest);
        const int passed = counts_too ? passed_by(share) : 0, high = counts_too && share > of.theta;
        count_passed(counts, passed, what & ~COUNTS);
        if (!text || j >= wide) continue;
        on.token[j].high = high, number += high;
        of.high[head * wide + j] = high, of.passed[head * wide + j] = passed;
    }
    number = sum_of_warp(number);
    if (text && lane == 0) on.count[READINGS] = number;
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
    if (threadIdx.x < TILE) sum_columns_of_tile(on);
    compare_in_tiles(of, on, b, tiles, (on.window->keys + 15) / 16 * 16, direct, rows);
}
