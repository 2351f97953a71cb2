"""`@cute.autotuned`: a kernel whose configuration is chosen by timing, at its first call for each
class of problems.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cutedialect.backend.runtime.driver import gpu_available

from .autotune import ROUNDS, Config, autotune
from .kernel import KernelFunction
from .launch import as_schedule
from .tunable import tensor_class
from .tuned_options import options_of


class AutotunedKernel:
    """A decorated kernel; calls are those of the kernel without the parameters that are tuned.

    `kernel` is the kernel itself, `configs` the candidates, and `chosen` the keyword arguments that
    were found, by the class of problems.
    """

    def __init__(
        self,
        kernel: KernelFunction,
        configs: Iterable[Config],
        key: Sequence[str] | None,
        rounds: int,
    ) -> None:
        if not isinstance(kernel, KernelFunction):
            raise TypeError(
                f"expected @cute.autotuned above @cute.kernel, got {type(kernel).__name__}"
            )
        self.kernel = kernel
        self.configs = tuple(configs)
        self.rounds = rounds
        if not self.configs:
            raise ValueError("configs: expected one candidate or more, got none")
        self.key = tuple(kernel.parameters if key is None else key)
        for name in self.key:
            if name not in kernel.parameters:
                raise ValueError(
                    f"key: expected arguments of {kernel.__name__} "
                    f"({', '.join(kernel.parameters)}), got {name!r}"
                )
        self.chosen: dict[tuple[str, ...], Mapping[str, object]] = {}
        functools.update_wrapper(self, kernel.function)

    def __repr__(self) -> str:
        return f"<@cute.autotuned of {len(self.configs)} candidates: {self.kernel!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        given = self.kernel, self.configs, self.key, self.rounds
        return AutotunedKernel, given, {"chosen": self.chosen}

    def __call__(self, *args: Any, **options: Any) -> None:
        """Run the kernel as it was found to be fastest for arguments like these."""
        self.kernel(*args, **self.options(*args, **options), **options)

    def options(self, *args: Any, **options: Any) -> Mapping[str, object]:
        """The keyword arguments of the fastest call, found now if they are not known; without a
        device, or where the emulator is asked for, those of the first candidate.
        """
        problem = self.problem(*args)
        if problem not in self.chosen:
            if options.get("backend", "auto") == "auto" and gpu_available():
                given = {k: v for k, v in options.items() if k != "stream"}
                found = autotune(
                    self.kernel, *args, configs=self.configs, rounds=self.rounds, **given
                )
                self.chosen[problem] = _keywords(found)
            else:
                return _keywords(self.configs[0])
        return self.chosen[problem]

    def problem(self, *args: Any) -> tuple[str, ...]:
        """The class of problems that arguments belong to: what `key` names of them."""
        names = self.kernel.parameters
        if len(args) != len(names):
            raise TypeError(
                f"expected {len(names)} arguments for {self.kernel.__name__} "
                f"({', '.join(names)}), got {len(args)}"
            )
        given = dict(zip(names, args, strict=True))
        return tuple(tensor_class(given[name], name) for name in self.key)


def autotuned(
    configs: Iterable[Config], *, key: Sequence[str] | None = None, rounds: int = ROUNDS
) -> Callable[[KernelFunction], AutotunedKernel]:
    """Tune a kernel at its first call for each class of problems.

    `configs` are what `cute.autotune` takes: mappings of compile-time parameters
    (`{"tile": (4, 1024)}`), schedules, or both. `key` names the arguments whose types, alignment
    and extents (to three leading bits) make a class; all of them by default. What was found is kept
    on disk. Without a device the first candidate is taken. It stands above `@cute.kernel`:

        @cute.autotuned([{"tile": (4, 1024)}, {"tile": (1, 4096)}], key=["X"])
        @cute.kernel
        def softmax(X, Y, *, tile): ...
    """
    return lambda kernel: AutotunedKernel(kernel, configs, key, rounds)


def _keywords(config: Config) -> Mapping[str, object]:
    if isinstance(config, Mapping):
        return options_of(config).call()
    schedule = as_schedule(config)
    return {} if schedule is None else {"schedule": schedule}
