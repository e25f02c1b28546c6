"""Plans, bounds and proofs of about seventy instances of all problems, and what changed since an earlier run.

Run ``python -m benchmarks.scorecard --seconds 3 20 60 --out scorecard.json``. The file grows row by row, and a run goes
on where it ended. What a shorter limit proved is not solved again. ``--against FILE`` compares the rows with those of
an earlier run; with ``--seconds`` omitted as well, nothing is solved. ``--only REGEX`` selects by title;
``--smoke`` solves tiny instances only.

All solves run one after the other in this process, with one thread. A plan
under ``extend`` is judged by the rule, too, because the referee does not know the rows.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import opweave as ow
from benchmarks.scorecard_instances import Instance, instances, tiny
from benchmarks.tables import processor_seconds, show, timed

Row = dict[str, Any]
Rows = dict[str, Row]

SAME = 1e-6
"""Relative difference up to which plans and bounds are equal."""


def key(title: str, limit: float) -> str:
    """The name of a row in the file."""
    return f"{title} | {limit:g} s"


def solved(instance: Instance, limit: float, solver: str) -> Row:
    """One solve; what it raises becomes the row's ``error``."""
    row: Row = {"kind": instance.kind, "title": instance.title, "limit": limit}
    try:
        problem = instance.problem()
    except FileNotFoundError as missing:
        return row | {"error": str(missing), "missing": True}
    extend = instance.rows if instance.way == "extend" else None
    began = processor_seconds()
    with timed() as clock:
        try:
            result = ow.solve(problem, solver=solver, time_limit=limit, extend=extend)
        except Exception as error:  # a row that says so, and the others go on
            return row | {"error": f"{type(error).__name__}: {error}"[:300]}
    row |= {
        "plan": result.objective,
        "bound": result.bound,
        "seconds": round(clock.seconds, 3),
        "processor": round(processor_seconds() - began, 3),
        "proved": result.status.value in ("optimal", "infeasible"),
        "status": result.status.value,
        "source": result.bound_source,
        "reason": result.reason,
    }
    if result.solution is not None and instance.rule is not None:
        broken = [violation.message for violation in instance.rule.violations(problem, result.solution)]
        if broken:
            row |= {"plan": None, "proved": False, "error": f"breaks the rule: {broken[0]}"}
    if result.solution is not None and not result.verified:
        row |= {"plan": None, "proved": False, "error": "not verified"}
    return row


def proved_before(rows: Rows, title: str, limit: float) -> Row | None:
    """The row of a shorter limit that has a proof."""
    shorter = [row for row in rows.values() if row["title"] == title and row["limit"] < limit and row.get("proved")]
    return shorter[0] | {"limit": limit, "from": shorter[0]["limit"]} if shorter else None


def number(value: float | None) -> str:
    """A number of any unit."""
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:,.6g}"


