// Windows of at most 128 tokens, whose attention is computed from queries and keys: everything that needs no threshold.
// Attention never leaves the chip; S is left in memory for `level_tile`. A block of sixteen warps to a head and a window; here
// the vectors, and S.

#define TILE_WARPS 16
#define TILE_THREADS (TILE_WARPS * WARP)
#define OF_WARP 5 /* halves of tiles of a warp, at most: 72 for sixteen warps */
#define SLOTS 16  /* numbers that lanes add up together, one more than there are moments: see `Middles` */
#define ROW 68    /* words from row to row of 16-bit floats: the lanes that load a fragment hit different banks */
#define PLANE (TILE * ROW)
#define SMALLEST 1e-12f /* lengths between which numbers are ordinary; zeros are, too */
#define LARGEST 1e12f

// What is known of the token at a position.
struct alignas(16) Token {
    float length, inverse; // of its output, and 1 over it
    int place, high;       // among those that count, in bytes; whether it is high in attention
};

// What half a row of scores comes to, beside the other half.
struct RowPart { float largest, sum, spread; };

#define MOST_HALVES 72 /* of tiles */
#define LARGER(x, y) ((x) > (y) ? (x) : (y))

// What a block of `by_tile` has on the chip: what `by_order` has, and before that the map. The same for all windows, so that
// every place is known when this is compiled.
struct Chip : Order {
    unsigned *word;    // vectors; then roots of the map, upper and lower halves; then what maps say of pairs; then wins
    RowPart *parts;    // (2, TILE)
    float *of_strips;  // (8, TILE): sums of columns, strip by strip
    float *spread;     // (TILE,): the entropy of each row
    float *lengths;    // (TILE,): of the value vectors
    int *counts;       // (2, STEPS + 1, categories): tokens by how many thresholds they pass
    Token *token;      // (TILE,)
    Four *quarters;    // (SHOWN,): see `quarters_of`
    float *middles;    // (warps, SLOTS): what warps tell each other
    float *reads;      // (TILE,): how many tokens each may read
    int *unusual;      // whether a length is
    static constexpr int TO_DEGREE = READINGS * MOST_BANDS * 2 * ORDER_BINS, NOWHERE = TO_DEGREE + READINGS * (2 * TILE + 1) + 3; // from `regions`
    int *nowhere;      // what nobody asks for

    __device__ Chip(double *shared) : Order(MOST_KINDS + 1, TILE, TILE) {
        const int looks = 16 * TILE + 2 * (STEPS + 1) * CATEGORIES;
        word = (unsigned *)shared, won = (Won *)shared;
        histogram = (int *)(word + LARGER(2 * PLANE, MAPS * MOST_HALVES * HALF * WARP)), sample = (float *)histogram;
        parts = (RowPart *)histogram, of_strips = (float *)(parts + 2 * TILE), spread = of_strips + 8 * TILE;
        lengths = spread + TILE, counts = (int *)(lengths + TILE);
        token = (Token *)(histogram + LARGER(SHOWN * (MOST_KINDS + 1) * ORDER_BINS, LARGER(looks, SHOWN * SAMPLED)));
        quarters = (Four *)(token + TILE), edges = (float *)(quarters + SHOWN), middles = edges + SHOWN * ORDER_BINS;
        keys = (u64 *)(middles + TILE_WARPS * SLOTS);
        reads = (float *)(keys + TILE), norms = reads + TILE, position = (int *)(norms + TILE), null_ = position + TILE;
        regions = null_ + TILE, degree = regions + TO_DEGREE, nowhere = regions + NOWHERE;
        times = degree + READINGS * TILE, count = times + READINGS * TILE, unusual = count + READINGS + 2;
    }
};

// A stretch of some vectors on its way to the chip; zeros where there are none. Eight numbers at a time, as they lie in
// memory: see `tile_layers.py`.
__device__ inline void fetch_vectors(unsigned *to, const void *from, i64 begin, int apart, int number, int first, int width) {
    const unsigned short *vectors = (const unsigned short *)from + begin;
#pragma unroll 2
    for (int k = threadIdx.x; k < TILE * DEPTH / 8; k += TILE_THREADS) {
        const int i = k / (DEPTH / 8), at = first + k % (DEPTH / 8) * 8;
        const bool real = i < number && at < width;
        copy_to_chip(to + i * STRIDE + k % (DEPTH / 8) * 4, real ? vectors + i * apart + at : vectors, real);
    }
}

