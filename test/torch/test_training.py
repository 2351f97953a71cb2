"""`examples/train.py` at a size for the emulator: gradients and losses follow torch's own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def train(monkeypatch):
    path = Path(__file__).parents[2] / "examples" / "train.py"
    spec = importlib.util.spec_from_file_location("example_train", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    sizes = {"BATCH": 1, "ROWS": 16, "HEADS": 1, "WIDTH": 32, "WORDS": 16, "DEVICE": "cpu"}
    for name, value in sizes.items():
        monkeypatch.setattr(example, name, value)
    return example


def test_a_block_learns_as_by_torch(train):
    ours, theirs = train.losses(True, 2), train.losses(False, 2)
    for one, other in zip(ours, theirs, strict=True):
        assert abs(one - other) <= train.BOUND * theirs[0]
    words = torch.randint(train.WORDS, (train.BATCH, train.ROWS))
    found = []
    for is_ours in (True, False):
        torch.manual_seed(0)
        model = train.Block(is_ours)
        model(words).square().mean().backward()
        found.append(dict(model.named_parameters()))
    for name, parameter in found[0].items():
        wanted = found[1][name].grad
        assert (parameter.grad - wanted).abs().max() <= 0.03 * wanted.abs().max(), name
