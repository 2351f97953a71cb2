// Open addressing: claim a slot by 64-bit CAS, count duplicates, then look keys up.
extern "C" __global__ void hash_table(const unsigned *keys, unsigned long long *slots, int *found, int n, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i], at = key * 2654435769u % size;
    for (;;) {
        unsigned long long old = atomicCAS(&slots[at], 0ull, (unsigned long long)key << 32 | 1);
        if (old == 0) break;
        if (old >> 32 == key) {
            atomicAdd(&slots[at], 1ull);
            break;
        }
        at = at + 1 == size ? 0 : at + 1;
    }
    found[i] = slots[at] >> 32 == key;
}
