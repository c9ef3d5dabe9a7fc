"""Training runs."""

from renaissance.train.task import Result as Result
from renaissance.train.task import Task as Task
