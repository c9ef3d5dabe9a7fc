"""Data sets, their transforms, and the order of samples."""

from renaissance.data.dataset import ArrayDataset as ArrayDataset
from renaissance.data.dataset import Dataset as Dataset
from renaissance.data.sets.cifar10 import CIFAR10 as CIFAR10
from renaissance.data.sets.mnist import MNIST as MNIST
from renaissance.data.transforms import Normalize as Normalize
from renaissance.data.transforms import Pad as Pad
from renaissance.data.transforms import RandomCrop as RandomCrop
from renaissance.data.transforms import RandomErasing as RandomErasing
from renaissance.data.transforms import RandomHorizontalFlip as RandomHorizontalFlip
from renaissance.data.transforms import RandomRotation as RandomRotation
from renaissance.data.transforms import RandomScale as RandomScale
from renaissance.data.transforms import Transform as Transform
