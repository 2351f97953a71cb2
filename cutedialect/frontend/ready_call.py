"""`Ready`: a call after its checks. It runs on arrays that look like those it was made from, and
holds none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar

from cutedialect.backend.runtime.aliasing import Named, check_aliases
from cutedialect.backend.runtime.arrays import array_looks
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.new_arrays import maker, new_array
from cutedialect.backend.runtime.repeats import Repeat
from cutedialect.backend.runtime.warm_call import warm_call

from .dtypes import DType

_R = TypeVar("_R")


class Calls(Kept[tuple[object, ...], _R]):
    """Calls by what their arguments look like: a warm call checks nothing twice. `repeats` are
    those on device arrays that were made again, by the shapes of the first two and the options;
    they are looked up before anything else is asked, and compare the rest themselves.
    """

    def __init__(self, limit: int) -> None:
        self.repeats: Kept[Any, tuple[tuple[_R, Repeat], ...]] = Kept(limit)
        self._missed = 0
        super().__init__(limit)

    def wants(self, key: Any) -> bool:
        """Whether a call that was not found under a key is to be remembered: to make the function
        costs as much as some ten calls, so that it waits where there are many that look different.
        """
        if len(self.repeats.get(key, ())) < _ALIKE:
            return True
        self._missed += 1
        return self._missed % _WAITED == 0

    def remember(self, key: Any, ready: _R, repeat: Repeat | None) -> None:
        """Put a call in front of others with this key, the oldest of which goes. One call is there
        several times where torch is at different things.
        """
        if repeat is not None:
            self.repeats.keep(key, ((ready, repeat), *self.repeats.get(key, ())[: _ALIKE - 1]))

    def clear(self) -> None:
        """Check all calls anew."""
        super().clear()
        self.repeats.clear()


# Calls with the same shapes and options that are looked through, and how many others go by until
# one of them gives way.
_ALIKE, _WAITED = 6, 64


def call_key(
    arrays: Sequence[Any], options: tuple[object, ...]
) -> tuple[tuple[object, ...] | None, Sequence[int | None]]:
    """What of a call decides the kernel and its checks, and the addresses of the arrays, where they
    live on a device. No key for arrays that are checked each time; an option without a hash makes
    one without.
    """
    seen = array_looks(arrays)
    return (None, (None,) * len(arrays)) if seen is None else ((*seen[0], *options), seen[1])


@dataclass
class Ready:
    """What a warm call needs, and none of the arrays that it was made from. `repeat` is the call on
    device arrays after the first one, of the arrays in the order of the declaration.
    """

    kernel: Kernel | None
    out_shape: tuple[int | None, ...]
    out_dtype: DType
    repeat: Repeat | None = field(default=None, compare=False, kw_only=True)

    # The names of arrays, the places of the result and of what else the caller may give to be
    # written.
    ARRAYS: ClassVar[tuple[str, ...]]
    OUT: ClassVar[int]
    WRITTEN: ClassVar[tuple[int, ...]]

    def numbers(self, *given: float) -> tuple[float, ...] | None:
        """What the kernel takes of the numbers of the call; None for those of the first one."""
        return None

    @property
    def returned(self) -> list[int]:
        """The places of what a call returns."""
        return list(self.results)

    @cached_property
    def results(self) -> dict[int, tuple[tuple[int | None, ...], DType]]:
        """The shapes and types of results by their places, those of the caller among them."""
        return {self.OUT: (self.out_shape, self.out_dtype)}

    def arguments(self, arrays: Sequence[Any], numbers: tuple[float, ...]) -> list[Any]:
        """What the kernel takes; None is left out."""
        raise NotImplementedError

    def places(self, arrays: Sequence[Any]) -> list[int]:
        """The arrays of which the tensors among the arguments are views, in their order."""
        raise NotImplementedError

    def named(self, arrays: Sequence[Any]) -> list[Named]:
        """The arrays of the caller by their names, of which none overlaps one that is written."""
        pairs = enumerate(zip(self.ARRAYS, arrays, strict=False))
        return [Named(name, value, place in self.WRITTEN) for place, (name, value) in pairs]

    def about(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """What else a repeated call has to know of the arrays."""
        return {}

    def output(self, a: Any, stream: Any = None) -> Any:
        """A new array of the library that `a` comes from, for a launch on a stream."""
        return new_array(a, self.out_shape, self.out_dtype.numpy, stream)

    def run(self, arrays: Sequence[Any], numbers: tuple[float, ...], stream: Any) -> Any:
        """Launch on arrays that look like those of the first call."""
        if self.repeat is not None:
            result = self.repeat(self.numbers(*numbers), stream, True, *arrays)
            if result is not None:
                return result
        every = list(arrays)
        for place, (shape, dtype) in self.results.items():
            if every[place] is None:
                every[place] = new_array(arrays[0], shape, dtype.numpy, stream)
        if self.kernel is not None:
            given = self.arguments(every, numbers)
            check = None
            for place in self.WRITTEN:
                if arrays[place] is not None:
                    check = partial(self._check, arrays)
            self.kernel.launch(
                *[value for value in given if value is not None], stream=stream, check=check
            )
            if self.repeat is None:
                self.repeat = self.repeat_of(every, arrays, given)
        returned = self.returned
        if len(returned) == 1:
            return every[returned[0]]
        return tuple([every[place] for place in returned])

    def _check(self, arrays: Sequence[Any]) -> None:
        check_aliases(self.named(arrays))

    def with_results(self, arrays: Sequence[Any], result: Any) -> list[Any]:
        """The arrays with those that a call has made."""
        every, places = list(arrays), self.returned
        for place, value in zip(places, result if len(places) > 1 else (result,), strict=True):
            every[place] = value
        return every

    def repeat_of(
        self, every: Sequence[Any], arrays: Sequence[Any], given: Sequence[Any] | None = None
    ) -> Repeat | None:
        """The launch for calls on other arrays that look like these of the caller, `every` with the
        results that were made, as one function for what torch is at just now. `given` are the
        kernel's arguments, if known.
        """
        assert self.kernel is not None
        if given is None:
            given = self.arguments(every, (1.0, 1.0))
        kept = [place for place in self.results if arrays[place] is not None]
        written = [x for x in self.WRITTEN if x not in self.results and every[x] is not None]
        return warm_call(
            self.kernel,
            [value for value in given if value is not None],
            every,
            [place for place in self.places(every) if every[place] is not None],
            {
                place: maker(every[0], shape, dtype.numpy)
                for place, (shape, dtype) in self.results.items()
                if place not in kept
            },
            self.returned,
            written=[*kept, *written],
            **self.about(every),
        )
