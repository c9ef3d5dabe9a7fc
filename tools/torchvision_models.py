"""Write tests/models/torchvision.json: what torchvision's models compute, for the tests to compare with.

python tools/torchvision_models.py         needs torch and torchvision; takes some minutes

For each model of tests/models/table.py: the number of its parameters, a digest of names, order and shapes in its state_dict, and
with the values that the table draws, in float64: outputs in evaluation and in training, running statistics after one pass in
training, and the gradients of each part, all but the outputs as products with drawn numbers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torchvision

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.models import torch_models  # noqa: E402
from tests.models.table import SMALL, WHOLE, ModelCase, drawn, part_of, state_digest, state_values  # noqa: E402


class Models:
    """torchvision's models, and those it lacks."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch_models, name, None) or getattr(torchvision.models, name)


def parts(named: Any) -> dict[str, float]:
    """For each part of the model, the sum of its numbers times drawn ones."""
    found: dict[str, float] = {}
    for name, value in named:
        product = float((value.detach().numpy() * drawn("along " + name, tuple(value.shape))).sum())
        found[part_of(name)] = found.get(part_of(name), 0.0) + product
    return found


def along(y: torch.Tensor) -> torch.Tensor:
    return (y * torch.from_numpy(drawn("outputs", tuple(y.shape)))).sum()


def record(case: ModelCase) -> dict[str, Any]:
    """What the tests compare for one model."""
    model = case.make(Models()).double()
    kept = {"parameters": sum(p.numel() for p in model.parameters()), "state": state_digest(model.state_dict())}
    model.load_state_dict({name: torch.from_numpy(value) for name, value in state_values(model.state_dict()).items()})
    x = torch.from_numpy(drawn("inputs", case.shape)).requires_grad_()
    with torch.no_grad():
        kept["evaluation"] = shown(model.eval()(x))
    outputs = model.train()(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    kept["training"] = [shown(y) for y in outputs]
    total = along(outputs[0]) + sum(0.4 * along(y) for y in outputs[1:])
    total.backward()
    kept["gradients"] = parts([("x", x.grad), *((n, p.grad) for n, p in model.named_parameters())])
    kept["statistics"] = parts((n, b) for n, b in model.named_buffers() if b.is_floating_point())
    return kept


def shown(y: torch.Tensor) -> list[float]:
    """The first numbers of an output, and their sum times drawn ones."""
    return [*y.detach().reshape(-1)[:8].tolist(), along(y).item()]


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


if __name__ == "__main__":
    lines = [f"{json.dumps(case.name)}: {json.dumps(rounded(record(case)))}" for case in (*SMALL, *WHOLE)]
    version = json.dumps(f"torchvision {torchvision.__version__}, torch {torch.__version__}")
    path = ROOT / "tests" / "models" / "torchvision.json"
    path.write_text('{"source": ' + version + ",\n" + ",\n".join(lines) + "}\n")
