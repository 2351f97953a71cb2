"""The laws of the layout algebra, a file for each thing that they are about, which
`benchmarks.layout_laws` runs.
"""

from . import (  # noqa: F401 - each registers its laws
    coalescing,
    complements,
    compositions,
    divides,
    functions,
    inverses,
    modes,
    products,
    recasts,
    run_time,
    swizzles,
    tensors,
    tuples,
)
from .case import LAWS as LAWS
from .case import Case as Case
