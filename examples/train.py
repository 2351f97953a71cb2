"""A block of a transformer, trained by torch with our attention and products in both directions.

    python examples/train.py [STEPS]

Two models begin with the same weights and see the same batches: one multiplies and attends by
`cutedialect.torch`, the other by torch's own operators in the same types. The task is to give back
the sequence one step late. In front of every step the losses may differ by `BOUND` of the first
one. It needs torch. Where there is no GPU, two steps of a small block run in the emulator.
"""

from __future__ import annotations

import sys

try:
    import torch
    from torch import Tensor, nn

    import cutedialect.torch as ct
except ImportError:
    print("torch is not installed, nothing is trained")
    sys.exit(0)

RATE, BOUND = 1e-3, 0.02
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STEPS, BATCH, ROWS, HEADS, WIDTH, WORDS = (
    (200, 8, 128, 4, 256, 64) if DEVICE == "cuda" else (2, 1, 16, 1, 32, 16)
)


class Linear(nn.Linear):
    """A layer of weights in f32 that multiplies in bf16, by our product or torch's."""

    def __init__(self, depth: int, columns: int, ours: bool) -> None:
        super().__init__(depth, columns, bias=False)
        self.ours = ours

    def forward(self, input: Tensor) -> Tensor:
        rows = input.bfloat16().reshape(-1, self.in_features)
        weight = self.weight.bfloat16()
        product = ct.gemm(rows, weight.T) if self.ours else rows @ weight.T
        return product.reshape(*input.shape[:-1], self.out_features)


class Block(nn.Module):
    """Words to logits: an embedding, causal attention, a gated part, a projection."""

    def __init__(self, ours: bool) -> None:
        super().__init__()
        self.ours = ours
        self.words = nn.Embedding(WORDS, WIDTH)
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(3))
        self.inward = Linear(WIDTH, 3 * WIDTH, ours)
        self.outward = Linear(WIDTH, WIDTH, ours)
        self.up, self.down = Linear(WIDTH, 4 * WIDTH, ours), Linear(2 * WIDTH, WIDTH, ours)
        self.logits = Linear(WIDTH, WORDS, ours)

    def attend(self, x: Tensor) -> Tensor:
        batch, rows, _ = x.shape
        parts = self.inward(x).reshape(batch, rows, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        if self.ours:
            out = ct.attention(q, k, v, causal=True)
        else:
            out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.outward(out.transpose(1, 2).reshape(batch, rows, WIDTH))

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words)
        x = x + self.attend(self.norms[0](x)).float()
        gate, value = self.up(self.norms[1](x)).chunk(2, -1)
        x = x + self.down(nn.functional.silu(gate) * value).float()
        return self.logits(self.norms[2](x)).float()


def losses(ours: bool, steps: int) -> list[float]:
    """The loss in front of each step."""
    torch.manual_seed(0)
    model = Block(ours).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    batches = torch.Generator().manual_seed(1)
    found: list[float] = []
    for _ in range(steps):
        words = torch.randint(WORDS, (BATCH, ROWS + 1), generator=batches).to(DEVICE)
        logits = model(words[:, 1:])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), words[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def main(steps: int = STEPS) -> int:
    ours, theirs = losses(True, steps), losses(False, steps)
    apart = max(abs(one - other) for one, other in zip(ours, theirs, strict=True)) / theirs[0]
    for step in sorted({0, *range(9, steps, max(1, steps // 10)), steps - 1}):
        print(f"step {step + 1}: loss {ours[step]:.4f}, torch's {theirs[step]:.4f}")
    print(f"apart by {apart:.4f} of the first loss at most, {BOUND} allowed")
    return 0 if apart <= BOUND and (steps < 10 or ours[-1] < ours[0]) else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
