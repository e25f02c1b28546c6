"""Several searches on one problem, side by side: in processes of this machine, or on an executor.

A *lane* is one of these searches: a function of problem and run, with its own seed. Lanes share their incumbent and
their bound while they run, each through the :class:`~opweave.solvers.side_by_side.exchange.Exchange` of its run.
"""
