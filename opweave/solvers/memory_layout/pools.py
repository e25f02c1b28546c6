"""Several pools: which storages stand where, by linear programming, and then offsets in each of them.

A layout keeps within a pool only if the live bytes do in every section, which is linear. The linear program's optimum
is a lower bound. Rounded, it says which storages go where; each pool is then stacked. Where a pool cannot be stacked
within its bytes, the storages that lose least by it move on to another pool. An engine finds a better assignment of
whole storages; if that cannot be stacked, one that fills less of the pools. Annealing then moves single storages
between pools. For the arena, or where storages must share a pool, local search forces some into a better pool and lets
others make room.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opweave.formulations.memory_layout.instance import LayoutInstance, lower
from opweave.problems.arrays import NO_LIMIT, BoolArray, FloatMatrix, IntArray, IntMatrix
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.linear import LinearProgram, SparseRows, minimise, proved_value
from opweave.solvers.memory_layout.annealed import Annealed
from opweave.solvers.memory_layout.bounds.best import best_assignment, height_bound, prove_assignment
from opweave.solvers.memory_layout.greedy import Places
from opweave.solvers.memory_layout.growing import stacked
from opweave.solvers.memory_layout.plans import report
from opweave.solvers.memory_layout.search import REFUTED, Decision, lowest
from opweave.solvers.memory_layout.sections import Space, sections_of, space_in
from opweave.solvers.rounding import SUMMATION
from opweave.solvers.run import Run

MOST_ROWS = 2_000_000
"""Largest number of entries of a linear program that is solved."""

EVICTIONS = 40
"""Most storages that leave a pool because it cannot be stacked."""

FILLED = (1.0, 0.97, 0.94, 0.9)
"""Parts of the pools that assignments may fill, the later ones where an earlier one could not be stacked."""

PATIENT = 64
"""How many times longer than others the best assignment is tried to be stacked."""

MOST_TEAMS, MOST_ASSIGNED, MOST_STATES = 12, 60_000, 200_000
"""Teams, decisions about them, and states of a pool's exact search, with which all assignments are tried."""

Kept = tuple[int, bytes]
"""A pool and the blocks in it."""

UNTIMED_ROUNDS = 200
"""Rounds of local search without a time limit."""


@dataclass(eq=False)
class Teams:
    """Blocks that must share a pool, as one.

    Attributes
    ----------
    load
        Bytes of every team in every section. Shape (teams, sections).
    allowed, cost
        Whether it may stand in a pool, and what that costs. Shape (teams, pools).
    """

    load: IntMatrix
    allowed: BoolArray
    cost: FloatMatrix

    @classmethod
    def of(cls, instance: LayoutInstance) -> Teams:
        """The teams of an instance."""
        count, pools = int(instance.team.max(initial=-1)) + 1, len(instance.capacity)
        solid = np.flatnonzero(instance.solid)
        first, after, sections = sections_of(instance.begin[solid], instance.end[solid])
        load = np.zeros((count, sections), dtype=np.int64)
        for row, start, end in zip(solid.tolist(), first.tolist(), after.tolist(), strict=True):
            load[instance.team[row], start:end] += instance.bytes[row]
        allowed = np.ones((count, pools), dtype=bool)
        np.logical_and.at(allowed, instance.team, instance.allowed)
        cost = np.zeros((count, pools))
        np.add.at(cost, instance.team, instance.seconds)
        return cls(load, allowed, cost)


