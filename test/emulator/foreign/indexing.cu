// Three-dimensional grid and block; each thread writes every special register it can see.
extern "C" __global__ void indexing(int *seen, uint4 *ids, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    int cell = (z * height + y) * width + x;
    seen[cell] = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x + 10000 * blockIdx.y +
                 100000 * blockIdx.z;
    unsigned lane, warps, le;
    asm("mov.u32 %0, %%laneid;\n\tmov.u32 %1, %%nctaid.y;\n\tmov.u32 %2, %%lanemask_le;" : "=r"(lane), "=r"(warps), "=r"(le));
    ids[cell] = make_uint4(lane, warps * 1000 + gridDim.z * 100 + blockDim.z * 10 + warpSize, le, blockDim.x * blockDim.y);
}
