// dp4a, dp2a, byte SIMD (vadd4 and friends), sum of absolute differences, 24-bit and 16-bit products.
extern "C" __global__ void packed_bytes(const int *x, const int *y, int *dots, unsigned *lanes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = x[i], b = y[i];
    dots[4 * i] = __dp4a(a, b, 100);
    dots[4 * i + 1] = (int)__dp4a((unsigned)a, (unsigned)b, 7u);
    dots[4 * i + 2] = __dp2a_lo(a, b, -5);
    dots[4 * i + 3] = __mul24(a, b) + (short)a * (short)b;
    lanes[6 * i] = __vadd4(a, b);
    lanes[6 * i + 1] = __vmaxs4(a, b);
    lanes[6 * i + 2] = __vabsdiffu4(a, b);
    lanes[6 * i + 3] = __vcmpgtu2(a, b);
    lanes[6 * i + 4] = __vavgu4(a, b);
    lanes[6 * i + 5] = __usad(a, b, 11u) + __sad(a, b, 3u);
}
