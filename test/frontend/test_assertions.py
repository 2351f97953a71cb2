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
from cutedialect.backend.runtime.driver import gpu_available

X = np.arange(256, dtype=np.float32).reshape(16, 16)
ARCHES = ["sm_80", "sm_90a"]
ON_THE_GPU = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="no GPU")]
BACKENDS = ["emulator", pytest.param("cuda", marks=ON_THE_GPU)]


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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("arch", ARCHES)
def test_an_assertion_that_fails(arch, backend):
    y = np.zeros_like(X)
    with pytest.raises(KernelAssertionError, match="expected a small i") as caught:
        checked(X, y, 2, backend=backend, arch=arch)
    error = caught.value
    assert isinstance(error, AssertionError)
    line = line_of(checked.function, "# scalar")
    assert error.location == f"{__file__}:{line}:5"
    assert (error.kernel, error.cta) in (("checked", 2), ("checked", 3))
    assert str(error).startswith(f"{__file__}:{line}:5: error[CD-ASSERT]: expected a small i (k")
    # It ran to its end, and the next call starts anew.
    assert np.array_equal(y, X + 1)
    y[:] = 0
    checked(X, y, 4, backend=backend, arch=arch)
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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("arch", ARCHES)
def test_assertions_beside_a_multiply(arch, backend):
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
            program(a, b, c, least, most, backend=backend, arch=arch)
        else:
            with pytest.raises(KernelAssertionError, match=said):
                program(a, b, c, least, most, backend=backend, arch=arch)
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
        (lambda s: cute.printf("%d %d", s, "s"), "expected a conversion like %s for 's', got '%d'"),
        (lambda s: cute.printf("%s", s), "expected a conversion like %d for i32, got '%s'"),
        (lambda s: cute.printf(s), "expected a format of str, got Scalar"),
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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("arch", ARCHES)
def test_printf_of_every_type(arch, backend, capfd):
    """Arguments of 4 and 8 bytes in turn: each lies where C's promotions and alignment put it."""

    @cute.kernel
    def program(A, B, C, D, Y, s, t):
        i = cute.tile_index(Y, (4,))
        cute.printf("%d %lld %.3f %d %g %ld %s%%\n", A[i], B[i], C[i], A[i], D[i], B[i], "of 5")
        cute.printf("%d|%u|%x|%5d|%-6.2f|%e|%d|%f\n", t, t, t, t, s, s, i > 1, C[i].to(cute.f16))
        cute.printf("no argument\n")
        cute.copy(cute.zeros((4, 1)), cute.local_tile(Y, (4,), (i,)))

    b = np.array([-(2**40), 5, -1, 2**62])
    a, c, d = b.astype(np.int32), np.array([0.5, -2, 1e5, 7], np.float32), b / 4
    program(a, b, c, d, np.zeros(16, np.float32), 0.5, 11, arch=arch, backend=backend)
    lines = capfd.readouterr().out.splitlines()
    wanted = ["no argument"] * 4
    for i in range(4):
        wanted.append(f"{a[i]} {b[i]} {c[i]:.3f} {a[i]} {d[i]:g} {b[i]} of 5%")
        wide = "inf" if c[i] > 65504 else f"{c[i]:f}"
        wanted.append(f"11|11|b|   11|0.50  |5.000000e-01|{int(i > 1)}|{wide}")
    assert sorted(lines) == sorted(wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("roles", ["uniform", "specialized"])
def test_printf_in_each_role(roles, backend, capfd):
    """One line for each trip and each CTA, whichever warps run it."""

    @cute.kernel
    def program(A, B, C):
        i, j = cute.tile_index(C, (128, 64))
        a, b = cute.local_tile(A, (128, 64), (i, None)), cute.local_tile(B, (64, 64), (None, j))
        acc = cute.zeros((128, 64))
        for k in cute.range(a.tiles):
            cute.printf("trip %d\n", k)
            cute.gemm(a[k], b[k], acc)
        cute.printf("item %d\n", i)
        cute.copy(acc, cute.local_tile(C, (128, 64), (i, j)))

    a, b = np.ones((256, 192), np.float16), np.ones((192, 64), np.float16)
    c = np.zeros((256, 64), np.float32)
    schedule = cute.Schedule(roles=roles, warps=(4, 1))
    program(a, b, c, arch="sm_90a", backend=backend, schedule=schedule)
    assert (c == 192).all()
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == ["item 0", "item 1", *sorted(["trip 0", "trip 1", "trip 2"] * 2)]


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available(), reason="no GPU")
@pytest.mark.parametrize("arch", ARCHES)
def test_on_arrays_of_the_device_an_assertion_is_raised_by_the_next_synchronization(arch):
    """The launch returns; the context stays, and later launches run as ever."""
    torch = pytest.importorskip("torch")
    x, y = torch.from_numpy(X).cuda(), torch.zeros(16, 16).cuda()
    for _ in range(3):
        checked(x, y, 2, arch=arch)
        with pytest.raises(KernelAssertionError, match="expected a small i") as caught:
            cute.synchronize()
        assert f":{line_of(checked.function, '# scalar')}:" in caught.value.location
        assert torch.equal(y, x + 1)
        cute.synchronize()
        y.zero_()
        checked(x, y, 9, arch=arch)
        cute.synchronize()
        assert torch.equal(y, x + 1)
        assert torch.equal((x @ x).cpu(), torch.from_numpy(X @ X))
    assert np.array_equal(cute.gemm(X.astype(np.float16), np.eye(16, dtype=np.float16)), X)


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
