// What the tokens of each pair are to each other, before any head has looked at them. A block to a window.

__device__ inline bool same(int one, int other) { return one >= 0 && one == other; } // negative: of none

// The first and second token of the pair with this number.
__device__ inline unsigned tokens_of(int number, int n) {
    int i = 0, end = n - 2; // the last token whose pairs begin at or before it
    while (i < end) {
        const int middle = (i + end + 1) / 2;
        if (pairs_of(middle, n) + middle + 1 <= number) i = middle;
        else end = middle - 1;
    }
    return (unsigned)i << 16 | (unsigned)(number - pairs_of(i, n));
}

// Pairs of a window of at most 128 tokens in tiles of 16 by 16, as matrix units multiply them: one for every two strips of
// 16 tokens, the first not after the second. A half of a tile is 16 by 8. Lane 4g + t of a warp has four pairs of a half: the
// tokens g and g + 8 of the one strip with 2t and 2t + 1 (8 more in the second half) of the other, in this order. They lie
// side by side, so that they are loaded and stored together.

#define HALF 4 /* pairs of a lane in half a tile */
#define CELLS (2 * HALF * WARP)

__device__ inline int tiles_of_strips(int strips) { return strips * (strips + 1) / 2; }

// Which strips a tile compares: tiles go by the second strip, then by the first.
struct Strips {
    int one, other; // the first tokens of the two

    __device__ Strips(int one, int other) : one(one), other(other) {}
    __device__ explicit Strips(int tile) {
        const float x = 2.0f * tile + 0.25f; // the square of half more than the second
        const int second = (int)(x * over_root(x) - 0.499f);
        other = 16 * second, one = 16 * (tile - tiles_of_strips(second));
    }
};

// Where the pair of the tokens i < j lies among the numbers of a window: (tiles, 2, WARP, HALF).
__device__ inline int cell_of(int i, int j) {
    const int lane = i % 8 * 4 + j % 8 / 2, place = i % 16 / 8 * 2 + j % 2;
    return (((tiles_of_strips(j / 16) + i / 16) * 2 + j % 16 / 8) * WARP + lane) * HALF + place;
}

// The kinds of pairs once more, as `by_tile` and `level_tile` want them: in bytes of a table of order bins. One more than there
// are where there is no pair.
#define MOST_KINDS (MOST_BANDS * RELATIONS)
#define OF_KIND (ORDER_BINS * (int)sizeof(int))
#define NO_PAIR (MOST_KINDS * OF_KIND)
__device__ inline void lay_in_tiles(const Args &of, int b, int n) {
    const int cells = tiles_of_strips((of.tokens + 15) / 16) * CELLS;
    short *to = of.cells + (i64)b * cells;
    for (int k = threadIdx.x; k < cells; k += blockDim.x) to[k] = NO_PAIR;
    __syncthreads();
    const int *position = of.positions + b * of.counting;
    FOR_ROWS(n) FOR_COLUMNS(n) if (j < n) to[cell_of(position[i], position[j])] = of.classes[b * of.most_pairs + pairs_of(i, n) + j] * (int)sizeof(int);
}

// Pairs of a window by kind, and by distance and relation where there is a table; their rows are dealt out to the warps of
// several blocks. What kind each pair is of is kept where there is room for it.
__device__ inline void count_kinds(const Args &of, int b, int n, int *base, int *table) {
    const i64 row = b * of.counting;
    const int *position = of.positions + row, *word = of.word + row, *sentence = of.sentence + row;
    const int *again = of.same + row, *mark = of.mark + row, warps = blockDim.x / WARP;
    for (int i = threadIdx.x / WARP + blockIdx.y * warps; i < n - 1; i += gridDim.y * warps) {
        short *classes = of.classes ? of.classes + b * of.most_pairs + pairs_of(i, n) : 0;
        const int *by_mark = relation_of + 24 * mark[i], at = position[i];
        FOR_COLUMNS(n) {
            if (j >= n) continue;
            const int equal = 4 * same(word[i], word[j]) + 2 * same(sentence[i], sentence[j]) + same(again[i], again[j]);
            const int relation = by_mark[8 * mark[j] + equal], away = position[j] - at - 1;
            const int kind = of.band_of[away] * RELATIONS + relation;
            if (classes) classes[j] = kind * ORDER_BINS;
            atomicAdd(&base[kind], 1);
            if (table) atomicAdd(&table[away * RELATIONS + relation], 1);
            else atomicAdd(&of.related[away * RELATIONS + relation], 1ull);
        }
    }
}

