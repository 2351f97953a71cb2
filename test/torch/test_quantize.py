"""`cutedialect.torch.quantize`: results, shapes of fake tensors, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

torch = pytest.importorskip("torch")
from cutedialect.torch import quantize  # noqa: E402

X = torch.linspace(-9, 9, 64 * 128).reshape(64, 128).to(torch.bfloat16)
OPTIONS = {"arch": "sm_90a", "backend": "emulator"}


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4", "fp8_block"])
def test_results_are_those_of_arrays(name: str) -> None:
    elements, scales = quantize(X, name, **OPTIONS)
    wanted = cute.quantize(X.float().numpy(), name, **OPTIONS)
    for mine, other in zip((elements, scales), wanted, strict=True):
        assert tuple(mine.shape) == other.shape
        assert str(mine.dtype).removeprefix("torch.") == other.dtype.name
        assert np.array_equal(mine.view(torch.uint8).numpy(), other.view(np.uint8))


@pytest.mark.parametrize("swizzled", [False, True])
def test_compiled(swizzled: bool) -> None:
    def both(x, factor):
        made = quantize(x, "nvfp4", swizzled=swizzled, global_scale=factor, **OPTIONS)
        return made[0], made[1].view(torch.uint8) + 1

    factor = torch.tensor([0.25])
    made = torch.compile(both, fullgraph=True, backend="aot_eager")(X, factor)
    for mine, other in zip(made, both(X, factor), strict=True):
        assert torch.equal(mine, other)
    torch.library.opcheck(
        torch.ops.cutedialect.quantize.default,
        (X, "mxfp8", None, None, None, swizzled, "sm_90a", None, "emulator"),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match=r"expected tensors without gradient, .* x.detach\(\)"):
        quantize(X.float().requires_grad_(), "mxfp8", **OPTIONS)
    with pytest.raises(ValueError, match="x: expected a multiple of 32 columns"):
        quantize(X[:, :40].to("meta"), "mxfp8", **OPTIONS)
