// Stream compaction by ballot and popc, match.any groups, any, all, redux, and shfl with a width.
extern "C" __global__ void warp_votes(const int *x, int *kept, int *sizes, unsigned *groups, int *reduced,
                                      int *segments, int n) {
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, v = x[t];
    unsigned ballot = __ballot_sync(~0u, v > 10);
    if (v > 10) kept[warp * 32 + __popc(ballot & ((1u << lane) - 1))] = v;
    bool any = __any_sync(~0u, v == 3), every = __all_sync(~0u, v < 90);
    if (lane == 0) sizes[warp] = __popc(ballot) * 4 + any * 2 + every;
    groups[t] = __match_any_sync(~0u, v % 4);
    reduced[6 * t] = __reduce_add_sync(~0u, v);
    reduced[6 * t + 1] = __reduce_min_sync(~0u, v - 20);
    reduced[6 * t + 2] = (int)__reduce_max_sync(~0u, (unsigned)v);
    reduced[6 * t + 3] = (int)__reduce_or_sync(~0u, 1u << (v & 31));
    int same = 0;
    unsigned all = __match_all_sync(~0u, v >> 20, &same);
    reduced[6 * t + 4] = same ? (int)all : 0;
    reduced[6 * t + 5] = lane < 16 ? (int)__reduce_xor_sync(0xffffu, (unsigned)v) : (int)__ballot_sync(0xffff0000u, v & 1);
    int s = v;
    for (int step = 4; step > 0; step /= 2) s += __shfl_xor_sync(~0u, s, step, 8);
    segments[2 * t] = s;
    segments[2 * t + 1] = __shfl_sync(~0u, v, lane + 3, 8);
}
