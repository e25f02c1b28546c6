"""The commands that measure a cluster of Dask workers, and carry plans out on it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import typer
from rich.console import Console

from opweave.adapters.cli.exchange import beside
from opweave.adapters.cli.options import dimensions
from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED, name_files, say
from opweave.adapters.files import check_writable
from opweave.adapters.load import load_cluster, load_problem, load_result, save
from opweave.adapters.report.progress_line import counted
from opweave.adapters.report.tables import section_table, text_table
from opweave.adapters.report.timeline_tables import Columns, section_of
from opweave.problems.errors import InvalidInputError
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.placement.spec import Placement
from opweave.problems.units import readable

UNITS = {"s": "seconds", "1/s": "a second", "bytes": "bytes"}


def probe_command(
    *,
    scheduler: str | None = None,
    local: int | None = None,
    model: Path | None = None,
    output: Path = Path("cluster.json"),
    costs: Path = Path("costs.json"),
    dim: list[str] | None = None,
    threads: int = 1,
    as_json: bool = False,
) -> int:
    """Measure the workers of a Dask cluster, the links between them, and a model's operators on each of them."""
    from opweave.adapters.cluster.connect import connected
    from opweave.adapters.cluster.probing import probe

    for path in (output, *([costs] if model is not None else [])):
        check_writable(path)
    with connected(scheduler, local=local) as client:
        found = probe(client, model, dims=dimensions(dim), threads=threads)
    written = [output]
    save(found.cluster, output)
    if found.costs is not None:
        save(found.costs, costs)
        written.append(costs)
    notes = {**found.cluster.notes, **({} if found.costs is None else found.costs.notes)}
    if as_json:
        typer.echo(json.dumps({"files": [str(path) for path in written], "notes": notes}))
        return VERIFIED
    headings = ("number", "how it was measured")
    say(text_table(headings, notes.items(), words=headings))
    name_files(written)
    return VERIFIED


def run_command(
    model: Path,
    result: Path,
    *,
    scheduler: str | None = None,
    local: int | None = None,
    spec: Path | None = None,
    inputs: int = 100,
    example_inputs: Path | None = None,
    emulate: Path | None = None,
    report: Path | None = None,
    dim: list[str] | None = None,
    threads: int = 1,
    as_json: bool = False,
) -> int:
    """Carry a plan out on Dask workers, check every output, and compare predicted with measured times."""
    from opweave.adapters.archives import read_arrays
    from opweave.adapters.cluster.connect import connected
    from opweave.adapters.cluster.running import run

    place = beside(result) if spec is None else spec
    problem = load_problem(place)
    if not isinstance(problem, Pipeline | Placement):
        raise InvalidInputError(f"{place}: only pipelines and placements can be carried out, not {problem.kind}")
    if emulate is not None and scheduler is None and local is None:
        local = len(problem.cluster.devices)
    given = inputs if example_inputs is None else [dict(read_arrays(example_inputs))] * inputs
    names = [device.name for device in problem.cluster.devices][:local] if local is not None else None
    with connected(scheduler, local=names) as client, counted(Console(stderr=True), "inputs") as progress:
        found = run(
            model,
            load_result(result),
            client,
            problem=problem,
            inputs=given,
            emulate=None if emulate is None else load_cluster(emulate),
            dims=dimensions(dim),
            threads=threads,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps({"rows": found.to_records(), "difference": found.difference, "reason": found.reason}))
    else:
        columns: Columns = {
            "": lambda row: row.what,
            "predicted": lambda row: readable(row.predicted, UNITS[row.unit]),
            "measured": lambda row: readable(row.measured, UNITS[row.unit]),
            "off": lambda row: "-" if row.off is None else f"{row.off:+.1%}",
        }
        say(section_table(section_of("", found.rows, columns)), found.explain())
    if report is not None:
        name_files(found.report(report))
    whole = found.reason is None and found.difference != math.inf
    return VERIFIED if whole else NOTHING_FOUND
