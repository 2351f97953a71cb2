// Backtracking with three local stacks: each thread fixes the first queen and counts the rest.
extern "C" __global__ void n_queens(int *solutions, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    unsigned columns[12], left[12], right[12], open[12], full = (1u << n) - 1;
    int row = 1, count = 0;
    columns[1] = 1u << t, left[1] = 2u << t, right[1] = 1u << t >> 1;
    open[1] = full & ~(columns[1] | left[1] | right[1]);
    while (row > 0) {
        if (open[row] == 0) {
            row--;
            continue;
        }
        unsigned bit = open[row] & -open[row];
        open[row] ^= bit;
        if (row == n - 1) {
            count++;
            continue;
        }
        columns[row + 1] = columns[row] | bit;
        left[row + 1] = (left[row] | bit) << 1;
        right[row + 1] = (right[row] | bit) >> 1;
        row++;
        open[row] = full & ~(columns[row] | left[row] | right[row]);
    }
    solutions[t] = count;
}
