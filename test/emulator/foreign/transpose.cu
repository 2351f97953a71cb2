// Tile transpose through shared memory padded by one column; ragged edges on both sides.
#define TILE 16
extern "C" __global__ void transpose(const float *in, float *out, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int dy = 0; dy < TILE; dy += blockDim.y)
        if (x < cols && y + dy < rows) tile[threadIdx.y + dy][threadIdx.x] = in[(y + dy) * cols + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int dy = 0; dy < TILE; dy += blockDim.y)
        if (x < rows && y + dy < cols) out[(y + dy) * rows + x] = tile[threadIdx.x][threadIdx.y + dy];
}
