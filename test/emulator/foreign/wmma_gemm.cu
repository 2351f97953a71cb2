// nvcuda::wmma m16n16k16 f16 with f32 accumulators; A row, B column major, C added, one warp a tile.
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void wmma_gemm(const half *a, const half *b, const float *c, float *d, int n, int k) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    int row = blockIdx.y * 16, col = (blockIdx.x * blockDim.y + threadIdx.y) * 16;
    wmma::load_matrix_sync(acc, c + row * n + col, n, wmma::mem_row_major);
    for (int i = 0; i < k; i += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::load_matrix_sync(fa, a + row * k + i, k);
        wmma::load_matrix_sync(fb, b + col * k + i, k);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    for (int i = 0; i < acc.num_elements; i++) acc.x[i] *= 0.5f;
    wmma::store_matrix_sync(d + row * n + col, acc, n, wmma::mem_row_major);
}
