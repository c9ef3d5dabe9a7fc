"""One forward pass by ONNX Runtime of a network exported from PyTorch. Needs the packages onnxruntime, onnx and onnxscript."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import onnxruntime
import torch

from bench import probe
from bench.rivals import network
from bench.shapes import NETWORKS


def session(name: str, x: torch.Tensor) -> onnxruntime.InferenceSession:
    """The network with all of ONNX Runtime's rewriting done, on all cores."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    settings.intra_op_num_threads = probe.cores()
    with tempfile.TemporaryDirectory(prefix="bench-onnx-") as folder:
        file = Path(folder) / "network.onnx"
        torch.onnx.export(network.model(name).eval(), (x,), file, input_names=["x"], output_names=["y"], dynamo=True)
        return onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])


def main() -> None:
    """Time the pass the command line describes; input and output stay where they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    torch.manual_seed(0)
    x = network.images(NETWORKS[options.network], options.batch).contiguous()
    ready = session(options.network, x)
    bound = ready.io_binding()
    bound.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(x.numpy()))
    bound.bind_output("y")
    probe.report(**probe.time_steps(lambda: ready.run_with_iobinding(bound), warmup=3, steps=options.steps))


if __name__ == "__main__":
    main()
