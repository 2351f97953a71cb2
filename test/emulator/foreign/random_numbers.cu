// Counter-based philox4x32-10, xorshift64*, and a 32-bit LCG; uniform floats from the bits.
extern "C" __global__ void random_numbers(uint4 *philox, unsigned long long *xorshift, float *uniform,
                                          unsigned seed) {
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 c = make_uint4(t, 0u, seed, 7u);
    unsigned k0 = seed, k1 = 0xcafef00du;
    for (int round = 0; round < 10; round++) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    philox[t] = c;
    unsigned long long s = t * 0x9E3779B97F4A7C15ull + 1;
    for (int i = 0; i < 5; i++) s ^= s >> 12, s ^= s << 25, s ^= s >> 27;
    xorshift[t] = s * 0x2545F4914F6CDD1Dull;
    uniform[t] = (c.w >> 8) * (1.0f / 16777216.0f) + __uint2float_rn(c.x) * 2.3283064365386963e-10f;
}
