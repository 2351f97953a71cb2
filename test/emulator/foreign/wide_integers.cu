// 64- and 128-bit integers: high products, carry chains, division, shifts, __int128.
typedef unsigned long long u64;
extern "C" __global__ void wide_integers(const u64 *a, const u64 *b, u64 *high, long long *shigh, u64 *wide,
                                         u64 *quotients, u64 *chain, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 x = a[i], y = b[i];
    high[i] = __umul64hi(x, y);
    shigh[i] = __mul64hi((long long)x, (long long)y);
    unsigned __int128 product = (unsigned __int128)x * y + (((unsigned __int128)y << 64) >> 3);
    product -= ((unsigned __int128)1 << 100) + x;
    wide[2 * i] = (u64)product;
    wide[2 * i + 1] = (u64)(product >> 64) ^ (u64)(__int128)((__int128)product >> 77);
    u64 d = (y >> 17) | 1;
    quotients[4 * i] = x / d;
    quotients[4 * i + 1] = x % d;
    quotients[4 * i + 2] = (u64)((long long)x / (long long)d);
    quotients[4 * i + 3] = (u64)((long long)x % -(long long)(d & 0xffff));
    unsigned lo, mid, hi, top; // 96-bit sum, then a 64-bit difference with borrow
    asm("add.cc.u32 %0, %4, %6;\n\taddc.cc.u32 %1, %5, %7;\n\taddc.u32 %2, 0, 0;\n\t"
        "sub.cc.u32 %0, %0, %5;\n\tsubc.cc.u32 %1, %1, %4;\n\tsubc.u32 %3, 0, 0;\n\t"
        : "=&r"(lo), "=&r"(mid), "=&r"(hi), "=&r"(top)
        : "r"((unsigned)x), "r"((unsigned)(x >> 32)), "r"((unsigned)y), "r"((unsigned)(y >> 32)));
    unsigned plo, phi;
    asm("mad.lo.cc.u32 %0, %2, %3, %4;\n\tmadc.hi.u32 %1, %2, %3, 1;\n\t"
        : "=&r"(plo), "=&r"(phi) : "r"(lo), "r"(mid), "r"(hi + 0xfffffffeu));
    chain[2 * i] = ((u64)mid << 32 | lo) ^ ((u64)top << 7) ^ hi;
    chain[2 * i + 1] = (u64)phi << 32 | plo;
}
