// Functions that are not inlined: structs by value and returned, pointers, byte and f64 parameters.
struct Vec { float x, y, z; };
struct Mixed { char tag; short half; int word; double wide; };

__device__ __noinline__ Vec cross(Vec a, Vec b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
__device__ __noinline__ double weigh(Mixed m, signed char sign, unsigned short scale) {
    return sign * (m.tag + 10.0 * m.half + 1000.0 * m.word + m.wide) * scale;
}
__device__ __noinline__ void swap_if(int *a, int *b, bool descending) {
    if ((*a > *b) != descending) {
        int t = *a;
        *a = *b, *b = t;
    }
}
__device__ __noinline__ long long checksum(const int *values, int count) {
    long long sum = 0;
    for (int i = 0; i < count; i++) sum = sum * 31 + values[i];
    return sum;
}

extern "C" __global__ void calls(const float *v, const int *x, float *crossed, double *weights,
                                 long long *sums, int *sorted) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    Vec a = {v[6 * t], v[6 * t + 1], v[6 * t + 2]}, b = {v[6 * t + 3], v[6 * t + 4], v[6 * t + 5]};
    Vec c = cross(a, cross(b, a));
    crossed[3 * t] = c.x, crossed[3 * t + 1] = c.y, crossed[3 * t + 2] = c.z;
    Mixed m = {(char)x[4 * t], (short)x[4 * t + 1], x[4 * t + 2], (double)v[6 * t]};
    weights[t] = weigh(m, t % 2 ? -1 : 1, (unsigned short)(60000 + t));
    int local[4];
    for (int i = 0; i < 4; i++) local[i] = x[4 * t + i];
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < 3; i++) swap_if(&local[i], &local[i + 1], t % 3 == 0);
    for (int i = 0; i < 4; i++) sorted[4 * t + i] = local[i];
    sums[t] = (t & 4) ? checksum(local, 4) : checksum(x + 4 * t, t % 5);
}
