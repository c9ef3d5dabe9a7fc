"""The profiler, the measured peaks, and the null device."""

import numpy as np
import pytest
from hand_kernels import TARGET, Hand, at

from renaissance.errors import ArgumentError, PlanError
from renaissance.ir.dtype import float32
from renaissance.runtime import null, peaks
from renaissance.runtime.cost import Peaks, floor_s, nominal, predicted_s
from renaissance.runtime.profiler import profile

ROUND = Peaks(f32_flops_per_s=1e9, bf16_flops_per_s=2e9, bytes_per_s=1e8)


def sample():
    """A plan of a long item, a short one, and a state copy."""
    hand = Hand()
    state, middle, out = hand.buffer("input", 64), hand.buffer("arena", 64), hand.buffer("output", 64)
    hand.item("spin", [(middle, "out")], [("operand", 0, 0), ("int", 20_000)], 4, flops=3000, moved=100)
    hand.item("spin", [(out, "out")], [("operand", 0, 0), ("int", 10)], 1, flops=0, moved=500)
    return hand, hand.plan([out], copies=[(middle, state)])


def test_profile_counts_calls_and_shares():
    hand, plan = sample()
    executable = hand.link(plan, 2)
    x, y = np.zeros(64, np.int64), np.zeros(64, np.int64)
    executable.run((at(x),), (at(y),))
    with profile() as taken:
        for _ in range(3):
            executable.run((at(x),), (at(y),))
    executable.run((at(x),), (at(y),))
    rows = taken.rows(ROUND)
    assert [row.name for row in rows][0] == "spin" and sorted(row.name for row in rows) == ["copy", "spin", "spin"]
    assert all(row.calls == 3 for row in rows)
    assert sum(row.share for row in rows) == pytest.approx(1)
    long = rows[0]
    assert long.time_s > 3e-4 and long.share > 0.5
    assert long.flops_per_s == pytest.approx(9000 / long.time_s)
    assert long.peak_share == pytest.approx(3 * 3e-6 / long.time_s)
    assert next(row for row in rows if row.name == "copy").peak_share is None


def test_profile_prints_and_cannot_be_nested(capsys):
    hand, plan = sample()
    executable = hand.link(plan, 1)
    x, y = np.zeros(64, np.int64), np.zeros(64, np.int64)
    with profile() as taken:
        executable.run((at(x),), (at(y),))
        with pytest.raises(ArgumentError, match="nested"), profile():
            pass
    taken.print(ROUND)
    printed = capsys.readouterr().out
    assert "spin" in printed and "GFLOP/s" in printed


def test_measured_peaks_are_those_of_a_machine():
    one = peaks.measure(TARGET, 1)
    assert 1e9 < one.f32_flops_per_s < 1e12 and 1e8 < one.bytes_per_s < 1e12
    assert one.bf16_flops_per_s >= 0.5 * one.f32_flops_per_s
    assert peaks.measure(TARGET, 1) is one


def test_the_narrow_target_has_a_peak_too():
    narrow = peaks.measure(TARGET.restricted("sse"), 1)
    assert 1e8 < narrow.f32_flops_per_s < 1e12


def test_cost_is_the_larger_of_arithmetic_and_traffic():
    _, plan = sample()
    assert floor_s(plan.items[0], ROUND) == pytest.approx(3e-6)
    assert floor_s(plan.items[1], ROUND) == pytest.approx(5e-6)
    assert predicted_s(plan, ROUND) == pytest.approx(8e-6 + 2e-6)
    assert nominal(TARGET, 2).f32_flops_per_s == 2 * nominal(TARGET, 1).f32_flops_per_s


def test_null_device_reports_and_runs_nothing():
    _, plan = sample()
    executable = null.link(plan, TARGET, 2)
    report = executable.report
    assert (report.items, report.arena_bytes) == (2, 512)
    assert (report.input_bytes, report.state_bytes, report.output_bytes) == (512, 512, 512)
    assert report.total_bytes == 1536
    (row,) = report.rows
    assert (row.name, row.count, row.flops, row.bytes) == ("spin", 2, 3000, 600)
    assert "2 items" in str(report) and "spin" in str(report)
    executable.run((0,), (0,))
    with pytest.raises(PlanError, match="1 and 0"):
        executable.run((0,), ())
    assert executable.plan.scalars == () and float32 not in plan.scalars
