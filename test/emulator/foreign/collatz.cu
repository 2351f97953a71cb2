// Trip count differs in every lane; the loop body diverges as well.
extern "C" __global__ void collatz(const unsigned *start, int *steps, unsigned long long *peak, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long value = start[i], top = value;
    int count = 0;
    while (value != 1) {
        if (value & 1)
            value = 3 * value + 1;
        else
            value >>= 1;
        if (value > top) top = value;
        count++;
    }
    steps[i] = count;
    peak[i] = top;
}
