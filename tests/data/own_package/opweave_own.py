"""A package that brings a solver and a formulation, and things that are neither."""

import numpy as np

import opweave as ow

SHARE = 0.5


def heaviest_first(problem, run):
    """All operators run on the device where all of them together take the least time."""
    names = [device.name for device in problem.cluster.devices]
    seconds = {name: sum(problem.costs.seconds(op.id, name) for op in problem.graph.operators) for name in names}
    best = min(names, key=seconds.get)
    stages = ow.Stages(stages=[ow.Stage(device=best, operators=[op.id for op in problem.graph.operators])])
    judged = problem.evaluate(stages)
    if judged.feasible:
        run.found(stages, judged.objective)
    return ow.extend.Outcome(run.termination())


HEAVIEST_FIRST = ow.Solver("heaviest_first", "pipeline", "algorithm", heaviest_first, about="one device")
TAKEN = ow.Solver("auto", "pipeline", "algorithm", heaviest_first, about="a name that is taken")


class Assignment(ow.extend.Formulation[ow.Pipeline, ow.Stages]):
    """One stage on one device: a column for every device."""

    name = "assignment"
    problem_type = ow.Pipeline
    supports = ("assignment",)
    source = "The package's manual, section 1"
    restricts = True

    def build(self, problem):
        model = ow.extend.LinearModel()
        names = [device.name for device in problem.cluster.devices]
        x = model.binaries("x", names)
        model.rows("one_device").add(ow.extend.Linear.over(x.tolist()) == 1)
        seconds = [sum(problem.costs.seconds(op.id, name) for op in problem.graph.operators) for name in names]
        model.minimise(ow.extend.Linear(0.0, dict(zip(x.tolist(), seconds, strict=True))))
        self.add_constraints(model, problem)
        return model

    def extract(self, model, values):
        device = model.families["x"].keys[int(np.argmax(values))]
        operators = [op.id for op in model.problem.graph.operators]
        return ow.Stages(stages=[ow.Stage(device=device, operators=operators)])

    def start(self, model, solution):
        return model.filled({})

    def objective_bound(self, problem, value):
        return value


class Unfinished(ow.extend.Formulation[ow.Pipeline, ow.Stages]):
    """It lacks nearly everything."""

    name = "unfinished"
