// A kernel parameter structure by value with every field width, an array inside, and small scalars.
struct Config { char flag; short shift; int base; float gain; double offset; long long bias; unsigned char mask[5]; float taps[3]; };
extern "C" __global__ void struct_params(Config c, const int *x, double *y, unsigned char add, short subtract,
                                         bool negate, float factor, Config second) {
    int t = threadIdx.x;
    double v = (double)c.gain * (x[t] >> c.shift) + c.offset + c.base + (double)c.bias;
    v += c.taps[t % 3] * (c.mask[t % 5] & 0xf) + (c.flag < 0 ? 0.5 : 0.0);
    v = (v + add - subtract) * factor + second.mask[4] - second.taps[(t + 1) % 3];
    y[t] = negate ? -v : v;
}
