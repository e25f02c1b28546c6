"""Flexible job shops: operations of jobs, each with a choice of machines and its time on each of them.

Two layouts of such files are read; blank lines do not count. The common one (``.fjs``, also ``.txt``) has a line for
every job::

    2 3 1.5                      jobs, machines and, if wanted, the mean number of machines of an operation
    2  2 1 4 3 5  1 2 6          operations; for each, the number of its machines, and pairs of machine and time
    1  1 3 7

Machines are numbered from 1, or from 0 if a 0 occurs. The other one, a matrix, has a line for every operation, job by
job, with its time on every machine, and 0 where it cannot run::

    2                            jobs
    3                            machines
    2 1                          operations of each job
    4 0 5
    0 6 0
    0 0 7

Operations of a job run one after the other. Nothing is sent, so tensors have no bytes. A unit of time is a second.

Source: Mastrolilli's and SchedulingLab's collections (``.fjs``), and PyJobShop/Experiments (the matrix).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from opweave.adapters.error_messages import complaint
from opweave.adapters.files import PathLike, place, read_bytes
from opweave.problems.cluster import Cluster, Device
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.placement.spec import Placement

MOST_MACHINES = 10_000

ANY_RATE = 1e30
"""Bytes per second between machines; nothing is sent."""

LONGEST_TIME = 1e15

Row = tuple[int, list[str]]
"""Number of a line, and its words."""

Choice = dict[int, float]
"""The time of an operation on each machine that can run it."""


def load_job_shop(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Placement:
    """Read a flexible job shop as a placement: machines are devices, and a job is a chain of operators.

    Parameters
    ----------
    path
        The file (``.fjs`` or ``.txt``, also packed as ``.gz``), in either of the layouts above.
    limits
        Caps on the file's size, on operations, and on pairs of operation and machine (as many as edges).

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, in which line.
    """
    name = place(path)
    try:
        text = read_bytes(path, limits=limits).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{name}: a flexible job shop is text in UTF-8") from None
    return read_job_shop(text, where=name, limits=limits)


def read_job_shop(text: str, *, where: str = "job shop", limits: Limits = DEFAULT_LIMITS) -> Placement:
    r"""Read a flexible job shop from text; see :func:`load_job_shop`.

    Raises
    ------
    InvalidInputError, LimitExceededError
        One sentence says what is wrong, in which line.

    Examples
    --------
    >>> problem = read_job_shop("1 2\n2  2 1 4 2 5  1 2 6")
    >>> problem.known_seconds
    {'job1.1': {'machine1': 4.0, 'machine2': 5.0}, 'job1.2': {'machine2': 6.0}}
    """
    rows = [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not rows:
        raise InvalidInputError(f"{where}: there is nothing in the file")
    jobs, machines = _matrix(rows, where, limits) if len(rows[0][1]) == 1 else _by_job(rows, where, limits)
    try:
        return _placement(jobs, machines, where)
    except ValidationError as error:
        raise complaint(error, where) from None


def _matrix(rows: Sequence[Row], where: str, limits: Limits) -> tuple[list[list[Choice]], int]:
    if len(rows) < 3:
        raise InvalidInputError(
            f"{where}: it ends before the third line, which gives the operations of each job; the file may be cut off"
        )
    (count,), (machines,) = _wholes(rows[0], 1, "jobs", where), _wholes(rows[1], 1, "machines", where)
    sizes = _wholes(rows[2], count, "operations of each job", where)
    _check_size(sum(sizes), machines, where, limits)
    if len(rows) - 3 != sum(sizes):
        raise InvalidInputError(
            f"{where}: {sum(sizes):,} operations were announced, but {len(rows) - 3:,} lines with times follow"
        )
    lines = iter(rows[3:])
    return [[_times(next(lines), machines, where) for _ in range(size)] for size in sizes], machines


def _times(row: Row, machines: int, where: str) -> Choice:
    number, words = row
    if len(words) != machines:
        raise InvalidInputError(f"{where}: line {number} has {len(words):,} times for {machines:,} machines")
    times = [_time(word, number, where) for word in words]
    return _runs({k: time for k, time in enumerate(times) if time}, number, where)


def _by_job(rows: Sequence[Row], where: str, limits: Limits) -> tuple[list[list[Choice]], int]:
    number, words = rows[0]
    if len(words) > 3:
        raise InvalidInputError(
            f"{where}: line {number} has {len(words):,} numbers; a flexible job shop begins with its jobs and machines"
        )
    count, machines = _wholes((number, words[:2]), 2, "jobs and machines", where)
    if len(rows) - 1 != count:
        raise InvalidInputError(f"{where}: {count:,} jobs were announced, but {len(rows) - 1:,} lines follow")
    _check_size(0, machines, where, limits)
    jobs = []
    for row in rows[1:]:
        jobs.append(list(_choices(row, machines, where)))
        _check_size(sum(map(len, jobs)), machines, where, limits)
    used = {k for job in jobs for choice in job for k in choice}
    if 0 not in used:
        return [[{k - 1: time for k, time in choice.items()} for choice in job] for job in jobs], machines
    if machines in used:
        raise InvalidInputError(
            f"{where}: machines 0 and {machines:,} both occur; {machines:,} machines are numbered from 0 or from 1"
        )
    return jobs, machines


def _choices(row: Row, machines: int, where: str) -> Iterator[Choice]:
    """The operations of a job, with machines numbered as in the file."""
    number, words = row
    rest = iter(words)

    def whole(what: str) -> int:
        word = next(rest, None)
        if word is None:
            raise InvalidInputError(f"{where}: line {number} ends where {what} should follow; the file may be cut off")
        return _whole(word, number, what, where)

    for _ in range(whole("the number of operations")):
        choice: Choice = {}
        for _ in range(whole("the number of machines of an operation")):
            k = whole("a machine")
            if k > machines:
                raise InvalidInputError(f"{where}: line {number} names machine {k:,}, but there are {machines:,}")
            if k in choice:
                raise InvalidInputError(f"{where}: line {number} gives machine {k:,} twice for one operation")
            choice[k] = _time(next(rest, ""), number, where)
        yield _runs(choice, number, where)
    more = next(rest, None)
    if more is not None:
        raise InvalidInputError(f"{where}: line {number} goes on with {more!r:.40} after the job's last operation")


def _runs(choice: Choice, number: int, where: str) -> Choice:
    if not choice:
        raise InvalidInputError(f"{where}: line {number} has an operation that no machine can run")
    return choice


def _check_size(operations: int, machines: int, where: str, limits: Limits) -> None:
    """Check sizes before anything is built from them."""
    if not machines:
        raise InvalidInputError(f"{where}: there is no machine")
    for count, most, what in (
        (machines, MOST_MACHINES, "machines"),
        (operations, limits.operators, "operations"),
        (operations * machines, limits.edges, "pairs of operation and machine"),
    ):
        if count > most:
            raise LimitExceededError(f"{where}: {count:,} {what} are more than the limit of {most:,}")


def _wholes(row: Row, count: int, what: str, where: str) -> list[int]:
    number, words = row
    if len(words) != count:
        raise InvalidInputError(f"{where}: line {number} has {len(words):,} numbers for {what}, not {count:,}")
    return [_whole(word, number, what, where) for word in words]


def _whole(word: str, number: int, what: str, where: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 16):
        raise InvalidInputError(f"{where}: line {number} has {word!r:.40} for {what}, which is no whole number")
    return int(word)


def _time(word: str, number: int, where: str) -> float:
    try:
        time = float(word) if word.isascii() and "_" not in word else math.nan
    except ValueError:
        time = math.nan
    if not 0.0 <= time <= LONGEST_TIME:
        raise InvalidInputError(
            f"{where}: line {number} has {word!r:.40} for a time, which is no number from 0 to {LONGEST_TIME:g}"
        )
    return time


def _placement(jobs: Sequence[Sequence[Choice]], machines: int, where: str) -> Placement:
    names = [f"machine{k + 1}" for k in range(machines)]
    operators, tensors, table = list[Operator](), list[Tensor](), dict[str, dict[str, float]]()
    for j, job in enumerate(jobs, start=1):
        for i, choice in enumerate(job, start=1):
            name = f"job{j}.{i}"
            tensors.append(Tensor(id=f"of {name}", bytes=0))
            before = (f"of job{j}.{i - 1}",) if i > 1 else ()
            operators.append(Operator(id=name, kind="operation", inputs=before, outputs=(f"of {name}",)))
            table[name] = {names[k]: time for k, time in choice.items()}
    return Placement(
        graph=OpGraph(name=Path(where).name.split(".")[0], operators=tuple(operators), tensors=tuple(tensors)),
        cluster=Cluster(devices=tuple(Device(name=name) for name in names), rates=(ANY_RATE,) * machines),
        costs=Costs.from_table(table),
        transfers="delay",
    )
