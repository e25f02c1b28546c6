"""ExecuTorch plans a model through our algorithm: less memory than its own plan, and the runtime computes the same."""

from __future__ import annotations

import pytest

import opweave as ow

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")
pytestmark = pytest.mark.frameworks


class Branches(torch.nn.Module):
    """Two branches of different widths."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.thin = torch.nn.Conv2d(3, 24, 3, padding=1), torch.nn.Conv2d(24, 8, 1)
        self.down, self.up = torch.nn.Conv2d(24, 40, 3, stride=2, padding=1), torch.nn.Conv2d(40, 8, 1)
        self.last = torch.nn.Conv2d(8, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.wide(x))
        thin = torch.relu(self.thin(x))
        other = torch.relu(self.up(torch.relu(self.down(x))))
        other = torch.nn.functional.interpolate(other, scale_factor=2.0, mode="nearest")
        return torch.cat([torch.relu(self.last(thin + other)), thin * other], 1)


def test_a_model_is_planned_and_runs() -> None:
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer as load

    model, example = Branches().eval(), (torch.randn(1, 3, 32, 32),)
    algo = ow.runtimes.executorch_algo(time_limit=20)
    reserved, outputs = [], []
    for plan in (greedy, algo):
        suite = MemoryPlanningAlgorithmSuite([plan])
        planning = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(memory_planning_algo=suite))
        program = to_edge(torch.export.export(model, example)).to_executorch(planning)
        reserved.append(sum(program.executorch_program.execution_plan[0].non_const_buffer_sizes))
        outputs.append(load(program.buffer).forward(example)[0])
    ((problem, result),) = algo.planned
    assert torch.equal(*outputs)
    assert (result.status, reserved[1]) == (ow.Status.OPTIMAL, result.objective)
    assert reserved[1] == problem.live_peak < reserved[0]
    assert ow.solve(problem, solver="executorch").objective == reserved[0]