def gap(row: Row) -> float | None:
    """What the plan is above the bound, as a share of the plan."""
    plan, bound = row.get("plan"), row.get("bound")
    if plan is None or bound is None:
        return None
    return max(0.0, (plan - bound) / abs(plan)) if plan else 0.0


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table."""
    share = gap(row)
    ended = "proved" if row.get("proved") else row.get("error") or row.get("reason") or ""
    return (
        row["title"],
        f"{row['limit']:g}",
        number(row.get("plan")),
        number(row.get("bound")),
        "-" if share is None else f"{100 * share:.2f}",
        number(row.get("seconds")),
        number(row.get("processor")),
        ended[:60] + (f", {row['from']:g} s" if "from" in row else ""),
    )


def warm_up(solver: str) -> None:
    """Compile or load the loops, and start engines once."""
    ow.warm()
    for instance in tiny():
        solved(instance, 5.0 if instance.rule else 1.0, solver)


def measure(rows: Rows, chosen: Sequence[Instance], arguments: argparse.Namespace) -> None:
    """Solve what is not in the file yet; print each row, and write the file after it."""
    print("instance | limit | plan | bound | gap % | seconds | processor | ended")
    for limit in sorted(arguments.seconds):
        for instance in chosen:
            name = key(instance.title, limit)
            if name not in rows or rows[name].get("missing"):
                before = proved_before(rows, instance.title, limit)
                rows[name] = before or solved(instance, limit, arguments.solver)
                if arguments.out is not None:
                    partial = arguments.out.with_suffix(".part")
                    partial.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
                    partial.replace(arguments.out)
            print(" | ".join(cells(rows[name])), flush=True)


def ratio(now: float | None, before: float | None) -> float | None:
    """The new value over the old one; None where there is no ratio."""
    if now is None or before is None or (not before and now):
        return None
    return now / before if before else 1.0


def lost(now: Row, before: Row, what: str) -> bool:
    """Whether the old row has something that the new one lacks."""
    return bool(before.get(what)) and not now.get(what)


def change(kind: str, limit: float, pairs: Sequence[tuple[Row, Row]]) -> tuple[object, ...]:
    """What changed for one problem at one limit."""
    cells: list[object] = [kind, f"{limit:g}", len(pairs)]
    for what, worst in (("plan", max), ("bound", min)):
        ratios = [found for now, before in pairs if (found := ratio(now.get(what), before.get(what)))]
        cells += [f"{worst(ratios):.4f}", f"{statistics.geometric_mean(ratios):.4f}"] if ratios else ["-", "-"]
    for what in ("plan", "bound", "proved"):
        cells.append(sum(lost(now, before, what) for now, before in pairs))
        cells.append(sum(lost(before, now, what) for now, before in pairs))
    return tuple(cells)


CHANGES = (
    "problem | limit | rows | plan, worst | plan, mean | bound, worst | bound, mean | plans lost | won | bounds lost "
    "| won  | proofs lost | won  "
)  # fmt: skip


def harm(now: Row, before: Row) -> float:
    """How much worse a row is: the larger of both ratios, infinite for a plan or bound that is lost."""
    if lost(now, before, "plan") or lost(now, before, "bound"):
        return math.inf
    plan, bound = ratio(now.get("plan"), before.get("plan")), ratio(now.get("bound"), before.get("bound"))
    return max(plan or 1.0, 1.0 / bound if bound else 1.0, 1.0 + SAME if lost(now, before, "proved") else 1.0)


def contradictions(rows: Rows, earlier: Rows) -> Iterator[str]:
    """Bounds above plans of the other run, at any limit: one of the two is false."""
    for one, other, whose in ((rows, earlier, "new"), (earlier, rows, "old")):
        for row in one.values():
            for plan in other.values():
                bound, value = row.get("bound"), plan.get("plan")
                if row["title"] != plan["title"] or bound is None or value is None:
                    continue
                if bound > value + SAME * abs(value):
                    yield f"{row['title']}: {whose} bound {bound:g} above the plan {value:g}"


def compare(rows: Rows, earlier: Rows, chosen: Sequence[Instance]) -> None:
    """Print what changed."""
    titles = {instance.title for instance in chosen}
    both = [(row, earlier[name]) for name, row in rows.items() if name in earlier and row["title"] in titles]
    groups: dict[tuple[str, float], list[tuple[Row, Row]]] = {}
    for now, before in both:
        groups.setdefault((now["kind"], now["limit"]), []).append((now, before))
    show("New over old", CHANGES, [change(*group, pairs) for group, pairs in sorted(groups.items())])
    worst = sorted(both, key=lambda pair: -harm(*pair))[:10]
    show(
        "The ten worst rows",
        "instance | limit | plan, old | new | bound, old | new  | proved, old | new  ",
        [
            (now["title"], f"{now['limit']:g}", number(before.get("plan")), number(now.get("plan")),
             number(before.get("bound")), number(now.get("bound")), str(before.get("proved")), str(now.get("proved")))
            for now, before in worst
        ],
    )  # fmt: skip
    for now, before in both:
        if lost(now, before, "proved"):
            print(f"lost proof: {key(now['title'], now['limit'])}")
    for line in contradictions(rows, earlier):
        print(f"contradiction: {line}")
    for each in sorted({*rows, *earlier} - {key(now["title"], now["limit"]) for now, _ in both}):
        print(f"not compared: {each}")


def summary(rows: Mapping[str, Row]) -> None:
    """Print rows, plans, proofs and mean gaps by problem and limit."""
    groups: dict[tuple[str, float], list[Row]] = {}
    for row in rows.values():
        groups.setdefault((row["kind"], row["limit"]), []).append(row)
    table = []
    for (kind, limit), group in sorted(groups.items()):
        gaps = [share for row in group if (share := gap(row)) is not None]
        table.append(
            (
                kind,
                f"{limit:g}",
                len(group),
                sum(row.get("plan") is not None for row in group),
                sum(bool(row.get("proved")) for row in group),
                f"{100 * statistics.mean(gaps):.2f}" if gaps else "-",
                f"{100 * max(gaps):.2f}" if gaps else "-",
                sum("error" in row for row in group),
            )
        )
    header = "problem | limit | rows | plans | proved | mean gap % | worst | errors"
    show("By problem", header, table)


def read(path: Path | None) -> Rows:
    """The rows of a file; none if there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path is not None and path.exists() else {}


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, nargs="*", default=(), metavar="LIMIT")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--out", type=Path, metavar="FILE", help="rows are kept here, and taken from here")
    parser.add_argument("--against", type=Path, metavar="FILE", help="rows of an earlier run")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--smoke", action="store_true", help="tiny instances")
    return parser.parse_args()


def main() -> None:
    """Run what the command line selects; exit with 1 on an error with a tiny instance."""
    arguments = read_arguments()
    source = tiny() if arguments.smoke else instances()
    chosen = [instance for instance in source if re.search(arguments.only, instance.title)]
    rows = read(arguments.out)
    if arguments.smoke:
        arguments.seconds = (1.0,)
    elif arguments.seconds:
        warm_up(arguments.solver)
    if arguments.seconds:
        measure(rows, chosen, arguments)
    summary(rows)
    if arguments.against is not None:
        compare(rows, read(arguments.against), chosen)
    failed = [f"{row['title']}: {row['error']}" for row in rows.values() if "error" in row]
    if arguments.smoke and failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
