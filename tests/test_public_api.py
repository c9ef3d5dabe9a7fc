"""What users see first: public names (test_docs.py reads their docstrings), the READMEs, and what importing the package loads."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import subprocess
import sys

import pytest

from renaissance.data.sets import mnist as mnist_module

from . import markdown
from .digits import write_digits

MODULES = ("", ".nn", ".nn.functional", ".nn.init", ".optim", ".data", ".models", ".train", ".errors")
READMES = [markdown.ROOT / name for name in ("README.md", "README.zh-CN.md")]
# Not loaded with the package: they take time, and most programs never need them.
UNWANTED = ("rich", "typer", "urllib.request", "http.client", "ssl", "torch", "safetensors.torch", "unittest")


def public_names():
    """(module, name) of everything a public module defines or passes on under its own name."""
    for path in MODULES:
        module = importlib.import_module(f"renaissance{path}")
        for statement in ast.parse(inspect.getsource(module)).body:
            if isinstance(statement, ast.ImportFrom):
                names = [alias.asname for alias in statement.names if alias.asname]
            elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                names = [statement.name]
            else:
                names = [t.id for t in getattr(statement, "targets", ()) if isinstance(t, ast.Name)]
            yield from ((module, name) for name in names if not name.startswith("_"))


PUBLIC = list(dict.fromkeys(public_names()))
IDS = [f"{module.__name__}.{name}" for module, name in PUBLIC]


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=IDS)
def test_public_names_exist_and_have_a_docstring(module, name):
    assert inspect.getdoc(getattr(module, name))


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    """MNIST() gives a few digits and asks no network."""
    write_digits(tmp_path, 500)
    settings = dataclasses.replace(mnist_module.settings(), data_dir=tmp_path)
    monkeypatch.setattr(mnist_module, "settings", lambda: settings)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_readme_code_runs(page, small_mnist, capsys):
    names = markdown.run(page)
    assert len(names["result"].history) == 2
    assert "1,462,538 parameters" in capsys.readouterr().out


def test_both_readmes_say_the_same():
    english, chinese = (page.read_text(encoding="utf-8") for page in READMES)
    code = [[(block.language, block.code) for block in markdown.blocks(page)] for page in READMES]
    assert code[0] == code[1]
    for mark in ("\n## ", "\n| ", "\n* ", "<!--", "RENAISSANCE_"):
        assert english.count(mark) == chinese.count(mark), mark


def test_importing_the_package_loads_nothing_it_does_not_need():
    command = [sys.executable, "-c", "import sys, renaissance; print(*sys.modules)"]
    loaded = subprocess.run(command, cwd=markdown.ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in UNWANTED if name in loaded] == []
