"""The suite runs without PyTorch: tests/parity, which compares with it, is collected only where it is installed."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["parity"]
