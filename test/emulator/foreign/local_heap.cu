// Each thread heap-sorts its own local array, indexed dynamically, and keeps a stack of structs.
struct Range { short first, last; };

extern "C" __global__ void local_heap(const float *in, float *out, int *medians) {
    float heap[24];
    int t = threadIdx.x;
    for (int i = 0; i < 24; i++) heap[i] = in[t * 24 + i];
    for (int end = 24, root = 12; end > 1;) {
        float v;
        if (root > 0)
            v = heap[--root];
        else {
            v = heap[--end];
            heap[end] = heap[0];
        }
        int hole = root;
        for (int child = 2 * hole + 1; child < end; child = 2 * hole + 1) {
            if (child + 1 < end && heap[child + 1] > heap[child]) child++;
            if (!(heap[child] > v)) break;
            heap[hole] = heap[child];
            hole = child;
        }
        heap[hole] = v;
    }
    for (int i = 0; i < 24; i++) out[t * 24 + i] = heap[i];
    Range stack[8];
    int depth = 0, probes = 0;
    stack[depth++] = {0, 23};
    while (depth > 0) {
        Range r = stack[--depth];
        probes++;
        if (r.last - r.first < 2) continue;
        short middle = (r.first + r.last) / 2;
        if (heap[middle] < 0.5f)
            stack[depth++] = {(short)(middle + 1), r.last};
        else
            stack[depth++] = {r.first, (short)(middle - 1)};
        if (depth == 1 && probes % 3 == 0) stack[depth++] = {0, 1};
    }
    medians[t] = probes;
}
