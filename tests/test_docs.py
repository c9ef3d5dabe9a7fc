"""Docstrings of everything public: one sentence, a formula, every parameter, what is returned and raised, and the source."""

from __future__ import annotations

import inspect
import re

import pytest

import renaissance as rn
from renaissance import data, models, nn, optim

MODULES = (rn, nn, nn.functional, nn.init, optim, data, models)
# What computes nothing has no formula.
WITHOUT_FORMULA = {
    "DType", "Generator", "Parameter", "Result", "Task", "Tensor", "data.ArrayDataset", "data.CIFAR10", "data.Dataset",
    "data.MNIST", "data.Transform", "debug_nans", "executor", "from_numpy", "no_grad", "profile", "realize", "seed", "tensor",
}


def public():
    """Functions and classes by the first name they are reached under."""
    found = {}
    for module in MODULES:
        for name, value in vars(module).items():
            ours = (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__.startswith("renaissance")
            if ours and not name.startswith("_") and not (inspect.isclass(value) and issubclass(value, Exception)):
                found.setdefault(id(value), (f"{module.__name__}.{name}".removeprefix("renaissance."), value))
    return sorted(found.values(), key=lambda pair: pair[0])


def entries(paragraph):
    """The names at the start of lines, each with a text after two or more spaces; 'a, b  text' names two."""
    rows = (re.fullmatch(r"(\S(?: ?\S)*?)  +\S.*", line) for line in paragraph.splitlines())
    return {name.strip() for m in rows if m for name in m[1].split(",")}


def parameters(value):
    skip = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in inspect.signature(value).parameters.values() if p.kind not in skip]


def returns(value):
    """Whether a call gives back something: not a class, nor a context."""
    return not inspect.isclass(value) and inspect.signature(value).return_annotation not in (None, "None", "Iterator[None]")


def faults(name, value):
    """What a docstring lacks."""
    if not value.__doc__:
        return ["no docstring"]
    first, *paragraphs = inspect.getdoc(value).split("\n\n")
    found = [] if re.fullmatch(r"[^\n]*[^\n.]\.", first) and ". " not in first else ["the first line is not one sentence"]
    if re.search(r"see functional\.\w+\.$", first) and not paragraphs:  # an activation: all is said there
        return found
    table = next((i for i, p in enumerate(paragraphs) if "source" in entries(p)), None)
    if table is None:
        return [*found, "no entry for source"]
    wanted = [*parameters(value), *(["returns"] if returns(value) else []), "raises"]
    found += [f"no entry for {n}" for n in wanted if n not in entries(paragraphs[table])]
    return found if table > 0 or name in WITHOUT_FORMULA else [*found, "no formula"]


@pytest.mark.parametrize(("name", "value"), [pytest.param(n, v, id=n) for n, v in public()])
def test_docstring(name, value):
    assert faults(name, value) == []


METHODS = [pytest.param(m, id=f"{name}.{n}") for name, value in public() if inspect.isclass(value)
           for n, m in inspect.getmembers(value, inspect.isfunction) if not n.startswith("_")]


@pytest.mark.parametrize("method", METHODS)
def test_methods_say_in_a_sentence_what_they_do(method):
    first, _, _ = (inspect.getdoc(method) or "").partition("\n")
    assert first.endswith(".")


def test_exceptions_are_needed():
    assert {n for n, _ in public()} >= WITHOUT_FORMULA


@pytest.mark.parametrize(("doc", "fault"), [
    ("Add.\n\nz = x\n\nx  any\nreturns  shape\nraises  nothing\nsource  definition", []),
    ("Add\n\nz = x\n\nx  any\nreturns  shape\nraises  nothing\nsource  definition", ["the first line is not one sentence"]),
    ("Add. Two.\n\nz = x\n\nx  any\nreturns  shape\nraises  nothing\nsource  definition", ["the first line is not one sentence"]),
    ("Add.\n\nx  any\nreturns  shape\nraises  nothing\nsource  definition", ["no formula"]),
    ("Add.\n\nz = x\n\ny  any\nraises  nothing\nsource  definition", ["no entry for x", "no entry for returns"]),
    ("Add.\n\nz = x\n\nx  any\nreturns  shape\nraises  nothing", ["no entry for source"]), ("", ["no docstring"]),
])
def test_the_check_finds_faults(doc, fault):
    def function(x):
        return x

    function.__doc__ = doc
    assert faults("function", function) == fault
