// Tiled f32 GEMM, 32x32 tile, 2x2 outputs a thread, ragged edges read as zero.
extern "C" __global__ void sgemm(const float *a, const float *b, float *c, int m, int n, int k, float alpha,
                                 float beta) {
    __shared__ float sa[8][33], sb[8][32];
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    float acc[2][2] = {};
    for (int k0 = 0; k0 < k; k0 += 8) {
        int ra = row0 + t / 8, ka = k0 + t % 8, rb = k0 + t / 32, cb = col0 + t % 32;
        sa[t % 8][t / 8] = ra < m && ka < k ? a[ra * k + ka] : 0.0f;
        sb[t / 32][t % 32] = rb < k && cb < n ? b[rb * n + cb] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++)
            for (int y = 0; y < 2; y++)
                for (int x = 0; x < 2; x++) acc[y][x] += sa[i][ty + 16 * y] * sb[i][tx + 16 * x];
        __syncthreads();
    }
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 2; x++) {
            int r = row0 + ty + 16 * y, col = col0 + tx + 16 * x;
            if (r < m && col < n) c[r * n + col] = alpha * acc[y][x] + beta * c[r * n + col];
        }
}
