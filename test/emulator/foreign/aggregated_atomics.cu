// Warp-aggregated atomics inside a divergent branch: activemask, ffs, one add a group, shfl back.
__device__ int reserve(int *counter) {
    unsigned mask = __activemask();
    int lane = threadIdx.x & 31, leader = __ffs(mask) - 1, base = 0;
    if (lane == leader) base = atomicAdd(counter, __popc(mask));
    base = __shfl_sync(mask, base, leader);
    unsigned below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    return base + __popc(mask & below);
}
extern "C" __global__ void aggregated_atomics(const int *x, int *kept, int *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] % 3 == 0) kept[reserve(count)] = x[i];
}
