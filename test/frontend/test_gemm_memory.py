"""What `cute.gemm` remembers of a call keeps no array of it alive."""

import gc
import weakref

import numpy as np
import pytest

import cutedialect as cute


@pytest.mark.parametrize("batch", [(), (2,)])
def test_arrays_die_with_their_owner(batch):
    a = np.ones((*batch, 16, 32), np.float16)
    b = np.ones((32, 8), np.float16)
    c = np.ones((*batch, 16, 8), np.float16)
    bias = np.ones(8, np.float16)
    out = np.empty((*batch, 16, 8), np.float16)
    options = {"arch": "sm_80", "backend": "emulator"}
    for _ in range(2):
        made = cute.gemm(a, b, c=c, beta=1.0, bias=bias, out=out, **options)
        assert made is out
        assert np.all(out == 34)
    watched = [weakref.ref(array) for array in (a, b, c, bias, out)]
    del a, b, c, bias, out, made
    gc.collect()
    assert [each() is None for each in watched] == [True] * 5


def test_a_warm_call_checks_alpha_as_the_first_did():
    a, b = np.ones((16, 32), np.int8), np.ones((32, 16), np.int8, order="F")
    assert np.all(cute.gemm(a, b, arch="sm_80", backend="emulator") == 32)
    with pytest.raises(ValueError, match="alpha: expected 1 with results of i32"):
        cute.gemm(a, b, alpha=2.0, arch="sm_80", backend="emulator")
