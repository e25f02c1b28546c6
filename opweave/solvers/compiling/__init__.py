"""How loops get compiled beside the work, kept on disk and loaded; :mod:`opweave.solvers.compiled` is the way in."""
