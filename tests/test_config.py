"""Settings: defaults, what the environment may say, and what it may not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from renaissance import config
from renaissance.errors import ArgumentError


def test_defaults():
    settings = config.read({"XDG_CACHE_HOME": "/somewhere"})
    assert 1 <= settings.threads <= len(os.sched_getaffinity(0))
    assert settings.target == "native" and settings.winograd and settings.tuned is None
    assert settings.cache_dir == Path("/somewhere/renaissance/kernels")
    assert settings.data_dir == Path("/somewhere/renaissance/data")


def test_values_are_taken(tmp_path):
    settings = config.read({"RENAISSANCE_THREADS": "7", "RENAISSANCE_TARGET": "avx2", "RENAISSANCE_WINOGRAD": "0",
                            "RENAISSANCE_TUNED": str(tmp_path / "t.json"),
                            "RENAISSANCE_CACHE": str(tmp_path / "c"),
                            "RENAISSANCE_DATA": str(tmp_path)})
    assert settings == config.Settings(7, "avx2", False, tmp_path / "t.json", tmp_path / "c", tmp_path)


@pytest.mark.parametrize("variable, value", [
    ("RENAISSANCE_THREADS", "0"), ("RENAISSANCE_THREADS", "-1"), ("RENAISSANCE_THREADS", "two"), ("RENAISSANCE_THREADS", "1.5"),
    ("RENAISSANCE_THREADS", "100000"), ("RENAISSANCE_TARGET", "mmx"), ("RENAISSANCE_WINOGRAD", "yes"),
    ("RENAISSANCE_CACHE", __file__), ("RENAISSANCE_DATA", __file__)])
def test_wrong_values_name_their_variable(variable, value):
    with pytest.raises(ArgumentError, match=variable):
        config.read({variable: value})


@pytest.mark.parametrize("text, wanted", [("max 100000", 1024), ("150000 100000", 2), ("50000 100000", 1), ("400000 100000", 4)])
def test_quota_of_a_control_group(text, wanted, tmp_path):
    (tmp_path / "cpu.max").write_text(text + "\n")
    assert config._quota_cpus(tmp_path) == wanted


def test_quota_of_version_1(tmp_path):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert config._quota_cpus(tmp_path) == 1024
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("250000\n")
    assert config._quota_cpus(tmp_path) == 3
    assert config._quota_cpus(tmp_path / "nowhere") == 1024
