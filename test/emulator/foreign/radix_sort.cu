// Block radix sort, one bit a pass, ranks from ballots; keys keep their order within a bit (stable).
extern "C" __global__ void radix_sort(int *keys, int *indices) {
    __shared__ int k[128], v[128], zeros[4];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int key = keys[t] ^ 0x80000000, value = t;
    for (int bit = 0; bit < 32; bit++) {
        bool one = key >> bit & 1;
        unsigned ones = __ballot_sync(~0u, one);
        if (lane == 0) zeros[warp] = 32 - __popc(ones);
        __syncthreads();
        int before = 0, total = 0;
        for (int w = 0; w < 4; w++) {
            if (w < warp) before += zeros[w];
            total += zeros[w];
        }
        unsigned below = (1u << lane) - 1;
        int rank = one ? total + (t - lane - before) + __popc(ones & below) : before + __popc(~ones & below);
        k[rank] = key, v[rank] = value;
        __syncthreads();
        key = k[t], value = v[t];
        if (__syncthreads_and((unsigned)key >> bit <= 1)) break;
    }
    keys[t] = key ^ 0x80000000, indices[t] = value;
}
