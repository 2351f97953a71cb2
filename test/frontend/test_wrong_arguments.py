"""Arguments that fit one by one, and not with each other: operands of a multiply whose depths
differ, one array given as two outputs, and memory that is read as one argument and written as
another.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

ARCHES = ["sm_80", "sm_90a"]


@cute.kernel
def product(A, B, C):
    a, b = cute.local_tile(A, (64, 32), (0, None)), cute.local_tile(B, (32, 64), (None, 0))
    acc = cute.zeros((64, 64))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))


@cute.kernel
def transposed(A, B, C):
    """B is (N, K), and its tiles are loaded and converted before they are multiplied."""
    acc = cute.zeros((64, 64))
    for k in cute.range(cute.local_tile(A, (64, 32), (0, None)).tiles):
        a = cute.local_tile(A, (64, 32), (0, k * 1))
        b = cute.local_tile(B, (64, 32), (0, k * 1))
        cute.gemm(cute.load(a).to(cute.f16), b.T, acc)
    cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))


@cute.kernel
def batch(A, B, C):
    acc = cute.zeros((64, 64))
    a, b = cute.local_tile(A, (64, 64), (1, 0, 0)), cute.local_tile(B, (64, 64), (1, 0, 0))
    cute.gemm(a, b, acc)
    cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))


CASES = {
    "a loop": (product, (64, 96), (96, 64), (95, 64), "dimension 0"),
    "transposed": (transposed, (64, 96), (64, 96), (64, 104), "dimension 1"),
    "one tile": (batch, (2, 64, 40), (2, 40, 64), (2, 48, 64), "dimension 1"),
}


def padded(array, shape):
    return np.pad(array, [(0, wide - have) for wide, have in zip(shape, array.shape, strict=True)])


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", CASES)
def test_depths_that_differ(name, arch):
    """Outside of either operand tiles read 0; a remark at the line of the multiply says so."""
    program, a_shape, b_shape, unlike, where = CASES[name]
    rng = np.random.default_rng(0)
    a, b, other = (
        rng.integers(-2, 3, shape).astype(np.float16) for shape in (a_shape, b_shape, unlike)
    )
    c = np.full((64, 64), 7, np.float32)
    kernel = cute.compile(program, a, b, c, backend="emulator", arch=arch)
    kernel.launch(a, b, c)
    assert not kernel.remarks
    shape = tuple(map(max, b_shape, unlike))
    wide = padded(a, (*a_shape[:-1], max(shape[-1], shape[-2], a_shape[-1])))
    full = [padded(each, shape)[-1 if each.ndim == 3 else slice(None)] for each in (b, other)]
    for given, filled in zip((b, other, other), (*full, full[1]), strict=True):
        kernel.launch(a, given, c)
        factor = filled.T if name == "transposed" else filled
        left = (wide[-1] if wide.ndim == 3 else wide)[:, : len(factor)].astype(np.float32)
        assert np.array_equal(c, left @ factor)
    (remark,) = kernel.remarks
    assert f"B: expected extent {a.shape[-1]} in {where}, over which" in remark.message
    assert remark.location is not None
    assert __file__ in remark.location


def test_a_product_of_the_library_refuses_them():
    a, c = np.zeros((64, 96), np.float16), np.zeros((64, 64), np.float16)
    kernel = cute.compile(cute.gemm, a, a.T.copy(), arch="sm_80", backend="emulator")
    with pytest.raises(ValueError, match=r"B: expected extent 96 in dimension 0, over which"):
        kernel.launch(a, np.zeros((95, 64), np.float16), c, 1.0)


def test_a_kernel_from_the_disk_cache_checks_too(monkeypatch, tmp_path):
    from cutedialect.backend.runtime.program import CompiledProgram

    a, c = np.zeros((64, 96), np.float16), np.zeros((64, 64), np.float32)
    program = cute.compile(product, a, a.T.copy(), c, backend="emulator").program
    ((*places, line),) = program.equal_extents
    assert places == [0, 1, 1, 0, None]
    assert line is not None
    assert line.startswith(__file__)
    assert program.shared_memory
    again = CompiledProgram.from_json(program.to_json())
    assert again.equal_extents == program.equal_extents
    assert again.shared_memory == program.shared_memory


def test_a_host_program():
    @cute.host
    def program(B, A, C):
        cute.launch(product, A, B, C)

    a, c = np.ones((64, 96), np.float16), np.zeros((64, 64), np.float32)
    b = np.ones((95, 64), np.float16)
    kernel = cute.compile(program, b, a, c, backend="emulator")
    kernel.launch(b, a, c)
    assert (c == 95).all()
    (remark,) = kernel.remarks
    assert "B: expected extent 96 in dimension 0" in remark.message
    kernel.launch(np.ones((96, 64), np.float16), a, c)
    assert (c == 96).all()


def test_places_of_their_own_and_slices_are_free():
    """Blocks of a longer array at other places, and a part of it."""

    @cute.kernel
    def program(A, B, C):
        a, b = cute.local_tile(A, (64, 32), (0, None)), cute.local_tile(B, (32, 64), (None, 0))
        head = B.slice(0, 0, A.shape[1])
        sliced = cute.local_tile(head, (32, 64), (None, 0))
        acc = cute.zeros((64, 64))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k + 1], acc)
            cute.gemm(a[k], sliced[k], acc)
        cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))

    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (64, 96)).astype(np.float16)
    b = rng.integers(-2, 3, (128, 64)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    program(a, b, c, backend="emulator")
    assert np.array_equal(c, a.astype(np.float32) @ (b[32:] + b[:96]).astype(np.float32))


@cute.kernel
def two(X, Y, Z):
    at = (0, 0)
    x = cute.load(cute.local_tile(X, (16, 16), at))
    cute.copy(x + 1, cute.local_tile(Y, (16, 16), at))
    cute.copy(x * 2, cute.local_tile(Z, (16, 16), at))


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_one_array_as_two_outputs(backend):
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    y = np.zeros((16, 32), np.float32)
    for first, second in (
        (y[:, :16], y[:, :16]),
        (y[:, :16], y[:, 8:24]),
        (y[:8, :16], y[4:, :16]),
    ):
        with pytest.raises(ValueError, match=r"[YZ]: expected memory of its own, .* overlaps [YZ]"):
            two(x, first, second, backend=backend)
    assert not y.any()
    two(x, y[:, :16], y[:, 16:], backend=backend)
    assert np.array_equal(y, np.concatenate([x + 1, x * 2], axis=1))
    kernel = cute.compile(two, x, x, x, backend=backend)
    with pytest.raises(ValueError, match="overlaps"):
        kernel.launch(x, y[:, :16], y[:, :16])


def test_an_output_may_be_an_input():
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    want, z = x + 1, np.zeros_like(x)
    two(x, x, z, backend="emulator")
    assert np.array_equal(x, want)


TILE = (16, 16)


def tile(X, *at):
    return cute.local_tile(X, TILE, at)


@cute.kernel
def doubled(X, Y):
    i, j = cute.tile_index(Y, TILE)
    cute.copy(tile(X, i, j).load() * 2.0, tile(Y, i, j))


@cute.kernel
def normed(X, Y):
    """Rows as long as the tile, of which a work item has all."""
    i, _ = cute.tile_index(Y, TILE)
    x = tile(X, i, 0).load()
    cute.copy(x - cute.row_max(x), tile(Y, i, 0))


@cute.kernel
def in_two_passes(X, Y):
    i, _ = cute.tile_index(Y, (16, None))
    total = cute.zeros((16, 1))
    x, y = (cute.local_tile(each, TILE, (i, None)) for each in (X, Y))
    for k in cute.range(x.tiles):
        total += cute.row_sum(x[k])
    for k in cute.range(x.tiles):
        cute.copy(x[k].load() - total, y[k])


@cute.kernel
def added(X, Y):
    """A product that is added to what was there."""
    i, j = cute.tile_index(Y, TILE)
    acc = cute.zeros(TILE)
    cute.gemm(tile(X, i, j).load().to(cute.f16), cute.full(TILE, 1, cute.f16).T, acc)
    cute.copy(acc + tile(X, i, j).load(), tile(Y, i, j))


IN_PLACE = (doubled, normed, in_two_passes, added)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("program", IN_PLACE, ids=lambda each: each.__name__)
def test_in_place_on_the_same_tile(program, arch):
    columns = 16 if program is normed else 32
    x = np.random.default_rng(0).integers(-3, 4, (40, columns)).astype(np.float32)
    want = np.zeros_like(x)
    program(x.copy(), want, arch=arch, backend="emulator")
    program(x, x, arch=arch, backend="emulator")
    assert np.array_equal(x, want)
    moved = np.zeros((41, columns), np.float32)
    with pytest.raises(ValueError, match="Y: expected memory of its own, or that of X as it is, "):
        program(moved[1:], moved[:-1], arch=arch, backend="emulator")


@cute.kernel
def multiplied_behind(X, Y, W, Z):
    """Every warp reads the tile for its part of a product; one of them stores over it."""
    i, j = cute.tile_index(Z, (64, 16))
    x, acc = cute.local_tile(X, (64, 16), (i, j)).load(), cute.zeros((64, 16))
    cute.copy(x * 2, cute.local_tile(Y, (64, 16), (i, j)))
    cute.gemm(cute.local_tile(W, (64, 64), (i, 0)), x, acc)
    cute.copy(acc, cute.local_tile(Z, (64, 16), (i, j)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_in_place_where_several_threads_hold_an_element(arch):
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-2, 3, (64, n)).astype(np.float32) for n in (16, 64))
    before, z = x.copy(), np.zeros_like(x)
    multiplied_behind(x, x, w, z, arch=arch, backend="emulator")
    assert np.array_equal(x, 2 * before)
    assert np.array_equal(z, w @ before)


@cute.kernel
def first_rows(X, Y, Z):
    """Each work item reads the first rows and stores its own: one place where it is alone."""
    i, j = cute.tile_index(Y, (16, 64))
    x, acc = cute.local_tile(X, (16, 64), (0, j)).load(), cute.zeros((128, 64))
    cute.copy(x * 2, cute.local_tile(Y, (16, 64), (i, j)))
    cute.gemm(cute.full((128, 16), 1, cute.f32), x, acc)
    cute.copy(acc, cute.local_tile(Z, (128, 64), (i, j)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_in_place_where_a_single_work_item_is_at_the_place(arch):
    x = np.random.default_rng(0).integers(-2, 3, (16, 64)).astype(np.float32)
    before, z = x.copy(), np.zeros((128, 64), np.float32)
    first_rows(x, x, z, arch=arch, backend="emulator")
    assert np.array_equal(x, 2 * before)
    assert np.array_equal(z, np.ones((128, 16), np.float32) @ before)


@cute.kernel
def shifted(X, Y):
    i, j = cute.tile_index(Y, TILE)
    cute.copy(tile(X, i + 1, j), tile(Y, i, j))


@cute.kernel
def turned(X, Y):
    i, j = cute.tile_index(Y, TILE)
    cute.copy(tile(X, j, i).load().T, tile(Y, i, j))


@cute.kernel
def turned_in_a_tile(X, Y):
    cute.copy(tile(X, 0, 0).load().T, tile(Y, 0, 0))


@cute.kernel
def late(X, Y):
    """The tile is read again behind the store."""
    i, j = cute.tile_index(Y, TILE)
    cute.copy(tile(X, i, j).load() + 1.0, tile(Y, i, j))
    cute.atomic_add(tile(X, i, j).load(), tile(Y, i, j))


@cute.kernel
def squared(X, Y):
    i, j = cute.tile_index(Y, TILE)
    acc = cute.zeros(TILE)
    for k in range(2):
        cute.gemm(tile(X, i, k), tile(X, k, j), acc)
    cute.copy(acc, tile(Y, i, j))


@cute.kernel
def looked_up(X, Y):
    i, j = cute.tile_index(Y, TILE)
    cute.copy(tile(Y, i, j).load() + X[0, 0], tile(Y, i, j))


@cute.kernel
def overwritten(X, Y):
    """What is stored does not wait for what is loaded."""
    i, j = cute.tile_index(Y, TILE)
    x = tile(X, i, j).load()
    cute.copy(cute.zeros(TILE), tile(Y, i, j))
    cute.printf("%f", cute.any(x > 0.0).to(cute.f32))


REFUSED = (shifted, turned, turned_in_a_tile, late, squared, looked_up, overwritten)


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("program", REFUSED, ids=lambda each: each.__name__)
def test_tiles_that_others_may_have_written(program, backend):
    x = np.random.default_rng(0).integers(-3, 4, (32, 32)).astype(np.float32)
    before = x.copy()
    message = "Y: expected memory of its own, got an array that overlaps X, of which tiles may be"
    for given in (x, x[:, :]):
        with pytest.raises(ValueError, match=message) as caught:
            program(given, x, backend=backend)
        assert f"tiles may be read ({__file__}:" in str(caught.value)
        assert "; pass a copy of X, or another array for Y" in str(caught.value)
    assert np.array_equal(x, before)
    program(x, np.zeros_like(x), backend=backend)


def test_columns_of_one_buffer_are_apart():
    buffer = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    want = buffer[:, :32] @ buffer[:, :32]
    squared(buffer[:, :32], buffer[:, 32:], backend="interpreter")
    np.testing.assert_allclose(buffer[:, 32:], want, rtol=1e-3)


def test_a_group_in_place():
    @cute.kernel
    def program(Xs, Ys, *, apart=0):
        number, i, j = cute.tile_index(Ys, TILE)
        at = i + apart if apart else i
        cute.copy(tile(Xs[number], at, j).load() * 2.0, tile(Ys[number], i, j))

    arrays = [np.full((20, 16), 3.0, np.float32), np.full((40, 16), 4.0, np.float32)]
    program(arrays, arrays, backend="emulator")
    assert (arrays[0] == 6).all()
    assert (arrays[1] == 8).all()
    with pytest.raises(ValueError, match=r"Ys\[.\]: .* that of Xs\[.\] as it is, .* overlaps Xs"):
        program(arrays, arrays[::-1], backend="emulator")
    with pytest.raises(ValueError, match=r"Ys\[.\]: expected memory of its own"):
        program(arrays, arrays, apart=1, backend="emulator")


def test_kernels_in_a_row_may_share_memory():
    """What the first one writes is there when the second one reads it."""

    @cute.host
    def program(X, Y, Z):
        cute.launch(shifted, X, Y)
        cute.launch(shifted, Z, X)

    x = np.random.default_rng(0).standard_normal((48, 32)).astype(np.float32)
    y, want = np.zeros_like(x), np.zeros_like(x)
    want[:16] = x[32:]
    program(x, y, y, backend="emulator")
    assert np.array_equal(x, want)


def test_arrays_of_torch():
    torch = pytest.importorskip("torch")
    x = torch.ones(32, 32)
    doubled(x, x, backend="emulator")
    assert (x == 2).all()
    with pytest.raises(ValueError, match="overlaps X"):
        squared(x, x, backend="emulator")
    with pytest.raises(ValueError, match="overlaps X"):
        doubled(x[1:], x[:-1], backend="emulator")
