"""`cute.gemm` with scales of blocks that tensor cores multiply (mxfp8, mxfp4, nvfp4 on sm_100a and
its family): panels beside operands of 8-bit floats or pairs of e2m1, against NumPy.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

E4M3, E5M2, UE8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu
E2M1 = ml_dtypes.float4_e2m1fn
TILE = "tile = (128,128,128)"
BLOCK, ROWS, COLUMNS = 32, 128, 4


def panels(scales):
    """Scales (rows, blocks) where tensor cores read them, by the formula of the manual; 1 fills
    panels up.
    """
    rows, blocks = scales.shape
    shape = -(-rows // ROWS), -(-blocks // COLUMNS), 32, 4, COLUMNS
    found, codes = np.ones(shape, scales.dtype).view(np.uint8), scales.view(np.uint8)
    for row in range(rows):
        for block in range(blocks):
            place = row // ROWS, block // COLUMNS, row % 32, row % ROWS // 32, block % COLUMNS
            found[place] = codes[row, block]
    return found.view(scales.dtype)


def spread(scales, depth, block=BLOCK):
    """Scales as one number for each element of a row."""
    return np.repeat(scales.astype(np.float64), block, 1)[:, :depth]


def pairs(elements):
    """Two elements of 4 bits in a byte, the first one in its low half."""
    codes = elements.view(np.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4


class Problem:
    """Small numbers and powers of two, whose products are exact in f32."""

    def __init__(self, m, n, k, kinds=(E4M3, E4M3), seed=0, scale=UE8M0):
        draw = np.random.default_rng(seed)
        self.a = draw.integers(-3, 4, (m, k)).astype(kinds[0])
        self.b = draw.integers(-3, 4, (n, k)).astype(kinds[1])
        block = BLOCK if scale == UE8M0 else BLOCK // 2
        scales = [
            np.exp2(draw.integers(-3, 4, (rows, -(-k // block)))).astype(scale) for rows in (m, n)
        ]
        self.scale_a, self.scale_b = map(panels, scales)
        left, right = (
            each.astype(np.float64) * spread(scale, k, block)
            for each, scale in zip((self.a, self.b), scales, strict=True)
        )
        self.want = left @ right.T
        if kinds[0] == E2M1:
            self.a, self.b = pairs(self.a), pairs(self.b)

    def run(self, **options) -> Any:
        given: dict[str, Any] = {"arch": "sm_100a", "backend": "emulator", "out_dtype": "f32"}
        given |= {"schedule": TILE, "scale_a": self.scale_a, "scale_b": self.scale_b}
        given |= options
        return cute.gemm(given.pop("a", self.a), given.pop("b", self.b.T), **given)

    def holds(self, **options):
        return np.array_equal(self.run(**options), self.want.astype(np.float32))


# With two stages: none, part of a trip, one, as many as stages, one more, many.
@pytest.mark.some(4)
@pytest.mark.parametrize("k", [0, 32, 100, 128, 256, 384, 640])
def test_trips(k):
    assert Problem(128, 128, k).holds(schedule=f"{TILE}, stages = 2")


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("shape", "schedule"),
    [
        ((1, 1, 128), TILE),
        ((200, 300, 416), TILE),
        ((129, 513, 160), "tile = (128,256,128)"),
        ((300, 100, 256), "tile = (256,128,128)"),
        ((130, 129, 544), "tile = (128,128,256)"),
        ((300, 260, 256), f"{TILE}, swap_ab = yes"),
        ((300, 260, 256), f"{TILE}, cluster = (1,2)"),
        ((130, 140, 512), f"{TILE}, split_k = 2"),
        ((200, 300, 416), None),
    ],
)
def test_shapes_and_schedules(shape, schedule):
    assert Problem(*shape).holds(schedule=schedule)


@pytest.mark.some(2)
@pytest.mark.parametrize("kinds", [(E5M2, E5M2), (E4M3, E5M2), (E5M2, E4M3)])
def test_types_of_elements(kinds):
    assert Problem(130, 140, 160, kinds).holds()


@pytest.mark.some(5)
@pytest.mark.parametrize(
    ("shape", "schedule"),
    [
        ((128, 128, 0), None),
        ((130, 140, 32), TILE),
        ((130, 140, 416), "tile = (128,128,256)"),
        ((1, 300, 1056), "tile = (128,128,256), stages = 2"),
        ((200, 300, 512), "tile = (128,256,256)"),
        ((200, 300, 512), None),
    ],
)
@pytest.mark.parametrize("scale", [UE8M0, E4M3], ids=["mxfp4", "nvfp4"])
def test_elements_of_4_bits(shape, schedule, scale):
    problem = Problem(*shape, kinds=(E2M1, E2M1), scale=scale)
    assert problem.holds(schedule=schedule)


@pytest.mark.parametrize("scale", [UE8M0, E4M3], ids=["mxfp4", "nvfp4"])
def test_every_stage_of_pairs_means_the_same(scale):
    problem = Problem(140, 130, 288, (E2M1, E2M1), scale=scale)
    assert problem.holds(backend="interpreter", schedule="tile = (128,128,256)")


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("shape", "schedule"),
    [
        ((300, 200, 160), f"{TILE}, cluster = (2,1)"),
        ((300, 260, 160), "tile = (128,256,128), cluster = (2,1)"),
        ((300, 260, 160), f"{TILE}, cluster = (2,2)"),
    ],
)
def test_pairs(shape, schedule):
    """Each CTA of a pair has the scales of its rows of A, and of all columns of B."""
    assert Problem(*shape).holds(schedule=schedule)


def test_pairs_of_elements_of_4_bits():
    problem = Problem(300, 200, 288, (E2M1, E2M1), scale=E4M3)
    assert problem.holds(schedule="tile = (128,128,256), cluster = (2,1)")


@pytest.mark.parametrize("order", ["FC", "CF", "FF"])
def test_operands_across_the_depth(order):
    """Rows of A, or columns of B, are contiguous in memory."""
    problem = Problem(256, 128, 256)
    problem.a = np.array(problem.a, order=order[0])
    problem.b = np.array(problem.b, order=order[1])
    assert problem.holds()


def test_every_stage_means_the_same():
    assert Problem(140, 130, 288).holds(backend="interpreter")


def test_what_follows_the_product():
    problem = Problem(130, 140, 160)
    bias, c = np.arange(140, dtype=np.float32), np.ones((130, 140), np.float32)
    got = problem.run(alpha=0.5, c=c, beta=2.0, bias=bias, activation="relu")
    assert np.array_equal(got, np.maximum(0.5 * problem.want + 2 + bias, 0).astype(np.float32))
    assert problem.run(out_dtype=None).dtype == ml_dtypes.bfloat16


def grouped(problems):
    return cute.grouped_gemm(
        [each.a for each in problems],
        [each.b.T for each in problems],
        scale_a=[each.scale_a for each in problems],
        scale_b=[each.scale_b for each in problems],
        arch="sm_100a",
        backend="emulator",
        out_dtype="f32",
    )


def test_several_products():
    problems = [Problem(m, 200, k, seed=m) for m, k in ((100, 256), (0, 256), (30, 0), (260, 160))]
    for got, problem in zip(grouped(problems), problems, strict=True):
        assert np.array_equal(got, problem.want.astype(np.float32))


def test_several_products_without_a_depth():
    with pytest.raises(ValueError, match="as_, bs: expected a product with K above 0"):
        grouped([Problem(m, 200, 0) for m in (100, 30)])


@pytest.mark.parametrize("format", ["mxfp8", "mxfp8_e5m2", "mxfp4", "nvfp4"])
def test_what_quantize_gives(format):
    """Random numbers: sums in f32 are off by no more than twice what NumPy's are."""
    draw = np.random.default_rng(1)
    options: dict[str, Any] = {"arch": "sm_100a", "backend": "emulator"}
    made = []
    for rows in (200, 140):
        x = draw.standard_normal((rows, 416)).astype(np.float32)
        elements, scales = cute.quantize(x, format, swizzled=True, **options)
        plain = scales.transpose(0, 3, 2, 1, 4).reshape(-1, 4 * scales.shape[1])[:rows]
        held = elements
        if elements.dtype == np.uint8:
            codes = np.stack([elements & 15, elements >> 4], -1).reshape(rows, -1)
            held = codes.view(E2M1)
        wide = held.astype(np.float64) * spread(plain, 416, 16 if format == "nvfp4" else BLOCK)
        made.append((elements, scales, wide))
    (a, scale_a, left), (b, scale_b, right) = made
    got = cute.gemm(a, b.T, scale_a=scale_a, scale_b=scale_b, out_dtype="f32", **options)
    want = left @ right.T
    near = np.abs(left.astype(np.float32) @ right.astype(np.float32).T - want).max()
    assert np.abs(got - want).max() <= max(2 * near, 1e-6 * np.abs(want).max())


