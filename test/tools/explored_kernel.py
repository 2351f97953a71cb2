"""A product that the tests of the explorer edit and run."""

import numpy as np

import cutedialect as cute


@cute.kernel
def product(A, B, C):
    m, n = cute.tile_index(C, (32, 32))
    a, b = cute.local_tile(A, (32, 32), (m, None)), cute.local_tile(B, (32, 32), (None, n))
    acc = cute.zeros((32, 32), cute.f32)
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc.to(C.dtype), cute.local_tile(C, (32, 32), (m, n)))


x, c = np.ones((32, 32), np.float16), np.zeros((32, 32), np.float16)
product(x, x, c)
print("sum", int(c.sum()))
