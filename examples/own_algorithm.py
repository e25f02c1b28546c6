"""Search with an algorithm of pymoo: a custom constraint, memory as a second objective, custom settings."""

from __future__ import annotations

from collections.abc import Iterator

from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.operators.mutation.pm import PM
from pymoo.optimize import minimize

import opweave as ow


class AtMost(ow.Constraint):
    """A device runs at most some operators: ``violations`` says all that the search needs to know."""

    device: str
    count: int

    def violations(self, problem: ow.Placement, solution: ow.Schedule) -> Iterator[ow.extend.Violation]:
        number = list(solution.device.values()).count(self.device)
        if number > self.count:
            yield self.broken(f"{self.device!r} runs {number} operators", excess=number - self.count)


names = [f"layer{number}" for number in range(12)]
graph = ow.OpGraph(
    tensors=[ow.Tensor(id=name, bytes=4_000_000) for name in ("x", *names)],
    operators=[
        ow.Operator(id=name, inputs=[names[k - 2] if k > 1 else "x"], outputs=[name]) for k, name in enumerate(names)
    ],
    outputs=names[-2:],
)
cluster = ow.Cluster(devices=[ow.Device(name="gpu", memory_bytes=40_000_000), ow.Device(name="cpu")], shared=10e9)
costs = ow.Costs.from_table({name: {"gpu": 0.001, "cpu": 0.002} for name in names})
problem = ow.Placement(graph=graph, cluster=cluster, costs=costs, constraints=[AtMost(device="gpu", count=8)])

rows = ow.pymoo_problem(problem, objectives=("makespan", "peak"))
print("genes:", rows.n_var, " objectives:", *rows.objective_names, " constraints:", *rows.constraint_names)

algorithm = NSGA2(pop_size=40, sampling=rows.seeds(), mutation=PM(eta=10), repair=rows.repair)
found = minimize(rows, algorithm, ("n_gen", 40), seed=1)
front = dict(zip(map(tuple, found.F), found.X, strict=True))
for (seconds, peak), row in sorted(front.items()):
    judged = problem.evaluate(rows.decode(row))
    print(f"{seconds * 1000:.1f} ms, {peak / 1e6:.0f} MB at most on a device, legal: {judged.feasible}")

best = ow.solve(problem, solver="pymoo", options={"algorithm": "brkga", "generations": 40}, seed=1)
print("brkga:", best.objective, best.status)