// Lengths of the value vectors: eight lanes to a vector.
__device__ inline void measure_values(const Args &of, const Chip &on, int b, int h) {
    const int lane = threadIdx.x % WARP, width = of.value_width, apart = of.value_token, kind = of.values_kind, keys = of.keys_of[b];
    const unsigned short *vectors = (const unsigned short *)of.values + b * of.value_batch + h * of.value_groups / of.heads * of.value_group;
#pragma unroll 2
    for (int j = threadIdx.x / 8; j < TILE; j += TILE_THREADS / 8) {
        float sum = 0;
        for (int k = lane % 8 * 8; k < width && j < keys; k += 64) {
            const Four bits = *(const Four *)(vectors + j * apart + k);
            for (int e = 0; e < 8; e++) {
                const unsigned word = __float_as_uint(bits.at[e / 2]);
                const float x = of_bits(e % 2 ? word >> 16 : word & 0xffff, kind);
                sum = fused(x, x, sum);
            }
        }
        for (int k = 4; k > 0; k /= 2) sum += __shfl_xor_sync(FULL, sum, k);
        if (lane % 8 == 0) on.lengths[j] = sqrtf(sum);
    }
}

template <int KIND> __device__ inline void multiply_vectors(float *d, const unsigned *a, const unsigned *b) {
    if (KIND == 1) multiply_bfloats(d, a, b);
    else multiply_halves(d, a, b);
}

// Where the halves of tiles of a warp begin among the vectors, for the lane's part in loading them.
struct Places {
    int left[OF_WARP], right[OF_WARP];

    __device__ Places() {
        const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
        for (int m = 0; m < OF_WARP; m++) {
            const int half = warp + m * TILE_WARPS;
            const Strips at(half / 2);
            left[m] = (at.one + lane % 16) * STRIDE + lane / 16 * 4;
            right[m] = (at.other + half % 2 * 8 + lane % 8) * STRIDE + lane / 8 * 4;
        }
    }
};

// Products of a stretch of the outputs, for the halves of tiles of a warp.
template <int KIND> __device__ inline void multiply_outputs(const unsigned *vectors, const Places &places, int halves, int depth, float (*sums)[HALF]) {
#pragma unroll
    for (int m = 0; m < OF_WARP; m++) {
        if ((int)threadIdx.x / WARP + m * TILE_WARPS >= halves) break;
        const unsigned *left = vectors + places.left[m], *right = vectors + places.right[m];
#pragma unroll
        for (int k = 0; k < DEPTH / 2; k += 16) { // words, of two numbers
            if (k >= depth) break;
            unsigned a[4], b[4], c[4];
            load_fragments(a, left + k);
            load_fragments(b, left + k + 8);
            load_fragments(c, right + k);
            multiply_vectors<KIND>(sums[m], a, c);
            multiply_vectors<KIND>(sums[m], b, c + 2);
        }
    }
}

// S in tiles, for what comes after. What is fetched already has come in the end.
__device__ inline void similarities(const Args &of, Chip &on, int b, int h, int halves) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, queries = of.queries_of[b], width = of.output_width;
    const i64 head = (i64)b * of.heads + h, from = b * of.output_batch + h * of.output_head;
    float sums[OF_WARP][HALF] = {};
#pragma unroll 1
    for (int first = 0; first < width; first += DEPTH) {
        if (first) {
            __syncthreads();
            fetch_vectors(on.word, of.outputs, from, of.output_token, queries, first, width);
        }
        copies_done();
        __syncthreads();
        const int depth = width - first < DEPTH ? (width - first + 1) / 2 : DEPTH / 2;
        const Places places;
        if (of.output_kind == 1) multiply_outputs<1>(on.word, places, halves, depth, sums);
        else multiply_outputs<2>(on.word, places, halves, depth, sums);
    }
#pragma unroll
    for (int m = 0; m < OF_WARP; m++) {
        const int half = warp + m * TILE_WARPS;
        if (half >= halves) break;
        float *to = of.similar + (head * halves + half) * HALF * WARP + lane;
        for (int q = 0; q < HALF; q++) to[q * WARP] = sums[m][q];
    }
}

// The length of the output at each position: what would stand on the diagonal of S. All threads have left theirs.
__device__ inline void take_lengths(const Args &of, const Chip &on, i64 head, int halves) {
    const int i = threadIdx.x;
    if (i >= of.tokens) return;
    const float square = of.similar[head * halves * HALF * WARP + cell_of(i, i)], length = sqrtf(square);
    of.squares[head * of.tokens + i] = square;
    on.token[i].length = length, on.token[i].inverse = length > 0 ? 1.0f / length : 0.0f;
    if (length > 0 && !(length > SMALLEST && length < LARGEST)) *on.unusual = 1;
}
