// bar.sync and bar.arrive on named barriers between pairs of warps; other threads leave early.
extern "C" __global__ void named_barriers(const int *in, int *out) {
    __shared__ int left[64], right[64];
    int t = threadIdx.x, warp = t / 32;
    if (warp == 4) return;
    if (warp < 2) {
        left[t] = in[t] * 2;
        asm volatile("bar.sync 1, 64;" ::: "memory");
        int v = left[63 - t];
        asm volatile("bar.arrive 3, 128;" ::: "memory");
        asm volatile("bar.sync 4, 128;" ::: "memory");
        out[t] = v + right[t];
    } else {
        t -= 64;
        right[t] = in[64 + t] + 1;
        asm volatile("barrier.sync 2, 64;" ::: "memory");
        int v = right[t ^ 32];
        asm volatile("bar.sync 3, 128;" ::: "memory");
        out[64 + t] = v - left[t];
        asm volatile("bar.arrive 4, 128;" ::: "memory");
    }
}
