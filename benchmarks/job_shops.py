"""Flexible job shops, a problem with published best values, solved as placements.

Run ``python -m benchmarks.job_shops``; ``--smoke`` uses small random shops and short limits; ``--seconds 15`` sets the
limit of each instance. The instances of PyJobShop/Experiments (MIT; Brandimarte, Hurink, Dauzere-Peres, Barnes, Kacem,
Fattahi and others) with their ``best_known.csv`` lie in the folder that the environment variable ``OPWEAVE_JOB_SHOPS``
names. The column "above best known" compares with that file; "processor" counts the seconds of this process and of the
engines that it started, which are fewer than the limit where a machine is shared.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

import opweave as ow
from benchmarks.readers import load_job_shop, read_job_shop
from benchmarks.tables import percent, processor_seconds, show, timed

INSTANCES = Path(os.environ.get("OPWEAVE_JOB_SHOPS", "instances/fjsp"))


def random_shop(jobs: int, machines: int, seed: int) -> ow.Placement:
    """A shop in which about half of the machines can run an operation."""
    rng = random.Random(seed)
    lines = [f"{jobs} {machines}"]
    for _ in range(jobs):
        words = [str(machines)]
        for _ in range(machines):
            able = rng.sample(range(1, machines + 1), max(1, machines // 2))
            words += [str(len(able)), *(f"{k} {rng.randint(5, 99)}" for k in able)]
        lines.append(" ".join(words))
    return read_job_shop("\n".join(lines), f"random {jobs} x {machines}")


def published() -> Iterator[tuple[str, str, float, ow.Placement]]:
    """Family, instance, best known value and problem of every instance that is there."""
    listed = INSTANCES / "best_known.csv"
    if not listed.exists():
        return
    with listed.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield row["category"], row["instance"], float(row["bks"]), load_job_shop(INSTANCES / row["instance"])


def rows(seconds: float, *, smoke: bool) -> Iterator[tuple[object, ...]]:
    """One row for each shop, and the mean."""
    shops = list(published())
    if smoke or not shops:
        shops = [("random", f"{n} x {m}", 0.0, random_shop(n, m, 0)) for n, m in ((4, 3), (10, 5))]
    above = []
    for family, name, best, problem in shops:
        began = processor_seconds()
        with timed() as clock:
            result = ow.solve(problem, time_limit=seconds)
        assert result.verified
        assert result.objective is not None
        above.append(result.objective / best - 1.0 if best else 0.0)
        yield (
            family,
            name,
            len(problem.graph.operators),
            len(problem.cluster.devices),
            f"{result.objective:g}",
            f"{best:g}" if best else "-",
            f"{100 * above[-1]:.2f} %" if best else "-",
            "-" if result.bound is None else f"{result.bound:.0f}",
            percent(result.gap),
            (result.bound_source or "-")[:24],
            f"{clock.seconds:.1f}",
            f"{processor_seconds() - began:.1f}",
        )
    yield ("mean", *[""] * 5, f"{100 * statistics.mean(above):.2f} %", *[""] * 5)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--smoke", action="store_true", help="only small graphs and short limits")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of each instance")
    given = parser.parse_args()
    seconds = 1.0 if given.smoke else given.seconds
    ow.solve(random_shop(10, 5, 1), time_limit=1.0 if given.smoke else 10.0)  # load or compile every loop
    columns = "operations | machines | plan | best known | above best known | bound | gap | proof"
    show(
        f"Flexible job shops, {seconds:g} s each",
        f"family | instance | {' | '.join(columns)} | seconds | processor",
        rows(seconds, smoke=given.smoke),
    )


if __name__ == "__main__":
    main()
