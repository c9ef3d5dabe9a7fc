"""The pages in docs/ and the programs in examples/ do what they say, on small inputs."""

from __future__ import annotations

import runpy

import pytest

from . import markdown
from .digits import write_digits

PAGES = sorted((markdown.ROOT / "docs").glob("*.md"))
ALL_PAGES = [*PAGES, *(markdown.ROOT / "docs" / "decisions").glob("*.md"), *markdown.ROOT.glob("README*.md")]


def page_id(page):
    return str(page.relative_to(markdown.ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_code_blocks_run(page):
    assert any(block.language == "python" for block in markdown.blocks(page))
    markdown.run(page)


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_id)
def test_links_lead_to_files(page):
    assert markdown.dead_links(page) == []


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_id)
def test_names_exist(page):
    assert markdown.wrong_names(page) == []


def test_wrong_names_and_dead_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("`rn.tensor`, `nn.Lineal`, [here](nowhere.md)\n\n<!-- test: absent -->\n* `rn.zeros`, `rn.warp`\n\nend\n")
    assert markdown.wrong_names(page) == ["nn.Lineal", "rn.zeros (exists)"]
    assert markdown.dead_links(page) == ["nowhere.md"]


def example(name):
    return runpy.run_path(str(markdown.ROOT / "examples" / name))["main"]


def test_example_mnist(tmp_path, capsys):
    write_digits(tmp_path, 400)
    result = example("mnist.py")(["--epochs", "2", "--data", str(tmp_path), "--out", str(tmp_path / "out")])
    assert [record.epoch for record in result.history] == [1, 2]
    assert result.history[1].train_loss < result.history[0].train_loss
    assert result.checkpoint.is_dir() and "best top-1" in capsys.readouterr().out


def test_example_own_loop(capsys):
    assert example("own_loop.py")(["--steps", "300"]) > 0.9
    assert "accuracy on new points" in capsys.readouterr().out
