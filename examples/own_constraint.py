"""A custom constraint: at most a given number of operators on a device, with an expression for engines."""

from itertools import pairwise

import opweave as ow


class AtMost(ow.Constraint):
    """No more than ``count`` operators run on ``device``."""

    device: str
    count: int

    def violations(self, problem, solution):
        used = sum(name == self.device for name in solution.device.values())
        if used > self.count:
            yield self.broken(f"{used} operators run on {self.device!r}, where at most {self.count} may")


@ow.express(AtMost, "model")
def at_most(model, constraint):
    names = [op.id for op in model.problem.graph.operators]
    model.add(sum(model.on(name, constraint.device) for name in names) <= constraint.count)


chain = ["x", "a", "b", "c", "d"]
graph = ow.OpGraph(
    tensors=[ow.Tensor(id=name, bytes=1_000) for name in chain],
    operators=[ow.Operator(id=op, inputs=[source], outputs=[op]) for source, op in pairwise(chain)],
)
cluster = ow.Cluster(devices=[ow.Device(name="fast"), ow.Device(name="slow")], bandwidth=[[0, 1e6], [1e6, 0]])
costs = ow.Costs.from_table({op: {"fast": 0.001, "slow": 0.003} for op in chain[1:]})

for rules in ([], [AtMost(device="fast", count=2)]):
    problem = ow.Placement(graph=graph, cluster=cluster, costs=costs, constraints=rules)
    result = ow.solve(problem)
    print(result.status.value, result.objective, dict(result.solution.device))
