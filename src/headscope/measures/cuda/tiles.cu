// Windows of at most 128 tokens, whose attention is computed from queries and keys: everything that needs no threshold.
// Attention never leaves the chip; S is left in memory for `level_tile`. A block of twelve warps to a head and a window; here
// the vectors, and S.

#define TILE_THREADS (TILE_WARPS * WARP)
#define MOST_TILES 36                  /* of a window */
#define OF_WARP (MOST_TILES / TILE_WARPS)
#define PLANE (TILE * ROW)
#define SMALLEST 1e-12f /* lengths between which numbers are ordinary; zeros are, too */
#define LARGEST 1e12f
#define LARGER(x, y) ((x) > (y) ? (x) : (y))
static_assert(OF_WARP * TILE_WARPS == MOST_TILES, "warps have as many tiles each");

// The tiles of a warp, where there are so many; `WHOLE`: the window has all that there may be.
#define FOR_TILES(WHOLE, tiles) _Pragma("unroll") for (int m = 0; m < OF_WARP; m++) if ((WHOLE) || on.warp + m * TILE_WARPS < (tiles))

// Those of a window of eight strips: two digits to a tile, of the second strip and of the first. The three have one strip in
// common, so that it is loaded once: the second where the first digit is 1, the first where it is 2.
static_assert(TILE_WARPS == 12 && OF_WARP == 3, "as these have it");
__device__ constexpr unsigned tiles_of_warp[TILE_WARPS] = {01747372, 01777675, 01636261, 01666564, 01525150, 01555453, 01444342, 01333231,
                                                           01222120, 02706040, 02301000, 02714111};

// A number of each pair of a lane, in the tiles of its warp.
typedef float OfTiles[OF_WARP][2][HALF];

// What is known of the token at a position.
#define COUNTS 8 /* beside its category */
struct alignas(16) Token {
    float length, inverse; // of its output, and 1 over it
    int high, what;        // whether it is high in attention; its category, and whether it counts
};
static_assert(CATEGORIES <= COUNTS, "there is room");

// What is known of the window: registers are few, and what lies in the memory of the card takes a while.
struct alignas(16) About { int counting, different, queries, keys; }; // tokens that count, their ids, tokens that query and are read

// What a part of a row of scores comes to, beside the others.
struct RowPart { float largest, sum, spread; };

// Which lanes have a top pair, for each of the four pairs that a lane has of half a tile.
struct alignas(16) TopPairs { unsigned of[HALF]; };

// What a block of `by_tile` has on the chip: what `by_order` has, and before that the map. The same for all windows, so that
// every place is known when this is compiled.
struct Chip : Order {
    unsigned *word;    // vectors; then roots of the map, upper and lower halves; then what maps say of pairs; then wins
    RowPart *parts;    // (ROW_PARTS, TILE); where samples come to lie
    float *of_strips;  // (8, TILE): sums of columns, strip by strip; then both words of doubles: see `put_column`
    double *even;      // (TILE,): what each token would receive if all read evenly; where samples come to lie
    float *spread;     // (TILE,): the entropy of each row
    float *lengths;    // (TILE,): of the value vectors
    Token *token;      // (TILE,)
    Four *quarters;    // (SHOWN,): see `quarters_of`
    About *window;
    float *middles;    // (warps, SLOTS): what warps tell each other
    TopPairs *top;     // (READINGS, tiles, 2); where keys were
    float *reads;      // (TILE,): how many tokens each may read
    int *unusual;      // whether a length is
    int warp;          // the number of the own warp
    unsigned strips;   // of each tile of the warp the numbers of its strips, as in `tiles_of_warp`
    // Numbers of a reading in `regions`, the last two tables where nobody asks; and of all from there on that begin at zero.
    static constexpr int BESIDE = (2 * MOST_BANDS + 2) * ORDER_BINS, CLEARED = READINGS * (BESIDE + TILE) + READINGS + 3;

