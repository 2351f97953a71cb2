// float4, int2, uchar4 and double2 copies with a scalar tail, streaming and read-only loads.
extern "C" __global__ void vector_copy(const float *in, float *out, int n, float scale) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = t; i < n / 4; i += threads) {
        float4 v = __ldcs((const float4 *)in + i);
        v.x *= scale, v.y *= scale, v.z *= scale, v.w *= scale;
        __stcg((float4 *)out + i, v);
    }
    int tail = n / 4 * 4 + t;
    if (tail < n) out[tail] = __ldg(in + tail) * scale;
}
extern "C" __global__ void vector_shuffle(const uchar4 *bytes, const double2 *pairs, int2 *codes, double2 *swapped,
                                          ushort4 *wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 b = bytes[i];
    codes[i] = make_int2(b.x + b.y * 256, b.z - b.w);
    double2 p = pairs[i];
    swapped[i] = make_double2(p.y, p.x);
    wide[i] = make_ushort4(b.w * 257, b.z, b.y, b.x << 8);
}
