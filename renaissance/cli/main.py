"""The `renaissance` command: train, plan, tune, info."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from llvmlite import binding as llvm

import renaissance
from renaissance.cli.recipes import RECIPES, Options, recipe
from renaissance.cli.tune import tune as measure_engines
from renaissance.config import settings, usable_cpus
from renaissance.engine import executor, host_target
from renaissance.errors import ArgumentError, RenaissanceError
from renaissance.runtime import disk_cache

# Mistakes in how a command is called, in typer of every version: click's UsageError, or that of typer's own copy of click.
_Misuse = cast(type[Exception], typer.BadParameter.__bases__[0])
_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_TOLD_FEATURES = ("avx", "fma", "f16c", "amx")

app = typer.Typer(add_completion=False, help="Train neural networks as one compiled program.", pretty_exceptions_enable=False)

Recipe = Annotated[str, typer.Argument(help=f"What to train: {', '.join(RECIPES)}.")]
Epochs = Annotated[int | None, typer.Option(help="How often every sample is seen; default: as the recipe has it.", min=1)]
BatchSize = Annotated[int | None, typer.Option(help="Samples in a step; default: as the recipe has it.", min=1)]
Rate = Annotated[float | None, typer.Option(help="Highest learning rate; default: as the recipe has it.", min=0.0)]
Precision = Annotated[str, typer.Option(help="fp32 or bf16.")]
Seed = Annotated[int, typer.Option(help="Of initial weights, order and augmentation.")]
Threads = Annotated[int | None, typer.Option(help="Threads; default: the CPUs this process may use.", min=1)]
Data = Annotated[Path | None, typer.Option(help="Folder of the data files; default: where they are kept, else downloaded.")]
Out = Annotated[Path | None, typer.Option(help="Folder for checkpoints; default: none are written.")]
Target = Annotated[float | None, typer.Option(help="Stop once validation top-1 reaches this share, e.g. 0.994.")]
Models = Annotated[list[str], typer.Argument(metavar="MODEL", help="Names in renaissance.models, e.g. resnet50 vgg16_bn.")]
Images = Annotated[int, typer.Option("--batch-size", "--batch", help="Images in a step, as in the runs to come.", min=1)]
Size = Annotated[int | None, typer.Option(help="Pixels along each side of an image; default: as docs/models.md has it.", min=1)]
Tuned = Annotated[Path, typer.Option(help="File that is written.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out.")]


def _use_threads(threads: int | None) -> None:
    """Settings come from the environment, read once at first use: this comes before."""
    if threads is not None:
        os.environ["RENAISSANCE_THREADS"] = str(threads)


@app.command()
def train(*, name: Recipe, epochs: Epochs = None, batch_size: BatchSize = None, lr: Rate = None, precision: Precision = "bf16",
          seed: Seed = 123, threads: Threads = None, data: Data = None, out: Out = None, target: Target = None,
          resume: Resume = False) -> None:
    """Train a recipe and print a table of epochs."""
    if resume and out is None:
        raise ArgumentError("--resume goes on from a checkpoint in --out: give that folder")
    _use_threads(threads)
    task = recipe(name, Options(epochs, batch_size, lr, precision, seed, data, out, target))
    if resume:
        print(f"going on from {task.resume()}")
    result = task.run()
    if result.best_top1 is not None and result.best_top5 is not None:
        print(f"best top-1 {100 * result.best_top1:.2f} % (top-5 {100 * result.best_top5:.2f} %) in epoch {result.best_epoch}")
    if result.checkpoint is not None:
        print(f"checkpoint: {result.checkpoint}")
    if result.best_checkpoint not in (None, result.checkpoint):
        print(f"best checkpoint: {result.best_checkpoint}")
    if result.stopped == "interrupted":
        raise typer.Exit(_INTERRUPTED)


@app.command()
def plan(*, name: Recipe, batch_size: BatchSize = None, precision: Precision = "bf16", threads: Threads = None,
         data: Data = None) -> None:
    """Print what one training step does: layers, kernels, memory, predicted time. Nothing is compiled, nothing runs."""
    _use_threads(threads)
    task = recipe(name, Options(1, batch_size, None, precision, 0, data, None, None))
    with executor("null"):
        task.compile()


@app.command()
def tune(*, models: Models, batch_size: Images = 16, size: Size = None, precision: Precision = "bf16",
         threads: Threads = None, out: Tuned = Path("tuned.json")) -> None:
    """Measure which engine does each convolution of a model's training step fastest on this machine, for later runs to use."""
    _use_threads(threads)
    os.environ.pop("RENAISSANCE_TUNED", None)  # what it measures does not depend on what was measured before
    measure_engines(models, batch_size=batch_size, size=size, precision=precision, target=host_target(),
                    threads=settings().threads, out=out)


@app.command()
def info() -> None:
    """Print what this machine offers and what is used of it."""
    chosen, target = settings(), host_target()
    features = sorted(f[1:] for f in target.features.split(",") if f.startswith("+") and f[1:].startswith(_TOLD_FEATURES))
    files, size_bytes = disk_cache.usage(chosen.cache_dir)
    size = f"{size_bytes / 2**20:.1f} of at most {disk_cache.LIMIT_BYTES >> 20} MiB"
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    rows = {
        "version": f"{renaissance.__version__}, Python {platform.python_version()}, LLVM {llvm_version}",
        "CPU": f"{target.cpu}: {' '.join(features)}",
        "target": f"{target.isa}, {target.vector_bytes * 8}-bit vectors, {target.registers} registers",
        "engines": f"{len(target.overrides)} convolutions as in {chosen.tuned}" if chosen.tuned else "as the cost model chooses",
        "fused multiply-add": "yes" if target.fma else "no: two roundings",
        "bfloat16 dot products": "yes" if target.bf16_dot else "no: float32 arithmetic on bfloat16 values",
        "caches": f"L1 {target.l1_bytes >> 10} KiB, L2 {target.l2_bytes >> 10} KiB",
        "threads": f"{chosen.threads}, of {usable_cpus()} CPUs this process may use",
        "compiled code": f"{chosen.cache_dir}: {files:,} files, {size}",
        "data": str(chosen.data_dir),
    }
    width = max(map(len, rows))
    for key, value in rows.items():
        print(f"{key:<{width}}  {value}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: with 1 and a sentence for a mistake, with 130 after Ctrl-C, never with a traceback for either."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    command = typer.main.get_command(app)
    try:
        code = command.main(given or ["--help"], prog_name="renaissance", standalone_mode=False)
    except _Misuse as e:
        _fail(f"{cast(Any, e).format_message().rstrip('.')}; see renaissance --help")
    except RenaissanceError as e:
        _fail(str(e))
    except (KeyboardInterrupt, typer.Abort):
        raise SystemExit(_INTERRUPTED) from None
    raise SystemExit(code or 0)


def _fail(text: str) -> None:
    print(f"renaissance: {text}", file=sys.stderr)
    raise SystemExit(1)
