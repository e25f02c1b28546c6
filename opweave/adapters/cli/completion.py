"""What the shell offers when a user presses Tab: problems, solvers and clusters by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import typer


def problem_words(incomplete: str) -> list[str]:
    """Problems whose names begin so."""
    from opweave.adapters.report.views import views

    return _beginning(incomplete, [view.word for view in views()])


def solver_names(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Solvers of the problem at hand, as far as the command line says which it is, with what they are."""
    from opweave.adapters.report.views import view_for
    from opweave.problems.errors import OpweaveError
    from opweave.solvers.registry import list_solvers

    words = [context.params.get("problem"), context.info_name]
    kind = None
    for word in words:
        try:
            kind = kind or view_for(str(word)).problem_type.kind
        except OpweaveError:
            continue
    found: Mapping[str, str] = {row.name: row.about for row in list_solvers(kind) if row.available}
    return [(name, found[name]) for name in _beginning(incomplete, found)]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in dict.fromkeys(names) if name.startswith(incomplete))
