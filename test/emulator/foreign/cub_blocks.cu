// Library blocks: CUB radix sort, scan, reduction and histogram, as its templates come out of nvcc.
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
extern "C" __global__ void cub_blocks(int *keys, int *scan, int *largest, unsigned *bins) {
    typedef cub::BlockRadixSort<int, 64, 2> Sort;
    typedef cub::BlockScan<int, 64> Scan;
    typedef cub::BlockReduce<int, 64> Reduce;
    typedef cub::BlockHistogram<unsigned char, 64, 2, 16> Histogram;
    __shared__ union {
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
        typename Histogram::TempStorage histogram;
    } temp;
    __shared__ unsigned counts[16];
    int k[2] = {keys[2 * threadIdx.x], keys[2 * threadIdx.x + 1]}, s[2], total;
    unsigned char low[2] = {(unsigned char)(k[0] & 15), (unsigned char)(k[1] & 15)};
    Sort(temp.sort).Sort(k);
    __syncthreads();
    Scan(temp.scan).ExclusiveSum(k, s, total);
    __syncthreads();
    int top = Reduce(temp.reduce).Reduce(k[0] ^ k[1], [](int a, int b) { return a > b ? a : b; });
    __syncthreads();
    Histogram(temp.histogram).Histogram(low, counts);
    __syncthreads();
    for (int i = 0; i < 2; i++) keys[2 * threadIdx.x + i] = k[i], scan[2 * threadIdx.x + i] = s[i];
    if (threadIdx.x == 0) largest[0] = top, largest[1] = total;
    if (threadIdx.x < 16) bins[threadIdx.x] = counts[threadIdx.x];
}
