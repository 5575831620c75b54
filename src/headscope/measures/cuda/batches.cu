// Over heads and windows.

// Where numbers of layers lie: those of the next one so many bytes further.
struct Layers { i64 rows, from_step, to_step; };

// How many different tokens the heads of a layer have chosen: a thread to a window and step. (B, H, steps) to (steps, H + 1).
extern "C" __global__ void count_unique(const __grid_constant__ Choices choices, const __grid_constant__ Layers layers, const int *sizes, int windows, int heads) {
    const Choice choice = choices.row[blockIdx.y % layers.rows];
    const int steps = choice.steps, layer = blockIdx.y / layers.rows;
    const int *chosen = (const int *)(choice.from + layer * layers.from_step);
    u64 *counts = (u64 *)(choice.to + layer * layers.to_step);
    for (int place = blockIdx.x * blockDim.x + threadIdx.x; place < windows * steps; place += gridDim.x * blockDim.x) {
        const int b = place / steps, k = place % steps;
        if (sizes[b] < 2) continue;
        int unique = 0;
        for (int h = 0; h < heads; h++) {
            const int token = chosen[((i64)b * heads + h) * steps + k];
            bool fresh = token >= 0;
            for (int other = 0; other < h && fresh; other++) fresh = chosen[((i64)b * heads + other) * steps + k] != token;
            unique += fresh;
        }
        atomicAdd(&counts[(i64)k * (heads + 1) + unique], 1ull);
    }
}

// What each head made of each window, added up in the order of the windows: a thread to a number.
extern "C" __global__ void add_windows(const __grid_constant__ Sums sums, const __grid_constant__ Layers layers, int windows) {
    Sum sum = sums.row[blockIdx.y % layers.rows];
    sum.from += blockIdx.y / layers.rows * layers.from_step, sum.to += blockIdx.y / layers.rows * layers.to_step;
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < sum.number; e += gridDim.x * blockDim.x) {
        double total = 0;
        i64 count = 0;
        if (sum.kind == ADD_DOUBLES)
            for (int b = 0; b < windows; b++) total += ((const double *)sum.from)[b * sum.number + e];
        else
            for (int b = 0; b < windows; b++) {
                const int x = ((const int *)sum.from)[b * sum.number + e];
                count += sum.kind == ADD_COUNTS ? x : x > 0 && x < FEW_PAIRS;
            }
        if (sum.kind == ADD_DOUBLES) ((double *)sum.to)[e] += total;
        else ((i64 *)sum.to)[e] += count;
    }
}

// What heads drawn from all layers would have: a block to a window. `top` (L, B, H, readings), `drawn` (LH + 1,), to (B, readings).
extern "C" __global__ void mixed(const int *top, const double *drawn, const int *distinct, double *to, int layers, int windows, int heads, int most_ids) {
    extern __shared__ double shared[];
    double *room = shared;
    int *times = (int *)(room + 32); // (K,)
    const int b = blockIdx.x, r = blockIdx.y;
    for (int t = threadIdx.x; t < most_ids; t += blockDim.x) times[t] = 0;
    __syncthreads();
    for (int k = threadIdx.x; k < layers * heads; k += blockDim.x) {
        int token = top[(((i64)(k / heads) * windows + b) * heads + k % heads) * READINGS + r];
        if (token >= 0) atomicAdd(&times[token], 1);
    }
    __syncthreads();
    double sum = 0;
    for (int t = threadIdx.x; t < distinct[b]; t += blockDim.x) sum += times[t] ? drawn[times[t]] : 0.0;
    sum = added_by_all(sum, room);
    if (threadIdx.x == 0) to[b * READINGS + r] = sum;
}

// The sum of S over windows, in their order: a block to a head and two positions, whose pairs are as many as tokens, and a
// thread to a pair. `counts` (T, B rounded up to a multiple of MANY) has 255 for a token that counts, else 0.
#define MANY 16 /* numbers that are on their way from memory at a time */
struct alignas(16) Flags { unsigned word[MANY / 4]; };

