// A device assertion and a trap: the launch must end in an error, not in numbers.
#include <cassert>
extern "C" __global__ void assertion(const int *x, int *y) {
    int t = threadIdx.x;
    assert(x[t] < 100);
    if (x[t] == 55) __trap();
    y[t] = x[t] + 1;
}
