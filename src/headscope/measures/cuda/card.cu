// What the card does by one instruction of its own. Elsewhere the same functions are written out: tests/cuda_on_cpu.h.

__device__ inline unsigned short to_half(float x) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}
__device__ inline float from_half(unsigned short half) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
}

__device__ inline float logarithm(float x) { // good to 2e-7
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y * 0.69314718f;
}

__device__ inline float power_of_two(float x) { // good to 2e-7
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ inline float exponential(float x) { return power_of_two(x * 1.44269504f); } // of a number that is not above zero

__device__ inline float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); } // x·y + z, rounded once

__device__ inline float not_below(float least, float x) { // the larger of the two; no number where x is none
    float y;
#if __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(least), "f"(x));
#else
    y = x < least ? least : x;
#endif
    return y;
}

__device__ inline float over_root(float x) { // 1 / √x, likewise
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two 16-bit floats in a word, the first in its lower half.
__device__ inline unsigned two_halves(float x, float y) {
#if __CUDA_ARCH__ >= 800
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
    return word;
#else
    return to_half(x) | (unsigned)to_half(y) << 16;
#endif
}
__device__ inline float lower_half(unsigned word) { return from_half((unsigned short)word); }
__device__ inline float upper_half(unsigned word) { return from_half((unsigned short)(word >> 16)); }

// D += A·B by a warp, of 16-bit floats: A (16, 16), B (16, 8), D (16, 8) in float32. Lane 4g + t has the numbers
// A[g | g + 8][2t, 2t + 1 | 2t + 8, 2t + 9], B[2t, 2t + 1 | 2t + 8, 2t + 9][g] and D[g | g + 8][2t, 2t + 1].
__device__ inline void multiply_halves(float *d, const unsigned *a, const unsigned *b) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ inline void multiply_bfloats(float *d, const unsigned *a, const unsigned *b) { // the same of bfloat16
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Four blocks of 8 by 4 words: lane 8m + r names where row r of block m begins, and lane 4g + t gets word t of row g of
// each. Words on the chip, each row at a multiple of 16 bytes.
__device__ inline void load_fragments(unsigned *to, const unsigned *row) {
#if __CUDA_ARCH__ >= 750
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
#endif
}
// The same with each block turned: lane 4g + t gets what stands in column g of the rows 2t and 2t + 1.
__device__ inline void load_turned(unsigned *to, const unsigned *row) {
#if __CUDA_ARCH__ >= 750
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
#endif
}

// Four numbers that lie at a multiple of 16 bytes on the chip, by one load: the compiler would rather choose among four places than
// among four numbers, and load one after the other.
__device__ inline void load_four(float *to, const float *from) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(at) : "memory");
}

// Sixteen bytes from the memory of the card to that of the chip, or as many zeros; they are there after `copies_done` and
// a barrier.
__device__ inline void copy_to_chip(unsigned *to, const void *from, bool real) {
#if __CUDA_ARCH__ >= 800
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(real ? 16 : 0) : "memory");
#endif
}
// What was copied since the last time goes together; and all but so many of such groups are there, after a barrier.
__device__ inline void copies_sent() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N> __device__ inline void copies_done_but() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}
__device__ inline void copies_done() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// What lies there will be wanted: from the memory of the card to its cache, or to that of the processor, as something that is
// loaded and not looked at.
#define LINE 128 /* bytes */
__device__ inline void call(const void *from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }
__device__ inline void call_near(const void *from) { asm volatile("{ .reg .u32 x; ld.global.u8 x, [%0]; }" ::"l"(from)); }

__device__ inline unsigned halves_exchanged(unsigned word) { return __byte_perm(word, 0, 0x1032); }

// The largest and the smallest over the lanes of a warp, and the sum.
__device__ inline unsigned largest_of_warp(unsigned x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, x);
#else
    for (int k = 16; k > 0; k /= 2) { unsigned y = __shfl_xor_sync(0xffffffffu, x, k); x = y > x ? y : x; }
    return x;
#endif
}
// The same of numbers that are not below zero, whose bits are in their order.
__device__ inline double largest_of_warp(double x) {
    const unsigned upper = (unsigned)__double2hiint(x), most = largest_of_warp(upper);
    return __hiloint2double((int)most, (int)largest_of_warp(upper == most ? (unsigned)__double2loint(x) : 0u));
}
__device__ inline unsigned smallest_of_warp(unsigned x) { return ~largest_of_warp(~x); }
__device__ inline int sum_of_warp(int x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffffu, x);
#else
    for (int k = 16; k > 0; k /= 2) x += __shfl_xor_sync(0xffffffffu, x, k);
    return x;
#endif
}
