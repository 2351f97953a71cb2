// Levenshtein distance, one pair of words a thread, a local row of unsigned char, loops of unequal length.
extern "C" __global__ void edit_distance(const char *words, const int *starts, int *distance, int pairs) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= pairs) return;
    const char *a = words + starts[2 * t], *b = words + starts[2 * t + 1];
    int na = starts[2 * t + 1] - starts[2 * t], nb = starts[2 * t + 2] - starts[2 * t + 1];
    unsigned char row[24];
    for (int j = 0; j <= nb; j++) row[j] = j;
    for (int i = 1; i <= na; i++) {
        unsigned char diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            unsigned char best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    distance[t] = row[nb];
}
