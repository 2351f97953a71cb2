"""The launcher that runs the tile program itself: the traced module, on whole tiles in NumPy,
before any pass has chosen a layout, an atom or a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutedialect.backend.runtime.arguments import Bound
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.errors import KernelAssertionError


class InterpretedLauncher:
    """Runs the module that `trace` makes once."""

    name = "interpreter"

    def __init__(self, trace: Callable[[], Any]) -> None:
        self._trace = trace
        self._program: Any = None

    def launch(self, bound: Bound, stream: Any = None) -> None:
        """Run the program to its end; raises InterpreterError for a fault of it, and
        KernelAssertionError at an assertion that does not hold.
        """
        from cutedialect.backend import interpreter

        if stream is not None:
            raise ValueError("stream: expected None with the interpreter, got a stream")
        program = self._program
        if program is None:
            program = self._program = interpreter.Program(self._trace())
        try:
            program.run([host_array(value) for value in bound])
        except interpreter.FailedAssertion as error:
            kernel = next(iter(program.kernels))
            raise KernelAssertionError(
                str(error), location=error.location, kernel=kernel, cta=error.cta
            ) from None


def host_array(value: Any) -> Any:
    """The NumPy array of a bound tensor, or those of a group; numbers stay as they are."""
    if isinstance(value, list):
        return [host_array(each) for each in value]
    return value.array if isinstance(value, TensorArgument) else value
