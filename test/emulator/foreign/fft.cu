// Radix-2 FFT of 64 complex numbers a block in shared memory, twiddles by sincospif.
extern "C" __global__ void fft(float2 *data) {
    __shared__ float2 s[64];
    int t = threadIdx.x;
    float2 *g = data + blockIdx.x * 64;
    s[__brev(t) >> 26] = g[t];
    s[__brev(t + 32) >> 26] = g[t + 32];
    for (int half = 1; half < 64; half *= 2) {
        __syncthreads();
        int j = t % half, i = (t - j) * 2 + j;
        float sine, cosine;
        sincospif(-(float)j / half, &sine, &cosine);
        float2 a = s[i], b = s[i + half];
        float re = b.x * cosine - b.y * sine, im = b.x * sine + b.y * cosine;
        s[i] = make_float2(a.x + re, a.y + im);
        s[i + half] = make_float2(a.x - re, a.y - im);
    }
    __syncthreads();
    g[t] = s[t], g[t + 32] = s[t + 32];
}
