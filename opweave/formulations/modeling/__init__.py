"""One linear layer: named columns, one dialect of terms, rows by family; to arrays, to Pyomo, to CP-SAT.

How a formulation is written
----------------------------
1. A model class of its own says what it was written from and which handles it has::

       @dataclass(eq=False)
       class FlowModel(LinearModel):                     # IntervalModel for constraint programs
           instance: PipelineInstance                    # fields of its own come after no others
           more_words: ClassVar[tuple[str, ...]] = ("stages",)   # handles beside those of :mod:`.handles`
           def on(self, op: str, device: str) -> Linear: ...

2. ``build(problem)`` makes the model, adds columns (``model.binaries("z", keys)``, ``reals``, ``wholes``; one alone is
   ``real("beta")``) and families of rows (``model.rows("flow").add(left <= right)``; ``at_most_each`` for arrays), calls
   ``model.minimise(cost, unit)``, and ends with ``self.add_constraints(model, problem)``.
3. ``extract(model, values)`` and ``start(model, solution)`` speak in values by column, shape ``(len(model),)``;
   ``start`` may leave NaN where it does not know. ``model.filled({column: value})`` makes such an array.
4. ``separate(model, values)`` returns the rows that were left out and that the values break; engines add each once.

Columns and rows count in the model's own units (``unit`` is what one unit of the cost is worth in the problem's unit);
handles are in seconds, bytes and counts. ``model.timed`` holds the columns that are times, ``model.tick`` their unit in
seconds. ``model.add(row)`` adds a row of a side constraint or of a user, in natural units.

The same model goes to engines as arrays (:mod:`.arrays`), to users as a Pyomo model (:mod:`.pyomo`); both are the same
program, and a test says so. Constraint programs (:mod:`.intervals`) have the same columns, handles and ``add``.
"""
