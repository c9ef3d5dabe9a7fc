"""One forward pass in PyTorch of a network that is no longer trained, on images made beforehand, no value read back."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import nn
from torch._inductor import config as inductor

from bench import probe
from bench.rivals import network
from bench.shapes import NETWORKS


def compiled(net: nn.Module, _x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """By torch.compile."""
    return torch.compile(net)


def frozen(net: nn.Module, _x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """By torch.compile with weights as constants: batch norm is folded into them, and they are laid out beforehand."""
    inductor.freezing = True
    return torch.compile(net)


def scripted(net: nn.Module, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """By TorchScript, its graph rewritten into oneDNN's fused operations."""
    return torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(net, x)))


MODES = {"eager": lambda net, _x: net, "compile": compiled, "freezing": frozen, "script": scripted}


def main() -> None:
    """Time the pass the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=MODES, default="eager")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    torch.set_num_threads(probe.cores())
    torch.manual_seed(0)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.precision]
    net = network.model(options.network).eval().to(dtype)
    x = network.images(NETWORKS[options.network], options.batch).to(dtype)
    with torch.inference_mode():
        forward = MODES[options.mode](net, x)
        probe.report(**probe.time_steps(lambda: forward(x), warmup=3, steps=options.steps))


if __name__ == "__main__":
    main()
