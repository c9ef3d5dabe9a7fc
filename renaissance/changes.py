"""Counts what could change the program a compiled function stands for: attributes of modules and optimizers, replaced tensors.

While the count stands still a compiled function need not look at anything but its arguments.
"""

count = 0


def note() -> None:
    """Something changed: compiled functions trace again before their next run."""
    global count
    count += 1
