"""The rows of the benchmark, one file each: what is compared, with which rivals, and the bar."""

from functools import partial

from bench.rows import compile as compile_row
from bench.rows import conv, eager, inference, memory, mlp, mnist, networks, tinymlp
from bench.shapes import NETWORKS

ROWS = {"mlp": mlp.cases, "mnist": mnist.cases, "tinymlp": tinymlp.cases,
        **{name: partial(networks.cases, name) for name in NETWORKS}, "conv": conv.cases, "inference": inference.cases,
        "compile": compile_row.cases, "memory": memory.cases, "eager": eager.cases}
