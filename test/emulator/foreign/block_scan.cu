// Inclusive warp scans by shfl.up, combined through shared memory into an exclusive block scan.
extern "C" __global__ void block_scan(const int *x, int *exclusive, int *totals, int n) {
    __shared__ int sums[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int value = i < n ? x[i] : 0, scan = value;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        int left = __shfl_up_sync(0xffffffffu, scan, step);
        if (lane >= step) scan += left;
    }
    if (lane == 31) sums[warp] = scan;
    __syncthreads();
    if (warp == 0) {
        int s = lane < blockDim.x / 32 ? sums[lane] : 0;
        for (int step = 1; step < 32; step *= 2) {
            int left = __shfl_up_sync(0xffffffffu, s, step);
            if (lane >= step) s += left;
        }
        sums[lane] = s;
    }
    __syncthreads();
    if (warp > 0) scan += sums[warp - 1];
    if (i < n) exclusive[i] = scan - value;
    if (threadIdx.x == blockDim.x - 1) totals[blockIdx.x] = scan;
}
