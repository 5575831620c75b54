// Levels of pairs, from S in tiles as `by_tile` left it. A block goes through several windows of one head.

#define DISTANCES (TILE - 1)
#define LEVEL_THREADS (LEVEL_WARPS * WARP)
#define BYTES 4           /* of a number */
#define NOWHERE BINS      /* the bin of what is no pair: lanes that part would have to wait for each other */
#define REACH (BINS + 1)  /* behind the bins of an id: Σ of the distances of its high pairs */
#define OF_ID (BINS + 2)  /* numbers of an id */
#define OF_LEVELS (RELATIONS * DISTANCES + 16) /* of two levels by relation and distance; what is no pair may be 15 tokens behind */
static_assert(BINS % 2 == 1, "half a word is left for what is no pair");

// What is known of the token at a position.
struct alignas(16) LevelToken {
    int times, passed, counts; // where the counts of its id begin, in bytes; how many thresholds it passes; whether it counts
    float norm;
};

// What is found at the run's τ.
struct alignas(16) Found {
    int far, within, again; // Σ of the distances of high pairs; how many are in one sentence, and of repetitions
    int longest;            // where the counts of the longest output's id begin, in bytes
    int occurs, reach;      // how often the focal token occurs; Σ of the distances of its high pairs
    int window, counting;   // of which window; how many of its tokens count
};
#define NO_WINDOW -1

// What is found at each threshold: high pairs; focal tokens; high pairs of the first of them, each once.
struct alignas(16) Chosen { int number, best, of_null, held; };
static_assert(sizeof(Found) == 32 && sizeof(Chosen) == 16, "as `level_tile_bytes` has it");

// What a block of `level_tile` has on the chip, in the same places for all windows. Doubles and u64 first.
#define OF_TIMES (OF_ID * TILE)
struct LevelTile {
    double *sums;      // (warps, 3, THETAS): Σ S inside the mask, with its second token there, and with its first
    double *room;      // (4, 2): the lengths of warps' tokens: added up, the longest
    Found *both;       // (2,): what was found in a window is put away while the next one is brought to its end
    Chosen *of_both;   // (2, STEPS)
    int turn;          // which of them is this window's
    LevelToken *token; // (TILE,)
    unsigned *mask;    // (THETAS, MASK): which tokens pass each threshold, as 16-bit floats
    int *null_;        // (K,)
    int *by_count;     // (K,)
    int *high;         // (kinds,): pairs that are high at the run's τ
    int *times;        // (K, OF_ID): pairs of each id by level; in the upper halves those with itself
    int *spare;        // (32,): what lanes count whose pair is not high
    int *table;        // (11, OF_LEVELS): pairs of all windows of the block, the odd bins in the upper halves

    __device__ LevelTile(double *shared) {
        sums = shared, room = sums + LEVEL_WARPS * 3 * THETAS, both = (Found *)(room + 8);
        of_both = (Chosen *)(both + 2), token = (LevelToken *)(of_both + 2 * STEPS), mask = (unsigned *)(token + TILE);
        null_ = (int *)(mask + THETAS * MASK), by_count = null_ + TILE, high = by_count + TILE;
        times = high + MOST_KINDS, spare = times + OF_TIMES, table = spare + WARP, turn = 0;
    }
    __device__ inline Found *found() const { return both + turn; }
    __device__ inline Chosen *chosen() const { return of_both + turn * STEPS; }
};

// What a thread wants of a window, as it comes from memory: no load waits for another.
struct LevelWindow {
    int n, distinct;
    float largest;
    int id, passed; // of the token at the thread's position: the number of its id, or -1 where it does not count
    float squared;
    int null_, by_count; // of an id
    int one, two;        // of two tokens: how many thresholds they pass, or -1

    __device__ LevelWindow(const Args &of, int b, i64 head) : n(of.sizes[b]), distinct(of.distinct[b]), largest(of.largest[head]), id(-1), passed(0), squared(0), one(-1), two(-1) {
        const int i = threadIdx.x, r = LEVEL_THREADS - 1 - i, pair = i % (TILE / 2) * 2, tokens = of.tokens;
        const int *ids = of.id_at + (i64)b * tokens;
        const signed char *of_tokens = of.passed + head * of.keys;
        const float *squares = of.squares + head * tokens;
        if (i < TILE && i < tokens) id = ids[i], passed = of_tokens[i], squared = squares[i];
        if (r < of.most_ids) null_ = of.nulls[head * of.most_ids + r], by_count = of.by_count[b * of.most_ids + r];
        int id_one = -1, id_two = -1;
        if (pair < tokens) id_one = ids[pair], one = of_tokens[pair];
        if (pair + 1 < tokens) id_two = ids[pair + 1], two = of_tokens[pair + 1];
        one = id_one < 0 ? -1 : one, two = id_two < 0 ? -1 : two;
    }
};
static_assert(LEVEL_THREADS >= 2 * TILE, "a thread to a token and to an id");