class Pools:
    """Assignments of blocks to pools, and what they are worth.

    Parameters
    ----------
    problem
        A problem with several pools, or about traffic.
    run
        Receives layouts and bounds.
    """

    def __init__(self, problem: MemoryLayout, run: Run) -> None:
        self.problem, self.run, self.instance = problem, run, lower(problem)
        self.teams = Teams.of(self.instance)
        self.limited = np.flatnonzero(self.instance.capacity < NO_LIMIT)
        pairs = self.instance.team[self.instance.apart]
        self.apart = np.unique(pairs, axis=0) if len(pairs) else pairs.reshape(0, 2)
        self.noise = np.random.default_rng(run.seed)
        self.annealed = Annealed(problem, run)

    def program(self, filled: float = 1.0) -> LinearProgram | None:
        """Shares of teams in pools, of which a part is filled, and heights if they count; None if it is too large."""
        teams, pools = self.teams.allowed.shape
        heights = self.problem.objective == "arena"
        counted = np.arange(pools) if heights else self.limited
        entries = int((self.teams.load > 0).sum()) * len(counted)
        if entries > MOST_ROWS:
            return None
        column = np.arange(teams * pools).reshape(teams, pools)
        cost = np.zeros(teams * pools + pools) if heights else self.teams.cost.ravel()
        upper = self.teams.allowed.ravel().astype(np.float64)
        if heights:
            cost[teams * pools :] = 1.0
            tallest = np.minimum(self.instance.capacity, self.instance.height)
            upper = np.concatenate([upper, tallest.astype(np.float64)])
        most, equal = SparseRows(), SparseRows()
        equal.put(equal.open(np.ones(teams))[:, None], column, 1.0)
        team, section = np.nonzero(self.teams.load)
        for pool in counted.tolist():
            limit = 0.0 if heights else filled * float(self.instance.capacity[pool])
            rows = most.open(np.full(self.teams.load.shape[1], limit))
            most.put(rows[section], column[team, pool], self.teams.load[team, section].astype(np.float64))
            if heights:
                most.put(rows, np.full(len(rows), teams * pools + pool), -1.0)
        for pool in range(pools):
            rows = most.open(np.ones(len(self.apart)))
            most.put(rows[:, None], column[self.apart, pool], 1.0)
        return LinearProgram.of(cost, upper, most, equal)

    def relax(self) -> FloatMatrix | None:
        """Prove the linear program's bound; return the shares of teams in pools, None if it was not solved."""
        self.run.enter("linear program")
        program = self.program()
        if program is None or not self.teams.allowed.size:
            return None
        found = minimise(program, self.run.remaining())
        if found is None:
            return None
        prices = np.concatenate([found.most_price, found.equal_price])
        self._prove(proved_value(program.cost, *program.rows(), (program.lower, program.upper), prices))
        return found.point[: self.teams.allowed.size].reshape(self.teams.allowed.shape)

    def _prove(self, bound: float, source: str = "linear program") -> None:
        """Report a bound, rounded safely."""
        if self.problem.objective == "arena":
            grain = self.instance.grain
            self.run.proved(max(0, math.ceil(bound / grain * (1.0 - SUMMATION))) * grain, source)
        else:
            self.run.proved(max(0.0, bound * (1.0 - SUMMATION)), source)

    def assign(self) -> None:
        """Lay out the best assignment that an engine finds, and prove what no assignment can undercut.

        Where annealing moves everything, its layouts are better than those of assignments that leave room.
        """
        program, whole = self.program(), self.teams.allowed.size
        if program is None or not whole:
            return
        for filled in FILLED[:1] if self.annealed.moves_all() else FILLED:
            tight = self.program(filled)
            shares = None if tight is None or self.run.should_stop() else best_assignment(tight, whole, self.run)
            if shares is None:
                break
            choice = self._rounded(shares.reshape(self.teams.allowed.shape))
            if self._stack(choice, PATIENT) is None:
                break
            self._settle(choice)
        bound = None if self.run.should_stop() else prove_assignment(program, whole, self.run)
        if bound is not None:
            self._prove(bound)

    def decide(self) -> bool:
        """Try all assignments of a few teams, and stack their pools exactly; False if there are too many of them."""
        teams, pools = self.teams.allowed.shape
        if self.problem.constraints or not 0 < teams <= MOST_TEAMS:
            return False
        self.run.enter("all assignments to pools")
        self._left = MOST_ASSIGNED
        order = np.argsort(-self.teams.load.sum(axis=1), kind="stable").tolist()
        load = np.zeros((pools, self.teams.load.shape[1]), dtype=np.int64)
        if not self._assign_all(order, np.full(teams, -1), load, {}):
            return False
        if self.run.objective is not None:
            self._prove(float(self.run.objective), "all assignments")
        return True

    def _assign_all(self, left: list[int], choice: IntArray, load: IntMatrix, known: dict[Kept, Decision]) -> bool:
        """Assign the teams that are left in all ways that may be better; False if that takes too long."""
        if not left:
            return self._stack_exactly(choice, load.max(axis=1, initial=0), known)
        team, cheapest = left[0], np.where(self.teams.allowed, self.teams.cost, np.inf).min(axis=1)
        beside = self.apart[(self.apart == team).any(axis=1)].ravel()
        for pool in np.argsort(self.teams.cost[team], kind="stable").tolist():
            if not self.teams.allowed[team, pool] or (choice[beside] == pool).any():
                continue
            self._left -= 1
            if self._left < 0 or self.run.should_stop():
                return False
            after, choice[team] = load.copy(), pool
            after[pool] += self.teams.load[team]
            given = np.flatnonzero(choice >= 0)
            if self.problem.objective == "arena":
                least = float(after.max(axis=1, initial=0).sum())
            else:
                least = float(self.teams.cost[given, choice[given]].sum() + cheapest[left[1:]].sum())
            fits = (after.max(axis=1, initial=0) <= self.instance.capacity).all()
            better = self.run.objective is None or least < self.run.objective
            if fits and better and not self._assign_all(left[1:], choice, after, known):
                return False
            choice[team] = -1
        return True

    def _stack_exactly(self, choice: IntArray, least: IntArray, known: dict[Kept, Decision]) -> bool:
        """Report the lowest layout of an assignment, if it may be the best; False if that is not decided."""
        instance, pool = self.instance, choice[self.instance.team]
        offset = np.maximum(instance.fixed, 0)
        counts = self.problem.objective == "arena"
        for number in range(len(instance.capacity)):
            rows = np.flatnonzero(instance.solid & (pool == number))
            if not len(rows):
                continue
            kept = number, rows.tobytes()
            if kept not in known:
                heights = self._heights(space := space_in(instance, rows, number, self.run.halt), number)
                lowered = min(height_bound(space), heights[-1]) if counts else heights[-1]
                known[kept] = lowest(space, lowered, heights[-1], MOST_STATES)
            found = known[kept].offset
            if found is None:
                return known[kept].answer == REFUTED
            offset[rows] = found * instance.grain
            least[number] = (offset[rows] + instance.bytes[rows]).max()
            if counts and self.run.objective is not None and least.sum() >= self.run.objective:
                return True
        report(self.problem, instance, Places(offset, pool), self.run)
        return True

    def search(self, shares: FloatMatrix | None) -> None:
        """Round the shares, then improve the layout as long as time is left: by annealing, or by single storages."""
        self.run.enter("pools")
        if not self.annealed.moves_all():
            self._settle(self._rounded(shares))
        if shares is not None and not self.run.should_stop():
            self.assign()
        if self.run.best is None:
            return
        best = self._known()
        rounds = 0
        while not self.run.should_stop() and (self.run.time_limit is not None or rounds < UNTIMED_ROUNDS):
            rounds += 1
            if self.annealed.applies():
                self.annealed.round()
                if self.annealed.moves_all():
                    if self.run.time_limit is None and self.annealed.is_exhausted():
                        return
                    continue
                best = self._known()
            changed = self._forced(best)
            if changed is None:
                return
            settled = self._settle(changed, self._worth(best))
            if settled is not None and self._worth(settled) < self._worth(best):
                best = settled

    def _known(self) -> IntArray:
        """The assignment of the best layout so far."""
        _, pool = self.instance.places(self.run.best)  # type: ignore[arg-type]
        choice = np.zeros(len(self.teams.allowed), dtype=np.int64)
        choice[self.instance.team] = pool
        return choice

    def _worth(self, choice: IntArray) -> float:
        """The objective of an assignment; for the arena, the live peaks of all pools."""
        if self.problem.objective == "traffic":
            return float(self.teams.cost[np.arange(len(choice)), choice].sum())
        return float(sum(self._load(choice, pool).max(initial=0) for pool in range(len(self.instance.capacity))))

    def _load(self, choice: IntArray, pool: int) -> IntArray:
        """Live bytes of a pool in every section. Shape (sections,)."""
        load: IntArray = self.teams.load[choice == pool].sum(axis=0)
        return load

    def _rounded(self, shares: FloatMatrix | None) -> IntArray:
        """Every team in the pool with its largest share, or in the cheapest one."""
        if shares is None:
            shares = -self.teams.cost
        chosen: IntArray = np.where(self.teams.allowed, shares, -np.inf).argmax(axis=1)
        return chosen

    def _forced(self, choice: IntArray) -> IntArray | None:
        """A random team is put into a pool where it gains, or is taken from a pool's peak; None if there is none."""
        if self.problem.objective == "traffic":
            held = self.teams.cost[np.arange(len(choice)), choice]
            gain = np.where(self.teams.allowed, held[:, None] - self.teams.cost, 0.0).clip(min=0.0)
        else:
            at_peak = np.zeros(len(choice))
            for pool in range(len(self.instance.capacity)):
                section = self._load(choice, pool).argmax() if self.teams.load.shape[1] else 0
                at_peak += np.where(choice == pool, self.teams.load[:, section : section + 1].sum(axis=1), 0)
            gain = np.where(self.teams.allowed, at_peak[:, None], 0.0)
            gain[np.arange(len(choice)), choice] = 0.0
        if not (gain > 0.0).any():
            return None
        number = int(self.noise.choice(gain.size, p=(gain / gain.sum()).ravel()))
        changed = choice.copy()
        changed[number // gain.shape[1]] = number % gain.shape[1]
        return changed

    def _settle(self, choice: IntArray, below: float = math.inf) -> IntArray | None:
        """Let storages make room until every pool can be stacked; report the layout, and return the assignment."""
        choice = choice.copy()
        barred = ~self.teams.allowed
        for _ in range(EVICTIONS * len(self.instance.capacity)):
            if not self._make_room(choice, barred) or self._worth(choice) >= below:
                return None
            failed = self._stack(choice)
            if failed is None:
                return choice
            load = self._load(choice, failed)
            if not self._evict(choice, failed, int(load.argmax()), barred) or self.run.should_stop():
                return None
        return None

    def _make_room(self, choice: IntArray, barred: BoolArray) -> bool:
        """Move teams on until the live bytes keep within every pool and no two stand together that must not."""
        for _ in range(4 * len(choice) + 4):
            meeting = self.apart[choice[self.apart[:, 0]] == choice[self.apart[:, 1]]]
            if len(meeting):
                first, second = self.noise.permutation(meeting[0]).tolist()
                if not (self._move(choice, second, barred) or self._move(choice, first, barred)):
                    return False
                continue
            over = [
                (int((self._load(choice, pool) - self.instance.capacity[pool]).max(initial=0)), pool)
                for pool in self.limited.tolist()
            ]
            excess, pool = max(over, default=(0, -1))
            if excess <= 0:
                return True
            load = self._load(choice, pool)
            if not self._evict(choice, pool, int(load.argmax()), barred):
                return False
        return False

    def _evict(self, choice: IntArray, pool: int, section: int, barred: BoolArray) -> bool:
        """The team that loses least per byte in a section leaves a pool for good."""
        inside = np.flatnonzero((choice == pool) & (self.teams.load[:, section] > 0))
        other = np.where(barred[inside], np.inf, self.teams.cost[inside])
        other[:, pool] = np.inf
        loss = (other.min(axis=1) - self.teams.cost[inside, pool]) / self.teams.load[inside, section]
        loss *= 1.0 + 0.2 * self.noise.random(len(loss))
        if not len(inside) or not np.isfinite(loss).any():
            return False
        return self._move(choice, int(inside[int(np.argmin(np.where(np.isfinite(loss), loss, np.inf)))]), barred)

    def _move(self, choice: IntArray, team: int, barred: BoolArray) -> bool:
        """Put a team into the cheapest other pool that it has not left before."""
        barred[team, choice[team]] = True
        if barred[team].all():
            return False
        choice[team] = int(np.where(barred[team], np.inf, self.teams.cost[team]).argmin())
        return True

    def _stack(self, choice: IntArray, effort: int = 1) -> int | None:
        """Stack all pools and report the layout; the number of a pool that could not be stacked, else None."""
        instance, pool = self.instance, choice[self.instance.team]
        offset = np.maximum(instance.fixed, 0)
        for number in range(len(instance.capacity)):
            rows = np.flatnonzero(instance.solid & (pool == number))
            if not len(rows):
                continue
            space = space_in(instance, rows, number, self.run.halt)
            found = stacked(space, self._heights(space, number), self.run.seed, effort)
            if found is None:
                return number
            offset[rows] = found * instance.grain
        report(self.problem, instance, Places(offset, pool), self.run)
        return None

    def _heights(self, space: Space, pool: int) -> list[int]:
        """Heights at which a pool is stacked: its bytes, and lower ones first if they count."""
        most = min(int(self.instance.capacity[pool]), self.instance.height) // self.instance.grain
        least = height_bound(space)
        lower = [least + least * k // 64 for k in (0, 1, 2, 4, 8, 16)] if self.problem.objective == "arena" else []
        return [*sorted({height for height in lower if height < most}), most]
