"""Small training runs: made alike in every process that asks, and summed up in one word of their weights."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import renaissance as rn
from renaissance import data, nn, optim

ROOT = Path(__file__).resolve().parents[2]


def digits(count=88, held=30, seed=0, **settings):
    """Images of 10 x 10 that show their class as a bright row, on noise."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in (count, held):
        x, y = rng.integers(0, 128, (n, 10, 10), np.uint8), rng.integers(0, 10, n)
        x[np.arange(n), y] += 100
        parts.append((x, y))
    return data.ArrayDataset(*parts[0], validation=parts[1] if held else None, num_classes=10, **settings)


def augmented_digits(**settings):
    chain = [data.Pad(1), data.RandomCrop(10), data.RandomRotation(10), data.RandomErasing(p=0.3)]
    return digits(augment=chain, normalize=(0.4, 0.25), **settings)


def small_model(seed=1, dropout=0.2):
    rn.seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(100, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 10))


def small_task(dataset=None, model=None, **changes):
    """A run with everything on: augmentation, dropout, schedule, clipping, and a last batch of 8 behind five of 16."""
    model = small_model() if model is None else model
    optimizer = changes.pop("optimizer", None) or optim.AdamW(model.parameters(), lr=optim.Cosine(0.02, warmup_epochs=1))
    wanted = {"loss": nn.CrossEntropyLoss(label_smoothing=0.1), "epochs": 3, "batch_size": 16, "seed": 5, "clip_norm": 1.0}
    dataset = augmented_digits() if dataset is None else dataset
    return rn.Task(model, dataset, optimizer=optimizer, **{**wanted, "show": False, **changes})


def weights(task):
    return [p.numpy().copy() for p in task.model.parameters()]


def digest(task):
    """One word for weights and optimizer state, to the last bit."""
    state = [array for group in task.optimizer.state_dict()["groups"] for array in group["state"].values()]
    return hashlib.sha256(b"".join(a.tobytes() for a in [*weights(task), *state])).hexdigest()


def python(code, *arguments, **environment):
    """Start a Python process in the repository's root, its output in a pipe; the environment's variables added."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=ROOT, env={**os.environ, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
