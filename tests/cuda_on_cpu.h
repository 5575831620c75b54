// As much of CUDA as the kernels use, on a CPU: the threads of a block take turns (ucontext), so that barriers and
// exchanges between lanes work as they do on a card. For tests where there is no card.
//
// Who goes first is drawn anew in each turn where `order` is not zero: a kernel that lacks a barrier counts otherwise then.

#include <cmath>
#include <cstdlib>
#include <csetjmp>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __noinline__
#define __shared__
#define __launch_bounds__(...)
#define __grid_constant__

struct Place { int x, y; };
static Place threadIdx, blockIdx, blockDim, gridDim;
alignas(16) double shared[1 << 15];

struct Barrier { int waiting = 0, turn = 0; };
struct Fiber { ucontext_t context; jmp_buf place; bool begun, done; };
static std::vector<Fiber> fibers;
static std::vector<char *> stacks;
static ucontext_t scheduler;
static jmp_buf scheduler_place;
static Barrier everybody;
static std::vector<Barrier> warps;
static std::vector<double> exchanged;
static std::function<void()> work;
static bool aligned;
static unsigned order = 0;           // of threads, warps and blocks: as they are numbered, or drawn from this
static unsigned long long drawn = 1; // by xorshift
static int turns;                    // that ended at another barrier than they began
extern "C" void set_order(unsigned seed) { order = seed; }
static unsigned draw(unsigned below) {
    drawn ^= drawn << 13, drawn ^= drawn >> 7, drawn ^= drawn << 17;
    return drawn % below;
}
// The numbers below `to.size()`, in the order in which they come next.
static void deal(std::vector<int> &to) {
    for (size_t k = 0; k < to.size(); k++) to[k] = k;
    for (size_t k = to.size(); order && k > 1; k--) std::swap(to[k - 1], to[draw(k)]);
}

// A thread begins with swapcontext, which gives it its stack; from then on jumps are enough, and far faster.
static void wait_for_turn() { if (!_setjmp(fibers[threadIdx.x].place)) _longjmp(scheduler_place, 1); }
static void give_turn(Fiber &to) {
    if (_setjmp(scheduler_place)) return;
    if (to.begun) _longjmp(to.place, 1);
    to.begun = true;
    swapcontext(&scheduler, &to.context);
}
static void wait(Barrier &barrier, int number) {
    int turn = barrier.turn;
    turns++;
    if (++barrier.waiting == number) { barrier.waiting = 0; barrier.turn++; return; }
    while (barrier.turn == turn) wait_for_turn();
}
static void __syncthreads() { wait(everybody, blockDim.x); }
static void __syncwarp() { wait(warps[threadIdx.x / 32], 32); }

template <class T> static T __shfl_xor_sync(unsigned, T value, int other) {
    Barrier &warp = warps[threadIdx.x / 32];
    int own = threadIdx.x;
    memcpy(&exchanged[own], &value, sizeof value);
    wait(warp, 32);
    memcpy(&value, &exchanged[own ^ other], sizeof value);
    wait(warp, 32);
    return value;
}
template <class T> static T __shfl_sync(unsigned, T value, int from) {
    Barrier &warp = warps[threadIdx.x / 32];
    memcpy(&exchanged[threadIdx.x], &value, sizeof value);
    wait(warp, 32);
    memcpy(&value, &exchanged[threadIdx.x / 32 * 32 + from % 32], sizeof value);
    wait(warp, 32);
    return value;
}
static int __any_sync(unsigned mask, int value) {
    for (int k = 16; k > 0; k /= 2) value |= __shfl_xor_sync(mask, value, k);
    return value != 0;
}
static unsigned __ballot_sync(unsigned, int value) {
    Barrier &warp = warps[threadIdx.x / 32];
    int first = threadIdx.x / 32 * 32;
    exchanged[threadIdx.x] = value != 0;
    wait(warp, 32);
    unsigned ones = 0;
    for (int k = 0; k < 32; k++) ones |= (unsigned)(exchanged[first + k] != 0) << k;
    wait(warp, 32);
    return ones;
}
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __ffs(int x) { return __builtin_ffs(x); }
template <class T> static T atomicAdd(T *to, T value) { T old = *to; *to += value; return old; }
static unsigned atomicMax(unsigned *to, unsigned value) { unsigned old = *to; *to = old > value ? old : value; return old; }
static unsigned long long __umul64hi(unsigned long long x, unsigned long long y) { return (unsigned __int128)x * y >> 64; }
static int atomicOr(int *to, int value) { int old = *to; *to |= value; return old; }
static float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
static float __int_as_float(int bits) { float x; memcpy(&x, &bits, 4); return x; }
static unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
static double __hiloint2double(int upper, int lower) { double x; const int both[2] = {lower, upper}; memcpy(&x, both, 8); return x; }
static int __double2loint(double x) { int both[2]; memcpy(both, &x, 8); return both[0]; }
static int __double2hiint(double x) { int both[2]; memcpy(both, &x, 8); return both[1]; }
static double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }


