// Over heads and windows.

// a and b of each comparison: pairs of each kind times what they weigh. A block to a window; a warp to a head's top pairs in a
// reading, or to its pairs that are high at the run's τ.
#define MATCHES (2 * COMPARISONS)
#define SIXTEEN 16 /* numbers: two lanes have one of them each in the end */
static_assert(MATCHES <= SIXTEEN, "there is room");
extern "C" __global__ void match(const __grid_constant__ Args of) {
    const int b = blockIdx.y, lane = threadIdx.x % WARP, kinds = of.bands * RELATIONS;
    extern __shared__ double shared[];
    for (int k = threadIdx.x; k < MATCHES * kinds; k += blockDim.x) shared[k] = of.match_weights[(i64)b * MATCHES * kinds + k];
    __syncthreads();
    for (int task = threadIdx.x / WARP; task < of.heads * (READINGS + 1); task += blockDim.x / WARP) {
        const int r = task % (READINGS + 1);
        const i64 head = (i64)b * of.heads + task / (READINGS + 1);
        const int *numbers = r < READINGS ? of.top_kinds + (head * READINGS + r) * kinds : of.high_kinds + head * kinds;
        double *to = r < READINGS ? of.top_matched + (head * READINGS + r) * MATCHES : of.matched + head * MATCHES;
        double sums[SIXTEEN] = {};
#pragma unroll 2
        for (int k = lane; k < kinds; k += WARP) {
            const double number = numbers[k];
#pragma unroll
            for (int c = 0; c < MATCHES; c++) sums[c] += number * shared[c * kinds + k];
        }
        __syncwarp();
        deal_out<SIXTEEN / 2, 1>(sums, WARP / 2);
        const double sum = sums[0] + __shfl_xor_sync(FULL, sums[0], 1);
        if (lane % 2 == 0 && lane / 2 < MATCHES) to[lane / 2] = sum;
    }
}

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
