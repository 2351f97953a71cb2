"""The functions of declared calls. What a call does that was made before is written out, as text
made of its declaration: calls of Python functions cost more than all that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any, TypeVar

from cutedialect.backend.runtime.jax_arrays import call_on_views, uses_jax
from cutedialect.backend.runtime.new_arrays import on_device_of
from cutedialect.backend.runtime.torch_tensors import opaque
from cutedialect.backend.runtime.tracebacks import concise, explained

from .captured import exact
from .gemm_operands import refuse_unknown
from .instead import ARGUMENTS
from .ready_call import Calls, call_key
from .rules import Preparing, Specified
from .signature import Call, written

_WARM = """\
def {name}({parameters}):
    {unknown}
    {before}
    options = ({key},)
{lookup}    return _first({given}, ({arrays},), options, shapes, {numbers})
"""
_BY_SHAPES = """\
    shapes, repeats = None, ()
    try:
        shapes = {first}.shape, {second}.shape, options
        repeats = _calls.repeats.get(shapes, ())
    except (AttributeError, RuntimeError, TypeError, ValueError):  # no shapes, or no hashes
        pass
    try:
        for ready, repeat in repeats:
            result = repeat({repeated}, stream, False, {arrays})
            if result is not None:
                return result
    except Exception as error:
        raise concise(error)
"""


_C = TypeVar("_C", bound=Preparing)
_R = TypeVar("_R")
Arrays = tuple[Any, ...]
Look = Callable[[dict[str, Any], Arrays, tuple[object, ...]], tuple[Any, Arrays, bool]]
"""The key of a call, its arrays as the prepared call takes them, and whether it may be one that is
looked up by shapes.
"""


def _look(
    given: dict[str, Any], arrays: Arrays, options: tuple[object, ...]
) -> tuple[Any, Arrays, bool]:
    del given
    return call_key(arrays, options)[0], arrays, True


def _exact(function: Any) -> Any:
    """What a function computes, as a part of a key."""
    with explained():
        return exact(function)


def _tunable(name: str, args: tuple[Any, ...], options: dict[str, Any], timer: Any) -> Any:
    """The call as `cute.autotune` takes it, of a class "module:name"."""
    module, _, kind = name.partition(":")
    return getattr(import_module(f".{module}", __package__), kind)(args, options, timer)


class Door(Specified[_C, _R]):
    """What the functions of a declared call share. `lookup` are the lines that look for a call that
    was made before.
    """

    lookup = _BY_SHAPES

    def __init__(self, call: Call, check: Callable[[SimpleNamespace], _C], look: Look = _look):
        super().__init__(call, check)
        self.look = look
        self.calls: Calls[_R] = Calls(4096)

    def function(self, module: str, names: Mapping[str, Any] | None = None) -> Any:
        """The function of arrays. `names` are those that the lines of the declaration use."""
        call = self.call
        signature = call.signature(collects=call.name in ARGUMENTS)
        text = self._text(signature)
        known = {"_calls": self.calls, "_first": self.first, "concise": concise, **(names or {})}
        known |= {"__name__": module, "refuse_unknown": refuse_unknown, "exact": _exact}
        function = written(text, call.name, __file__, known, call.doc)
        self.function_of_arrays = opaque(f"call cutedialect.torch.{call.name}, a custom operator")(
            function
        )
        if call.tunable:
            function.tunable = partial(_tunable, call.tunable)
        function.compile = self.compiled()
        function.forget = self.calls.clear
        return function

    def _text(self, signature: Any) -> str:
        call = self.call
        operands = f", ({', '.join(call.operands)})" if call.inside else ""
        unknown = f"if unknown: refuse_unknown({call.name!r}, unknown{operands})"
        given = f"{{{', '.join(f'{each!r}: {each}' for each in call.by_name)}}}"
        inside = call.inside.strip().replace("{given}", given)
        before = f"{call.unwraps.strip()}\n{call.before.strip()}".strip()
        lines = [*inside.splitlines(), *before.splitlines()]
        words = {
            "arrays": call.prepared or ", ".join(call.placed),
            "first": call.operands[0],
            "second": call.operands[1],
            "numbers": call.numbers,
            "repeated": call.repeated,
        }
        return _WARM.format(
            name=call.name,
            parameters=str(signature)[1:-1],
            unknown=unknown if "unknown" in signature.parameters else "",
            before="\n    ".join(lines),
            key=", ".join(call.key()),
            given=given,
            lookup=self.lookup.format(**words),
            **words,
        )

    def first(
        self,
        named: dict[str, Any],
        arrays: Arrays,
        options: tuple[object, ...],
        shapes: Any,
        numbers: tuple[float, ...],
    ) -> Any:
        """A call that is not looked up by shapes: it is found by all of its looks, or checked."""
        stream = named["stream"]
        key, arrays, may_repeat = self.look(named, arrays, options)
        ready: Any = self.calls.known(key)
        if ready is None:
            if uses_jax([named[each.name] for each in self.call.arrays]):
                return self.on_views(named)
            ready = self.prepared(named, [named[name] for name in self.call.operands[:2]])
            if key is not None:
                self.calls.keep(key, ready)
        is_again = may_repeat and ready.repeat is not None and shapes is not None
        try:
            result = ready.run(arrays, numbers, stream)
            if is_again and self.calls.wants(shapes):
                every = ready.with_results(arrays, result)
                self.calls.remember(shapes, ready, ready.repeat_of(every, arrays))
            return result
        except Exception as error:
            raise concise(error)  # noqa: B904

    def on_views(self, named: dict[str, Any]) -> Any:
        """A call on arrays of JAX."""
        taken = {each.name: named[each.name] for each in self.call.arrays}
        more = {name: x for name, x in named.items() if name not in taken and name != "stream"}
        with explained():
            return call_on_views(partial(self.function_of_arrays, **more), taken, named["stream"])

    def prepared(self, named: dict[str, Any], arrays: Sequence[Any]) -> _R:
        """What runs a call that is checked, on the device of some of its arrays."""
        with explained():
            checked = self.check(SimpleNamespace(**named))
            with on_device_of(arrays):
                return checked.prepare()
