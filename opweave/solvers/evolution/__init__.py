"""Plans as rows of numbers for evolutionary algorithms, and the algorithms of pymoo that search over such rows.

One file for each problem holds its encoding (:mod:`.encoding`). :mod:`.objectives` judges rows with all side
constraints, :mod:`.pymoo_problem` is that as a problem of pymoo's, and :mod:`.solver` is ``solver="pymoo"``.
"""
