// Over heads and windows.

// How many different tokens the heads of a layer have chosen: a thread to a window and step. (B, H, steps) to (steps, H + 1).
extern "C" __global__ void count_unique(const Choice *choices, const int *sizes, int windows, int heads) {
    const Choice choice = choices[blockIdx.y];
    const int steps = choice.steps;
    const int *chosen = (const int *)choice.from;
    u64 *counts = (u64 *)choice.to;
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
extern "C" __global__ void add_windows(const Sum *sums, int windows) {
    const Sum sum = sums[blockIdx.y];
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

// The sum of S over windows, in their order: a block to a head and a position, a thread to another position.
extern "C" __global__ void add_matrices(const Args *args, const int *place_of, int windows, double *sums, int length) {
    const Args &of = *args;
    const int h = blockIdx.x, i = blockIdx.y, s = source_of[0], tokens = of.tokens;
    const i64 square = (i64)tokens * tokens, apart = of.heads * square;
    const float *matrix = of.products + ((i64)s * windows * of.heads + h) * square;
    for (int j = i + 1 + threadIdx.x; j < tokens; j += blockDim.x) {
        double sum = 0;
        for (int first = 0; first < windows; first += FEW) {
            float x[FEW];
#pragma unroll
            for (int e = 0; e < FEW; e++) { // several are on their way at a time
                const int b = first + e;
                x[e] = 0;
                if (b >= windows || !place_of[b * tokens + i] || !place_of[b * tokens + j]) continue;
                const float *own = matrix + b * apart;
                x[e] = own[i * tokens + j];
                if (scaled_of[0]) {
                    const float size = sqrtf(own[i * (tokens + 1)]) * sqrtf(own[j * (tokens + 1)]);
                    x[e] = size > 0 ? x[e] / size : 0.0f;
                }
            }
#pragma unroll
            for (int e = 0; e < FEW; e++) sum += (double)x[e];
        }
        sums[((i64)h * length + i) * length + j] += sum;
    }
}
