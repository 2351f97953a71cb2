"""What Python code reaches beside its arguments, and whether it has changed: globals, closure
cells, defaults, lists, dictionaries, arrays, attributes, iterators. A kernel is traced with their
values, so that a change asks for another kernel, and one in the body of a loop, which is traced
once, is refused.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import random
import threading
import types
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from cutedialect.backend.runtime.fingerprint import is_installed, names_of

# States of one function that are told apart without being looked at anew.
_REMEMBERED = 8
_MISSING = object()
_ATOMS = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype, slice, range)
_LEAVES = (
    *_ATOMS, types.CodeType, types.BuiltinFunctionType, types.GenericAlias,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
    types.MethodDescriptorType,
)  # fmt: skip

State = tuple[Any, ...]


def is_same(one: object, other: object) -> bool:
    """Whether a program sees no difference between two values: one object, or equal plain values of
    one type, where 0.0 and -0.0 differ and NaN is itself.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float | complex | np.generic):
        return repr(one) == repr(other)
    return isinstance(one, _ATOMS) and one == other


@dataclass
class Captured:
    """The state of everything that some code reaches, as it was when it was added."""

    # Where a name is looked up, what for, and what was there; the text shows it to the user.
    _names: list[tuple[str, Callable[[], object], object]] = field(default_factory=list)
    # An object, how to read its state, and the state; keys name its parts.
    _states: list[tuple[str, Any, Callable[[Any], State], State]] = field(default_factory=list)
    _seen: dict[int, object] = field(default_factory=dict)

    def change(self) -> str | None:
        """What has changed, as a user would write it, or None."""
        for path in self.changed_names():
            return path
        return next((path for path, _, _ in self.changed_objects()), None)

    def changed_names(self) -> Iterator[str]:
        """The names that have another value."""
        for path, read, value in self._names:
            if not is_same(read(), value):
                yield path

    def changed_objects(self) -> Iterator[tuple[str, Any, State]]:
        """The objects that have changed, as a user would write them, with their states before."""
        for path, owner, read, state in self._states:
            now = read(owner)
            if len(now) != len(state) or not all(map(is_same, now, state)):
                yield path, owner, state

    def add(self, path: str, value: object) -> None:
        """An object with all that it holds."""
        if isinstance(value, _LEAVES) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        reader = _reader_of(type(value))
        if reader is not None:
            self._record(path, value, reader)
            return
        match value:
            case types.FunctionType():
                self._add_function(path, value)
            case types.MethodType():
                self.add(path, value.__func__)
                self.add(path.rpartition(".")[0] or path, value.__self__)
            case functools.partial():
                self._record(path, value, lambda each: (each.func, each.args, each.keywords))
            case types.ModuleType():
                pass  # what code takes of it is added by name
            case type():
                self._add_class(path, value)
            case tuple():
                self._add_all(path, value)
            case Iterator() if not hasattr(value, "__dict__"):
                self._record(path, value, _iterator_state)
            case _:
                self._add_object(path, value)

    def _record(self, path: str, value: Any, read: Callable[[Any], State]) -> None:
        state = read(value)
        self._states.append((path, value, read, state))
        self._add_all(path, state)

    def _add_all(self, path: str, values: Iterable[object]) -> None:
        for each in values:
            self.add(path, each)

    def _add_function(self, path: str, function: types.FunctionType) -> None:
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._add_name(name, lambda cell=cell: _content(cell))
        self._names.append((path, lambda: function.__code__, function.__code__))
        self._names.append((path, lambda: function.__defaults__, function.__defaults__))
        self.add(path, function.__defaults__)
        self.add(path, function.__kwdefaults__)
        if not is_installed(function.__module__):
            self.add_code(function.__code__, function.__globals__)

    def add_code(self, code: types.CodeType, namespace: Mapping[str, object]) -> None:
        """What a function's code takes from its globals."""
        self._add_names(namespace, names_of(code))

    def _add_names(
        self, namespace: Mapping[str, object], names: Iterable[str], of: str = ""
    ) -> None:
        """Those of some names that a namespace has, of a user's modules what code takes of them."""
        names = list(names)
        for name in names:
            if name not in namespace:
                continue
            value = self._add_name(of + name, lambda name=name: namespace.get(name, _MISSING))
            if isinstance(value, types.ModuleType) and id(value) not in self._seen:
                self._seen[id(value)] = value
                if value is random:
                    self._record(name, random._inst, _random_state)  # pyright: ignore[reportAttributeAccessIssue]
                elif value is np and "random" in names:
                    self._record("np.random", np.random.mtrand._rand, _legacy_state)  # pyright: ignore[reportAttributeAccessIssue]
                elif not is_installed(value.__name__):
                    self._add_names(vars(value), names, f"{of}{name}.")

    def _add_name(self, path: str, read: Callable[[], object]) -> object:
        value = read()
        self._names.append((path, read, value))
        if not isinstance(value, types.ModuleType):
            self.add(path, value)
        return value

    def _add_class(self, path: str, cls: type) -> None:
        if is_installed(cls.__module__):
            return
        for name in vars(cls):
            if not name.startswith(("__", "_abc_")):
                self._add_name(f"{path}.{name}", lambda name=name: vars(cls).get(name, _MISSING))
        self._add_all(path, cls.__bases__)

    def _add_object(self, path: str, value: Any) -> None:
        cls = type(value)
        # Traced values say what they lack in words, which nobody has asked for here.
        wrapped = inspect.getattr_static(value, "__wrapped__", None)
        if cls.__module__.partition(".")[0] in ("cutedialect", "xdsl"):
            if isinstance(wrapped, types.FunctionType):
                self.add(path, wrapped)
            return
        if isinstance(value, property | staticmethod | classmethod):
            for each in (getattr(value, name, None) for name in ("fget", "fset", "__func__")):
                self.add(path, each)
            return
        if callable(wrapped):
            self.add(path, wrapped)
            return
        if isinstance(value, list | dict | set | deque):
            self._record(path, value, _READERS[_base(value)])
        if isinstance(version := getattr(value, "_version", None), int):
            # torch counts what is written to a tensor in place.
            self._states.append((path, value, lambda tensor: (tensor._version,), (version,)))
        if hasattr(value, "__array_interface__"):
            self._record(path, np.asarray(value), _array_state)
        for name in _attributes(value):
            self._add_name(
                f"{path}.{name}", lambda name=name: _attributes(value).get(name, _MISSING)
            )
        # Attributes that are added later.
        self._states.append(
            (path, value, lambda each: tuple(_attributes(each)), tuple(_attributes(value)))
        )
        self.add(path, cls)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _attributes(value: object) -> dict[str, object]:
    """What an object has in its dictionary and its slots."""
    found = dict(vars(value)) if hasattr(value, "__dict__") else {}
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def _base(value: object) -> type:
    return next(kind for kind in (list, dict, set, deque) if isinstance(value, kind))


