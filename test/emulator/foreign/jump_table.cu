// A dense switch whose cases are too different to become a table of values: a branch table.
extern "C" __global__ void jump_table(const int *op, float *x, int *visits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    switch (op[i]) {
    case 0: v = v + 1.0f; atomicAdd(&visits[0], 1); break;
    case 1: v = v * 2.0f; atomicAdd(&visits[1], 2); break;
    case 2: v = sqrtf(fabsf(v)); break;
    case 3: v = v > 0 ? v : -v; visits[16] = 1; break;
    case 4: for (int k = 0; k < 5; k++) v = v * 0.5f + k; // falls through
    case 5: v = floorf(v); break;
    case 6: v = ceilf(v); visits[17] = 2; break;
    case 7: v = (float)__float_as_int(v); break;
    case 8: v = 1.0f / v; break;
    case 9: v = fmaxf(v, 3.0f); visits[18] = 3; break;
    case 10: v = fminf(v, -3.0f); break;
    case 11: v = truncf(v * 10.0f); atomicMax(&visits[11], i); break;
    default: v = -0.0f; break;
    }
    x[i] = v;
}
