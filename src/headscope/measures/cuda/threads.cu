// The sums of one layer of a batch, counted where the model runs. One block of threads to a head and a window, or to
// several windows of a head.
//
// What it takes and fills (struct Args), and the method's choices as constants, stand before this when it is compiled:
// see arguments.py. Counts are whole numbers and are added by atomics, whose order does not matter. Sums of floats are
// made in an order that the threads' numbers fix, one number for each head and window; those are added up elsewhere in
// the order of the windows.
//
// Shapes: B windows, H heads, T tokens, N that count, P pairs of these, K different ids; a kind of pair is a band of
// distances and a relation.

#define SHOWN (READINGS + MAPS)
#define BINS 21
#define ORDER_BINS 16
#define SAMPLED 512
#define CONTRASTS 3 /* of relations; the mask is one more */
#define WARP 32
#define FULL 0xffffffffu
#define AT_LEAST_ONE(x) ((x) > 0 ? (x) : 1)

// The number of the own warp. Every lane asks the first, so that the compiler knows that a warp stays together.
__device__ inline int warp_of_block() { return __shfl_sync(FULL, (int)threadIdx.x / WARP, 0); }

__device__ inline double added(double x) { // over the lanes of a warp, in a fixed order
    for (int k = WARP / 2; k > 0; k /= 2) x += __shfl_xor_sync(FULL, x, k);
    return x;
}

__device__ inline i64 whole(i64 x) { // the same of whole numbers
    for (int k = WARP / 2; k > 0; k /= 2) x += __shfl_xor_sync(FULL, x, k);
    return x;
}

// The sum over all threads, known to all of them. `room` has 32 doubles.
__device__ inline double added_by_all(double x, double *room) {
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = added(x);
    __syncthreads();
    if (lane == 0) room[warp] = x;
    __syncthreads();
    return added(lane < warps ? room[lane] : 0.0);
}
__device__ inline double most(double x) {
    for (int k = WARP / 2; k > 0; k /= 2) { double y = __shfl_xor_sync(FULL, x, k); x = y > x ? y : x; }
    return x;
}
__device__ inline double most_of_all(double x, double *room) {
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = most(x);
    __syncthreads();
    if (lane == 0) room[warp] = x;
    __syncthreads();
    return most(room[lane < warps ? lane : 0]);
}

// Numbers of all lanes added up, those of a lane dealt out: of twice so many, each lane keeps one half, and sends the other to a
// lane that keeps that. Ends with `LAST` of them, after as many steps as it takes.
template <int MANY, int LAST, class T> __device__ inline void deal_out(T *x, int step) {
    const bool second = threadIdx.x & step;
#pragma unroll
    for (int k = 0; k < MANY; k++) {
        const T sent = second ? x[k] : x[k + MANY], kept = second ? x[k + MANY] : x[k];
        x[k] = kept + __shfl_xor_sync(FULL, sent, step);
    }
    if constexpr (MANY > LAST) deal_out<MANY / 2, LAST>(x, step / 2);
}

__device__ inline bool is_finite(double x) { return x - x == 0; }
__device__ inline double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }
__device__ inline float infinity() { return __int_as_float(0x7f800000); }

__device__ inline u64 mix(u64 x) { // the finaliser of SplitMix64
    x ^= x >> 30; x *= 0xBF58476D1CE4E5B9ull;
    x ^= x >> 27; x *= 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// Where the pairs of token i begin in a list of the pairs of n tokens: the pair i < j has the number pairs_of(i, n) + j.
__device__ inline int pairs_of(int i, int n) { return i * (2 * n - i - 1) / 2 - i - 1; }

// Every pair i < j, dealt out to the threads: a row to a warp, its columns to the lanes. Lanes of a warp stay together;
// those for which there is no j have none that is below n.
#define FOR_ROWS(n) _Pragma("unroll 1") for (int i = threadIdx.x / WARP; i < (n) - 1; i += blockDim.x / WARP)
#define FOR_COLUMNS(n) _Pragma("unroll 1") for (int j = i + 1 + threadIdx.x % WARP, first = i + 1; first < (n); first += WARP, j += WARP)

// The id with the largest sum, the smallest number among equals; and that of the null. By one warp.
template <class Times> __device__ inline void largest_id(const Times &times, const int *by_count, const int *null_, int distinct, int &best, int &of_null) {
    unsigned own = 0, other = 0, own_id = FULL, other_id = FULL;
    for (int r = threadIdx.x % WARP; r < distinct; r += WARP) {
        const unsigned one = times(r), two = times(by_count[r]), id = null_[r];
        if (own_id == FULL || one > own) { own = one; own_id = r; } // r grows
        if (other_id == FULL || two > other || (two == other && id < other_id)) { other = two; other_id = id; }
    }
    const unsigned most_own = largest_of_warp(own), most_other = largest_of_warp(other);
    best = (int)smallest_of_warp(own == most_own ? own_id : FULL);
    of_null = (int)smallest_of_warp(other == most_other ? other_id : FULL);
}

// The sums of several numbers, each over the lanes of a warp, in a fixed order. The code is short: what a block runs once waits for it.
template <int MANY> __device__ inline void add_all(double *x) {
#pragma unroll 1
    for (int away = WARP / 2; away > 0; away /= 2)
        for (int k = 0; k < MANY; k++) x[k] += __shfl_xor_sync(FULL, x[k], away);
}