def _array_state(array: np.ndarray) -> State:
    return array.dtype.str, array.shape, array.tobytes()


def _iterator_state(value: Any) -> State:
    """How far an iterator is: what it would be pickled as, or the place of a generator."""
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return () if frame is None else (frame.f_lasti, *frame.f_locals.values())
    if isinstance(value, itertools.count | itertools.repeat):
        return (repr(value),)
    try:
        with warnings.catch_warnings():  # those of itertools cannot be pickled from Python 3.14 on
            warnings.simplefilter("ignore", DeprecationWarning)
            parts = value.__reduce__()
    except (TypeError, AttributeError):
        return (repr(value),)
    flat: list[object] = []
    for part in parts:
        flat += part if isinstance(part, tuple) else (part,)
    # Some give what is left as a list that they make for it.
    return tuple(tuple(each) if isinstance(each, list) else each for each in flat)


def _random_state(value: Any) -> State:
    return value.getstate()


def _legacy_state(value: Any) -> State:
    kind, keys, *rest = value.get_state()
    return kind, keys.tobytes(), *rest


def _generator_state(value: Any) -> State:
    return (repr(value.bit_generator.state),)


_READERS: dict[type, Callable[[Any], State]] = {
    list: tuple,
    deque: tuple,
    dict: lambda value: (*value, *value.values()),
    set: lambda value: (len(value), *sorted(map(repr, value))),
    bytearray: lambda value: (bytes(value),),
    np.ndarray: _array_state,
    random.Random: _random_state,
}
# Those of numpy.random, which takes a while to import, by their names.
_OF_NUMPY_RANDOM = {"RandomState": _legacy_state, "Generator": _generator_state}


def _reader_of(kind: type) -> Callable[[Any], State] | None:
    """What reads the state of an object; None where its attributes are all of it."""
    if kind.__module__.startswith("numpy.random."):
        return _OF_NUMPY_RANDOM.get(kind.__name__)
    return _READERS.get(kind)


class _States:
    """The latest states of one object, each with a number of its own."""

    def __init__(self) -> None:
        self.known: OrderedDict[int, Captured] = OrderedDict()
        # Several threads may call one kernel. What is read is the user's, and may call it, too.
        self._lock = threading.RLock()

    def current(self, root: object) -> int:
        with self._lock:
            for number, state in reversed(list(self.known.items())):
                if state.change() is None:
                    self.known.move_to_end(number)
                    return number
            number = next(_numbers)
            self.known[number] = found = Captured()
            found.add(getattr(root, "__name__", "constant"), root)
            if len(self.known) > _REMEMBERED:
                self.known.popitem(last=False)
            return number


_numbers = itertools.count(1)
# By the id of an object that is alive.
_states: dict[int, tuple[weakref.ref[Any], _States]] = {}


def version(root: Any) -> int:
    """A number for the present state of all that a function or object reaches: equal numbers mean
    that nothing has changed. Raises TypeError for an object that cannot be told from a later one.
    """
    known = _states.get(id(root))
    if known is None or known[0]() is not root:
        try:
            reference = weakref.ref(root)
        except TypeError:
            raise TypeError(
                "expected a Python function, or an object whose later changes can be told, got "
                f"{root!r}; write a function around it, of tiles and cute's own names (cute.tanh)"
            ) from None
        known = _states[id(root)] = reference, _States()
    return known[1].current(root)


def exact(value: Any) -> Any:
    """A key for a compile-time value: equal keys mean that a program does the same with it. Raises
    TypeError for a value that has none, such as a list.
    """
    if isinstance(value, tuple):
        return type(value), tuple(map(exact, value))
    if isinstance(value, frozenset):
        return type(value), frozenset(map(exact, value))
    if isinstance(value, float | complex | np.generic):
        return type(value), repr(value)
    if isinstance(value, _ATOMS):
        return type(value), value
    hash(value)
    if getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False):
        # Made anew by each call, often: its fields tell it, with what its class does.
        state = tuple(exact(getattr(value, each.name)) for each in fields(value))
        return type(value), version(type(value)), state
    return value, version(value)