// What a card does by one instruction: card.cu.
// Its approximations take numbers below the smallest ordinary one for zero, and give zero for them.
static float flushed(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0, x) : x; }
static float logarithm(float x) { return logf(flushed(x)); }
static float fused(float x, float y, float z) { return fmaf(x, y, z); }
static float exponential(float x) { return flushed(expf(x)); }
static float from_half(unsigned short half) {
    const int exponent = half >> 10 & 31, digits = half & 1023;
    const float size = exponent == 31 ? (digits ? NAN : INFINITY)
                     : exponent ? ldexpf(1024 + digits, exponent - 25) : ldexpf(digits, -24);
    return half >> 15 ? -size : size;
}
static unsigned short to_half(float x) { // to the nearest, of two the even one
    const unsigned short sign = std::signbit(x) << 15;
    const float size = fabsf(x);
    if (!(size < 65520)) return sign | (size != size ? 0x7e00 : 0x7c00);
    int exponent = 0;
    frexpf(size, &exponent); // size < 2^exponent
    const int unit = exponent < -13 || size == 0 ? -24 : exponent - 11;
    const int steps = (int)nearbyintf(ldexpf(size, -unit)); // 2^11 where it was rounded up to the next exponent
    return sign | (unit == -24 ? steps : ((unit + 24) << 10) + steps);
}
static float power_of_two(float x) { return flushed(exp2f(flushed(x))); }
static float not_below(float least, float x) { return x < least ? least : x; }
static float over_root(float x) { return 1 / sqrtf(flushed(x)); }
static unsigned two_halves(float x, float y) { return to_half(x) | (unsigned)to_half(y) << 16; }
static float lower_half(unsigned word) { return from_half(word & 0xffff); }
static float upper_half(unsigned word) { return from_half(word >> 16); }
static float from_bfloat(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
static std::vector<unsigned> fragments;
static void multiply(float *d, const unsigned *a, const unsigned *b, float (*number)(unsigned short)) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    unsigned *own = &fragments[threadIdx.x / 32 * 32 * 6];
    for (int k = 0; k < 4; k++) own[lane * 6 + k] = a[k];
    for (int k = 0; k < 2; k++) own[lane * 6 + 4 + k] = b[k];
    wait(warps[threadIdx.x / 32], 32);
    for (int q = 0; q < 4; q++) {
        const int row = g + q / 2 * 8, column = 2 * t + q % 2;
        for (int k = 0; k < 16; k++) { // lane and word of A[row][k] and of B[k][column]
            const unsigned left = own[(row % 8 * 4 + k % 8 / 2) * 6 + row / 8 + k / 8 * 2];
            const unsigned right = own[(column * 4 + k % 8 / 2) * 6 + 4 + k / 8];
            d[q] += number(left >> (k % 2 * 16) & 0xffff) * number(right >> (k % 2 * 16) & 0xffff);
        }
    }
    wait(warps[threadIdx.x / 32], 32);
}
static void multiply_halves(float *d, const unsigned *a, const unsigned *b) { multiply(d, a, b, from_half); }
static void multiply_bfloats(float *d, const unsigned *a, const unsigned *b) { multiply(d, a, b, from_bfloat); }
static std::vector<const unsigned *> rows_of_lanes;
static void load_fragments(unsigned *to, const unsigned *row) {
    const int lane = threadIdx.x % 32;
    const unsigned **own = &rows_of_lanes[threadIdx.x / 32 * 32];
    own[lane] = row;
    aligned = aligned && !((size_t)row % 16);
    wait(warps[threadIdx.x / 32], 32);
    for (int k = 0; k < 4; k++) to[k] = own[8 * k + lane / 4][lane % 4];
    wait(warps[threadIdx.x / 32], 32);
}
static void load_turned(unsigned *to, const unsigned *row) {
    const int lane = threadIdx.x % 32;
    const unsigned **own = &rows_of_lanes[threadIdx.x / 32 * 32];
    own[lane] = row;
    aligned = aligned && !((size_t)row % 16);
    wait(warps[threadIdx.x / 32], 32);
    for (int k = 0; k < 4; k++) {
        const int column = lane / 4, first = lane % 4 * 2;
        to[k] = 0;
        for (int e = 0; e < 2; e++) to[k] |= (own[8 * k + first + e][column / 2] >> column % 2 * 16 & 0xffff) << 16 * e;
    }
    wait(warps[threadIdx.x / 32], 32);
}
static void load_four(float *to, const float *from) {
    aligned = aligned && !((size_t)from % 16);
    memcpy(to, from, 16);
}
struct Copy { unsigned *to; const void *from; bool real; };
static std::vector<std::vector<Copy>> copies; // of each thread, that it did not wait for
static void copy_to_chip(unsigned *to, const void *from, bool real) {
    aligned = aligned && !((size_t)to % 16) && !((size_t)from % 16);
    copies[threadIdx.x].push_back({to, from, real});
}
static std::vector<std::vector<size_t>> groups; // how many copies each of them has
static void copies_sent() {
    size_t before = 0;
    for (size_t number : groups[threadIdx.x]) before += number;
    groups[threadIdx.x].push_back(copies[threadIdx.x].size() - before);
}
static void end_copies(size_t number) {
    std::vector<Copy> &own = copies[threadIdx.x];
    for (size_t k = 0; k < number; k++) own[k].real ? memcpy(own[k].to, own[k].from, 16) : memset(own[k].to, 0, 16);
    own.erase(own.begin(), own.begin() + number);
}
template <int N> static void copies_done_but() {
    std::vector<size_t> &own = groups[threadIdx.x];
    for (; own.size() > N; own.erase(own.begin())) end_copies(own[0]);
}
static void copies_done() { end_copies(copies[threadIdx.x].size()), groups[threadIdx.x].clear(); }
#define LINE 128
static volatile char called;
static void call(const void *from) { called = *(const char *)from; } // what is not there cannot be called
static void call_near(const void *from) { call(from); }
static unsigned halves_exchanged(unsigned word) { return word >> 16 | word << 16; }
static unsigned largest_of_warp(unsigned x) {
    for (int k = 16; k > 0; k /= 2) { unsigned y = __shfl_xor_sync(0, x, k); x = y > x ? y : x; }
    return x;
}
static double largest_of_warp(double x) {
    for (int k = 16; k > 0; k /= 2) { double y = __shfl_xor_sync(0, x, k); x = y > x ? y : x; }
    return x;
}
static unsigned smallest_of_warp(unsigned x) { return ~largest_of_warp(~x); }
static int sum_of_warp(int x) {
    for (int k = 16; k > 0; k /= 2) x += __shfl_xor_sync(0, x, k);
    return x;
}

