// Bit instructions: popc, clz, brev, ffs, fns-free select, prmt, funnel shifts, bfe, bfi, lop3.
extern "C" __global__ void bits(const unsigned *x, const unsigned *y, const unsigned *s, int *counts,
                                unsigned *words, unsigned long long *longs, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = x[i], b = y[i], c = s[i];
    unsigned long long w = (unsigned long long)a << 32 | b;
    counts[6 * i] = __popc(a), counts[6 * i + 1] = __clz(a), counts[6 * i + 2] = __ffs(a);
    counts[6 * i + 3] = __popcll(w), counts[6 * i + 4] = __clzll(w), counts[6 * i + 5] = __ffsll(w);
    unsigned *out = words + 12 * i;
    out[0] = __brev(a);
    out[1] = __byte_perm(a, b, c);
    out[2] = __funnelshift_l(a, b, c);
    out[3] = __funnelshift_r(a, b, c);
    out[4] = __funnelshift_lc(a, b, c);
    out[5] = __funnelshift_rc(a, b, c);
    out[6] = (a & b) ^ (~c | (a >> 3));
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(out[7]) : "r"(a), "r"(c), "r"(c >> 8));
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(out[8]) : "r"(a), "r"(c & 31), "r"(c >> 8 & 31));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(out[9]) : "r"(a), "r"(b), "r"(c & 31), "r"(c >> 8 & 31));
    asm("bfind.s32 %0, %1;" : "=r"(out[10]) : "r"(a));
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(out[11]) : "r"(a), "r"(b), "r"(c));
    longs[2 * i] = __brevll(w);
    longs[2 * i + 1] = (w << (c & 63)) | (unsigned long long)((long long)w >> (c & 63));
}
