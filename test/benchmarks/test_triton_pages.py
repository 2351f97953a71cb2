"""Kernels in Triton beside pages of the cookbook, by its interpreter where it is installed."""

import pytest


@pytest.fixture
def pages(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip("triton")
    from benchmarks import triton_pages

    return triton_pages


def test_routers(pages):
    import torch

    x = torch.randn(100, 64, generator=torch.manual_seed(0))
    shares, places = pages.router(x)
    scores, want = torch.topk(x, 4)
    assert torch.equal(places, want.int())
    torch.testing.assert_close(shares, scores.softmax(1))


def test_losses(pages):
    import torch

    x = torch.randn(50, 128, generator=torch.manual_seed(0)).requires_grad_()
    labels = torch.randint(128, (50, 1), dtype=torch.int32)
    want = torch.nn.functional.cross_entropy(
        x, labels[:, 0].long(), reduction="none", label_smoothing=0.1
    )
    want.sum().backward()
    loss, slope = pages.cross_entropy(x.detach(), labels)
    torch.testing.assert_close(loss[:, 0], want.detach())
    torch.testing.assert_close(slope, x.grad)


def test_turned_rows(pages):
    import torch

    x = torch.randn(100, 32, generator=torch.manual_seed(0))
    angle = torch.arange(100)[:, None] * 10000.0 ** (-torch.arange(16) / 16)
    turn = torch.polar(torch.ones_like(angle), angle)
    halves, pairs = pages.rope(x)
    a = torch.complex(x[:, :16], x[:, 16:]) * turn
    b = torch.complex(x[:, ::2].contiguous(), x[:, 1::2].contiguous()) * turn
    torch.testing.assert_close(halves, torch.cat((a.real, a.imag), 1), atol=1e-5, rtol=0)
    pair = torch.view_as_real(b).reshape(100, 32)
    torch.testing.assert_close(pairs, pair, atol=1e-5, rtol=0)


def test_dropout_and_convolution(pages):
    import torch

    (y,) = pages.dropout(torch.ones(10, 300))
    assert 0.2 < (y == 0).float().mean() < 0.3
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / 0.75))
    x, w = torch.randn(70, 200), torch.randn(4, 200)
    padded = torch.nn.functional.pad(x, (0, 0, 3, 0))
    want = torch.nn.functional.silu(sum(padded[k : k + 70] * w[k] for k in range(4)))
    torch.testing.assert_close(pages.convolution(x, w)[0], want, atol=1e-5, rtol=1e-5)


def test_sums_of_rows_by_keys(pages):
    import torch

    tokens = torch.randint(20, (300,), generator=torch.manual_seed(0))
    keys, order = tokens.sort(stable=True)
    slopes = torch.randn(300, 16)
    (sums,) = pages.gradient(slopes, order.int()[:, None], keys.int()[:, None], torch.zeros(20, 16))
    want = torch.zeros(20, 16).index_add_(0, tokens, slopes)
    torch.testing.assert_close(sums, want, atol=1e-5, rtol=1e-5)


def test_linear_attention(pages):
    import torch

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 160, 16, dtype=torch.float16) / 4 for _ in range(3))
    logs = -torch.rand(2, 160, 1) / 2
    state, rows = torch.zeros(2, 16, 16), []
    for t in range(160):
        state = state * logs[:, t, :, None].exp()
        state = state + k[:, t, :, None].float() * v[:, t, None].float()
        rows.append((q[:, t, None].float() @ state)[:, 0])
    (o,) = pages.linear_attention(q, k, v, logs)
    torch.testing.assert_close(o, torch.stack(rows, 1), atol=1e-3, rtol=0)