// The tokens of a window, by the first four warps; a lane to a position.
__device__ inline void take_tokens(const LevelTile &on, const LevelWindow &from) {
    const int i = threadIdx.x;
    LevelToken own = {0, 0, 0, 0.0f};
    double square = 0;
    if (from.id >= 0) {
        square = (double)from.squared;
        own = {from.id * OF_ID * BYTES, from.passed, 1, sqrtf(from.squared)};
    }
    on.token[i] = own;
    const double unit = own.norm * own.norm > 0 ? (double)(from.squared / (own.norm * own.norm)) : 0.0;
    const double diagonal = added(scaled_of[0] ? unit : square), longest = largest_of_warp(scaled_of[0] ? 1.0 : square);
    if (i % WARP == 0) on.room[i / WARP * 2] = diagonal, on.room[i / WARP * 2 + 1] = longest;
}

// Which tokens that count pass each threshold, and all of them: zeros and ones.
__device__ inline void lay_out_masks(const LevelTile &on, const LevelWindow &from) {
    const int at = threadIdx.x % (TILE / 2);
    for (int row = threadIdx.x / (TILE / 2); row < THETAS; row += LEVEL_THREADS / (TILE / 2)) { // 0x3c00 is one
        const int least = row == ALL ? 0 : row < STEPS ? row + 1 : STEPS + 1; // thresholds
        on.mask[row * MASK + at] = (from.one >= least ? 0x3c00u : 0u) | (from.two >= least ? 0x3c000000u : 0u);
    }
}

// S of the lane's pairs in half a tile, and what they are to each other, on their way from memory.
struct HalfTile {
    Four similar;
    Two kinds;

    __device__ inline void load(const Four *of_similar, const Two *of_kinds, int half) { similar = of_similar[half * WARP], kinds = of_kinds[half * WARP]; }
    __device__ inline unsigned kind(int q) const { return q % 2 ? kinds.at[q / 2] >> 16 : kinds.at[q / 2] & 0xffff; }
};

// Halves of tiles by the first strip, then by columns of eight tokens from that strip on.
struct HalfTiles {
    int columns, strip, column, half; // columns of the window; the half that has been come to

    __device__ HalfTiles(int columns, int number) : columns(columns), strip(0), column(number) { // the one of this number
        for (; strip < columns / 2 && column >= columns; strip++) column -= columns - 2 - 2 * strip; // a strip has none before itself
        find();
    }
    __device__ inline void find() { half = 2 * (tiles_of_strips(column / 2) + strip) + column % 2; }
    __device__ inline bool ends_strip() const { return column == columns - 1; }
    __device__ inline void next() {
        if (ends_strip()) { column = 2 * ++strip; find(); }
        else half += column % 2 ? column : 1, column++;
    }
};

// In the main reading.
__device__ inline float in_main_reading(float x, const LevelToken &i, const LevelToken &j) {
    return !scaled_of[0] ? x : i.norm * j.norm > 0 ? x / (i.norm * j.norm) : 0.0f;
}

// The bins of the four pairs of a lane in half a tile: see `bin_of`. Whole numbers from the digits of a sum with a large one.
__device__ inline void bins_of(const float *x, const bool *real, float factor, double largest, bool flat, unsigned *bins) {
    bool near = factor == infinity(); // an edge; or S is next to nothing
    for (int q = 0; q < HALF; q++) {
        const float place = real[q] ? fmaxf(x[q] * factor, -0.5f) : NOWHERE - 0.5f, moved = place + 12582912.0f, whole = moved - 12582912.0f;
        bins[q] = __float_as_uint(moved) - 0x4b400000u + (place > whole);
        near |= !(fabsf(place - whole) > 1e-4f);
    }
    if (!near || flat) return;
#pragma unroll
    for (int q = 0; q < HALF; q++) if (real[q]) bins[q] = bin_of(x[q], factor, largest);
}

// What is counted of the pairs of a lane; places are in bytes from `times` on. What is no pair is counted where nobody looks, as
// are levels below every threshold.
struct LevelCounts {
    static constexpr int HIGH = -MOST_KINDS * BYTES, TABLE = (OF_TIMES + WARP) * BYTES; // where these begin
    const LevelTile &on;
    const int spare;
    int far[2]; // Σ of the distances of the high pairs of the lane's two tokens with those that come after

