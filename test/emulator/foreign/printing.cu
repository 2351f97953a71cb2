// printf through vprintf: integers, floats, strings, characters, from some lanes only.
#include <cstdio>
extern "C" __global__ void printing(const int *x, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n && x[t] > 0) printf("x[%d] = %5d|%-6d|%08x %s\n", t, x[t], -x[t], x[t], x[t] > 9 ? "big" : "small");
    __syncthreads();
    if (t == 0) printf("%c%c %.3f %e %lld %llu %% %g\n", 'o', 'k', 1.5 * x[0], 0.001, -5000000000ll, 18446744073709551615ull, 2.5);
    if (t == 1) printf("done\n");
}
