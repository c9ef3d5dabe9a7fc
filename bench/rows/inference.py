"""Row `inference`: one forward pass of networks that are no longer trained, one image or 32 at a time.

NETWORK_b1, _b32            against the quickest PyTorch found
NETWORK_b1_onnx, _b32_onnx  against ONNX Runtime, where the rival's interpreter has it
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program
from bench.rows.candidates import torch_programs
from bench.shapes import NETWORKS

MODES = ("eager", "compile", "freezing", "script")
QUICK = ("--batch", "1", "--steps", "1")
STEPS = {1: 40, 32: 5}


def cases() -> list[Case]:
    """All variants; the bars are for fp32, and ONNX Runtime computes in no other precision."""
    found = []
    for precision in ("fp32", "bf16"):
        for name in ("vgg16bn_224", "resnet50", "mobilenetv2"):
            for batch, steps in STEPS.items():
                sizes = (name, "--batch", str(batch), "--steps", str(steps))
                arguments = (*sizes, "--precision", precision)
                ours = Program("renaissance", "bench.ours.inference", arguments, QUICK)
                flops = batch * NETWORKS[name].image_flops
                found.append(Case("inference", f"{name}_b{batch}", precision, ours,
                                  torch_programs("bench.rivals.inference", arguments, QUICK, modes=MODES), flops=flops,
                                  bars=(Bar("ratio", 1.2),) if precision == "fp32" else ()))
                if precision == "fp32":
                    found.append(Case("inference", f"{name}_b{batch}_onnx", precision, ours,
                                      (Program("onnxruntime", "bench.rivals.onnx_inference", sizes, QUICK),), flops=flops,
                                      bars=(Bar("ratio", 1.0),)))
    return found
