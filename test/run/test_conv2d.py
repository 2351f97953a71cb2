"""`cute.conv2d` and its gradients beside NumPy: taps that reach past the image, strides, dilations,
channels that fill no tile, and what is said of wrong arguments.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
# (N, H, W, C), (F, R, S), stride, padding, dilation.
PROBLEMS = {
    "same": ((1, 9, 11, 72), (40, 3, 3), 1, 1, 1),
    "strided": ((1, 13, 10, 24), (72, 3, 2), (2, 3), (1, 0), 1),
    "dilated": ((1, 12, 9, 16), (8, 3, 3), 2, (2, 3), (2, 1)),
    "one tap": ((3, 5, 7, 40), (136, 1, 1), 1, 0, 1),
    "patches": ((2, 8, 12, 3), (24, 4, 4), 4, 0, 1),
    "one channel": ((2, 9, 7, 1), (8, 3, 3), 1, 1, 1),
    "one filter": ((1, 9, 7, 16), (1, 3, 3), 2, 1, 1),
}


def integers(shape, dtype: Any = np.float16, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def twice(value):
    return value if isinstance(value, tuple) else (value, value)


def parts(x, taps, steps):
    """The places of each tap in the padded image: (tap, slices), and the padded image."""
    (r, s), (stride, padding, dilation) = taps, (twice(each) for each in steps)
    n, h, w, c = x.shape
    whole = np.zeros((n, h + 2 * padding[0], w + 2 * padding[1], c))
    whole[:, padding[0] : padding[0] + h, padding[1] : padding[1] + w] = x
    counts = [
        (extent - d * (t - 1) - 1) // st + 1
        for extent, t, st, d in zip(whole.shape[1:3], (r, s), stride, dilation, strict=True)
    ]
    found = []
    for tap in np.ndindex(r, s):
        at = [
            slice(t * d, t * d + st * (count - 1) + 1, st)
            for t, d, st, count in zip(tap, dilation, stride, counts, strict=True)
        ]
        found.append((tap, (slice(None), *at)))
    return found, whole, counts


def convolved(x, w, *steps):
    found, whole, counts = parts(x.astype(np.float64), w.shape[1:3], steps)
    total = np.zeros((len(x), *counts, len(w)))
    for (r, s), at in found:
        total += whole[at] @ w[:, r, s].T.astype(np.float64)
    return total


def gradients(x, w, dy, *steps):
    found, whole, _ = parts(x.astype(np.float64), w.shape[1:3], steps)
    dx, dw = np.zeros(whole.shape), np.zeros(w.shape)
    slopes = dy.astype(np.float64)
    for (r, s), at in found:
        dx[at] += slopes @ w[:, r, s].astype(np.float64)
        dw[:, r, s] = np.einsum("npqf,npqc->fc", slopes, whole[at])
    top, left = twice(steps[1])
    return dx[:, top : top + x.shape[1], left : left + x.shape[2]], dw


def drawn(name, dtype=np.float16) -> Any:
    shape, (f, r, s), *steps = PROBLEMS[name]
    x, w = integers(shape, dtype), integers((f, r, s, shape[3]), dtype, 1)
    return x, w, dict(zip(("stride", "padding", "dilation"), steps, strict=True)), steps


CASES = [*((name, "sm_90a") for name in PROBLEMS), ("strided", "sm_80"), ("strided", "sm_100a")]


@pytest.mark.parametrize(("name", "arch"), CASES)
def test_results(name, arch):
    x, w, options, steps = drawn(name)
    bias = integers(len(w), np.float32, 2)
    options |= {"bias": bias, "activation": "relu", "out_dtype": "f32"}
    y = cute.conv2d(x, w, arch=arch, backend="emulator", **options)
    np.testing.assert_array_equal(y, np.maximum(convolved(x, w, *steps) + bias, 0))


@pytest.mark.parametrize(("name", "arch"), CASES[1:])
def test_gradients(name, arch):
    x, w, options, steps = drawn(name)
    dy = integers(convolved(x, w, *steps).shape, seed=3)
    options |= {"arch": arch, "backend": "emulator", "out_dtype": "f32"}
    dx = cute.conv2d_dgrad(dy, w, x.shape[1:3], **options)
    dw = cute.conv2d_wgrad(x, dy, w.shape[1:3], **options)
    want = gradients(x, w, dy, *steps)
    np.testing.assert_array_equal(dx, want[0])
    np.testing.assert_array_equal(dw, want[1])


@pytest.mark.parametrize(("taps", "stride", "padding"), [(7, 2, 3), (4, 4, 0)])
def test_first_layers_keep_within_the_registers(taps, stride, padding, spills_of):
    """Images of three channels, whose pixels begin at any element."""
    image = cute.TensorSpec((32, 224, 224, 3), "bf16", align=2)
    filters = cute.TensorSpec((64, taps, taps, 3), "bf16", align=2)
    kernel = cute.conv2d.compile(image, filters, stride=stride, padding=padding, arch="sm_90a")
    assert spills_of(kernel) == 0


@pytest.mark.parametrize("dtype", [BF16, np.float32])
def test_types(dtype):
    x, w, options, steps = drawn("same", dtype)
    y = cute.conv2d(x, w, arch="sm_90a", backend="emulator", **options)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.astype(np.float64), convolved(x, w, *steps).astype(dtype))


def test_tanh_is_as_exact_as_results_of_f32():
    """The instruction alone is off by up to 2^-11."""
    x, w = integers((1, 6, 6, 8), np.float32) / 8, integers((8, 3, 3, 8), np.float32) / 8
    out = cute.conv2d(x, w, activation="tanh", arch="sm_90a", backend="emulator")
    np.testing.assert_allclose(out, np.tanh(convolved(x, w, 1, 0, 1)), atol=2.0**-20)


def test_many_pixels_are_added_in_parts():
    x, dy = integers((2, 32, 32, 16)), integers((2, 32, 32, 16), seed=1)
    options = {"padding": 1, "arch": "sm_90a", "backend": "emulator"}
    got = cute.conv2d_wgrad(x, dy, 3, out_dtype="f32", **options)
    np.testing.assert_array_equal(got, gradients(x, np.zeros((16, 3, 3, 16)), dy, 1, 1, 1)[1])
    spec = cute.TensorSpec((16, 32, 32, 16), "f16")
    kernel = cute.compile(cute.conv2d_wgrad, spec, spec, 3, padding=1, arch="sm_90a")
    assert "split_k" in kernel.schedule


@pytest.mark.parametrize("arch", ["sm_90a"])
def test_a_filter_for_each_channel(arch):
    x, w = integers((2, 9, 11, 136)), integers((136, 3, 3, 1), seed=1)
    bias, out = integers(136, np.float16, 2), np.empty((2, 5, 6, 136), np.float32)
    given = {"bias": bias, "stride": 2, "padding": 1, "out": out}
    assert cute.conv2d(x, w, arch=arch, backend="emulator", **given) is out
    found, whole, counts = parts(x, (3, 3), (2, 1, 1))
    want = np.zeros((2, *counts, 136)) + bias
    for (r, s), at in found:
        want += whole[at] * w[:, r, s, 0]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    ("arch", "shape", "taps", "steps"),
    [
        ("sm_80", (2, 9, 11, 136), (3, 3), (2, 1, 1)),
        ("sm_90a", (1, 13, 10, 24), (3, 2), ((2, 3), (1, 0), 1)),
        ("sm_90a", (1, 9, 7, 33), (5, 5), (1, 2, 1)),
        ("sm_90a", (2, 9, 8, 64), (3, 3), (1, 1, 1)),
        ("sm_100a", (1, 12, 9, 136), (3, 3), (2, (2, 3), (2, 1))),
    ],
)
def test_gradients_of_a_filter_for_each_channel(arch, shape, taps, steps):
    x, w = integers(shape), integers((shape[3], *taps, 1), seed=1)
    found, whole, counts = parts(x.astype(np.float64), taps, steps)
    dy = integers((shape[0], *counts, shape[3]), seed=3)
    dx, dw = np.zeros(whole.shape), np.zeros(w.shape)
    for (r, s), at in found:
        dx[at] += dy * w[:, r, s, 0].astype(np.float64)
        dw[:, r, s, 0] = (dy * whole[at]).sum((0, 1, 2))
    top, left = twice(steps[1])
    names = dict(zip(("stride", "padding", "dilation"), steps, strict=True))
    options = names | {"groups": shape[3], "arch": arch, "backend": "emulator", "out_dtype": "f32"}
    got = cute.conv2d_dgrad(dy, w, shape[1:3], **options)
    np.testing.assert_array_equal(got, dx[:, top : top + shape[1], left : left + shape[2]])
    np.testing.assert_array_equal(cute.conv2d_wgrad(x, dy, taps, **options), dw)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_gradients_of_a_filter_for_each_channel_spill_nothing(arch, spills_of):
    x, w = (cute.TensorSpec(each, "bf16") for each in ((32, 28, 28, 192), (192, 7, 7, 1)))
    options: Any = {"padding": 3, "groups": 192, "arch": arch}
    assert spills_of(cute.conv2d_dgrad.compile(x, w, 28, **options)) == 0
    assert spills_of(cute.conv2d_wgrad.compile(x, x, 7, **options)) == 0


def test_groups_are_one_or_all_channels():
    slopes, w = integers((1, 4, 5, 16)), integers((16, 3, 3, 1))
    with pytest.raises(ValueError, match=r"^groups: expected 1, or 16 where each channel of dy"):
        cute.conv2d_dgrad(slopes, w, (6, 7), groups=4, backend="emulator")
    with pytest.raises(
        ValueError, match=r"^groups: expected 1, or 16 where .* got 16; take a call"
    ):
        cute.conv2d_wgrad(X, slopes, 3, groups=16, backend="emulator")
    x, options = integers((1, 6, 7, 16)), {"groups": 16, "arch": "sm_90a", "backend": "emulator"}
    with pytest.raises(
        ValueError, match=r"^schedule: expected as many rows as columns .*take \(128"
    ):
        cute.conv2d_wgrad(x, slopes, 3, schedule="tile = (128,64,64)", **options)
    square = cute.conv2d_wgrad(x, slopes, 3, schedule="tile = (128,128,64)", **options)
    np.testing.assert_array_equal(square, cute.conv2d_wgrad(x, slopes, 3, **options))


def test_rows_come_ahead_where_warpgroups_multiply():
    images, filters = (cute.TensorSpec(s, "bf16") for s in ((32, 56, 56, 256), (256, 3, 3, 256)))
    kernel = cute.compile(cute.conv2d, images, filters, padding=1, arch="sm_90a")
    assert "roles = uniform" not in kernel.schedule
    assert ".im2col." in kernel.ptx
    schedule = "tile = (128,128,64), roles = specialized, loads = threads"
    kernel = cute.compile(cute.conv2d, images, filters, padding=1, arch="sm_90a", schedule=schedule)
    assert "cp.async.cg.shared.global" in kernel.ptx
    assert "wgmma" in kernel.ptx


X, W = integers((1, 6, 7, 8)), integers((16, 3, 3, 8))


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"x": X[0]}, ValueError, r"x: expected 4 dimensions .*, got shape \(6, 7, 8\)"),
        ({"x": X.astype(np.int8)}, TypeError, "x: expected f16, bf16 or f32, got i8"),
        ({"w": W.astype(BF16)}, TypeError, "w: expected f16 as in x, got bf16"),
        ({"w": W[..., :4]}, ValueError, r"w: expected \(F, R, S, 8\), or \(8, R, S, 1\) .*group"),
        ({"x": X.transpose(0, 2, 1, 3)}, ValueError, "x: expected a contiguous array .*permute"),
        ({"stride": 0}, ValueError, "stride: expected a number from 1 on, or two .*, got 0"),
        ({"padding": (1, 2, 3)}, ValueError, "padding: expected a number from 0 on, or two"),
        ({"dilation": 9}, ValueError, r"w: expected a filter that fits in \(6, 7\) pixels"),
        ({"bias": W[:4, 0, 0, 0]}, ValueError, "bias: expected 16 channels as in w, got 4"),
        ({"activation": "tanhh"}, ValueError, "activation: expected 'relu'"),
        ({"out": X}, ValueError, r"out: expected shape \(1, 4, 5, 16\), got \(1, 6, 7, 8\)"),
    ],
)
def test_wrong_arguments(changed, error, message):
    with pytest.raises(error, match=f"^{message}"):
        cute.conv2d(**({"x": X, "w": W, "backend": "emulator"} | changed))


def test_slopes_of_another_size():
    with pytest.raises(ValueError, match=r"^dy: expected \(4, 5\) pixels, as .* got \(6, 7\)"):
        cute.conv2d_wgrad(X, X, 3, backend="emulator")
    assert cute.conv2d(X[:0], W, backend="emulator").shape == (0, 4, 5, 16)


@pytest.mark.parametrize("function", ["conv2d", "conv2d_dgrad"])
def test_rows_that_begin_anywhere_leave_registers(function, assembles):
    """Threads that copied them in pieces beside tensor memory spilled."""
    steps = {"stride": 3, "padding": 2, "dilation": 2, "arch": "sm_100a", "out_dtype": "f32"}
    of, taps, more = {
        "conv2d": ((1, 10, 11, 38), (66, 2, 3, 38), ()),
        "conv2d_dgrad": ((1, 4, 4, 70), (70, 2, 3, 33), ((10, 11),)),
    }[function]
    images, w = np.zeros(of, BF16), np.zeros(taps, BF16)
    kernel = getattr(cute, function).compile(images, w, *more, **steps)
    assert "tcgen05.mma" in kernel.ptx
    assert assembles(kernel.ptx, "sm_100a")