    __device__ LevelCounts(const LevelTile &on) : on(on), spare((OF_TIMES + (int)threadIdx.x % WARP) * BYTES) { far[0] = far[1] = 0; }
    __device__ inline void add(int place, int number) const { atomicAdd((int *)((char *)on.times + place), number); }
    __device__ inline void count(bool real, unsigned kind, unsigned bin, unsigned lowest, const LevelToken &i, const LevelToken &j, int apart, int row) {
        const int level = bin * BYTES, relation = kind / OF_KIND % RELATIONS, away = (apart - 1) * BYTES + TABLE;
        const bool high = real & (bin >= lowest), same = i.times == j.times;
        add(bin / 2 * (OF_LEVELS * BYTES) + relation * (DISTANCES * BYTES) + away, bin % 2 * 0xffff + 1);
        add(i.times + level, same ? 1 + (1 << 16) : 1);
        add(j.times + level, 1);
        add(high ? kind / ORDER_BINS + HIGH : spare, 1);
        add(high & !same ? j.times + REACH * BYTES : spare, apart);
        far[row] += high ? apart : 0;
    }
    // The lane's tokens are done with.
    __device__ inline void end(const LevelToken &one, const LevelToken &below) {
        for (int r = 0; r < 2; r++) {
            if (far[r]) { add((r ? below : one).times + REACH * BYTES, far[r]); atomicAdd(&on.found()->far, far[r]); }
            far[r] = 0;
        }
    }
};

// Levels of the pairs of a window, and what is counted by them. A warp goes through halves of tiles that follow each other: by the
// first strip, then by the second.
__device__ inline void count_levels(const Args &of, const LevelTile &on, int b, int h, int strips, bool flat, double largest, float by) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = warp_of_block(), lowest = of.lowest;
    const int tiles = tiles_of_strips(strips), end = 2 * tiles * (warp + 1) / LEVEL_WARPS;
    const float factor = flat ? 0.0f : (float)(20.0 / largest);
    const Two *kinds = (const Two *)(of.cells + (i64)b * tiles * CELLS) + lane;
    const Four *similar = (const Four *)(of.similar + ((i64)b * of.heads + h) * tiles * CELLS) + lane;
    Masked masked;
    LevelCounts counts(on);
    int k = 2 * tiles * warp / LEVEL_WARPS;
    HalfTiles at(2 * strips, k);
    HalfTile coming;
    if (k < end) coming.load(similar, kinds, at.half);
#pragma unroll 1
    for (; k < end; k++) {
        const HalfTile own = coming;
        const int first = 16 * at.strip + g, second = 8 * at.column + 2 * t, mask = 4 * at.column;
        const LevelToken one = on.token[first], below = on.token[first + 8], other = on.token[second], right = on.token[second + 1];
        const bool ends = at.ends_strip() || k + 1 == end;
        at.next();
        if (k + 1 < end) coming.load(similar, kinds, at.half);
        float x[HALF];
        bool real[HALF];
        unsigned bins[HALF];
        for (int q = 0; q < HALF; q++) {
            real[q] = own.kind(q) != NO_PAIR;
            x[q] = real[q] ? in_main_reading(own.similar.at[q], q / 2 ? below : one, q % 2 ? right : other) : 0.0f;
        }
        bins_of(x, real, factor, largest, flat, bins);
        for (int q = 0; q < HALF; q++)
            counts.count(real[q], own.kind(q), bins[q], lowest, q / 2 ? below : one, q % 2 ? right : other, second - first + q % 2 - q / 2 * 8, q / 2);
        if (flat) continue;
        // Lane 8m + r names the r-th of the eight thresholds m: where its eight tokens begin.
        masked.add(x, by, on.mask + (lane < THETAS ? lane : 0) * MASK + mask);
        if (ends) { masked.end(one.passed, below.passed); counts.end(one, below); }
    }
    masked.put(on.sums + warp * 3 * THETAS);
}

// Levels of the pairs that have relations of the caller's own.
__device__ inline void count_customs(const Args &of, const LevelTile &on, int b, int h, bool flat, double largest) {
    const int n = of.sizes[b];
    const i64 own = ((i64)b * of.heads + h) * tiles_of_strips((of.tokens + 15) / 16) * CELLS;
    const int *position = of.positions + (i64)b * of.counting;
    FOR_ROWS(n) FOR_COLUMNS(n) {
        if (j >= n) continue;
        const int one = position[i], other = position[j], relation = of.classes[b * of.most_pairs + pairs_of(i, n) + j] / ORDER_BINS % RELATIONS;
        const float x = in_main_reading(of.similar[own + cell_of(one, other)], on.token[one], on.token[other]);
        const int bin = flat ? 0 : bin_of(x, (float)(20.0 / largest), largest);
        for (int r = 0; r < of.customs; r++)
            if (of.custom[(r * of.windows + b) * of.most_pairs + pairs_of(i, n) + j])
                atomicAdd(&of.custom_pairs[((r * of.heads + h) * BINS + bin) * of.table + (other - one - 1) * RELATIONS + relation], 1ull);
    }
}
