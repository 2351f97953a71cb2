"""`cute.gemm`, `cute.grouped_gemm` and `cute.attention` as functions of JAX, with gradients of the
products; `op` makes one of any `@cute.kernel`. They run under jit, grad and vmap, as custom calls
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

from .attention import attention
from .gemm import gemm
from .grouped_gemm import grouped_gemm
from .kernel_op import op

__all__ = ["attention", "gemm", "grouped_gemm", "op"]
