"""Drawn layers of narrow weights and of scaled products: what is drawn, and what is timed of it."""

from types import SimpleNamespace

import pytest

from benchmarks import narrow_layers, narrow_weights, scaled_products

# The part of torch that names the device.
TORCH = SimpleNamespace(cuda=SimpleNamespace(get_device_name=lambda: "a device"))


def test_a_seed_draws_the_same_layers_whose_depth_blocks_divide():
    layers = scaled_products.drawn(35, 20)
    assert layers == scaled_products.drawn(35, 20)
    assert layers != scaled_products.drawn(36, 20)
    assert len(set(layers)) == 20
    assert all(8 <= m <= 8192 and m % 8 == 0 and k % 128 == 0 for m, _, k in layers)


def test_drawn_products_are_timed_with_the_chosen_schedule_alone(monkeypatch, capsys):
    asked = []

    def blocks(schedules, torch, name, shape, rounds):
        asked.append((tuple(schedules), shape))
        return [scaled_products.Row(name, "", 10.0, 11.0, 1.1, 0.0)]

    monkeypatch.setattr(scaled_products, "torch_on_gpu", lambda: TORCH)
    monkeypatch.setattr(scaled_products, "_blocks", blocks)
    code = scaled_products.main(["--drawn", "35", "--layers", "3", "--only", "blocks"])
    assert code == 0
    assert asked == [(("",), shape) for shape in scaled_products.drawn(35, 3)]
    assert "blocks: 3 layers, mean 1.100, least 1.100" in capsys.readouterr().out


@pytest.mark.parametrize("pattern", ["^256$", "large"])
def test_sections_choose_the_layers_that_are_timed(monkeypatch, pattern):
    seen = []
    monkeypatch.setattr(narrow_weights, "torch_on_gpu", lambda: TORCH)
    monkeypatch.setattr(
        narrow_layers, "measured", lambda torch, layers, rounds, only: seen.extend(layers) or []
    )
    narrow_weights.main(["--drawn", "3501", "--layers", "2", "--sections", pattern])
    assert seen
    assert all(pattern.strip("^$") in layer.section for layer in seen)
