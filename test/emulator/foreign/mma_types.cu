// One mma.sync of each further kind: bf16, tf32, f64, s8, f16 accumulate; fragments straight from global.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__device__ unsigned word(const void *p) { return *(const unsigned *)p; }

extern "C" __global__ void mma_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *d) { // 16x8x16
    int g = threadIdx.x / 4, q = threadIdx.x % 4;
    float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(word(a + g * 16 + 2 * q)), "r"(word(a + (g + 8) * 16 + 2 * q)), "r"(word(a + g * 16 + 2 * q + 8)),
          "r"(word(a + (g + 8) * 16 + 2 * q + 8)), "r"(word(b + g * 16 + 2 * q)), "r"(word(b + g * 16 + 2 * q + 8)));
    d[g * 8 + 2 * q] = c0, d[g * 8 + 2 * q + 1] = c1, d[(g + 8) * 8 + 2 * q] = c2, d[(g + 8) * 8 + 2 * q + 1] = c3;
}
extern "C" __global__ void mma_tf32(const float *a, const float *b, float *d) { // 16x8x8
    int g = threadIdx.x / 4, q = threadIdx.x % 4;
    float c0 = 1, c1 = 1, c2 = 1, c3 = 1;
    unsigned r[6];
    const float *p[6] = {a + g * 8 + q, a + (g + 8) * 8 + q, a + g * 8 + q + 4, a + (g + 8) * 8 + q + 4, b + g * 8 + q, b + g * 8 + q + 4};
    for (int i = 0; i < 6; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r[i]) : "f"(*p[i]));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
    d[g * 8 + 2 * q] = c0, d[g * 8 + 2 * q + 1] = c1, d[(g + 8) * 8 + 2 * q] = c2, d[(g + 8) * 8 + 2 * q + 1] = c3;
}
extern "C" __global__ void mma_f64(const double *a, const double *b, double *d) { // 8x8x4
    int g = threadIdx.x / 4, q = threadIdx.x % 4;
    double c0 = 0.5, c1 = -0.5;
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(c0), "+d"(c1) : "d"(a[g * 4 + q]), "d"(b[g * 4 + q]));
    d[g * 8 + 2 * q] = c0, d[g * 8 + 2 * q + 1] = c1;
}
extern "C" __global__ void mma_s8(const signed char *a, const signed char *b, int *d) { // 16x8x32
    int g = threadIdx.x / 4, q = threadIdx.x % 4, c0 = 3, c1 = 3, c2 = 3, c3 = 3;
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3)
        : "r"(word(a + g * 32 + 4 * q)), "r"(word(a + (g + 8) * 32 + 4 * q)), "r"(word(a + g * 32 + 4 * q + 16)),
          "r"(word(a + (g + 8) * 32 + 4 * q + 16)), "r"(word(b + g * 32 + 4 * q)), "r"(word(b + g * 32 + 4 * q + 16)));
    d[g * 8 + 2 * q] = c0, d[g * 8 + 2 * q + 1] = c1, d[(g + 8) * 8 + 2 * q] = c2, d[(g + 8) * 8 + 2 * q + 1] = c3;
}
extern "C" __global__ void mma_f16(const half *a, const half *b, unsigned *d) { // 16x8x8, packed result
    int g = threadIdx.x / 4, q = threadIdx.x % 4;
    unsigned d0, d1, zero = 0;
    asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%5,%5};"
        : "=r"(d0), "=r"(d1)
        : "r"(word(a + g * 8 + 2 * q)), "r"(word(a + (g + 8) * 8 + 2 * q)), "r"(word(b + g * 8 + 2 * q)), "r"(zero));
    d[g * 4 + q] = d0, d[(g + 8) * 4 + q] = d1;
}