    __device__ Chip(double *shared, int strips_of_window) : Order(MOST_KINDS + 1, BESIDE, TILE, TILE), warp(warp_of_block()) {
        constexpr int samples = LARGER(SHOWN * SAMPLED, (3 * ROW_PARTS + 2) * TILE), looks = samples + 10 * TILE;
        word = (unsigned *)shared, won = (Won *)shared;
        degree = (int *)(won + SHOWN * MOST_BANDS * (CONTRASTS + 1)); // as late as wins
        histogram = (int *)(word + LARGER(4 * TILE * STRIDE, LARGER(2 * PLANE, MAPS * MOST_TILES * CELLS)));
        sample = (float *)histogram, parts = (RowPart *)histogram, even = (double *)(parts + ROW_PARTS * TILE);
        of_strips = sample + samples, spread = of_strips + 8 * TILE, lengths = spread + TILE;
        token = (Token *)(histogram + LARGER(SHOWN * (MOST_KINDS + 1) * ORDER_BINS, looks));
        quarters = (Four *)(token + TILE), window = (About *)(quarters + SHOWN), edges = (float *)(window + 1), middles = edges + SHOWN * ORDER_BINS;
        keys = (u64 *)(middles + TILE_WARPS * SLOTS), top = (TopPairs *)keys;
        reads = middles + TILE_WARPS * SLOTS + LARGER(2 * TILE, READINGS * 2 * MOST_TILES * HALF), norms = reads + TILE;
        position = (int *)(norms + TILE), null_ = position + TILE;
        regions = null_ + TILE, times = regions + READINGS * BESIDE;
        count = times + READINGS * TILE, unusual = count + READINGS + 2;
        strips = strips_of_window == TILE / 16 ? tiles_of_warp[warp] : 0;
        for (int m = 0; m < OF_WARP && strips_of_window < TILE / 16; m++) {
            const Strips at(warp + m * TILE_WARPS);
            strips |= (unsigned)(at.one / 16 | at.other / 16 << 3) << 6 * m;
        }
    }
    __device__ inline Strips strips_of(int m) const { return {(int)(strips >> 6 * m & 7) * 16, (int)(strips >> (6 * m + 3) & 7) * 16}; }
    __device__ inline bool same_one() const { return strips >> 19; }
    __device__ inline bool same_other() const { return strips >> 18 & 1; }
    __device__ inline int tile_of(int m) const { return tiles_of_strips(strips >> (6 * m + 3) & 7) + (strips >> 6 * m & 7); }
    // Sums of columns, and the same over what even attention would give: where those of strips were, by the same thread.
    __device__ inline double both_words(int row, int j) const {
        return __hiloint2double(((const int *)of_strips)[(row + 1) * TILE + j], ((const int *)of_strips)[row * TILE + j]);
    }
    __device__ inline void put_words(int row, int j, double x) const {
        ((int *)of_strips)[row * TILE + j] = __double2loint(x), ((int *)of_strips)[(row + 1) * TILE + j] = __double2hiint(x);
    }
    __device__ inline void put_column(int j, double sum, double received) const { put_words(0, j, sum), put_words(2, j, received); }
    __device__ inline double column(int j) const { return both_words(0, j); }
    __device__ inline double received(int j) const { return both_words(2, j); }
    // What the maps say of pairs: those of each lane in half a tile.
    __device__ inline Four *direct() const { return (Four *)word; }
    __device__ inline Four *rows() const { return direct() + MOST_TILES * 2 * WARP; }
};

// Vectors of a head as they lie in memory. Which head's keys or values it has is found without dividing where it can be.
struct Vectors {
    const unsigned short *first;
    int apart, number, width; // from one to the next; how many there are, and how many numbers of each

