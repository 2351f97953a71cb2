// GEMM of inline PTX: cp.async into two swizzled stages, ldmatrix (plain and .trans), m16n8k16 f16.
#include <cuda_fp16.h>
#define BM 32
#define BN 32
#define BK 32
__device__ unsigned smem_at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ int at(int row, int chunk) { return row * BK + ((chunk ^ (row >> 1)) & 3) * 8; }

extern "C" __global__ void __launch_bounds__(128) mma_pipeline(const half *a, const half *b, float *c,
                                                               int m, int n, int k) {
    __shared__ __align__(128) half sa[2][BM * BK];
    __shared__ __align__(128) half sb[2][BK * BN];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, wm = warp / 2 * 16, wn = warp % 2 * 16;
    const half *ga = a + blockIdx.y * BM * k, *gb = b + blockIdx.x * BN;
    float acc[2][4] = {};
    auto load = [&](int stage, int k0) {
        int row = t / 4, chunk = t % 4;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem_at(&sa[stage][at(row, chunk)])),
                     "l"(ga + row * k + k0 + chunk * 8));
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(smem_at(&sb[stage][at(row, chunk)])),
                     "l"(gb + (k0 + row) * n + chunk * 8));
        asm volatile("cp.async.commit_group;");
    };
    load(0, 0);
    for (int k0 = 0, stage = 0; k0 < k; k0 += BK, stage ^= 1) {
        if (k0 + BK < k) {
            load(stage ^ 1, k0 + BK);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        for (int kk = 0; kk < BK; kk += 16) {
            unsigned fa[4], fb[4];
            unsigned pa = smem_at(&sa[stage][at(wm + lane % 16, kk / 8 + lane / 16)]);
            unsigned pb = smem_at(&sb[stage][at(kk + lane % 16, wn / 8 + lane / 16)]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(pa));
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3]) : "r"(pb));
            for (int j = 0; j < 2; j++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                             "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                             : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * j]), "r"(fb[2 * j + 1]));
        }
        __syncthreads();
    }
    int row = blockIdx.y * BM + wm + lane / 4, col = blockIdx.x * BN + wn + lane % 4 * 2;
    for (int j = 0; j < 2; j++)
        for (int half_row = 0; half_row < 2; half_row++)
            *(float2 *)&c[(row + 8 * half_row) * n + col + 8 * j] =
                make_float2(acc[j][2 * half_row], acc[j][2 * half_row + 1]);
}
