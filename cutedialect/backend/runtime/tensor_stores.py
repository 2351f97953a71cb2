"""Which tensors a program stores to by TMA: their rows have to be whole units of 16 bytes, as such
stores write no less (recorded on an H100), whatever the tensor map says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cutedialect.backend.runtime.signature import GroupParameter, Signature, TensorParameter


def with_tensor_stores(signature: Signature, module: Any, host: Any) -> Signature:
    """The signature with `whole_rows` where kernels of the module store by TMA. Maps of a group are
    looked up in a table, which does not tell them apart: all groups count that may be written.
    """
    stored: set[int] = set()
    groups = False
    has_groups = any(isinstance(each, GroupParameter) for each in signature.parameters)
    for kernel in module.regions[0].blocks[0].ops:
        if kernel.name != "ptx.kernel":
            continue
        maps = [
            arg for arg in kernel.regions[0].blocks[0].args if arg.type.name == "ptx.tensor_map"
        ]
        if has_groups:
            used = {op.map for op in kernel.walk() if op.name == "ptx.tma.store"}
            groups |= not used <= set(maps)
        positions = [position for position, map_ in enumerate(maps) if _is_stored(map_)]
        for launch in host.walk():
            if (
                launch.name == "cute.launch"
                and launch.kernel.string_value() == kernel.sym_name.data
            ):
                given = [each for each in launch.args if _is_map(each)]
                stored.update(_argument(given[position]) for position in positions)
    parameters = list(signature.parameters)
    for position, parameter in enumerate(parameters):
        if isinstance(parameter, TensorParameter) and position in stored:
            parameters[position] = replace(parameter, whole_rows=True)
        elif isinstance(parameter, GroupParameter) and groups and parameter.member.written:
            member = replace(parameter.member, whole_rows=True)
            parameters[position] = replace(parameter, member=member)
    return Signature(tuple(parameters))


def _is_stored(map_: Any) -> bool:
    """Whether TMA stores by a map that is a parameter."""
    return any(use.operation.name == "ptx.tma.store" for use in map_.uses)


def _is_map(value: Any) -> bool:
    return value.type.name == "cute_nvgpu.tma_descriptor"


def _argument(value: Any) -> int:
    """Position of the host's argument of which a tensor map is made; -1 for other memory."""
    tensor = value.owner.operands[0]
    return getattr(tensor, "index", -1) if hasattr(tensor.owner, "args") else -1
