"""rn.compile: functions of tensors traced once and run as one plan."""

from renaissance.trace.compiled import CompiledFunction as CompiledFunction
from renaissance.trace.compiled import compile as compile
