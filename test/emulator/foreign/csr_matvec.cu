// Sparse matrix by vector, one warp a row, rows of very unequal length, empty rows too.
extern "C" __global__ void csr_matvec(const int *starts, const int *columns, const double *values,
                                      const double *x, double *y, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    double sum = 0.0;
    for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum += values[i] * __ldg(&x[columns[i]]);
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
}