    __device__ inline Vectors(const void *all, i64 begin, i64 apart, int number, i64 width) : first((const unsigned short *)all + begin), apart(apart), number(all ? number : 0), width(width) {}
};
__device__ inline int group_of(int h, i64 groups, i64 heads) { return groups == heads ? h : (int)(h * groups) / (int)heads; }
#define KINDS_OF_VECTORS 4
enum { OF_OUTPUTS, OF_QUERIES, OF_KEYS, OF_VALUES };
__device__ inline Vectors vectors_of(const Args &of, int kind, int b, int h, int queries, int keys) {
    if (kind == OF_OUTPUTS) return {of.outputs, b * of.output_batch + h * of.output_head, of.output_token, queries, of.output_width};
    if (kind == OF_QUERIES) return {of.queries, b * of.query_batch + h * of.query_head, of.query_token, queries, of.score_width};
    if (kind == OF_KEYS) return {of.score_keys, b * of.key_batch + group_of(h, of.key_groups, of.heads) * of.key_group, of.key_token, keys, of.score_width};
    return {of.values, b * of.value_batch + group_of(h, of.value_groups, of.heads) * of.value_group, of.value_token, keys, of.value_width};
}

// A stretch of them on its way to the chip, by some of the threads; zeros where there are none. Eight numbers at a time, as they
// lie in memory: see `tile_layers.py`.
template <int THREADS> __device__ inline void fetch_vectors(unsigned *to, const Vectors &from, int first) {
    constexpr int together = THREADS / (DEPTH / 8); // vectors
    const int thread = threadIdx.x % THREADS, i = thread / (DEPTH / 8), at = thread % (DEPTH / 8) * 8, left = first + at < from.width ? from.number : 0;
    const unsigned short *own = from.first + i * from.apart + first + at;
    to += i * STRIDE + at / 2;
#pragma unroll 1
    for (int k = 0; k < TILE - i; k += together) copy_to_chip(to + k * STRIDE, i + k < left ? own + k * from.apart : from.first, i + k < left);
}

template <int KIND> __device__ inline void multiply_vectors(float *d, const unsigned *a, const unsigned *b) {
    if (KIND == 1) multiply_bfloats(d, a, b);
    else multiply_halves(d, a, b);
}

// Lengths of the value vectors, as products of sixteen of them with themselves, of which the first stretch is on the chip. By
// eight warps.
template <int KIND> __device__ inline void measure_values(const Args &of, const Chip &on, const unsigned *first, int b, int h) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, strip = 16 * on.warp, width = of.value_width;
    if (strip >= TILE) return;
    const Vectors values = vectors_of(of, OF_VALUES, b, h, 0, on.window->keys);
    const unsigned *row = first + (strip + lane % 16) * STRIDE + lane / 16 * 4;
    float products[2][HALF] = {};
#pragma unroll 1
    for (int k = 0; k < width; k += 16) {
        unsigned a[4];
        if (k < DEPTH) load_fragments(a, row + k / 2);
        else
            for (int e = 0; e < 4; e++) {
                const int i = strip + g + e % 2 * 8, at = k + e / 2 * 8 + 2 * t;
                const unsigned short *vector = values.first + i * values.apart;
                a[e] = i < values.number && at < width ? *(const unsigned *)(vector + at) : 0;
            }
        const unsigned one[2] = {a[0], a[2]}, other[2] = {a[1], a[3]};
        multiply_vectors<KIND>(products[0], a, one);
        multiply_vectors<KIND>(products[1], a, other);
    }
    if (g / 2 == t)
        for (int half = 0; half < 2; half++) on.lengths[strip + 8 * half + g] = sqrtf(g % 2 ? products[half][2 * half + 1] : products[half][2 * half]);
}

// Where the lane's part in loading a tile's fragments begins, in rows of so many words: of the sixteen rows of the one strip, and
// of those of the other.
template <int WORDS> struct Fragments {
    int left[OF_WARP], right[OF_WARP];

    __device__ Fragments(const Chip &on) {
        const int lane = threadIdx.x % WARP;
        FOR_TILES(true, MOST_TILES) {
            const Strips at = on.strips_of(m);
            left[m] = (at.one + lane % 16) * WORDS + lane / 16 * 4;
            right[m] = (at.other + lane % 8 + lane / 16 * 8) * WORDS + lane / 8 % 2 * 4;
        }
    }
};

