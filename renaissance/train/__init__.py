"""Training runs."""

from renaissance.train.result import EpochRecord as EpochRecord
from renaissance.train.result import Result as Result
from renaissance.train.task import Task as Task
