"""`cute.printf` on stdout, and `cute.assert_`: what fails is raised with its message and place when
the kernel has run to its end.
"""

# ruff: noqa: PT009
from __future__ import annotations

import inspect

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError, KernelAssertionError

X = np.arange(256, dtype=np.float32).reshape(16, 16)
ARCHES = ["sm_80", "sm_90a"]


def rows(tensor, i):
    return cute.local_tile(tensor, (4, 16), (i, 0))


@cute.kernel
def checked(X, Y, limit):
    i = cute.tile_index(X, (4,))
    cute.assert_(i < limit, "expected a small i")  # scalar
    x = cute.load(rows(X, i))
    cute.assert_(x >= 0, 'expected no negative "x"\\n')  # tile
    cute.copy(x + 1, rows(Y, i))


def line_of(function, marker):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if marker in line)


@pytest.mark.parametrize("arch", ARCHES)
def test_an_assertion_that_fails(arch):
    y = np.zeros_like(X)
    with pytest.raises(KernelAssertionError, match="expected a small i") as caught:
        checked(X, y, 2, backend="emulator", arch=arch)
    error = caught.value
    assert isinstance(error, AssertionError)
    line = line_of(checked.function, "# scalar")
    assert error.location == f"{__file__}:{line}:5"
    assert (error.kernel, error.cta) in (("checked", 2), ("checked", 3))
    assert str(error).startswith(f"{__file__}:{line}:5: error[CD-ASSERT]: expected a small i (k")
    # It ran to its end, and the next call starts anew.
    assert np.array_equal(y, X + 1)
    y[:] = 0
    checked(X, y, 4, backend="emulator", arch=arch)
    assert np.array_equal(y, X + 1)


def test_the_interpreter_stops_at_an_assertion(capsys):
    y = np.zeros_like(X)
    with pytest.raises(KernelAssertionError, match="expected a small i") as caught:
        checked(X, y, 2, backend="interpreter")
    assert caught.value.cta == 2
    assert caught.value.location == f"{__file__}:{line_of(checked.function, '# scalar')}:5"
    checked(X, y, 4, backend="interpreter")
    assert np.array_equal(y, X + 1)


@pytest.mark.parametrize("arch", ARCHES)
def test_an_assertion_about_a_tile(arch):
    x = X.copy()
    x[13, 7] = -1
    y = np.zeros_like(x)
    with pytest.raises(KernelAssertionError, match=r'expected no negative "x"\\n') as caught:
        checked(x, y, 9, backend="emulator", arch=arch)
    assert caught.value.cta == 3
    assert f":{line_of(checked.function, '# tile')}:" in caught.value.location
    assert np.array_equal(y, x + 1)


@pytest.mark.parametrize("arch", ARCHES)
def test_assertions_beside_a_multiply(arch):
    """In a loop, in a branch, and behind it, where roles share the work."""

    @cute.kernel
    def program(A, B, C, least, most):
        a, b = cute.local_tile(A, (64, 32), (0, None)), cute.local_tile(B, (32, 64), (None, 0))
        acc = cute.zeros((64, 64))
        for k in cute.range(a.tiles):
            cute.assert_(k < most, "expected few blocks")
            cute.gemm(a[k], b[k], acc)
        with cute.when(least > 0):
            cute.assert_(acc >= least, "expected large sums")
        cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))

    a, b = np.ones((64, 96), np.float16), np.ones((96, 64), np.float16)
    for least, most, said in (
        (0.0, 3, None),
        (96.0, 3, None),
        (97.0, 3, "large sums"),
        (0.0, 2, "few blocks"),
    ):
        c = np.zeros((64, 64), np.float32)
        if said is None:
            program(a, b, c, least, most, backend="emulator", arch=arch)
        else:
            with pytest.raises(KernelAssertionError, match=said):
                program(a, b, c, least, most, backend="emulator", arch=arch)
        assert (c == 96).all()
    kernel = cute.compile(program, a, b, c, 0.0, 2, arch=arch)
    assert "trap" not in kernel.ptx
    if arch == "sm_90a":
        from cutedialect.backend.runtime import ptxas

        if ptxas.candidates():
            assert not [each for each in kernel.assembly.messages if each.code]


