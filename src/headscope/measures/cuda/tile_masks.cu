// S inside masks, at their edge and outside, of pairs in tiles: by products of matrices.

#define ALL STEPS /* the column for all tokens */

// Σ S of pairs by where their tokens are, for all thresholds: S of sixteen tokens with others, as the sum of two 16-bit floats,
// times the masks of the others; what comes of a row counts where its token passes, too.
struct Masked {
    float row[3][4];                               // of the sixteen tokens at hand: as D of a product of matrices lies in lanes
    float inside[3][2], second[3][2], first[3][2]; // of the thresholds 8e + 2t + {0, 1}

    __device__ Masked() {
        for (int e = 0; e < 6; e++) inside[e / 2][e % 2] = second[e / 2][e % 2] = first[e / 2][e % 2] = 0;
        begin();
    }
    __device__ inline void begin() { for (int e = 0; e < 12; e++) row[e / 4][e % 4] = 0; }
    // Half a tile; `mask` is where eight of the others begin, for this lane's threshold.
    __device__ inline void add(const float *x, float by, const unsigned *mask) {
        unsigned halves[4], ones[4]; // the upper halves, then the lower ones
        for (int r = 0; r < 2; r++) {
            const float one = x[2 * r] * by, two = x[2 * r + 1] * by;
            halves[r] = two_halves(one, two);
            halves[2 + r] = two_halves(one - lower_half(halves[r]), two - upper_half(halves[r]));
        }
        load_fragments(ones, mask); // eight tokens of each of three times eight thresholds
        for (int e = 0; e < 3; e++) {
            const unsigned column[2] = {ones[e], ones[e]};
            multiply_halves(row[e], halves, column);
        }
    }
    // The sixteen tokens are done with; those of this lane pass so many thresholds.
    __device__ inline void end(int passed, int other_passed) {
        const int lane = threadIdx.x % WARP, t = lane % 4;
        for (int r = 0; r < 2; r++) {
            const float whole = __shfl_sync(FULL, row[ALL / 8][2 * r + ALL % 2], lane / 4 * 4 + ALL % 8 / 2);
            const int own = (r ? other_passed : passed) - 2 * t;
            for (int e = 0; e < 3; e++)
                for (int c = 0; c < 2; c++) {
                    const float sum = row[e][2 * r + c];
                    second[e][c] += sum;
                    if (own > 8 * e + c) { inside[e][c] += sum; first[e][c] += whole; }
                }
        }
        begin();
    }
    // The sums of a warp.
    __device__ inline void put(double *to) const {
        const int lane = threadIdx.x % WARP;
        for (int e = 0; e < 3; e++)
            for (int c = 0; c < 2; c++) {
                float own[3] = {inside[e][c], second[e][c], first[e][c]};
                for (int k = 0; k < 3; k++) {
                    for (int away = 4; away < WARP; away *= 2) own[k] += __shfl_xor_sync(FULL, own[k], away);
                    if (lane < 4) to[k * THETAS + 8 * e + 2 * lane + c] = (double)own[k];
                }
            }
    }
};