extern "C" __global__ __launch_bounds__(128) void add_matrices(const __grid_constant__ Args of, const unsigned char *counts, double *sums, int length) {
    const int h = blockIdx.x, tokens = of.tokens, windows = of.windows, padded = (windows + MANY - 1) / MANY * MANY;
    const i64 square = (i64)tokens * tokens, apart = of.heads * square;
    const float *matrix = of.products + ((i64)source_of[0] * windows * of.heads + h) * square;
    for (int k = threadIdx.x; k < tokens; k += blockDim.x) {
        const int first = tokens - 1 - blockIdx.y; // pairs of the first position with those after it
        const int i = k < first ? blockIdx.y : first, j = k < first ? i + 1 + k : i + 1 + k - first;
        if (j >= tokens || (k >= first && first <= (int)blockIdx.y)) continue; // or the two are one
        double sum = 0;
        for (int begin = 0; begin < windows; begin += MANY) {
            const Flags of_i = *(const Flags *)(counts + (i64)i * padded + begin), of_j = *(const Flags *)(counts + (i64)j * padded + begin);
            float x[MANY];
#pragma unroll
            for (int e = 0; e < MANY; e++) {
                const float *own = matrix + (begin + e) * apart;
                const bool both = (of_i.word[e / 4] & of_j.word[e / 4]) >> e % 4 * 8 & 1;
                x[e] = both ? own[i * tokens + j] : 0.0f;
                if (scaled_of[0] && both) {
                    const float size = sqrtf(own[i * (tokens + 1)]) * sqrtf(own[j * (tokens + 1)]);
                    x[e] = size > 0 ? x[e] / size : 0.0f;
                }
            }
#pragma unroll
            for (int e = 0; e < MANY; e++) sum += (double)x[e];
        }
        sums[((i64)h * length + i) * length + j] += sum;
    }
}

// S of all windows, of the pairs of a tile, added up in their order. A block to a head and a tile.
extern "C" __global__ __launch_bounds__(SHARES * 2 * WARP) void add_tiles(const __grid_constant__ Args of, double *sums, int length) {
    const int h = blockIdx.x, k = threadIdx.x % (2 * WARP), share = threadIdx.x / (2 * WARP), lane = k % WARP;
    const i64 tiles = gridDim.y, tokens = of.tokens;
    const Strips at(blockIdx.y);
    const int first = at.one + lane / 4, second = at.other + k / WARP * 8 + lane % 4 * 2;
    extern __shared__ double shared[];
    double own[HALF] = {};
#pragma unroll 4
    for (int b = share; b < of.windows; b += SHARES) {
        const i64 head = (i64)b * of.heads + h;
        const Four x = ((const Four *)(of.similar + (head * tiles + blockIdx.y) * CELLS))[k];
        const FourKinds kinds = ((const FourKinds *)(of.cells + (b * tiles + blockIdx.y) * CELLS))[k];
        for (int q = 0; q < HALF; q++) {
            if (kinds.at[q] == NO_PAIR) continue;
            float similar = x.at[q];
            if (scaled_of[0]) {
                const float *squares = of.squares + head * tokens;
                const float size = sqrtf(squares[first + q / 2 * 8]) * sqrtf(squares[second + q % 2]);
                similar = size > 0 ? similar / size : 0.0f;
            }
            own[q] += (double)similar;
        }
    }
    for (int q = 0; q < HALF; q++) shared[(share * HALF + q) * 2 * WARP + k] = own[q];
    __syncthreads();
    if (share) return;
    for (int q = 0; q < HALF; q++) {
        const int i = first + q / 2 * 8, j = second + q % 2;
        double sum = 0;
        for (int other = 0; other < SHARES; other++) sum += shared[(other * HALF + q) * 2 * WARP + k];
        if (i < j && j < tokens) sums[((i64)h * length + i) * length + j] += sum;
    }
}
