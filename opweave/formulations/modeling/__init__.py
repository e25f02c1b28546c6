"""One linear layer: named columns, one dialect of terms, rows by family; to arrays, to Pyomo, to CP-SAT.

How a formulation is written
----------------------------
1. A model class says what it was written from and which handles it has; it derives from ``LinearModel``, or from
   ``IntervalModel`` for constraint programs::

       @dataclass(eq=False)
       class FlowModel(LinearModel):
           instance: PipelineInstance
           more_words: ClassVar[tuple[str, ...]] = ("stages",)  # handles beside those of modeling.handles
           def on(self, op: str, device: str) -> Linear: ...

   The formulation names it as ``model_type`` and is decorated with ``@register_formulation``, constraint programs too.
2. ``build(problem)`` makes the model, adds columns (``model.binaries("z", keys)``, ``reals``, ``wholes``; one alone is
   ``real("beta")``) and families of rows: ``model.rows("flow").add(left <= right)``, or ``at_most_each`` for arrays.
   It calls ``model.minimise(cost, unit)`` and ends with ``self.add_constraints(model, problem)``. Constraint programs
   add one column at a time (``model.whole(low, high, "starts", op)``, ``model.binary("x", (op, device))``), rows with
   ``model.row(terms, low, high, only_if)``, intervals to ``model.apart``, arcs to ``model.circuits``, and minimise one
   column: ``model.minimise(Linear.of(column), seconds_of_a_tick)``.
3. ``extract(model, values)`` and ``start(model, solution)`` speak in values by column, shape ``(len(model),)``;
   ``start`` may leave NaN where it does not know. ``model.filled({column: value})`` makes such an array.
4. ``separate(model, values)`` returns the rows that were left out and that the values break; engines add each once.

Names of columns and of families of rows are not among the words of :mod:`.handles`: ``held``, ``start`` and so on.
Columns and rows count in the model's own units (``unit`` is what one unit of the cost is worth in the problem's unit);
handles are in seconds, bytes and counts. ``model.timed`` holds the columns that are times with a horizon,
``model.tick`` their unit in seconds. ``model.add(row)`` adds a row of a side constraint or of a user, in natural units.

The same model goes to engines as arrays (:mod:`.arrays`), to users as a Pyomo model (:mod:`.pyomo`); both are the same
program, and a test says so. Constraint programs (:mod:`.intervals`) have the same columns, handles and ``add``.
"""
