// A polynomial with goto and a loop entered in the middle; lanes leave at three different places.
extern "C" __global__ void tail_loop(const unsigned *x, unsigned *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = x[i], acc = 0;
    int count = (v % 23 + 3) / 4;
    if (v == 0) goto done;
    switch (v % 4) {
    case 0: do { acc = acc * 3 + 1;
    case 3:      acc ^= v;
    case 2:      acc += count;
    case 1:      acc = acc << 1 | acc >> 31;
                 if (acc % 97 == 13) goto out;
            } while (--count > 0);
    }
    acc += 1000000;
    goto done;
out:
    acc = ~acc;
done:
    y[i] = acc;
}