REFUSED = {
    "another target": ({"arch": "sm_90a"}, "expected f32 on sm_90a, got scales in panels"),
    "a target without a suffix": ({"arch": "sm_120"}, "f32 on sm_120, got scales in panels"),
    "one operand": ({"scale_b": None}, "for both operands"),
    "rows": ({"scale_a": np.ones((130, 5), UE8M0)}, r"in panels, \(2, 2, 32, 4, 4\)"),
    "half of a panel": ({"schedule": "tile = (128,64,128)"}, "expected a tile of multiples of"),
    "one role": ({"schedule": f"{TILE}, roles = uniform"}, "from a role that loads"),
    "copies by threads": ({"schedule": f"{TILE}, loads = threads"}, "scales of blocks that TMA"),
    "columns": ({"schedule": "tile = (256,256,128)"}, "at most 512 columns of tensor memory"),
    "an atom": (
        {"schedule": f"{TILE}, atom = tcgen05_f8f6f4_cg1_m128n128k32_f32_e4m3_e4m3"},
        "expected no atom or TiledMMA with scales of blocks",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refusals(which):
    options, message = REFUSED[which]
    with pytest.raises((ValueError, cute.CompileError), match=message):
        Problem(130, 140, 160).run(**options)


def test_refused_operands():
    problem = Problem(130, 140, 160, (np.float16, np.float16))
    with pytest.raises(TypeError, match="a of e4m3 or e5m2 or e3m2 or e2m3 or pairs of e2m1 with"):
        problem.run()
    problem = Problem(130, 140, 160)
    problem.scale_a = problem.scale_a.view(np.uint8)
    with pytest.raises(TypeError, match="scale_a: expected f32, got u8"):
        problem.run()
    problem = Problem(130, 140, 160, (E2M1, E2M1))
    problem.a = np.zeros((130, 160), E2M1)
    with pytest.raises(TypeError, match="a: expected pairs of e2m1 in bytes"):
        problem.run()
    problem = Problem(128, 128, 256, (E2M1, E2M1))
    problem.b = np.asfortranarray(problem.b)
    with pytest.raises(cute.CompileError, match="no layout in shared memory that it reads holds B"):
        problem.run()
    problem = Problem(130, 140, 160)
    problem.a = problem.a[None]
    with pytest.raises(ValueError, match=r"in panels, \(1, 2, 2, 32, 4, 4\)"):
        problem.run()
    problem = Problem(130, 140, 160)
    problem.a, problem.scale_a = problem.a[None], problem.scale_a[None]
    problem.b = np.stack([problem.b.T] * 2)
    problem.scale_b = np.stack([problem.scale_b] * 2)
    with pytest.raises(ValueError, match=r"expected a with all batches \(2,\), or without any"):
        problem.run(b=problem.b)


# Elements, scales, the instruction, elements of a row that have their scales in a panel, and those
# that an instruction takes.
FORMS = {
    "mxfp8": (E4M3, UE8M0, "kind::mxf8f6f4.block_scale.block32", 128, 32),
    "mxfp4": (E2M1, UE8M0, "kind::mxf4.block_scale.block32", 128, 64),
    "nvfp4": (E2M1, E4M3, "kind::mxf4nvf4.block_scale.block16", 64, 64),
}


@pytest.mark.some(6)
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a", "sm_100f"])
@pytest.mark.parametrize("tile", ["(128,128,256)", "(128,256,256)"])
@pytest.mark.parametrize("format", FORMS)
def test_assembly(arch, tile, format, assembles):
    """Scales come by TMA, and each panel is one copy to tensor memory."""
    element, scale, name, panel, step = FORMS[format]
    problem = Problem(512, 512, 512, (element, element), scale=scale)
    kernel = cute.compile(
        *(cute.gemm, problem.a, problem.b.T),
        scale_a=problem.scale_a,
        scale_b=problem.scale_b,
        arch=arch,
        backend="emulator",
        schedule=f"tile = {tile}",
    )
    copies = (1 + int(tile.split(",")[1]) // ROWS) * (256 // panel)
    assert kernel.ptx.count("tcgen05.cp.cta_group::1.32x128b.warpx4") == copies
    assert kernel.ptx.count(f"tcgen05.mma.cta_group::1.{name} ") == 256 // step
    assert assembles(kernel.ptx, arch)
