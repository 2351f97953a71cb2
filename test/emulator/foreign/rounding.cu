// Conversions and arithmetic in all four rounding modes, saturation, f16 and f64 to and from integers.
#include <cuda_fp16.h>
extern "C" __global__ void rounding(const float *x, const double *d, int *ints, float *floats, long long *longs,
                                    unsigned short *halves, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    double w = d[i];
    int *p = ints + 10 * i;
    p[0] = __float2int_rn(v), p[1] = __float2int_rz(v), p[2] = __float2int_ru(v), p[3] = __float2int_rd(v);
    p[4] = (int)__float2uint_rn(v), p[5] = __double2int_rn(w), p[6] = (int)(unsigned char)__float2uint_rz(fabsf(v));
    asm("cvt.rzi.sat.s8.f32 %0, %1;" : "=r"(p[7]) : "f"(v));
    asm("cvt.rni.u16.f32 %0, %1;" : "=r"(p[8]) : "f"(v));
    asm("cvt.sat.u8.s32 %0, %1;" : "=r"(p[9]) : "r"(p[0]));
    float *f = floats + 14 * i;
    f[0] = __fadd_rz(v, 1.1f), f[1] = __fadd_ru(v, 1.1f), f[2] = __fadd_rd(v, 1.1f);
    f[3] = __fmul_rz(v, v), f[4] = __fmul_ru(v, 0.3f), f[5] = __fmaf_rd(v, 0.3f, 0.1f);
    f[6] = __fdiv_rn(v, 3.0f), f[7] = __frcp_rn(v), f[8] = __fsqrt_rn(fabsf(v)), f[9] = __saturatef(v);
    f[10] = __int2float_rz(p[0] * 16777259), f[11] = __double2float_ru(w), f[12] = rintf(v), f[13] = roundf(v);
    longs[3 * i] = __double2ll_rd(w * 1e9), longs[3 * i + 1] = __float2ll_rz(v * 1e12f);
    longs[3 * i + 2] = __double_as_longlong(__ll2double_rn(longs[3 * i] * 1000003ll));
    halves[3 * i] = __half_as_ushort(__float2half_rn(v)), halves[3 * i + 1] = __half_as_ushort(__float2half_rz(v));
    halves[3 * i + 2] = __half_as_ushort(__int2half_rn(p[1]));
}
