// Dynamic shared memory cut into three arrays of different types, beside a static array.
extern __shared__ __align__(16) unsigned char arena[];
extern "C" __global__ void dynamic_shared(const int *in, double *means, short *ranks, int *size) {
    __shared__ int fixed[4];
    int t = threadIdx.x, n = blockDim.x;
    double *sums = (double *)arena;
    int *values = (int *)(sums + n);
    short *order = (short *)(values + n);
    if (t < 4) fixed[t] = 10 * t;
    values[t] = in[blockIdx.x * n + t];
    __syncthreads();
    int rank = 0;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        rank += values[i] < values[t] || (values[i] == values[t] && i < t);
        if (i <= t) sum += values[i];
    }
    order[rank] = (short)t;
    sums[t] = sum / (t + 1) + fixed[t & 3];
    __syncthreads();
    means[blockIdx.x * n + t] = sums[n - 1 - t];
    ranks[blockIdx.x * n + t] = order[t];
    if (t == 0) asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(*size));
}
