// As much of CUDA as the kernels use, on a CPU: the threads of a block take turns (ucontext), so that barriers and
// exchanges between lanes work as they do on a card. For tests where there is no card.

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __shared__

struct Place { int x, y; };
static Place threadIdx, blockIdx, blockDim, gridDim;
double shared[1 << 15];

struct Barrier { int waiting = 0, turn = 0; };
struct Fiber { ucontext_t context; bool done; };
static std::vector<Fiber> fibers;
static std::vector<char *> stacks;
static ucontext_t scheduler;
static Barrier everybody;
static std::vector<Barrier> warps;
static std::vector<double> exchanged;
static std::function<void()> work;

static void wait_for_turn() { int own = threadIdx.x; swapcontext(&fibers[own].context, &scheduler); }
static void wait(Barrier &barrier, int number) {
    int turn = barrier.turn;
    if (++barrier.waiting == number) { barrier.waiting = 0; barrier.turn++; return; }
    while (barrier.turn == turn) wait_for_turn();
}
static void __syncthreads() { wait(everybody, blockDim.x); }

template <class T> static T __shfl_xor_sync(unsigned, T value, int other) {
    Barrier &warp = warps[threadIdx.x / 32];
    int own = threadIdx.x;
    memcpy(&exchanged[own], &value, sizeof value);
    wait(warp, 32);
    memcpy(&value, &exchanged[own ^ other], sizeof value);
    wait(warp, 32);
    return value;
}
static int __any_sync(unsigned mask, int value) {
    for (int k = 16; k > 0; k /= 2) value |= __shfl_xor_sync(mask, value, k);
    return value != 0;
}
template <class T> static T atomicAdd(T *to, T value) { T old = *to; *to += value; return old; }
static float __int_as_float(int bits) { float x; memcpy(&x, &bits, 4); return x; }
static unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
static double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }

static void enter() {
    work();
    fibers[threadIdx.x].done = true;
    swapcontext(&fibers[threadIdx.x].context, &scheduler);
}

// False where a block wrote past the shared memory that it was given.
static bool launch(int grid_x, int grid_y, int block, int size, std::function<void()> kernel) {
    bool within = true;
    work = kernel;
    gridDim = {grid_x, grid_y};
    blockDim = {block, 1};
    fibers.resize(block);
    exchanged.resize(block);
    while ((int)stacks.size() < block) stacks.push_back((char *)malloc(1 << 17));
    for (int y = 0; y < grid_y; y++)
        for (int x = 0; x < grid_x; x++) {
            everybody = Barrier();
            warps.assign(block / 32, Barrier());
            memset(shared, 0xab, sizeof shared); // what was there before means nothing
            for (int t = 0; t < block; t++) {
                getcontext(&fibers[t].context);
                fibers[t].context.uc_stack.ss_sp = stacks[t];
                fibers[t].context.uc_stack.ss_size = 1 << 17;
                fibers[t].context.uc_link = &scheduler;
                fibers[t].done = false;
                makecontext(&fibers[t].context, enter, 0);
            }
            int left = block;
            while (left) {
                left = 0;
                for (int t = 0; t < block; t++) {
                    if (fibers[t].done) continue;
                    threadIdx = {t, 0};
                    blockIdx = {x, y};
                    swapcontext(&scheduler, &fibers[t].context);
                    left += !fibers[t].done;
                }
            }
            for (size_t k = size; k < sizeof shared; k++) within = within && ((unsigned char *)shared)[k] == 0xab;
        }
    return within;
}
