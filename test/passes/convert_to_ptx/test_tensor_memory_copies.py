"""Copies between registers and tensor memory in every shape of the atom: what one shape stores
another one loads, each in its own thread-value layout.
"""

import numpy as np
import pytest
from xdsl.utils.exceptions import PassFailedException

COLUMNS = 64
TENSOR = "(128,64):(64,1)"
# (thread, value) of a tile (128,64) in registers of four warps: values (unit, repeats).
WORDS = {
    "32x32b": "((32,4),64):((1,32),128)",
    "16x64b": "((2,2,8,4),(32,2)):((8,128,1,32),(256,16))",
    "16x128b": "((4,8,4),(2,16,2)):((128,1,32),(8,512,16))",
    "16x256b": "((4,8,4),(2,2,8,2)):((256,1,32),(128,8,1024,16))",
}
HALVES = {
    "32x32b": "((32,4),64):((1,32),128)",
    "16x64b": "((2,2,8,4),(2,16,2)):((8,256,1,32),(128,512,16))",
    "16x128b": "((4,8,4),(2,2,8,2)):((256,1,32),(128,8,1024,16))",
    "16x256b": "((4,8,4),(2,2,2,4,2)):((512,1,32),(128,256,8,2048,16))",
}
PAIRS = list(zip(WORDS, [*list(WORDS)[1:], "32x32b"], strict=True))


def kernel(element: str, store: str, load: str, stored: str, loaded: str) -> str:
    packed = 32 // int(element[1:])
    return f"""
!t = !cute.memref<{element}, gmem, align<16>, "{TENSOR}">
!m = !cute.memref<{element}, tmem, align<4>, "(128,{COLUMNS}):({packed << 16},1)">
!in = !cute.fragment<{element}, "(128,{COLUMNS})", "{stored}">
!out = !cute.fragment<{element}, "(128,{COLUMNS})", "{loaded}">
cute.kernel @k(%A: !t, %C: !t) attributes {{threads = 128 : i32}} {{
  %m = cute.alloc_tmem : !m
  pipeline.role "main" attributes {{first = 0 : i32, warps = 4 : i32}} {{
    %in = cute.load %A : !t -> !in
    cute.copy %in, %m {{atom = !cute_nvgpu.atom.tmem_store<{element}, {store}>}} : !in -> !m
    %out = cute.alloc_fragment : !out
    cute.copy %m, %out {{atom = !cute_nvgpu.atom.tmem_load<{element}, {load}>}} : !m -> !out
    cute.copy %out, %C : !out -> !t
  }}
}}
"""


def copied(run_kernel, element, store, load, layouts):
    dtype = {"f32": np.float32, "f16": np.float16}[element]
    source = np.arange(128 * COLUMNS).reshape(128, COLUMNS) % 2039
    source, target = source.astype(dtype), np.zeros((128, COLUMNS), dtype)
    text = kernel(element, store, load, layouts[store], layouts[load])
    run_kernel(text, (1,), [source, target], threads=128, arch="sm_100a", smem=1024)
    return source, target


@pytest.mark.parametrize(("store", "load"), PAIRS)
@pytest.mark.parametrize(("element", "layouts"), [("f32", WORDS), ("f16", HALVES)])
def test_what_one_shape_stores_another_loads(run_kernel, element, layouts, store, load):
    source, target = copied(run_kernel, element, store, load, layouts)
    assert np.array_equal(source, target)


def test_a_thread_with_a_row_loads_it_at_once(lower):
    text = str(lower(kernel("f32", "32x32b", "32x32b", *[WORDS["32x32b"]] * 2), "sm_100a"))
    assert 'ptx.tcgen05.ld "sync.aligned.32x32b.x64.b32"' in text
    assert 'ptx.tcgen05.st "sync.aligned.32x32b.x64.b32"' in text


def test_registers_of_another_shape_are_refused(lower):
    text = kernel("f32", "32x32b", "16x256b", WORDS["32x32b"], WORDS["32x32b"])
    wanted = r"expected registers in which !cute_nvgpu.atom.tmem_load<f32, 16x256b> has its"
    with pytest.raises(PassFailedException, match=wanted):
        lower(text, "sm_100a")