// Which strip the tiles of a warp have in common, known when the code is made: in windows of eight strips.
enum { UNKNOWN, SAME_OTHER, SAME_ONE };

// Products of a stretch of the outputs, for the tiles of a warp; `TOGETHER` times sixteen numbers of each in code that follows.
template <int KIND, int COMMON, int TOGETHER> __device__ inline void multiply_outputs(const Chip &on, const Fragments<STRIDE> &at, int tiles, OfTiles &sums) {
#pragma unroll TOGETHER
    for (int k = 0; k < DEPTH / 2; k += 8) { // words, of two numbers
        unsigned a[4], c[4];
        load_fragments(a, on.word + at.left[0] + k);
        load_fragments(c, on.word + at.right[0] + k);
        FOR_TILES(COMMON != UNKNOWN, tiles) {
            if (m && (COMMON == UNKNOWN ? !on.same_one() : COMMON != SAME_ONE)) load_fragments(a, on.word + at.left[m] + k);
            if (m && (COMMON == UNKNOWN ? !on.same_other() : COMMON != SAME_OTHER)) load_fragments(c, on.word + at.right[m] + k);
            multiply_vectors<KIND>(sums[m][0], a, c);
            multiply_vectors<KIND>(sums[m][1], a, c + 2);
        }
    }
}

template <int TOGETHER> __device__ inline void multiply_outputs(const Args &of, const Chip &on, const Fragments<STRIDE> &at, int tiles, OfTiles &sums) {
    if (of.output_kind != 1) multiply_outputs<2, UNKNOWN, 1>(on, at, tiles, sums);
    else if (on.same_other()) multiply_outputs<1, SAME_OTHER, TOGETHER>(on, at, tiles, sums);
    else if (on.same_one()) multiply_outputs<1, SAME_ONE, TOGETHER>(on, at, tiles, sums);
    else multiply_outputs<1, UNKNOWN, 1>(on, at, tiles, sums);
}

// The length of the output at each position, of which the square was left there. All threads have left theirs.
__device__ inline void take_lengths(const Args &of, const Chip &on, i64 head) {
    const int i = threadIdx.x;
    if (i >= of.tokens) return;
    const float square = on.token[i].length, length = sqrtf(square);
    of.squares[head * of.tokens + i] = square;
    on.token[i].length = length, on.token[i].inverse = length > 0 ? 1.0f / length : 0.0f;
    if (length > 0 && !(length > SMALLEST && length < LARGEST)) *on.unusual = 1;
}

// S in tiles, for what comes after; what stands on its diagonal is left where lengths of outputs are to be. What is fetched
// already has come in the end.
__device__ inline void similarities(const Args &of, Chip &on, int b, int h, int tiles) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, width = of.output_width;
    const i64 head = (i64)b * of.heads + h;
    OfTiles sums = {};
    const Fragments<STRIDE> at(on);
#pragma unroll 1
    for (int first = 0; first < width; first += DEPTH) {
        if (first) {
            __syncthreads();
            fetch_vectors<TILE_THREADS>(on.word, vectors_of(of, OF_OUTPUTS, b, h, on.window->queries, 0), first);
        }
        copies_done();
        __syncthreads();
        multiply_outputs<1>(of, on, at, tiles, sums);
    }
    Four *to = (Four *)(of.similar + head * tiles * CELLS) + lane;
    FOR_TILES(false, tiles) {
        const Strips at = on.strips_of(m);
        for (int half = 0; half < 2; half++) {
            const float *own = sums[m][half];
            to[(2 * on.tile_of(m) + half) * WARP] = {own[0], own[1], own[2], own[3]};
            if (at.one == at.other && g / 2 == t) on.token[at.one + 8 * half + g].length = g % 2 ? own[2 * half + 1] : own[2 * half];
        }
    }
}
