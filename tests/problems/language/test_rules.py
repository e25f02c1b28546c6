"""Rules of blocks: what they forbid, in solvers and for the referee alike."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.rig import Rig
from opweave.problems.language.rules import Beside, InOrder
from opweave.problems.language.workload import Workload
from tests.solvers.language.test_questions import model_of, rig_of

ATTENTION = [f"layers.{number}.attention" for number in range(3)]


def objections(rule: ow.Constraint, homes: list[str], rest: list[str] | None = None) -> list[str]:
    problem = fastest_pass(model_of(3), rig_of(400, 90, 70), Workload(), constraints=[rule])
    device = {"embedding": "cpu", "head": "cpu"}
    device |= dict(zip(ATTENTION, homes, strict=True))
    device |= {f"layers.{number}.feed_forward": where for number, where in enumerate(rest or homes)}
    plan = ow.Schedule(device=device, start=dict.fromkeys(device, 0.0))
    return [each.message for each in rule.violations(problem, plan)]


def test_beside() -> None:
    rule = Beside(op="layers.1.feed_forward", other=ATTENTION[1], device="cpu")
    assert objections(rule, ["gpu0"] * 3) == []
    assert objections(rule, ["gpu0"] * 3, ["gpu0", "cpu", "gpu1"]) == []
    assert len(objections(rule, ["gpu0"] * 3, ["gpu0", "gpu1", "gpu0"])) == 1


@pytest.mark.parametrize(
    ("homes", "wrong"),
    [
        (["cpu", "gpu1", "gpu0"], 0),
        (["gpu1", "gpu1", "gpu0"], 0),
        (["gpu0", "cpu", "gpu0"], 1),
        (["gpu0", "gpu1", "cpu"], 2),
    ],
)
def test_in_order(homes: list[str], wrong: int) -> None:
    assert len(objections(InOrder(ops=ATTENTION, devices=["cpu", "gpu1", "gpu0"]), homes)) == wrong


@pytest.mark.parametrize("engine", ["layers", "highs"])
def test_solvers_obey_them(engine: str) -> None:
    rules = [InOrder(ops=ATTENTION, devices=["cpu", "gpu1"])]
    rules += [Beside(op=f"layers.{n}.feed_forward", other=ATTENTION[n], device="cpu") for n in range(3)]
    problem = fastest_pass(model_of(3), rig_of(400, 90, 120), Workload(), constraints=rules)
    result = ow.solve(problem, solver=engine, time_limit=20)
    assert result.status is ow.Status.OPTIMAL
    assert result.objective == pytest.approx(ow.solve(problem, solver="layers").objective)


def test_a_rig_is_checked() -> None:
    rig = rig_of(400, 90, 70)
    assert rig.without(frozenset({"laptop"})).cluster.device_index.keys() == {"cpu", "gpu0"}
    assert rig.with_memory("gpu0", 5).cluster.devices[1].memory_bytes == 90 * 2**20 + 5
    for field, value, words in (
        ("host", "x", "host names device 'x'"),
        ("reserve", {"cpu": 2**40}, "the reserve of device 'cpu'"),
        ("machines", {"a": ["cpu"], "b": ["cpu"]}, "lists it 2 times"),
        ("efficiency", {"heads": ow.Efficiency()}, "efficiency names role 'heads'"),
    ):
        with pytest.raises(ow.InvalidInputError, match=words):
            Rig(**{"cluster": rig.cluster, field: value})
