"""A custom solver in five lines; it is called, timed, checked and listed like all others."""

import random

import opweave as ow


@ow.solver_for(ow.MemoryOrdering)
def shuffle(problem, run):
    """Random orders until the time is up."""
    dice = random.Random(run.seed)
    while not run.should_stop():
        order = ow.Ordering(order=legal(problem.graph, dice))
        run.found(order, problem.evaluate(order).objective)  # only better ones are kept


def legal(graph, dice):
    """A random order in which every operator follows those that it reads from."""
    makers = {tensor: op.id for op in graph.operators for tensor in op.outputs}
    needs = {op.id: {makers[tensor] for tensor in op.inputs if tensor in makers} for op in graph.operators}
    order = []
    while needs:
        order.append(dice.choice([op for op, before in needs.items() if before <= set(order)]))
        del needs[order[-1]]
    return order


if __name__ == "__main__":
    names = [f"branch{k}" for k in range(6)]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id="image", bytes=100)]
        + [ow.Tensor(id=name, bytes=1000 - 100 * k) for k, name in enumerate(names)]
        + [ow.Tensor(id=f"{name}.out", bytes=10) for name in names],
        operators=[ow.Operator(id=f"widen {name}", inputs=["image"], outputs=[name]) for name in names]
        + [ow.Operator(id=f"narrow {name}", inputs=[name], outputs=[f"{name}.out"]) for name in names],
        outputs=[f"{name}.out" for name in names],
    )
    problem = ow.MemoryOrdering(graph=graph)
    for solver in ("shuffle", "auto"):
        result = ow.solve(problem, solver=solver, time_limit=0.5, seed=1)
        print(solver, result.status.value, result.objective, result.verified)
