// Recursion: Ackermann, Hanoi with a log behind a pointer, and mutual recursion; depth differs by lane.
__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}
__device__ __noinline__ void hanoi(int disks, int from, int to, int *moves, unsigned *log) {
    if (disks == 0) return;
    int via = 3 - from - to;
    hanoi(disks - 1, from, via, moves, log);
    *log = *log * 9u + from * 3 + to;
    ++*moves;
    hanoi(disks - 1, via, to, moves, log);
}
__device__ __noinline__ bool is_odd(int n);
__device__ __noinline__ bool is_even(int n) { return n == 0 ? true : is_odd(n - 1); }
__device__ __noinline__ bool is_odd(int n) { return n == 0 ? false : is_even(n - 1); }

extern "C" __global__ void recursion(int *values, int *moves, unsigned *logs, unsigned char *even) {
    int t = threadIdx.x;
    values[t] = ackermann(t % 3, t / 3 % 4);
    int count = 0;
    unsigned log = t;
    hanoi(t % 5, 0, 2, &count, &log);
    moves[t] = count;
    logs[t] = log;
    even[t] = is_even(t % 7);
}
