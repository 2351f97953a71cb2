// Indirect calls: a table of functions in global memory, and a pointer chosen per lane.
typedef float (*Unary)(float, int);
__device__ __noinline__ float shift(float x, int n) { return x + n; }
__device__ __noinline__ float scale(float x, int n) { return x * n; }
__device__ __noinline__ float power(float x, int n) {
    float p = 1.0f;
    while (n-- > 0) p *= x;
    return p;
}
__device__ __noinline__ float square(float x, int) { return x * x; }
__device__ Unary table[4] = {shift, scale, power, square};
__constant__ Unary pair[2] = {scale, square};

extern "C" __global__ void function_pointers(const float *x, const int *which, float *y) {
    int t = threadIdx.x;
    Unary f = table[which[t] & 3];
    y[t] = f(x[t], t % 4) + pair[t & 1](x[t], 3);
}
