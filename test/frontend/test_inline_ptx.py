"""`cute.inline_ptx`: instructions of a program's own on elements and on scalars."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

ARCHES = ["sm_80", "sm_90a", "sm_100a"]


def computed(function, *arrays, out, arch="sm_90a", backend="emulator", results=1):
    """The results of a function of tiles, one below the other."""
    shape = arrays[0].shape

    @cute.kernel
    def program(Y, A, B):
        at = cute.tile_index(A, shape)
        tiles = [cute.local_tile(v, shape, at).load() for v in (A, B)]
        made = function(*tiles[: len(arrays)])
        for row, tile in enumerate(made if results > 1 else [made]):
            cute.copy(tile, cute.local_tile(Y, shape, (row, 0)))

    y = np.zeros((results * shape[0], shape[1]), out)
    program(y, *(arrays * 2)[:2], arch=arch, backend=backend)
    return y


def integers(dtype, seed=0):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, (8, 64), dtype, endpoint=True)


@pytest.mark.parametrize("arch", ARCHES)
def test_one_instruction(arch):
    x, y = integers("uint32"), integers("uint32", 1)

    def function(x, y):
        return cute.inline_ptx("lop3.b32 $0, $1, $2, 0xF0F0F0F0, 0x96;", (x, y), cute.u32)

    got = computed(function, x, y, out="uint32", arch=arch)
    assert np.array_equal(got, x ^ y ^ np.uint32(0xF0F0F0F0))


@pytest.mark.parametrize("arch", ARCHES)
def test_registers_of_the_text_and_several_results(arch):
    """A rotation, and the bytes in reverse order."""
    text = """
        .reg .b32 t, %u;
        shl.b32 t, $2, 5;
        shr.u32 %u, $2, 27;
        or.b32 $0, t, %u;
        prmt.b32 $1, $2, 0, 0x0123
    """
    x = integers("uint32")
    got = computed(
        lambda x: cute.inline_ptx(text, x, (cute.u32, cute.u32)),
        x, out="uint32", arch=arch, results=2,
    )  # fmt: skip
    assert np.array_equal(got, np.concatenate([x << 5 | x >> 27, x.byteswap()]))


@pytest.mark.parametrize(
    ("text", "dtype", "function"),
    [
        ("fma.rn.f32 $0, $1, 0f40000000, 1.0", "float32", lambda x: 2 * x + 1),
        ("rcp.rn.f32 $0, $1", "float32", lambda x: 1 / x),
        ("add.rn.f64 $0, $1, 0d3FF0000000000000", "float64", lambda x: x + 1),
        ("add.rn.f16 $0, $1, $1", "float16", lambda x: x + x),
        ("cvt.rmi.f32.f32 $0, $1", "float32", np.floor),
        ("mul.lo.s16 $0, $1, 3", "int16", lambda x: x * np.int16(3)),
        ("brev.b64 $0, $1", "int64", None),
        (
            "setp.gt.f32 p, $1, 0.5; selp.f32 $0, $1, 0.0, p", "float32",
            lambda x: np.where(x > 0.5, x, 0),
        ),
    ],
)  # fmt: skip
def test_types(text, dtype, function):
    x = integers(dtype) if np.dtype(dtype).kind == "i" else None
    if x is None:
        x = (np.random.default_rng(2).standard_normal((8, 64)) * 9).astype(dtype)
    got = computed(lambda x: cute.inline_ptx(text, (x,), x.dtype), x, out=dtype)
    want = computed(cute.brev, x, out=dtype) if function is None else function(x)
    assert np.array_equal(got, want.astype(dtype))


def test_results_of_another_type():
    """The bits of a float as an integer: registers of one width."""
    x = np.random.default_rng(3).standard_normal((8, 64)).astype(np.float32)
    got = computed(
        lambda x: cute.inline_ptx("and.b32 $0, $1, 0x7FFFFFFF", x, cute.f32), x, out="f4"
    )
    assert np.array_equal(got, np.abs(x))
    got = computed(lambda x: cute.inline_ptx("mov.b32 $0, $1", x, cute.i32), x, out="i4")
    assert np.array_equal(got, x.view(np.int32))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_scalars_and_broadcasts(arch):
    @cute.kernel
    def program(X, Y, n):
        x = cute.local_tile(X, (4, 32), (0, 0)).load()
        row = cute.local_tile(X, (1, 32), (0, 0)).load()
        least = cute.inline_ptx("min.s32 $0, $1, 7", n, cute.i32)
        assert isinstance(least, cute.Scalar)
        y = cute.inline_ptx("mad.lo.s32 $0, $1, $2, $3", (x, row, least), cute.i32)
        cute.copy(y, cute.local_tile(Y, (4, 32), (0, 0)))

    x = integers("int32")[:4, :32].copy()
    y = np.zeros_like(x)
    for n in (3, 99):
        program(x, y, n, arch=arch, backend="emulator")
        with np.errstate(over="ignore"):
            assert np.array_equal(y, x * x[:1] + np.int32(min(n, 7)))


REFUSED = [
    ("ld.global.b32 $0, [$1]", "without predicates, vectors, addresses and labels"),
    ("bar.sync 0", "expected a result in front"),
    ("mov.u32 $0, %tid", "expected what 'mov.u32 .* reads to be an operand .* got %tid"),
    ("@p add.s32 $0, $1, $1", "without predicates"),
    ("vote.sync.any.pred $0, $1, -1", r"an instruction that computes \(abs, add, .*for cute.copy"),
    ("add.s32 $1, $1, $1", r"expected a result \(\$0 to \$0\) or a name in front"),
    ("add.s32 t, $1, $1", r"expected a value for \$0, got none"),
    ("add.s32 $0, $1, $2", r"to be an operand \(\$1 to \$1\) or given before, got \$2"),
    ("add.s32 $0, $1", "expected 2 operands of add.s32, got 1"),
    ("add.f64 $0, $1, $1", "operand 0 of 'add.f64 .* of class f64 or b64, got .* of class b32"),
    ("add.rn.s32 $0, $1, $1", "expected what sm_80 has, got 'add.rn.s32"),
    ("add.s64 $0, 1, 2", r"expected \$0 of class b32 \(i32\), got b64"),
    ("", "expected an instruction, got none"),
    ("add.s32 $0, $1, 1$", "expected a number, a name or a placeholder"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_refused(text, message):
    with pytest.raises(CompileError, match=message) as caught:
        computed(
            lambda x: cute.inline_ptx(text, x, cute.i32), integers("int32"), out="i4", arch="sm_80"
        )
    assert "test_inline_ptx.py" in str(caught.value)


def test_what_a_target_does_not_have():
    text = "fma.rn.bf16 $0, $1, $1, $1; add.rn.bf16 $0, $0, $0"

    @cute.kernel
    def program(X, Y):
        x = cute.local_tile(X, (8, 8), (0, 0)).load()
        cute.copy(cute.inline_ptx(text, x, cute.bf16), cute.local_tile(Y, (8, 8), (0, 0)))

    spec = cute.TensorSpec((None, None), cute.bf16)
    assert "add.rn.bf16" in cute.compile(program, spec, spec, arch="sm_90a").ptx
    with pytest.raises(CompileError, match=r"what sm_80 has, got 'add.rn.bf16 .*sm_90"):
        cute.compile(program, spec, spec, arch="sm_80")


MORE = "add.s32 $0, $1, 1"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: cute.inline_ptx(MORE, x, cute.i32, effects="memory"), "effects: expected None"),
        (lambda x: cute.inline_ptx(MORE, x.to(cute.i8), cute.i32), "32 or 64 bits, got i8"),
        (lambda x: cute.inline_ptx(MORE, x, ()), "the type of a result in outputs"),
        (lambda x: cute.inline_ptx(MORE, (x, 3), cute.i32), "write it into the text"),
        (lambda x: cute.inline_ptx(3, x, cute.i32), "the text of instructions, got int"),
    ],
)  # fmt: skip
def test_arguments_that_are_refused(function, message):
    with pytest.raises(CompileError, match=message):
        computed(function, integers("int32"), out="i4")


def test_the_interpreter_says_who_runs_it():
    x = integers("int32")
    with pytest.raises(Exception, match=r'a backend that runs PTX .* take backend="emulator"'):
        computed(
            lambda x: cute.inline_ptx("neg.s32 $0, $1", x, cute.i32), x, out="i4",
            backend="interpreter",
        )  # fmt: skip


def test_equal_instructions_are_shared():
    @cute.kernel
    def program(X, Y):
        i, j = cute.tile_index(X, (8, 32))
        x = cute.local_tile(X, (8, 32), (i, j)).load()
        one, two = (cute.inline_ptx("popc.b32 $0, $1", x, cute.i32) for _ in range(2))
        cute.copy(one + two, cute.local_tile(Y, (8, 32), (i, j)))

    spec = cute.TensorSpec((None, None), cute.i32)
    ptx = cute.compile(program, spec, spec, arch="sm_80").ptx
    x, y = integers("int32"), np.zeros((8, 64), np.int32)
    program(x, y, arch="sm_80", backend="emulator")
    assert np.array_equal(y, 2 * np.bitwise_count(x.view(np.uint32)))
    assert 0 < ptx.count("popc.b32") <= 8
