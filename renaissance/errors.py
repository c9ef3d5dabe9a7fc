"""Error classes. Each says by its name what kind of mistake was made; the message says how to mend it."""


class RenaissanceError(Exception):
    """Base of all errors raised on purpose by this package."""


class ShapeError(RenaissanceError, ValueError):
    """Shapes do not fit: the message names the op, the argument, what was received and what was expected."""


class DTypeError(RenaissanceError, TypeError):
    """A dtype is not supported by an op, or two dtypes cannot be promoted."""


class ArgumentError(RenaissanceError, ValueError):
    """An argument's value is outside what an op, layer or setting accepts."""


class RangeError(RenaissanceError, IndexError):
    """An index or label lies outside its axis. Nothing was written when this is raised."""


class DeviceError(RenaissanceError):
    """The machine lacks something the program needs: an instruction set, memory, a platform."""


class TraceError(RenaissanceError):
    """Something was done inside a compiled function that cannot be part of a plan; the line is named."""


class GradientError(RenaissanceError):
    """A gradient was asked for that does not exist, was not kept, or was already used up."""


class PlanError(RenaissanceError):
    """The compiler met a graph it has no rule for, or a plan broke one of its own invariants."""


class BudgetError(RenaissanceError, ValueError):
    """A memory budget cannot be met; the message names the smallest that can. Nothing was run when this is raised."""


class KernelError(RenaissanceError):
    """No kernel exists for an operation on this Target."""


class NonFiniteError(RenaissanceError, ArithmeticError):
    """A value that must be finite is not; the message names step and op."""


class DataError(RenaissanceError):
    """A data file is missing, truncated or altered; the message gives its path and what to do."""


class CheckpointError(RenaissanceError):
    """A checkpoint cannot be read or written; the message names the file."""
