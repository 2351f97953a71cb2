// Shuffle reduction inside warps, shared memory between them; three operators in one block.
template <class T, class F> __device__ T reduce(T value, T identity, F op) {
    __shared__ T partial[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int step = 16; step > 0; step >>= 1) value = op(value, __shfl_down_sync(~0u, value, step));
    __syncthreads();
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / 32 ? partial[lane] : identity;
    if (warp == 0)
        for (int step = 16; step > 0; step >>= 1)
            value = op(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

extern "C" __global__ void block_reduce(const float *x, const int *y, float *sum, int *low,
                                        double *norm, int n) {
    float total = 0.0f;
    double squares = 0.0;
    int least = 0x7fffffff;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        total += x[i];
        squares += (double)x[i] * x[i];
        least = min(least, y[i]);
    }
    total = reduce(total, 0.0f, [](float a, float b) { return a + b; });
    least = reduce(least, 0x7fffffff, [](int a, int b) { return min(a, b); });
    squares = reduce(squares, 0.0, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) {
        sum[blockIdx.x] = total;
        low[blockIdx.x] = least;
        norm[blockIdx.x] = sqrt(squares);
    }
}
