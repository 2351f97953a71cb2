// Game of life on a torus of bytes, several generations between two shared boards in one block.
extern "C" __global__ void life(unsigned char *board, int generations, int *population) {
    __shared__ unsigned char cells[2][16][16];
    int x = threadIdx.x, y = threadIdx.y;
    cells[0][y][x] = board[y * 16 + x];
    __syncthreads();
    for (int g = 0; g < generations; g++) {
        const unsigned char(*now)[16] = cells[g & 1];
        int alive = 0;
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                if (dx || dy) alive += now[(y + dy) & 15][(x + dx) & 15];
        cells[~g & 1][y][x] = alive == 3 || (alive == 2 && now[y][x]);
        int count = __syncthreads_count(cells[~g & 1][y][x]);
        if (x == 0 && y == 0) population[g] = count;
    }
    board[y * 16 + x] = cells[generations & 1][y][x];
}
