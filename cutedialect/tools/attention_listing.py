"""`python -m cutedialect schedules --attention BxHxRxKxD`: what `cute.attention` chooses for a
problem, and what tuning times beside it, with what each needs.
"""

from __future__ import annotations

import json
import re

from cutedialect.choosing.attention_parameters import open_parameters
from cutedialect.choosing.attention_space import ATTENTION as SPACE
from cutedialect.choosing.choose import choose
from cutedialect.frontend.attention import AttentionCall
from cutedialect.frontend.attention_variants import tuned_schedules
from cutedialect.frontend.declarations import ATTENTION
from cutedialect.frontend.kernel import TensorSpec


def list_attention(sizes: str, dtype: str, arch: str, causal: bool, as_json: bool) -> int:
    """Print the list; returns the exit code. Raises ValueError for other sizes than batch, heads,
    rows, keys and head dimension.
    """
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)x(\d+)", sizes)
    if match is None or "0" in match.groups():
        raise ValueError(
            "--attention: expected batch, heads, rows, keys and head dimension such as "
            f"4x16x4096x4096x128, got '{sizes}'"
        )
    batch, heads, rows, keys, depth = map(int, match.groups())
    q, k = (TensorSpec((batch, heads, length, depth), dtype) for length in (rows, keys))
    problem = AttentionCall(ATTENTION.given(q, k, k, causal=causal)).problem(arch, "emulator")
    default = choose(SPACE, problem)
    listed = [
        (given.text(), SPACE.need(problem, choose(SPACE, problem, given)).text())
        for given in tuned_schedules(problem)
    ]
    if as_json:
        entries = [{"schedule": schedule, "needs": needs} for schedule, needs in listed]
        print(json.dumps({"arch": arch, "default": default.text(), "schedules": entries}))
        return 0
    maxima = open_parameters(problem, default)["maxima"]
    print(f"default: {default.text()}; maxima: {maxima}")
    print(f"   needs {SPACE.need(problem, default).text()}")
    print(f"{len(listed)} others that cute.autotune times for {arch}")
    width = max(len(schedule) for schedule, _ in listed)
    for schedule, needs in listed:
        print(f"   {schedule:{width}}  needs {needs}")
    return 0
