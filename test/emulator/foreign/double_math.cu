// The f64 library: erf, exp, log, sin with its slow path for large arguments, pow, cbrt, lgamma.
extern "C" __global__ void double_math(const double *x, double *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = x[i], p = fabs(v) + 0.125;
    double *out = y + 10 * i;
    out[0] = erf(v), out[1] = exp(v), out[2] = log(p), out[3] = sin(v * 1e7), out[4] = pow(p, 0.3 * v);
    out[5] = cbrt(v), out[6] = rsqrt(p), out[7] = lgamma(p), out[8] = v / p, out[9] = atan(v);
}
