// Escape-time loop with an early break on a 2-D grid of 2-D blocks, f32 with explicit fma.
extern "C" __global__ void mandelbrot(unsigned char *image, int width, int height, float x0, float y0,
                                      float step, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    float cx = fmaf(px, step, x0), cy = fmaf(py, step, y0), x = 0.0f, y = 0.0f;
    int i;
    for (i = 0; i < limit; i++) {
        float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
        if (__fadd_rn(xx, yy) > 4.0f) break;
        y = fmaf(__fmul_rn(2.0f, x), y, cy);
        x = __fadd_rn(__fsub_rn(xx, yy), cx);
    }
    image[py * width + px] = (unsigned char)i;
}
