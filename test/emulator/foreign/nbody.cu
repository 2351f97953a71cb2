// Softened gravity in f64, tiles of bodies in shared memory, rsqrt and f64 division.
struct Body { double x, y, z, mass; };
extern "C" __global__ void nbody(const Body *bodies, double *force, int n, double softening) {
    __shared__ Body tile[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Body me = bodies[i < n ? i : n - 1];
    double ax = 0, ay = 0, az = 0;
    for (int base = 0; base < n; base += 32) {
        if (base + threadIdx.x < n) tile[threadIdx.x] = bodies[base + threadIdx.x];
        __syncthreads();
        int count = min(32, n - base);
        for (int j = 0; j < count; j++) {
            double dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            double r2 = dx * dx + dy * dy + dz * dz + softening;
            double w = tile[j].mass / (r2 * sqrt(r2));
            ax += dx * w, ay += dy * w, az += dz * w;
        }
        __syncthreads();
    }
    if (i < n) force[3 * i] = ax * me.mass, force[3 * i + 1] = ay * me.mass, force[3 * i + 2] = az * me.mass;
}
