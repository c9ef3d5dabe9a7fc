"""The `renaissance` command: train, plan, info."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from renaissance.cli.recipes import RECIPES, Options, recipe
from renaissance.config import settings
from renaissance.engine import host_target
from renaissance.errors import RenaissanceError

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Train neural networks as one compiled program.",
                  pretty_exceptions_enable=False)

Recipe = Annotated[str, typer.Argument(help=f"What to train: {', '.join(RECIPES)}.")]
Epochs = Annotated[int, typer.Option(help="How often every sample is seen.", min=1)]
BatchSize = Annotated[int, typer.Option(help="Samples in a step.", min=1)]
Rate = Annotated[float, typer.Option(help="Highest learning rate.")]
Precision = Annotated[str, typer.Option(help="fp32 or bf16.")]
Seed = Annotated[int, typer.Option(help="Of initial weights, order and augmentation.")]
Threads = Annotated[int | None, typer.Option(help="Threads; default: the CPUs this process may use.", min=1)]
Data = Annotated[Path | None, typer.Option(help="Folder of the data files.")]
Out = Annotated[Path | None, typer.Option(help="Folder for checkpoints.")]
Target = Annotated[float | None, typer.Option(help="Stop once validation top-1 reaches this share, e.g. 0.994.")]


def _use_threads(threads: int | None) -> None:
    """Settings come from the environment, read once at first use: this comes before."""
    if threads is not None:
        os.environ["RENAISSANCE_THREADS"] = str(threads)


@app.command()
def train(name: Recipe, epochs: Epochs = 100, batch_size: BatchSize = 200, lr: Rate = 1e-3, precision: Precision = "bf16",
          seed: Seed = 123, threads: Threads = None, data: Data = None, out: Out = None, target: Target = None,
          resume: Annotated[bool, typer.Option(help="Go on from the newest checkpoint in --out.")] = False) -> None:
    """Train a recipe and print a table of epochs."""
    _use_threads(threads)
    task = recipe(name, Options(epochs, batch_size, lr, precision, seed, data, out, target))
    if resume:
        print(f"going on from {task.resume()}")
    result = task.run()
    if result.best_top1 is not None and result.best_top5 is not None:
        print(f"best top-1 {100 * result.best_top1:.2f} % (top-5 {100 * result.best_top5:.2f} %) in epoch {result.best_epoch}")
    if result.checkpoint is not None:
        print(f"checkpoint: {result.checkpoint}")
    if result.stopped == "interrupted":
        raise typer.Exit(130)


@app.command()
def plan(name: Recipe, batch_size: BatchSize = 200, precision: Precision = "bf16", threads: Threads = None, data: Data = None) -> None:
    """Print what one training step does: layers, kernels, memory, predicted time. Nothing runs."""
    _use_threads(threads)
    task = recipe(name, Options(1, batch_size, 1e-3, precision, 0, data, None, None))
    task.compile()


@app.command()
def info() -> None:
    """Print what this machine offers and what is used of it."""
    chosen, target = settings(), host_target()
    table = Table(show_header=False, box=None)
    rows = {
        "CPU": target.cpu,
        "vectors": f"{target.isa}, {target.vector_bytes * 8} bits, {target.registers} registers",
        "fused multiply-add": "yes" if target.fma else "no: two roundings",
        "bfloat16 dot products": "yes" if target.bf16_dot else "no: float32 arithmetic on bfloat16 values",
        "caches": f"L1 {target.l1_bytes >> 10} KiB, L2 {target.l2_bytes >> 10} KiB",
        "threads": str(chosen.threads),
        "compiled kernels": str(chosen.cache_dir),
        "data": str(chosen.data_dir),
    }
    for key, value in rows.items():
        table.add_row(key, value)
    Console().print(table)


def main() -> None:
    """Run the command; mistakes are told in a sentence, without a traceback."""
    try:
        app(standalone_mode=True)
    except RenaissanceError as e:
        print(f"renaissance: {e}", file=sys.stderr)
        raise SystemExit(1) from None
