// Breadth-first search in one block: frontier loop that ends by __syncthreads_or, distances by CAS.
extern "C" __global__ void bfs(const int *starts, const int *edges, int *distance, int *rounds, int nodes) {
    int level = 0;
    bool found;
    do {
        found = false;
        for (int v = threadIdx.x; v < nodes; v += blockDim.x)
            if (distance[v] == level)
                for (int e = starts[v]; e < starts[v + 1]; e++)
                    if (atomicCAS(&distance[edges[e]], -1, level + 1) == -1) found = true;
        level++;
    } while (__syncthreads_or(found));
    bool all = __syncthreads_and(distance[threadIdx.x] >= 0);
    if (threadIdx.x == 0) rounds[0] = level, rounds[1] = all;
}
