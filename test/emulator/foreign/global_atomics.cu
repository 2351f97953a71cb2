// Every global atomic: add (five types), min, max, and, or, xor, exch, inc, dec, and a CAS loop.
__device__ double multiply(double *address, double factor) {
    unsigned long long *bits = (unsigned long long *)address, old = *bits, assumed;
    do {
        assumed = old;
        double next = __longlong_as_double(assumed) * factor;
        old = atomicCAS(bits, assumed, __double_as_longlong(next));
    } while (assumed != old);
    return __longlong_as_double(old);
}

extern "C" __global__ void global_atomics(const int *x, int *ints, unsigned *words,
                                          unsigned long long *longs, float *floats, double *doubles,
                                          int *tickets, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i];
    atomicAdd(&ints[0], v);
    atomicMin(&ints[1], v);
    atomicMax(&ints[2], v);
    atomicSub(&ints[3], v);
    atomicAnd(&words[0], ~(1u << (v & 31)));
    atomicOr(&words[1], 1u << (v & 31));
    atomicXor(&words[2], (unsigned)v * 2654435761u);
    atomicInc(&words[3], 6u);
    atomicDec(&words[4], 9u);
    atomicAdd(&longs[0], (unsigned long long)v << 20);
    atomicMax(&longs[1], (unsigned long long)(unsigned)v << 33);
    atomicMin((long long *)&longs[2], -(long long)v * 1000000007ll);
    atomicAdd(&floats[0], 0.25f * v);
    atomicAdd(&doubles[0], 0.125 * v);
    if (v % 16 == 0) multiply(&doubles[1], 0.5);
    tickets[atomicAdd(&ints[4], 1)] = i;
    atomicExch(&ints[5], 77);
}
