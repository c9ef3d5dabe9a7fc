"""One epoch of the MNIST recipe in PyTorch as tutorials publish it: DataLoader workers, PIL transforms image by image, AdamW in
its default form, the loss read back each step, validation through a second DataLoader.

The transforms are torchvision's where it is installed (Pad(2), RandomCrop(28), RandomRotation(20), RandomAffine(0, scale=(0.8,
1.2)), ToTensor, Normalize, RandomErasing), else the same operations in the same order written here with Pillow. Those are the
leaner: 83 microseconds an image against 125, so a ratio measured with them is the lower one. The note says which were used.

Only a part of the epoch's batches is run (--part, a quarter unless told) and the training time scaled up to a whole one; the wait
for the first batch, while the workers start, is counted once and not scaled. Validation is run whole. Peak memory is that of the
main process; its workers come on top.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

try:
    from torchvision import transforms as torchvision
except (ImportError, RuntimeError):  # RuntimeError: one that was built for another PyTorch
    torchvision = None

from bench import digits, probe
from bench.rivals import perceptron
from bench.rivals.training import training_step
from bench.shapes import PERCEPTRONS

SIDE = 28


def uniform(low: float, high: float) -> float:
    """A number drawn from torch's generator, which each worker seeds for itself."""
    return float(torch.empty(1).uniform_(low, high).item())


def below(limit: int) -> int:
    """A whole number in 0 ... limit - 1 from torch's generator."""
    return int(torch.randint(0, limit, size=(1,)).item())


def pad_and_crop(image: Image.Image) -> Image.Image:
    """Two black pixels on each side, then a random window of the first size."""
    padded = ImageOps.expand(image, border=2, fill=0)
    top, left = below(5), below(5)
    return padded.crop((left, top, left + SIDE, top + SIDE))


def rotate(image: Image.Image) -> Image.Image:
    """By up to 20 degrees either way about the centre."""
    return image.rotate(uniform(-20, 20), resample=Image.Resampling.NEAREST, fillcolor=0)


def scale(image: Image.Image) -> Image.Image:
    """The affine transform of no rotation and a scale of 0.8 to 1.2, about the centre."""
    angle, factor = math.radians(uniform(0, 0)), uniform(0.8, 1.2)
    along, across = math.cos(angle) / factor, math.sin(angle) / factor
    centre = SIDE / 2
    matrix = (along, across, centre * (1 - along - across), -across, along, centre * (1 - along + across))
    return image.transform((SIDE, SIDE), Image.Transform.AFFINE, matrix, resample=Image.Resampling.NEAREST, fillcolor=0)


def to_tensor(image: Image.Image) -> torch.Tensor:
    """(1, 28, 28) float32 in 0 ... 1, channels first."""
    pixels = torch.from_numpy(np.array(image, np.uint8, copy=True)).view(SIDE, SIDE, 1)
    return pixels.permute(2, 0, 1).contiguous().to(torch.float32).div(255)


def normalise(pixels: torch.Tensor) -> torch.Tensor:
    """A copy with mean and deviation taken out channel by channel; a deviation of zero is refused."""
    mean = torch.as_tensor([digits.MEAN], dtype=pixels.dtype).view(-1, 1, 1)
    deviation = torch.as_tensor([digits.STD], dtype=pixels.dtype).view(-1, 1, 1)
    if (deviation == 0).any():
        raise ValueError("normalise: the deviation must not be 0")
    return pixels.clone().sub_(mean).div_(deviation)


def erase(pixels: torch.Tensor) -> torch.Tensor:
    """A copy with a random box set to 0, or the image itself in half the cases.

    The box covers 2 to 33 % of the area, its sides are in proportion 0.3 to 3.3; up to ten draws until it fits.
    """
    if torch.rand(1) >= 0.5:
        return pixels
    log_ratio = torch.log(torch.tensor((0.3, 3.3)))
    for _ in range(10):
        area = SIDE * SIDE * uniform(0.02, 0.33)
        ratio = torch.exp(torch.empty(1).uniform_(log_ratio[0], log_ratio[1])).item()
        height, width = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if height < SIDE and width < SIDE:
            value = torch.tensor([0.0])[:, None, None]
            top, left = below(SIDE - height + 1), below(SIDE - width + 1)
            erased = pixels.clone()
            erased[..., top:top + height, left:left + width] = value
            return erased
    return pixels


def chain(*, augment: bool) -> Callable[[Image.Image], torch.Tensor]:
    """From PIL image to normalised tensor, for training or for validation."""
    if torchvision is None:
        return (lambda image: erase(normalise(to_tensor(scale(rotate(pad_and_crop(image))))))) if augment else (
            lambda image: normalise(to_tensor(image)))
    geometric = [torchvision.Pad(2), torchvision.RandomCrop(SIDE), torchvision.RandomRotation(20, fill=0),
                 torchvision.RandomAffine(0, scale=(0.8, 1.2))]
    tensor = [torchvision.ToTensor(), torchvision.Normalize((digits.MEAN,), (digits.STD,))]
    return torchvision.Compose([*geometric, *tensor, torchvision.RandomErasing(p=0.5, value=0)] if augment else tensor)


class Digits(Dataset):
    """Images and labels held as arrays; each image becomes a PIL image, is transformed, and then a tensor."""

    def __init__(self, count: int, seed: int, *, augment: bool) -> None:
        self.images = digits.images(count, seed)
        self.labels = digits.labels(count, seed)
        self.transform = chain(augment=augment)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def main() -> None:
    """Time the epoch the command line describes, after a short one that starts the workers and warms everything up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--workers", type=int, default=probe.cores())
    parser.add_argument("--part", type=float, default=0.25, help="share of the epoch's batches that is run")
    options = parser.parse_args()
    shape = PERCEPTRONS["mlp"]
    bf16 = options.precision == "bf16"
    batches = digits.TRAIN // shape.batch
    run = max(2, round(batches * options.part))

    torch.set_num_threads(probe.cores())
    torch.manual_seed(0)
    held = {"batch_size": shape.batch, "num_workers": options.workers, "persistent_workers": options.workers > 0}
    training = Digits(digits.TRAIN, 1, augment=True)
    loader = DataLoader(training, sampler=RandomSampler(training, num_samples=run * shape.batch), **held)
    checker = DataLoader(Digits(digits.VALIDATION, 3, augment=False), **held)
    net = perceptron.model(shape)
    updater = perceptron.optimizer(shape, net, fused=False)
    step = training_step(net, updater, mode="eager", bf16=bf16, smoothing=shape.smoothing)

    def validate() -> tuple[float, int]:
        loss, correct = 0.0, 0
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            for x, y in checker:
                output = net(x)
                loss += F.cross_entropy(output, y).item()
                correct += (output.argmax(1) == y).sum().item()
        return loss, correct

    def epoch() -> float:
        """Seconds of a whole epoch, from the part that is run."""
        marks = [time.perf_counter()]
        for x, y in loader:
            step(x, y).item()
            marks.append(time.perf_counter())
        first, steady = marks[1] - marks[0], marks[-1] - marks[1]
        return first + steady * (batches - 1) / (run - 1) + probe.time_once(validate)

    epoch()
    faults = probe.minor_faults()
    seconds = epoch()
    probe.report(seconds=seconds, faults_per_step=(probe.minor_faults() - faults) / run,
                 note="Pillow transforms" if torchvision is None else "torchvision transforms")


if __name__ == "__main__":
    main()
