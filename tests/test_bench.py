"""The benchmark's own logic, with programs that only pretend to measure."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from rich.console import Console

import bench.__main__ as command
from bench import digits, load, peak, probe, report
from bench.layers import DIRECTIONS, LAYERS, Convolution
from bench.measure import Bar, Case, Measurement, alternate, best_rival, measure, together
from bench.program import ROOT, Program, ProgramError, Result, Runner
from bench.rows import ROWS, conv
from bench.shapes import NETWORKS, PERCEPTRONS

KEYS = ["row", "variant", "precision", "ours_s", "rival", "rival_s", "ratio", "ratio_min", "ratio_max", "share_of_peak",
        "ours_rss_mib", "rival_rss_mib", "faults_per_step", "load_average"]
OURS, SLOW, QUICK_ONE, BROKEN = (Program(name, "none") for name in ("ours", "slow", "quick", "broken"))


class Script:
    """Runs programs by giving out the times written down for each, and notes who ran."""

    def __init__(self, **seconds: list[float]) -> None:
        self.seconds = {name: iter(times) for name, times in seconds.items()}
        self.ran: list[str] = []

    def __call__(self, program: Program) -> Result:
        self.ran.append(program.name)
        if program.name == "broken":
            raise ProgramError("broken: no C++ compiler")
        value = next(self.seconds[program.name])
        return Result(value, rss_mib=100 * value, faults_per_step=value * 2, note="noted" if program.name == "quick" else "")


def case(*rivals: Program, **changes) -> Case:
    return Case("row", "variant", "fp32", OURS, rivals, **changes)


def silent(_text: str) -> None:
    """Takes what is said and keeps it to itself."""


def measured(case: Case, run: Callable[[Program], Result], *, tries: int = 1, **settings) -> Measurement:
    """What is measured of one case alone."""
    [(_, found)] = measure([case], run, tries=tries, say=silent, **settings)
    return found


def some_measurement(**changes) -> Measurement:
    values = dict.fromkeys(KEYS, 1.0) | {"row": "mlp", "variant": "fastest", "precision": "bf16", "rival": "torch"}
    return Measurement(**(values | changes))


def test_ratio_is_of_medians_and_its_range_of_single_alternations():
    run = Script(ours=[9.0, 1.0, 2.0, 4.0], quick=[5.0, 4.0, 4.0, 20.0])
    found = measured(case(QUICK_ONE), run, alternations=3, peaks={"fp32": 1.0})
    assert (found.ours_s, found.rival_s, found.ratio) == (2.0, 4.0, 2.0)
    assert (found.ratio_min, found.ratio_max) == (2.0, 5.0)
    assert (found.ours_rss_mib, found.rival_rss_mib, found.faults_per_step) == (200.0, 400.0, 4.0)
    assert found.rival == "quick, noted"
    assert found.load_average >= 0


def test_memory_rows_compare_memory():
    @dataclasses.dataclass
    class Fixed:
        sizes: dict[str, float]

        def __call__(self, program: Program) -> Result:
            return Result(1.0, self.sizes[program.name])

    run = Fixed({"ours": 100.0, "slow": 150.0, "quick": 300.0})
    found = measured(case(QUICK_ONE, SLOW, compared="rss_mib"), run, alternations=2, peaks={"fp32": 1.0})
    assert (found.rival, found.ratio, found.ratio_min, found.ratio_max) == ("slow", 1.5, 1.5, 1.5)


def test_both_sides_run_in_turn_and_go_first_in_turn():
    run = Script(ours=[1.0] * 4, quick=[1.0] * 4)
    alternate(OURS, QUICK_ONE, run, 4)
    assert run.ran == ["ours", "quick", "quick", "ours"] * 2


def test_the_rival_is_the_best_of_its_tries_and_failures_are_told():
    told: list[str] = []
    run = Script(slow=[0.9, 3.0], quick=[5.0, 0.5])
    assert best_rival(case(SLOW, BROKEN, QUICK_ONE), run, tries=2, say=told.append) is QUICK_ONE
    assert len(told) == 3
    assert "left out broken: no C++ compiler" in told[1]


def test_without_any_rival_ours_is_measured_alone():
    run = Script(ours=[1.0, 2.0, 2.0])
    found = measured(case(BROKEN, flops=6.0), run, alternations=2, tries=2, peaks={"fp32": 12.0})
    assert (found.ours_s, found.share_of_peak) == (2.0, 0.25)
    assert (found.rival, found.rival_s, found.ratio, found.ratio_min, found.ratio_max, found.rival_rss_mib) == (None,) * 6


def test_a_program_may_report_its_own_speed():
    def run(_program: Program) -> Result:
        return Result(1.0, 1.0, flops_per_second=9.0)

    assert measured(case(flops=6.0), run, alternations=1, peaks={"fp32": 12.0}).share_of_peak == 0.75
    assert measured(case(), Script(ours=[1.0, 1.0]), alternations=1, peaks={}).share_of_peak is None


def test_one_run_serves_every_part_that_its_programs_report():
    def run(program: Program) -> Result:
        ran.append(program.name)
        return Result(3.0, 1.0, parts={"first": 1.0, "second": 2.0} if program is OURS else {"first": 3.0, "second": 3.0})

    ran: list[str] = []
    cases = [dataclasses.replace(case(QUICK_ONE, flops=flops), variant=part, part=part)
             for part, flops in (("first", 4.0), ("second", 6.0), ("third", 1.0))]
    found = measure(cases, run, alternations=2, tries=1, peaks={"fp32": 8.0}, say=silent)
    assert [(each.part, one.variant, one.ours_s, one.ratio, one.share_of_peak) for each, one in found] == [
        ("first", "first", 1.0, 3.0, 0.5), ("second", "second", 2.0, 1.5, 0.375)]
    assert ran == ["ours", "quick", "ours", "quick", "quick", "ours"]


def test_neighbours_with_the_same_programs_are_measured_together():
    first, second, third = case(QUICK_ONE, part="a"), case(QUICK_ONE, part="b"), case(SLOW, part="c")
    assert together([first, second, third, first]) == [[first, second], [third], [first]]


def test_a_failure_of_ours_is_an_error():
    failing = dataclasses.replace(case(QUICK_ONE), ours=BROKEN)
    with pytest.raises(ProgramError, match="no C\\+\\+ compiler"):
        measured(failing, Script(quick=[1.0]), alternations=1, peaks={})


@pytest.mark.parametrize("bar, value, met, text", [
    (Bar("ratio", 1.25), 1.25, True, "ratio >= 1.25"), (Bar("ratio", 1.25), 1.24, False, "ratio >= 1.25"),
    (Bar("ratio", 1.25), None, None, "ratio >= 1.25"), (Bar("ours_s", 2.0, at_most=True), 2.0, True, "ours_s <= 2"),
    (Bar("ours_s", 2.0, at_most=True), 2.1, False, "ours_s <= 2")])
def test_bars(bar: Bar, value: float | None, met: bool | None, text: str):
    assert bar.met(some_measurement(**{bar.field: value})) is met
    assert str(bar) == text


def test_json_file_has_one_object_a_line_with_the_agreed_keys(tmp_path: Path):
    file = tmp_path / "out.json"
    report.write_json(file, [some_measurement(), some_measurement(rival=None, ratio=None)])
    objects = json.loads(file.read_text(encoding="utf-8"))
    assert [list(each) for each in objects] == [KEYS, KEYS]
    assert objects[1]["rival"] is None
    assert len(file.read_text(encoding="utf-8").splitlines()) == 4


def test_table_shows_every_measurement_and_missed_bars():
    bars = (Bar("ratio", 2.0), Bar("ours_s", 5.0, at_most=True))
    missing = dict.fromkeys(("rival", "rival_s", "ratio", "ratio_min", "ratio_max", "rival_rss_mib", "share_of_peak"))
    console = Console(width=200)
    with console.capture() as shown:
        console.print(report.table([(some_measurement(), bars), (some_measurement(row="memory", **missing), ())]))
    assert "ratio >= 2 missed" in shown.get()
    assert "ours_s <= 5 missed" not in shown.get()
    assert "memory" in shown.get()


@pytest.mark.parametrize("value, text", [(None, "-"), (1.5, "1.5 s"), (0.0031, "3.1 ms"), (2.5e-5, "25 µs"), (4e-8, "40 ns")])
def test_durations_for_people(value: float | None, text: str):
    assert report.seconds(value) == text


def test_busy_time_leaves_out_idle_and_waiting():
    ticks = load._TICKS_PER_SECOND
    user, nice, system, idle, waiting, interrupts, soft, stolen = (count * ticks for count in (1, 2, 4, 100, 50, 8, 16, 32))
    stat = f"cpu  {user} {nice} {system} {idle} {waiting} {interrupts} {soft} {stolen} 0 0\ncpu0 1 1\n"
    assert load.busy_seconds(stat) == 63.0


def test_load_of_others_leaves_out_our_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(load.time, "monotonic", lambda: next(walls))
    monkeypatch.setattr(load, "busy_seconds", lambda _stat: next(busy))
    monkeypatch.setattr(load, "own_seconds", lambda: next(own))
    walls, busy, own = iter([0.0, 10.0]), iter([100.0, 120.0]), iter([1.0, 16.0])
    assert load.OtherLoad().average() == 0.5
    # Clocks of different grain may make the difference negative by a little.
    walls, busy, own = iter([0.0, 10.0]), iter([100.0, 120.0]), iter([1.0, 21.5])
    assert load.OtherLoad().average() == 0.0


def test_times_of_steps_are_medians_and_warm_up_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    clock = iter([0.0, 1.0, 10.0, 15.0, 20.0, 22.0])
    faults = iter([100, 130])
    monkeypatch.setattr(probe.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(probe, "minor_faults", lambda: next(faults))
    calls: list[None] = []
    assert probe.time_steps(lambda: calls.append(None), warmup=4, steps=3) == {"seconds": 2.0, "faults_per_step": 10.0}
    assert len(calls) == 7


def test_a_program_reports_what_a_result_takes(capsys: pytest.CaptureFixture):
    probe.report(seconds=1.0, note="here")
    result = Result(**json.loads(capsys.readouterr().out))
    assert (result.seconds, result.faults_per_step, result.note) == (1.0, None, "here")
    assert result.rss_mib > 1


class TestRunner:
    """Programs in real processes; modules are written into a folder that is put on their path."""

    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[..., Program]:
        def make(code: str, **fields) -> Program:
            (tmp_path / "pretender.py").write_text("import json, os, sys\n" + code, encoding="utf-8")
            return Program("pretender", "pretender", environment={"PYTHONPATH": str(tmp_path), "MALLOC_TOP_PAD_": "7"}, **fields)

        return make

    @pytest.fixture
    def runner(self, tmp_path: Path) -> Runner:
        (tmp_path / "cache").mkdir()
        return Runner(tmp_path / "cache", quick=True, python=sys.executable, rival_python=sys.executable)

    def test_gives_arguments_environment_and_caches(self, make, runner, monkeypatch):
        monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
        program = make("print('chatter')\nprint(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]))",
                       arguments=("a", "--steps", "9"), quick=("--steps", "1"))
        arguments, environment, folder = runner.answer(program, runner.cache)
        assert arguments == ["a", "--steps", "9", "--steps", "1"]
        assert environment["MALLOC_TOP_PAD_"] == "7"
        assert "MALLOC_ARENA_MAX" not in environment
        assert environment["RENAISSANCE_CACHE"].startswith(str(runner.cache))
        assert Path(folder) == ROOT

    def test_an_empty_cache_is_new_each_time(self, make, runner):
        code = ("from pathlib import Path\nmark = Path(os.environ['RENAISSANCE_CACHE'])\nfound = mark.exists()\n"
                "mark.mkdir(parents=True, exist_ok=True)\nprint(json.dumps({'seconds': float(found), 'rss_mib': 1}))")
        cold = make(code, empty_cache=True)
        assert [runner.run(cold).seconds for _ in range(2)] == [0.0, 0.0]
        warm = make(code)
        assert [runner.run(warm).seconds for _ in range(2)] == [0.0, 1.0]

    @pytest.mark.parametrize("code, complaint", [
        ("raise ValueError('no compiler')", "pretender: ValueError: no compiler"),
        ("sys.exit('told so')", "pretender: told so"), ("os._exit(3)", "pretender: exit status 3, no output"),
        ("pass", "pretender: exit status 0, no output")])
    def test_failures_are_told_in_a_line(self, make, runner, code, complaint):
        with pytest.raises(ProgramError) as error:
            runner.run(make(code))
        assert str(error.value) == complaint

    def test_the_rival_has_its_own_interpreter(self, runner):
        runner.rival_python = "/no/such/python"
        with pytest.raises(FileNotFoundError):
            runner.run(Program("rival", "bench.rivals.step"))


@pytest.mark.parametrize("row", ROWS)
def test_rows_name_programs_that_exist(row: str):
    cases = ROWS[row]()
    assert len({str(each) for each in cases}) == len(cases)
    for each in cases:
        assert each.row == row
        assert each.precision in ("fp32", "bf16")
        assert each.compared in ("seconds", "rss_mib")
        assert len({rival.name for rival in each.rivals}) == len(each.rivals)
        assert each.rivals or each.variant == "gemms"
        for bar in each.bars:
            assert bar.field in KEYS
        for program in (each.ours, *each.rivals):
            assert importlib.util.find_spec(program.module) is not None


def test_flops_of_the_mlp():
    shape = PERCEPTRONS["mlp"]
    weights = 784 * 1024 + 1024 * 512 + 512 * 256 + 256 * 10
    assert shape.forward_flops == 400 * weights
    assert shape.step_flops == 400 * (3 * weights - 784 * 1024)


@pytest.mark.parametrize("name, multiplications", [
    ("vgg16bn_224", 15_470_264_320), ("resnet50", 4_089_184_256), ("mobilenetv2", 300_774_272), ("vgg16bn_cifar", 313_725_952)])
def test_flops_of_the_networks(name: str, multiplications: int):
    shape = NETWORKS[name]
    assert shape.image_flops == 2 * multiplications
    first = 2 * shape.convolutions[0].out_size ** 2 * shape.convolutions[0].kernel ** 2 * 3 * shape.convolutions[0].filters
    assert shape.step_flops == shape.batch * (6 * multiplications - first)


def test_every_layer_has_a_line_for_each_direction():
    lines = [each for each in conv.cases() if each.precision == "fp32"]
    assert len(lines) == 3 * sum(len(layers) for layers in LAYERS.values())
    assert {str(layer) for layer in LAYERS["mobilenetv2"]} >= {
        "3x3 3->32 at 224 stride 2", "3x3 depthwise 96->96 at 112 stride 2", "1x1 96->24 at 56"}
    assert len(together(conv.cases())) == 2 * len(LAYERS)


@pytest.mark.parametrize("layer, bars", [
    (Convolution(64, 64, 56, 3), [2.5, 2.5, 2.0]), (Convolution(512, 512, 14, 3), [2.0, 2.0, 1.6]),
    (Convolution(128, 128, 56, 3, 2), [1.0] * 3), (Convolution(3, 64, 224, 3), [1.0] * 3),
    (Convolution(96, 96, 56, 3, groups=96), [1.0] * 3), (Convolution(64, 256, 56, 1), [1.0] * 3)])
def test_bars_of_layers(layer: Convolution, bars: list[float]):
    assert [conv.ratio(layer, direction, "fp32") for direction in DIRECTIONS] == bars
    assert {conv.ratio(layer, direction, "bf16") for direction in DIRECTIONS} == {1.0}


def test_stand_in_digits_come_from_their_seed():
    images = digits.images(2500, 1)
    assert images.shape == (2500, 28, 28)
    assert np.array_equal(images, digits.images(2500, 1))
    assert not np.array_equal(images, digits.images(2500, 2))
    assert np.median(images) < 30 < images.max()
    assert set(digits.labels(1000, 3)) == set(range(10))


@pytest.mark.parametrize("features", [[], ["avx2"], ["avx2", "avx512f"], ["avx2", "avx512f", "avx512bf16"]])
def test_peak_loops_are_valid_for_every_width(features: list[str]):
    llvm.initialize_native_target()
    for op in peak.instructions(dict.fromkeys(features, True)).values():
        llvm.parse_assembly(peak.assembly(op)).verify()


class Pretend:
    """Stands for a Runner whose programs all take one second, but for ours where `failing`."""

    failing = False

    def __init__(self, cache: Path, **_settings) -> None:
        self.cache = cache

    def answer(self, _program: Program, _cache: Path) -> dict:
        return {"fp32": 1e12, "bf16": 2e12}

    def run(self, program: Program) -> Result:
        if self.failing and program.module.startswith("bench.ours."):
            raise ProgramError("ours: does not work")
        return Result(1.0, 1.0, 0.0)


def test_the_command_writes_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.setattr(command, "Runner", Pretend)
    file = tmp_path / "out.json"
    assert command.main(["mlp", "tinymlp", "--precision", "bf16", "--alternations", "2", "--json", str(file)]) == 0
    lines = [(each["row"], each["variant"], each["precision"]) for each in json.loads(file.read_text(encoding="utf-8"))]
    assert lines == [*(("mlp", variant, "bf16") for variant in ("fastest", "as_used", "gemms")), ("tinymlp", "fastest", "bf16")]
    assert "tinymlp" in capsys.readouterr().out


def test_the_command_goes_on_and_ends_with_1_where_ours_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.setattr(command, "Runner", type("Failing", (Pretend,), {"failing": True}))
    assert command.main(["mlp", "--quick"]) == 1
    assert capsys.readouterr().err.count("failed: ours: does not work") == 6


def test_quick_takes_one_rival():
    cases = command.chosen(command.parse(["mlp", "mnist", "--quick", "--variant", "fastest"]))
    assert [(str(each), len(each.rivals)) for each in cases] == [("mlp fastest fp32", 1), ("mlp fastest bf16", 1)]


def test_a_row_may_be_cut_to_one_variant():
    cases = command.chosen(command.parse(["memory/mlp", "tinymlp"]))
    assert [str(each) for each in cases] == ["memory mlp fp32", "memory mlp bf16", "tinymlp fastest fp32", "tinymlp fastest bf16"]


def test_programs_time_the_first_calls_less_later_ones(monkeypatch: pytest.MonkeyPatch):
    clock = iter([0.0, 10.0, 20.0, 21.0, 30.0, 33.0, 40.0, 42.0])
    monkeypatch.setattr(probe.time, "perf_counter", lambda: next(clock))
    calls: list[int] = []
    assert probe.time_first(lambda: calls.append, [7], later=3) == 6.0
    assert calls == [7] * 5


def test_programs_time_an_action_often_enough(monkeypatch: pytest.MonkeyPatch):
    clock = iter([10.0, 15.0, 20.0, 23.0, 30.0, 34.0])
    monkeypatch.setattr(probe.time, "perf_counter", lambda: next(clock))
    assert probe.time_often(lambda: None, seconds=10, least=2) == 4.0


@pytest.mark.parametrize("arguments", [["nosuchrow"], ["mlp/nosuchvariant"], ["--alternations", "0"]])
def test_wrong_options_are_refused(arguments: list[str]):
    with pytest.raises(SystemExit, match="2"):
        command.parse(arguments)


def test_help_runs():
    ended = subprocess.run([sys.executable, "-m", "bench", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "ROW" in ended.stdout
    assert all(row in ended.stdout for row in ROWS)
