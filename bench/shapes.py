"""The networks that are measured, as plain numbers both sides build from."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Perceptron:
    """Fully connected layers with ReLU between them, cross entropy at the end, one batch size.

    weight_decay  0 means Adam, otherwise AdamW with that decay
    """

    widths: tuple[int, ...]
    batch: int
    weight_decay: float
    smoothing: float

    @property
    def forward_flops(self) -> int:
        """Floating-point operations of the products of one forward pass over one batch."""
        return 2 * self.batch * sum(a * b for a, b in pairwise(self.widths))

    @property
    def step_flops(self) -> int:
        """The same of one training step: output, weight gradient and input gradient, the last not for the first layer."""
        return 3 * self.forward_flops - 2 * self.batch * self.widths[0] * self.widths[1]


PERCEPTRONS = {
    "mlp": Perceptron((784, 1024, 512, 256, 10), batch=200, weight_decay=1e-4, smoothing=0.1),
    "tinymlp": Perceptron((10, 45, 45, 10), batch=128, weight_decay=0.0, smoothing=0.0),
}