static void enter() {
    work();
    fibers[threadIdx.x].done = true;
    _longjmp(scheduler_place, 1);
}

// One turn of each thread of a warp; how many have not ended.
static int go_on(const std::vector<int> &lanes, int warp, Place block) {
    int left = 0;
    for (int lane : lanes) {
        const int t = 32 * warp + lane;
        if (fibers[t].done) continue;
        threadIdx = {t, 0};
        blockIdx = block;
        give_turn(fibers[t]);
        left += !fibers[t].done;
    }
    return left;
}

// The threads of a block to their ends. Where an order is drawn, a warp may go on until it waits for the others.
static void run_block(Place block) {
    std::vector<int> lanes(32), places(blockDim.x / 32), left(blockDim.x / 32, 32);
    for (int all = 1; all;) {
        deal(places);
        all = 0;
        for (int warp : places) {
            int before;
            const bool far = order && draw(2);
            do {
                deal(lanes);
                before = turns;
                left[warp] = left[warp] ? go_on(lanes, warp, block) : 0;
            } while (far && left[warp] && turns != before);
            all += left[warp];
        }
    }
}

// What went wrong: 1, a block wrote past the shared memory that it was given; 2, sixteen bytes did not begin where they must.
static int launch(int grid_x, int grid_y, int block, int size, std::function<void()> kernel) {
    bool within = true;
    aligned = true;
    drawn = 0x9E3779B97F4A7C15ull * (order + 1);
    work = kernel;
    gridDim = {grid_x, grid_y};
    blockDim = {block, 1};
    fibers.resize(block);
    exchanged.resize(block);
    fragments.resize(block * 6);
    rows_of_lanes.resize(block);
    copies.assign(block, {});
    groups.assign(block, {});
    while ((int)stacks.size() < block) stacks.push_back((char *)malloc(1 << 17));
    std::vector<int> blocks(grid_x * grid_y);
    deal(blocks);
    for (int number : blocks) {
        everybody = Barrier();
        warps.assign(block / 32, Barrier());
        memset(shared, 0xff, sizeof shared); // what was there before means nothing: no number as a float
        for (int t = 0; t < block; t++) {
            getcontext(&fibers[t].context);
            fibers[t].context.uc_stack.ss_sp = stacks[t];
            fibers[t].context.uc_stack.ss_size = 1 << 17;
            fibers[t].context.uc_link = &scheduler;
            fibers[t].begun = fibers[t].done = false;
            makecontext(&fibers[t].context, enter, 0);
        }
        run_block({number % grid_x, number / grid_x});
        for (size_t k = size; k < sizeof shared; k++) within = within && ((unsigned char *)shared)[k] == 0xff;
    }
    return !within ? 1 : !aligned ? 2 : 0;
}
