// Substring search on bytes without case: short-circuit compares, first match by atomicMin.
__device__ unsigned char lower(unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }
extern "C" __global__ void string_search(const char *text, int length, const char *pattern, int size,
                                         int *first, int *count, signed char *marks) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += gridDim.x * blockDim.x) {
        int matched = 0;
        while (matched < size && i + matched < length && lower(text[i + matched]) == lower(pattern[matched])) matched++;
        marks[i] = matched == size ? -1 : (signed char)matched;
        if (matched == size) {
            atomicMin(first, i);
            atomicAdd(count, 1);
        }
    }
}
