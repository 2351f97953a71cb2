"""`cute.gemm`, `cute.grouped_gemm` and `cute.attention` as functions of JAX, with gradients;
`op` makes one of any `@cute.kernel`. They run under jit, grad and vmap, as custom calls
of XLA's foreign function interface (`jax.ffi`), whose handler is Python through ctypes: on a GPU it
launches the kernel on XLA's stream, on a CPU it runs the emulator.
"""

from __future__ import annotations

try:
    import jax as _jax  # noqa: F401  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as _missing:
    if _missing.name != "jax":
        raise
    raise ImportError(
        "expected JAX for cutedialect.jax, got none; install it with: "
        "pip install 'cutedialect[jax]'"
    ) from None

from typing import TYPE_CHECKING

from cutedialect.frontend.calls import DOORS

from .attention import ATTENTION, ATTENTION_BACKWARD
from .declared import Function, Own
from .kernel_op import op
from .products import GEMM, GROUPED_GEMM

BACKWARD = Function(DOORS["attention_backward"], ATTENTION_BACKWARD)

if TYPE_CHECKING:
    from .typed_calls import attention, gemm, grouped_gemm
else:
    _OWN = {"gemm": GEMM, "grouped_gemm": GROUPED_GEMM, "attention": ATTENTION}
    for _name, _door in DOORS.items():
        if "jax" not in _door.call.libraries:
            continue
        globals()[_name] = Function(_door, _OWN.get(_name, Own())).function(__name__)

__all__ = ["attention", "gemm", "grouped_gemm", "op"]
