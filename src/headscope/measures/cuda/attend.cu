// Attention from queries and keys of 16 bits: the softmax of their scaled products, over the tokens that may be read.

#define DEPTH 64  /* numbers of a vector that are on the chip at a time */

// A stretch of some vectors, two numbers to a word; zeros where there are none.
__device__ inline void load_vectors(unsigned *to, const void *from, i64 begin, i64 apart, int number, int first, int width) {
    const unsigned short *vectors = (const unsigned short *)from + begin;
    const bool together = apart % 8 == 0 && width % 8 == 0 && (i64)vectors % 16 == 0;
    for (int k = threadIdx.x; k < TILE * DEPTH / 8; k += blockDim.x) { // eight numbers at a time
        const int i = k / (DEPTH / 8), at = first + k % (DEPTH / 8) * 8;
        Four eight = {};
        if (i < number && at < width) {
            if (together) eight = *(const Four *)(vectors + i * apart + at);
            else
                for (int e = 0; e < 8 && at + e < width; e++) {
                    const unsigned word = __float_as_uint(eight.at[e / 2]), half = vectors[i * apart + at + e];
                    eight.at[e / 2] = __uint_as_float(word | half << 16 * (e % 2));
                }
        }
        *(Four *)(to + i * STRIDE + k % (DEPTH / 8) * 4) = eight;
    }
}

struct alignas(8) Pair { float x, y; };

// The largest and the sum over four lanes that share a row.
__device__ inline float most_of_four(float x) {
    x = fmaxf(x, __shfl_xor_sync(FULL, x, 1));
    return fmaxf(x, __shfl_xor_sync(FULL, x, 2));
}
__device__ inline float added_by_four(float x) {
    x += __shfl_xor_sync(FULL, x, 1);
    return x + __shfl_xor_sync(FULL, x, 2);
}

// The weights of sixteen queries, by each of eight warps; zeros where there is no query. As D of a product of matrices lies
// in lanes: row g in the first two numbers of each eight columns, row g + 8 in the others. `left` and `right` have room for
// TILE vectors.
__device__ inline void attention_of_strip(const Args &of, int b, int h, unsigned *left, unsigned *right, float (*sums)[4]) {
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, strip = threadIdx.x / WARP * 16;
    const int tokens = of.tokens, queries = of.queries_of[b], keys = of.keys_of[b], width = of.score_width;
    const i64 of_query = b * of.query_batch + h * of.query_head, of_key = b * of.key_batch + h * of.key_groups / of.heads * of.key_group;
#pragma unroll
    for (int e = 0; e < TILE / 8; e++) for (int q = 0; q < 4; q++) sums[e][q] = 0;
#pragma unroll 1
    for (int first = 0; first < width; first += DEPTH) {
        __syncthreads();
        load_vectors(left, of.queries, of_query, of.query_token, queries, first, width);
        load_vectors(right, of.score_keys, of_key, of.key_token, keys, first, width);
        __syncthreads();
        if (strip >= queries) continue;
#pragma unroll 1
        for (int k = 0; k < DEPTH / 2 && first + 2 * k < width; k += 8) {
            unsigned a[4], c[4];
            load_fragments(a, left + (strip + lane % 16) * STRIDE + lane / 16 * 4 + k);
#pragma unroll
            for (int e = 0; e < TILE / 16; e++) {
                if (16 * e >= keys) break; // for all lanes
                load_fragments(c, right + (16 * e + lane % 8 + lane / 16 * 8) * STRIDE + lane / 8 % 2 * 4 + k);
                for (int f = 0; f < 2; f++)
                    if (of.score_kind == 1) multiply_bfloats(sums[2 * e + f], a, c + 2 * f);
                    else multiply_halves(sums[2 * e + f], a, c + 2 * f);
            }
        }
    }
    if (strip >= queries) return;
    const float scaling = (float)of.scaling;
    const bool all = !of.allowed && keys == TILE; // are read
#pragma unroll
    for (int f = 0; f < 2; f++) { // the row g of the strip, and the row g + 8
        const int i = strip + g + 8 * f;
        const unsigned char *allowed = of.allowed ? of.allowed + ((i64)b * tokens + (i < queries ? i : 0)) * tokens : 0;
        float largest = -infinity(), sum = 0;
#pragma unroll
        for (int e = 0; e < TILE / 8; e++)
#pragma unroll
            for (int q = 2 * f; q < 2 * f + 2; q++) {
                const int j = 8 * e + 2 * t + q % 2;
                const bool reads = all || (j < keys && (!allowed || allowed[j]));
                sums[e][q] = reads ? sums[e][q] * scaling : -infinity();
                largest = fmaxf(largest, sums[e][q]);
            }
        largest = most_of_four(largest);
#pragma unroll
        for (int e = 0; e < TILE / 8; e++)
#pragma unroll
            for (int q = 2 * f; q < 2 * f + 2; q++) {
                sums[e][q] = !all && sums[e][q] == -infinity() ? 0.0f : exponential(sums[e][q] - largest);
                sum += sums[e][q];
            }
        sum = added_by_four(sum);
        const float over = sum == 0 ? 0.0f : 1.0f / sum; // where there is nothing to read; a sum that is no number stays so
#pragma unroll
        for (int e = 0; e < TILE / 8; e++)
#pragma unroll
            for (int q = 2 * f; q < 2 * f + 2; q++) sums[e][q] = i < queries ? sums[e][q] * over : 0.0f;
    }
}

// A block of eight warps to a head and a window.
extern "C" __global__ __launch_bounds__(256, 2) void attend(const __grid_constant__ Args of) {
    const int h = blockIdx.x, b = blockIdx.y, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const int tokens = of.tokens, queries = of.queries_of[b], strip = threadIdx.x / WARP * 16;
    extern __shared__ double shared[];
    float sums[TILE / 8][4];
    attention_of_strip(of, b, h, (unsigned *)shared, (unsigned *)shared + TILE * STRIDE, sums);
    float *weights = of.computed + ((i64)b * of.heads + h) * tokens * tokens;
#pragma unroll
    for (int f = 0; f < 2; f++) { // the row g of the strip, and the row g + 8
        const int i = strip + g + 8 * f;
        if (i >= queries) continue;
#pragma unroll
        for (int e = 0; e < TILE / 8; e++) {
            const int j = 8 * e + 2 * t;
            const float x = sums[e][2 * f], y = sums[e][2 * f + 1];
            float *to = weights + (i64)i * tokens + j;
            if (j + 1 < tokens && tokens % 2 == 0) *(Pair *)to = {x, y};
            else {
                if (j < tokens) to[0] = x;
                if (j + 1 < tokens) to[1] = y;
            }
        }
    }
}
