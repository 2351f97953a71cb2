"""The `ptx` dialect: what is printed. One op is one PTX instruction family, or many instructions.

`registers.py` has the types, `scalar.py` the scalar families, `memory.py` loads, stores and MMA on
register arrays, `control.py` kernels, control flow and barriers.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from .control import (
    BarSyncOp,
    CpAsyncCommitOp,
    CpAsyncWaitOp,
    FillOp,
    ForeachOp,
    ForOp,
    IfOp,
    KernelOp,
    PrintfOp,
    RegArrayOp,
    ShflOp,
    YieldOp,
)
from .memory import (
    CpAsyncOp,
    LdMatrixOp,
    LdOp,
    LdScalarOp,
    MmaOp,
    RedOp,
    StOp,
    StScalarOp,
    TableOp,
)
from .mnemonics import operand_classes, result_class
from .registers import B16, B32, B64, F32, F64, PRED, RegsType, RegType, reg
from .scalar import (
    SCALAR_OPS,
    ImmOp,
    PackOp,
    ScalarOp,
    SmemBaseOp,
    SpecialOp,
    UnpackOp,
    imm,
    scalar,
)

Ptx = Dialect(
    "ptx",
    [
        KernelOp,
        *SCALAR_OPS.values(),
        ImmOp,
        SpecialOp,
        SmemBaseOp,
        PackOp,
        UnpackOp,
        RegArrayOp,
        FillOp,
        ForeachOp,
        YieldOp,
        LdOp,
        StOp,
        RedOp,
        LdMatrixOp,
        CpAsyncOp,
        MmaOp,
        LdScalarOp,
        StScalarOp,
        ForOp,
        IfOp,
        ShflOp,
        BarSyncOp,
        CpAsyncCommitOp,
        CpAsyncWaitOp,
        PrintfOp,
    ],
    [RegType, RegsType],
)

__all__ = [
    "B16",
    "B32",
    "B64",
    "F32",
    "F64",
    "PRED",
    "SCALAR_OPS",
    "BarSyncOp",
    "CpAsyncCommitOp",
    "CpAsyncOp",
    "CpAsyncWaitOp",
    "FillOp",
    "ForOp",
    "ForeachOp",
    "IfOp",
    "ImmOp",
    "KernelOp",
    "LdMatrixOp",
    "LdOp",
    "LdScalarOp",
    "MmaOp",
    "PackOp",
    "PrintfOp",
    "Ptx",
    "RedOp",
    "RegArrayOp",
    "RegType",
    "RegsType",
    "ScalarOp",
    "ShflOp",
    "SmemBaseOp",
    "SpecialOp",
    "StOp",
    "StScalarOp",
    "TableOp",
    "UnpackOp",
    "YieldOp",
    "imm",
    "operand_classes",
    "reg",
    "result_class",
    "scalar",
]
