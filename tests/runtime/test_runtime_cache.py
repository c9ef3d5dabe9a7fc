"""Object code and plans on disk: found again, checked, shared, and done without."""

import multiprocessing
import warnings
from pathlib import Path

import pytest
from hand_kernels import NOTHING, TARGET, TEXTS

from renaissance.errors import KernelError, PlanError
from renaissance.ir.dtype import bfloat16, float32, int64
from renaissance.ir.plan import (
    Access,
    Buffer,
    Contraction,
    Host,
    Instr,
    Item,
    Nest,
    Operand,
    Plan,
    Scatter,
    Stage,
    Store,
)
from renaissance.runtime import plan_cache
from renaissance.runtime.disk_cache import DiskCache, sources_digest
from renaissance.runtime.jit import Compiler, Source


def source(key="one", name="add"):
    return Source(key, name, lambda: TEXTS[name])


def test_a_second_process_compiles_nothing(tmp_path):
    first, second = Compiler(tmp_path), Compiler(tmp_path)
    assert all(first.load([source(), source("two", "spin"), source()], TARGET))
    assert first.compiled == 2
    assert all(second.load([source(), source("two", "spin")], TARGET))
    assert second.compiled == 0


def test_equal_keys_are_one_function_and_targets_are_apart(tmp_path):
    compiler = Compiler(tmp_path)
    first, again = compiler.load([source(), source()], TARGET)
    assert first == again
    (narrow,) = compiler.load([source()], TARGET.restricted("sse"))
    assert narrow != first and compiler.compiled == 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_entry_is_rebuilt_and_never_loaded(tmp_path, damage):
    Compiler(tmp_path).load([source(), source("two", "spin")], TARGET)
    entries = sorted(tmp_path.glob("*.o"))
    for entry in entries:
        data = entry.read_bytes()
        flipped = data[:100] + bytes([data[100] ^ 1]) + data[101:]
        other = entries[entries[0] == entry].read_bytes()
        entry.write_bytes({"cut": data[:-10], "flipped": flipped, "empty": b"", "other": other}[damage])
    if damage == "other":
        entries[0].write_bytes(entries[1].read_bytes())
    compiler = Compiler(tmp_path)
    assert all(compiler.load([source(), source("two", "spin")], TARGET))
    assert compiler.compiled >= 1
    third = Compiler(tmp_path)
    third.load([source(), source("two", "spin")], TARGET)
    assert third.compiled == 0


def test_text_that_llvm_refuses_is_a_kernel_error(tmp_path):
    with pytest.raises(KernelError, match="LLVM refused"):
        Compiler(tmp_path).load([Source("bad", "bad", lambda: "define void @bad( {")], TARGET)
    with pytest.raises(KernelError, match="missing"):
        Compiler(tmp_path).load([Source("add", "missing", lambda: TEXTS["add"])], TARGET)


def test_a_folder_that_cannot_be_written_is_named_once(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    compiler = Compiler(blocked / "cache")
    with pytest.warns(UserWarning, match="cannot be written") as told:
        assert all(compiler.load([source(), source("two", "spin")], TARGET))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(Compiler(blocked / "cache").load([source("three")], TARGET))


def _put_many(folder, number, failures):
    cache = DiskCache(Path(folder), ".x")
    for turn in range(150):
        key = f"key {turn % 5}"
        found = cache.get(key)
        if found is not None and found != key.encode() * 5000:
            failures.put((number, turn))
        cache.put(key, key.encode() * 5000)


def test_processes_share_a_folder(tmp_path):
    context = multiprocessing.get_context("spawn")
    failures = context.Queue()
    workers = [context.Process(target=_put_many, args=(str(tmp_path), number, failures)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0] and failures.empty()
    assert len(list(tmp_path.iterdir())) == 5


def test_the_digest_of_sources_tells_packages_apart():
    assert sources_digest("ir") != sources_digest("ir", "kernels")
    assert sources_digest("ir") == sources_digest("ir")


def full_plan():
    """A plan with every part in it, and constants that are equal but not the same."""
    body = (
        Instr("load", (), Access(0, (1, 0), 3), float32),
        Instr("const", (), b"\x00\x00\x80\x3f", float32),
        Instr("add", (0, 1), None, float32),
        Instr("carry", (), (0, 0), float32),
        Instr("philox", (1,), (0, 1), float32),
    )
    stages = (Stage("reduce", body, (), "sum"), Stage("map", body, (Store(Access(1, (1, 1)), 2),)))
    specs = (
        Nest("row", (4, 5), stages),
        Contraction(1, 2, 3, 4, bfloat16, body, body[:1], body, (Store(Access(1, (0, 3, 1)), 2),)),
        Scatter(3, 4, 5, "sum", body[:1], body, None, 1),
        Scatter(3, 4, 5, "last", body[:1], body, Access(0, (4, 1)), 1),
        Host("svd", (1, 1.0, True, "full", None, b"x", (0.0, (-0.0, int64)), float("inf")), (0,), (1,)),
        NOTHING,
    )
    operands = (Operand(0, float32, "in"), Operand(1, float32, "out"))
    items = tuple(Item(f"item{n}", spec, operands, (n, n + 1), 10**13, 7) for n, spec in enumerate(specs))
    buffers = (Buffer("input", 0, 0, 80, float32, (4, 5)), Buffer("arena", -1, 64, 80, float32, (4, 5)))
    return Plan(items, buffers, (float32, int64), (1, 0), 4096, 3, ("RangeError: \u00e9",), ("a note",), ((1, 0),))


def test_a_plan_survives_being_written():
    plan = full_plan()
    read = plan_cache.decode(plan_cache.encode(plan))
    assert read == plan
    assert repr(read) == repr(plan)  # tells 1, 1.0 and True, and 0.0 and -0.0, apart


def test_equal_parts_are_written_once():
    plan = full_plan()
    again = Plan(plan.items * 20, *[getattr(plan, f) for f in list(plan.__dataclass_fields__)[1:]])
    assert len(plan_cache.encode(again)) < 1.5 * len(plan_cache.encode(plan))


def test_a_value_with_no_written_form_is_refused():
    plan = full_plan()
    host = Item("host", Host("svd", (complex(1, 2),), (), ()), ())
    with pytest.raises(PlanError, match="complex has no written form"):
        plan_cache.encode(Plan((host,), *[getattr(plan, f) for f in list(plan.__dataclass_fields__)[1:]]))
    with pytest.raises(PlanError, match="format 0"):
        plan_cache.decode(b"[0,null,[]]")


def test_plans_are_kept_by_key_and_a_damaged_one_counts_as_absent(tmp_path, monkeypatch):
    cache = DiskCache(tmp_path, ".plan")
    monkeypatch.setattr(plan_cache, "_cache", lambda: cache)
    assert plan_cache.load_plan("graph") is None
    plan_cache.store_plan("graph", full_plan())
    assert plan_cache.load_plan("graph") == full_plan()
    assert plan_cache.load_plan("another graph") is None
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    assert plan_cache.load_plan("graph") is None
