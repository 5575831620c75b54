// The sum of S over windows, in their order, of pairs in tiles: products of outputs once more, which are fewer bytes than S.

#define FEW_WINDOWS (scaled_of[0] ? 1 : 4) /* whose products are added up before they go to doubles */

// The vectors of a window that count, on their way to the chip by all threads: zeros for the others, whose pairs are none. What
// counts of the window after is asked for meanwhile.
struct Counting {
    static constexpr int TOGETHER = TILE_THREADS / (DEPTH / 8), OF_THREAD = (TILE + TOGETHER - 1) / TOGETHER; // vectors
    int ids[OF_THREAD]; // below zero where the token does not count

    __device__ inline void ask(const Args &of, int b) { // one token has no pairs, and what it is is nobody's business
        const int first = threadIdx.x / (DEPTH / 8), tokens = of.sizes[b] > 1 ? of.tokens : 0;
        for (int k = 0; k < OF_THREAD; k++) ids[k] = first + k * TOGETHER < tokens ? of.id_at[(i64)b * of.tokens + first + k * TOGETHER] : -1;
    }
    __device__ inline void fetch(unsigned *to, const Vectors &from, int first) const {
        const int i = threadIdx.x / (DEPTH / 8), at = threadIdx.x % (DEPTH / 8) * 8;
        for (int k = 0; k < OF_THREAD; k++) {
            const int row = i + k * TOGETHER;
            const bool real = ids[k] >= 0 && first + at < from.width;
            if (row < TILE) copy_to_chip(to + row * STRIDE + at / 2, real ? from.first + row * from.apart + first + at : from.first, real);
        }
    }
};

// S over the lengths of two outputs, where the main reading is so.
__device__ inline void divide_by_lengths(const Args &of, const Chip &on, int b, int h, int tiles, OfTiles &sums) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const float *squares = of.squares + ((i64)b * of.heads + h) * of.tokens;
    FOR_TILES(false, tiles) {
        const Strips own = on.strips_of(m);
        for (int k = 0; k < 2 * HALF; k++) {
            const int half = k / HALF, q = k % HALF, i = own.one + g + q / 2 * 8, j = own.other + 8 * half + 2 * t + q % 2;
            const float size = i < of.tokens && j < of.tokens ? sqrtf(squares[i]) * sqrtf(squares[j]) : 0.0f;
            sums[m][half][q] = size > 0 ? sums[m][half][q] / size : 0.0f;
        }
    }
}

// A block to a head and a share of the windows. `parts` (shares, H, tiles, 2, 32, 4).
extern "C" __global__ __launch_bounds__(TILE_THREADS, 1) void add_products(const __grid_constant__ Args of, double *parts) {
    const int h = blockIdx.x, share = blockIdx.y, shares = gridDim.y, strips = (of.tokens + 15) / 16, tiles = tiles_of_strips(strips);
    const int stretches = (of.output_width + DEPTH - 1) / DEPTH, begin = of.windows * share / shares, windows = of.windows * (share + 1) / shares - begin;
    extern __shared__ double shared[];
    Chip on(shared, strips);
    unsigned *const room = on.word;
    const Fragments<STRIDE> at(on);
    OfTiles sums = {};
    double whole[OF_WARP][2][HALF] = {};
    Counting counting;
    int window = 0, stretch = 0, place = 0; // of what comes next, and where to
    const auto fetch = [&] {
        if (window < windows) {
            counting.fetch(room + place * TILE * STRIDE, vectors_of(of, OF_OUTPUTS, begin + window, h, TILE, 0), stretch * DEPTH);
            if (++stretch == stretches) stretch = 0, window++;
            if (window < windows) counting.ask(of, begin + window);
        }
        copies_sent();
        place = place == COMING ? 0 : place + 1;
    };
    counting.ask(of, begin); // there are as many windows as shares, at least
#pragma unroll 1
    for (int k = 0; k < COMING; k++) fetch();
    int own = 0; // where the stretch at hand is
#pragma unroll 1
    for (int b = 0; b < windows; b++) {
#pragma unroll 1
        for (int k = 0; k < stretches; k++) {
            copies_done_but<COMING - 1>();
            __syncthreads(); // and nobody multiplies what was there before
            fetch();
            on.word = room + own * TILE * STRIDE;
            own = own == COMING ? 0 : own + 1;
            multiply_outputs<DEPTH / 16>(of, on, at, tiles, sums);
        }
        if (scaled_of[0]) divide_by_lengths(of, on, begin + b, h, tiles, sums);
        if (b % FEW_WINDOWS < FEW_WINDOWS - 1 && b < windows - 1) continue;
        for (int k = 0; k < OF_WARP * 2 * HALF; k++) {
            float &sum = sums[k / 2 / HALF][k / HALF % 2][k % HALF];
            whole[k / 2 / HALF][k / HALF % 2][k % HALF] += (double)sum, sum = 0;
        }
    }
    double *to = parts + (i64)(share * of.heads + h) * tiles * CELLS + threadIdx.x % WARP * HALF;
    FOR_TILES(false, tiles)
        for (int half = 0; half < 2; half++)
            for (int q = 0; q < HALF; q++) to[(2 * on.tile_of(m) + half) * WARP * HALF + q] = whole[m][half][q];
}

// The shares, one after the other. A block to a head and a tile, a thread to a pair.
extern "C" __global__ __launch_bounds__(CELLS) void add_parts(const __grid_constant__ Args of, const double *parts, double *sums, int shares, int length) {
    const int h = blockIdx.x, k = threadIdx.x, lane = k / HALF % WARP, q = k % HALF;
    const i64 apart = of.heads * gridDim.y * CELLS;
    const Strips at(blockIdx.y);
    const int i = at.one + lane / 4 + q / 2 * 8, j = at.other + k / (HALF * WARP) * 8 + lane % 4 * 2 + q % 2;
    const double *own = parts + ((i64)h * gridDim.y + blockIdx.y) * CELLS + k;
    double sum = 0;
#pragma unroll 8
    for (int share = 0; share < shares; share++) sum += own[share * apart];
    if (i < j && j < of.tokens) sums[((i64)h * length + i) * length + j] += sum;
}
