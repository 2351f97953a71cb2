// libcu++ and cooperative groups: ordered atomics, fences, a spin lock, tiles, labeled partitions.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;
extern "C" __global__ void library_atomics(const int *x, int *sum, int *lock, long long *guarded, int *tiles, int *ready) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    cuda::atomic_ref<int, cuda::thread_scope_device> total(*sum);
    total.fetch_add(v, cuda::memory_order_relaxed);
    tiles[i] = cg::reduce(tile, v, cg::plus<int>()) * 10 + tile.thread_rank();
    if (threadIdx.x % 16 == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_device> mutex(*lock);
        for (bool done = false; !done;) {
            int expected = 0;
            if (mutex.compare_exchange_strong(expected, 1, cuda::memory_order_acquire)) {
                *guarded += v;
                mutex.store(0, cuda::memory_order_release);
                done = true;
            }
        }
    }
    block.sync();
    if (block.thread_rank() == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_device> flag(*ready);
        flag.fetch_max((int)blockIdx.x + 1);
        while (flag.load(cuda::memory_order_acquire) < (int)gridDim.x) {}
        cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
    }
}
