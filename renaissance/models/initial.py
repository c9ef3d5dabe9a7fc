"""First values that several families of models share."""

from __future__ import annotations

from renaissance import nn

_CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)


def rectified(model: nn.Module, mode: str = "fan_out") -> None:
    """All convolutions so that variance is kept through ReLU, forward ('fan_in') or backward ('fan_out'); their biases 0.

    He et al. 2015, arXiv:1502.01852
    """
    for m in model.modules():
        if isinstance(m, _CONVOLUTIONS):
            nn.init.kaiming_normal_(m.weight, mode=mode)
            if m.bias is not None:
                nn.init.zeros_(m.bias)


def narrow(model: nn.Module, std: float = 0.01) -> None:
    """All affine maps normally distributed; their biases 0."""
    for m in model.modules():
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, 0.0, std)
            nn.init.zeros_(m.bias)
