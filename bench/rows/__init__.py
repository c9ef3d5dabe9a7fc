"""The rows of the benchmark, one file each: what is compared, with which rivals, and the bar."""

from bench.rows import compile as compile_row
from bench.rows import eager, memory, mlp, mnist, tinymlp

ROWS = {"mlp": mlp.cases, "mnist": mnist.cases, "tinymlp": tinymlp.cases, "compile": compile_row.cases,
        "memory": memory.cases, "eager": eager.cases}
