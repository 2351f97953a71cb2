// The f32 library as nvcc expands it: range reduction, tables in local memory, ex2, lg2, rcp, sqrt.
extern "C" __global__ void float_math(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], p = fabsf(v) + 0.125f;
    float *out = y + 20 * i;
    out[0] = sinf(v), out[1] = cosf(v), out[2] = tanf(v), out[3] = expf(v), out[4] = logf(p);
    out[5] = powf(p, v * 0.5f), out[6] = tanhf(v), out[7] = rsqrtf(p), out[8] = sqrtf(p), out[9] = cbrtf(v);
    out[10] = atan2f(v, p), out[11] = asinf(v / (p + 1.0f)), out[12] = erff(v), out[13] = log2f(p), out[14] = exp2f(v);
    out[15] = fmodf(v, 0.7f), out[16] = sinhf(v), out[17] = hypotf(v, p), out[18] = expm1f(v), out[19] = log1pf(p);
}
extern "C" __global__ void fast_math(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], p = fabsf(v) + 0.125f;
    float *out = y + 8 * i;
    out[0] = __sinf(v), out[1] = __cosf(v), out[2] = __expf(v), out[3] = __logf(p), out[4] = __powf(p, v);
    out[5] = __fdividef(v, p), out[6] = __frsqrt_rn(p);
    asm("tanh.approx.f32 %0, %1;" : "=f"(out[7]) : "f"(v));
}