def test_a_kernel_may_only_assert():
    @cute.kernel
    def program(X):
        cute.assert_(X.shape[0] == 16, "expected 16 rows")

    program(X, backend="emulator")
    with pytest.raises(KernelAssertionError, match="16 rows"):
        program(X[:8], backend="emulator")


def test_the_kernels_of_a_host_program():
    @cute.kernel
    def second(X):
        cute.assert_(X.shape[0] < 0, "expected none")

    @cute.host
    def program(X, Y, limit):
        cute.launch(checked, X, Y, limit)
        cute.launch(second, X)

    y = np.zeros_like(X)
    with pytest.raises(KernelAssertionError, match="small i"):
        program(X, y, 0, backend="emulator")
    with pytest.raises(KernelAssertionError, match="expected none"):
        program(X, y, 9, backend="emulator")
    cute.synchronize()


def test_what_is_refused():
    cases = (
        (lambda s: cute.assert_(False, "no"), "holds while the kernel is traced: no"),
        (lambda s: cute.assert_(s, "no"), "expected a condition, got i32"),
        (lambda s: cute.assert_(3, "no"), "expected a condition, got 3"),
        (lambda s: cute.assert_(s > 3, 5), "expected a message of str, got int"),
        (lambda s: cute.printf("%d"), "expected 1 arguments for the format, got 0"),
    )
    for function, message in cases:

        @cute.kernel
        def program(X, s, *, body):
            cute.assert_(True, "holds")
            body(s)
            cute.copy(cute.zeros((4, 16)), rows(X, 0))

        with pytest.raises(CompileError, match=message):
            program(X.copy(), 3, body=function, backend="emulator")


@pytest.mark.parametrize("arch", ARCHES)
def test_printf_prints_on_stdout(arch, capsys):
    @cute.kernel
    def program(X, Y, s):
        i = cute.tile_index(X, (4,))
        cute.printf("i = %d, s = %.2f\n", i, s)
        cute.copy(cute.load(rows(X, i)), rows(Y, i))

    program(X, np.zeros_like(X), 0.5, backend="emulator", arch=arch)
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == [f"i = {i}, s = 0.50" for i in range(4)]


def test_what_was_printed_before_a_fault_is_shown(capsys):
    from cutedialect.backend.emulator import EmulatorError

    @cute.kernel
    def program(X, Y):
        cute.printf("before\n")
        cute.copy(cute.load(rows(X, 0)), rows(Y, 0))

    kernel = cute.compile(program, X, X, backend="emulator")
    # A trap behind the print.
    broken = kernel.ptx.replace("\tret;", "\tbar.sync 0;\n\ttrap;\n\tret;")
    object.__setattr__(kernel.program, "ptx", broken)
    with pytest.raises(EmulatorError, match="CD-TRAP"):
        kernel.launch(X, np.zeros_like(X))
    assert capsys.readouterr().out == "before\n"


def test_printing_beside_wgmma_is_a_remark():
    """ptxas orders the multiplies of a kernel that calls (C7510): slower, and no error."""
    from cutedialect.backend.runtime import ptxas

    @cute.kernel
    def program(A, B, C):
        a, b = cute.local_tile(A, (64, 64), (0, None)), cute.local_tile(B, (64, 64), (None, 0))
        acc = cute.zeros((64, 64))
        for k in cute.range(a.tiles):
            cute.printf("k = %d\n", k)
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))

    a, c = np.ones((64, 64), np.float16), np.ones((64, 64), np.float32)
    kernel = cute.compile(program, a, a, c, arch="sm_90a", schedule="warps = (4,1)")
    assert "wgmma" in kernel.ptx
    (remark,) = [each for each in kernel.remarks if "C7510" in each.message]
    assert remark.location is not None
    assert remark.location.startswith(__file__)
    if ptxas.candidates():
        assert "C7510" in {message.code for message in kernel.assembly.messages}
