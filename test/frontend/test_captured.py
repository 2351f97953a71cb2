"""What a kernel takes from around it: a change after the first call gives another kernel."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
import types

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.frontend import captured, launch

SHAPE = (8, 8)
SCALE = 1.0
TABLE = [1.0, 2.0]
OPTIONS = {"scale": 3.0}
WEIGHTS = np.arange(4.0)


class Config:
    scale = 4.0


CONFIG = Config()
SETTINGS = types.SimpleNamespace(inner=types.SimpleNamespace(scale=5.0))


def helper():
    return SCALE


def doubled(function):
    @functools.wraps(function)
    def inner():
        return 2 * function()

    return inner


def by_default(scale=[1.5]):  # noqa: B006
    return scale[0]


helper_in_partial = functools.partial(lambda scales: scales["scale"], {"scale": 6.0})
wrapped = doubled(helper)

module = types.ModuleType("users_module")
module.scale = 7.0
sys.modules["users_module"] = module


def value_of(kernel, **given):
    y = np.zeros(SHAPE, np.float32)
    kernel(y, backend="emulator", **given)
    assert (y == y[0, 0]).all()
    return float(y[0, 0])


def filling(scale):
    """A kernel that stores what a function of no arguments gives."""

    @cute.kernel
    def program(Y):
        cute.copy(cute.full(SHAPE, scale()), cute.local_tile(Y, SHAPE, (0, 0)))

    return program


def set_global(value):
    global SCALE
    SCALE = value


CASES = {
    "global": (lambda: SCALE, set_global),
    "helper": (lambda: helper(), set_global),
    "wrapped": (lambda: wrapped() / 2, set_global),
    "list": (lambda: TABLE[0], lambda v: TABLE.__setitem__(0, v)),
    "list length": (lambda: float(len(TABLE)), lambda v: TABLE.__imul__(0).extend([0] * int(v))),
    "dict": (lambda: OPTIONS["scale"], lambda v: OPTIONS.update(scale=v)),
    "array": (lambda: WEIGHTS[2], lambda v: WEIGHTS.__setitem__(2, v)),
    "instance": (lambda: CONFIG.scale, lambda v: setattr(CONFIG, "scale", v)),
    "class": (lambda: Config.scale, lambda v: setattr(Config, "scale", v)),
    "namespace": (lambda: SETTINGS.inner.scale, lambda v: setattr(SETTINGS.inner, "scale", v)),
    "default": (lambda: by_default(), lambda v: by_default.__defaults__[0].__setitem__(0, v)),
    "partial": (lambda: helper_in_partial(), lambda v: helper_in_partial.args[0].update(scale=v)),
    "module": (lambda: module.scale, lambda v: setattr(module, "scale", v)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen(name):
    read, write = CASES[name]
    kernel = filling(read)
    for value in (2.0, 3.0, 2.0, -0.0, 0.0, 5.0):
        if value < 1 and name == "list length":
            continue
        write(value)
        assert value_of(kernel) == value


def test_a_closure_cell():
    scale = 1.0

    @cute.kernel
    def program(Y):
        cute.copy(cute.full(SHAPE, scale), cute.local_tile(Y, SHAPE, (0, 0)))

    for value in (1.0, 2.0, 1.0):
        scale = value
        assert value_of(program) == value


def test_a_function_that_is_replaced():
    def one():
        return 1.0

    box = types.SimpleNamespace(function=one)
    kernel = filling(lambda: box.function())
    assert value_of(kernel) == 1
    box.function = lambda: 2.0
    assert value_of(kernel) == 2
    one.__code__ = (lambda: 3.0).__code__
    box.function = one
    assert value_of(kernel) == 3


def test_an_iterator():
    numbers = itertools.count(1)
    kernel = filling(lambda: float(next(numbers)))
    assert [value_of(kernel) for _ in range(3)] == [1, 2, 3]


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: float
    table: tuple[float, ...] = (1,)


@cute.kernel
def constant(Y, *, value):
    scale = value
    for name in ("scale", "function"):
        scale = getattr(scale, name, scale)
    if isinstance(scale, (list, tuple)):
        scale = scale[-1]
    if callable(scale):
        scale = scale()
    kind = 2.0 if isinstance(scale, float) else 1.0
    tile = cute.full(SHAPE, scale) * kind
    cute.copy(tile, cute.local_tile(Y, SHAPE, (0, 0)))


def test_compile_time_values_are_told_apart_exactly():
    assert value_of(constant, value=1) == 1
    assert value_of(constant, value=1.0) == 2
    assert value_of(constant, value=True) == 1
    assert value_of(constant, value=(1,)) == 1
    assert value_of(constant, value=(1.0,)) == 2
    assert value_of(constant, value=Frozen(1)) == 1
    assert value_of(constant, value=Frozen(1.0)) == 2
    assert np.signbit(value_of(constant, value=0.0)) == 0
    assert np.signbit(value_of(constant, value=-0.0)) == 1


def test_compile_time_objects_that_change():
    box = types.SimpleNamespace(scale=1.0)
    numbers = [1.0]
    for value in (1.0, 3.0, 1.0):
        box.scale = value
        numbers[0] = value
        assert value_of(constant, value=box) == 2 * value
        assert value_of(constant, value=numbers) == 2 * value
        assert value_of(constant, value=lambda: box.scale) == 2 * value


def test_an_activation_that_changes():
    set_global(1.0)

    def activation(tile):
        return tile * SCALE

    a = np.ones((16, 16), np.float16)
    for value in (1.0, 3.0, 1.0):
        set_global(value)
        got = cute.gemm(a, a, activation=activation, backend="emulator")
        assert (got == 16 * value).all()


def test_a_host_program_sees_its_kernels():
    @cute.kernel
    def inner(Y):
        cute.copy(cute.full(SHAPE, SCALE), cute.local_tile(Y, SHAPE, (0, 0)))

    @cute.host
    def program(Y):
        cute.launch(inner, Y)

    for value in (1.0, 3.0, 1.0):
        set_global(value)
        assert value_of(program) == value


def test_what_does_not_change_is_not_compiled_again(monkeypatch):
    set_global(1.0)
    made = []
    compiled = launch._compile
    monkeypatch.setattr(launch, "_compile", lambda *args: made.append(1) or compiled(*args))
    kernel = filling(lambda: helper() + TABLE[0])
    values = []
    for scale in (1.0, 2.0, 1.0, 2.0, 2.0):
        set_global(scale)
        values.append(value_of(kernel))
    assert values == [TABLE[0] + scale for scale in (1.0, 2.0, 1.0, 2.0, 2.0)]
    assert len(made) == 2


def test_equal_frozen_objects_are_one_compile_time_value(monkeypatch):
    """Else a kernel whose call makes them is loaded anew by each, and cannot be captured."""

    @dataclasses.dataclass(frozen=True)
    class Scaled:
        inner: Frozen
        function: object = None

        def times(self, count):
            return self.inner.scale * count * SCALE

    made = []
    compiled = launch._compile
    monkeypatch.setattr(launch, "_compile", lambda *args: made.append(1) or compiled(*args))
    set_global(1.0)
    for scale in (1.0, 2.0, 1.0, 2.0):
        assert captured.exact(Scaled(Frozen(scale))) == captured.exact(Scaled(Frozen(scale)))
        assert value_of(constant, value=Frozen(scale)) == 2 * scale
    assert len(made) <= 2
    before = captured.exact(Scaled(Frozen(1.0)))
    assert before != captured.exact(Scaled(Frozen(1)))
    assert before != captured.exact(Scaled(Frozen(1.0), helper))
    set_global(2.0)
    assert before != captured.exact(Scaled(Frozen(1.0)))


def test_the_same_state_is_found_in_microseconds():
    """What a warm call pays."""
    import timeit

    function = filling(lambda: helper() + TABLE[0] + CONFIG.scale).function
    number = captured.version(function)
    seconds = min(timeit.repeat(lambda: captured.version(function), number=100, repeat=5)) / 100
    assert captured.version(function) == number
    assert seconds < 200e-6


def test_an_array_of_torch():
    torch = pytest.importorskip("torch")
    scale = torch.ones(1)
    kernel = filling(lambda: float(scale[0]))
    for value in (1.0, 3.0):
        scale[0] = value
        assert value_of(kernel) == value
