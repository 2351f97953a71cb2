// Packed and scalar f16 and bf16: fma, compare, min, max, conversions, NaN and overflow.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void half_arithmetic(const half2 *x, const half2 *y, half2 *sum, half2 *fused,
                                           half *largest, unsigned char *order, int *rounded, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half2 a = x[i], b = y[i];
    sum[i] = __hsub2(__hadd2(a, b), __hmul2_rn(a, b));
    fused[i] = __hfma2_relu(a, b, __float2half2_rn(0.25f));
    largest[i] = __hmax(__hmin(__low2half(a), __high2half(b)), __hneg(__habs(__high2half(a))));
    order[i] = (__hlt(__low2half(a), __low2half(b)) ? 1 : 0) | (__hbeq2(a, b) ? 2 : 0) |
               (__hge(__high2half(a), __high2half(b)) ? 4 : 0) | (__hisnan(__low2half(a)) ? 8 : 0);
    rounded[i] = __half2int_rn(__low2half(a)) * 1000 + __half2int_rz(__high2half(a));
}
extern "C" __global__ void bfloat_arithmetic(const __nv_bfloat162 *x, const float *y, __nv_bfloat162 *fused,
                                             __nv_bfloat16 *down, __nv_bfloat16 *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    fused[i] = __hfma2(x[i], x[i], __float2bfloat162_rn(y[i]));
    down[i] = __float2bfloat16_rn(y[i] * 1.001f);
    sum[i] = __hadd(__low2bfloat16(x[i]), __hmul(__high2bfloat16(x[i]), __float2bfloat16(0.5f)));
}
