// One warp fills a ring that another drains; volatile flags, fences and spin waits, no barrier.
extern "C" __global__ void producer_consumer(const int *in, long long *sums, int items) {
    __shared__ int ring[2][32];
    __shared__ volatile int full[2], empty[2];
    if (threadIdx.x < 2) full[threadIdx.x] = 0, empty[threadIdx.x] = 1;
    __syncthreads();
    int lane = threadIdx.x % 32;
    if (threadIdx.x / 32 == 0) {
        for (int i = 0; i < items; i++) {
            int slot = i % 2;
            while (!empty[slot]) __nanosleep(20);
            __syncwarp();
            ring[slot][lane] = in[i * 32 + lane] * 3;
            __threadfence_block();
            __syncwarp();
            if (lane == 0) empty[slot] = 0, full[slot] = 1;
            __syncwarp();
        }
    } else {
        long long sum = 0;
        for (int i = 0; i < items; i++) {
            int slot = i % 2;
            while (!full[slot]) {}
            __syncwarp();
            sum = sum * 7 + *(volatile int *)&ring[slot][lane ^ 1];
            __threadfence_block();
            __syncwarp();
            if (lane == 0) full[slot] = 0, empty[slot] = 1;
            __syncwarp();
        }
        sums[lane] = sum;
    }
}