// What pairs of each kind weigh in comparisons, and which are sampled. `base`: how many there are.
__device__ inline void weigh_kinds(const Args &of, int b, int n, const int *base) {
    const int thread = threadIdx.x, threads = blockDim.x, bands = of.bands, kinds = bands * RELATIONS;
    for (int c = thread; c < CONTRASTS; c += threads) { // Σ n1·n0 / (n1 + n0) over the bands
        double weight = 0;
        for (int band = 0; band < bands; band++) {
            const int *own = base + band * RELATIONS;
            double n1 = 0, n0 = own[UNRELATED];
            for (int r = 0; r < RELATIONS; r++) n1 += contrasted[c] >> r & 1 ? own[r] : 0;
            weight += n1 * n0 / AT_LEAST_ONE(n1 + n0);
        }
        of.contrast_weight[b * CONTRASTS + c] = weight;
    }
    double *weights = of.match_weights + (i64)b * COMPARISONS * 2 * kinds;
    for (int k = thread; k < COMPARISONS * 2 * kinds; k += threads) { // what a high pair adds to a and to b
        const int c = k / (2 * kinds), side = k / kinds % 2, relation = k % RELATIONS, *own = base + k % kinds - relation;
        double weight = 0;
        for (int s = 0; s < STRATA; s++) {
            if (comparison_of[s] != c || !((side ? stratum_zeros : stratum_ones)[s] >> relation & 1)) continue;
            double n1 = 0, n0 = 0;
            for (int r = 0; r < RELATIONS; r++) {
                n1 += stratum_ones[s] >> r & 1 ? own[r] : 0;
                n0 += stratum_zeros[s] >> r & 1 ? own[r] : 0;
            }
            weight = (side ? n1 : n0) / AT_LEAST_ONE(n1 + n0);
        }
        weights[k] = weight;
    }
    const i64 pairs = (i64)n * (n - 1) / 2, sampled = of.sampled[b];
    for (i64 k = thread; k < sampled; k += threads) { // one of each stretch of pairs
        const i64 begin = k * pairs / sampled, stretch = (k + 1) * pairs / sampled - begin;
        of.samples[b * SAMPLED + k] = tokens_of((int)(begin + (i64)__umul64hi(mix(of.number[b] + (u64)k), (u64)stretch)), n);
    }
}

// A block to a window.
extern "C" __global__ void relate(const __grid_constant__ Args of) {
    const int b = blockIdx.x, thread = threadIdx.x, threads = blockDim.x, n = of.sizes[b], kinds = of.bands * RELATIONS;
    extern __shared__ double shared[];
    int *base = (int *)shared, *table = of.table_on_chip ? base + kinds : 0; // (kinds,), (distances, relations)
    const int cells = table ? (int)of.distances * RELATIONS : 0;
    for (int k = thread; k < kinds + cells; k += threads) base[k] = 0;
    __syncthreads();
    count_kinds(of, b, n, base, table);
    __syncthreads();
    for (int k = thread; k < cells; k += threads) if (table[k]) atomicAdd(&of.related[k], (u64)table[k]);
    weigh_kinds(of, b, n, base);
    if (of.cells) lay_in_tiles(of, b, n);
}

// Several blocks to a long window, and then one.
extern "C" __global__ void relate_long(const __grid_constant__ Args of) {
    const int b = blockIdx.x, kinds = of.bands * RELATIONS;
    extern __shared__ double shared[];
    int *base = (int *)shared, *to = of.base + (i64)b * kinds;
    for (int k = threadIdx.x; k < kinds; k += blockDim.x) base[k] = 0;
    __syncthreads();
    count_kinds(of, b, of.sizes[b], base, 0);
    __syncthreads();
    for (int k = threadIdx.x; k < kinds; k += blockDim.x) if (base[k]) atomicAdd(&to[k], base[k]);
}
extern "C" __global__ void weigh_long(const __grid_constant__ Args of) { weigh_kinds(of, blockIdx.x, of.sizes[blockIdx.x], of.base + (i64)blockIdx.x * of.bands * RELATIONS); }
