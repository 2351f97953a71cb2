// Bitonic network over key and value pairs in shared memory, one comparator a thread.
extern "C" __global__ void bitonic_sort(unsigned *keys, unsigned short *values) {
    __shared__ unsigned k[256];
    __shared__ unsigned short v[256];
    int t = threadIdx.x;
    unsigned *gk = keys + blockIdx.x * 256;
    unsigned short *gv = values + blockIdx.x * 256;
    k[t] = gk[t], k[t + 128] = gk[t + 128];
    v[t] = gv[t], v[t + 128] = gv[t + 128];
    for (int size = 2; size <= 256; size <<= 1) {
        for (int stride = size / 2; stride > 0; stride >>= 1) {
            __syncthreads();
            int low = 2 * t - (t & (stride - 1)), high = low + stride;
            bool ascending = (low & size) == 0;
            if ((k[low] > k[high]) == ascending) {
                unsigned key = k[low];
                k[low] = k[high], k[high] = key;
                unsigned short value = v[low];
                v[low] = v[high], v[high] = value;
            }
        }
    }
    __syncthreads();
    gk[t] = k[t], gk[t + 128] = k[t + 128];
    gv[t] = v[t], gv[t + 128] = v[t + 128];
}
