"""The modelling layer: named columns, linear terms, rows by family; written as arrays, Pyomo models or CP-SAT models.

How a formulation is written
----------------------------
1. A model class stores the data from which it was written, and defines the variables of users' rows. It derives from
   ``LinearModel``, or from ``IntervalModel`` for constraint programs::

       @dataclass(eq=False)
       class FlowModel(LinearModel):
           instance: PipelineInstance
           more_words: ClassVar[tuple[str, ...]] = ("paths",)  # variables beside those of modeling.linear
           def on(self, op: str, device: str) -> Linear: ...

      The formulation names it as ``model_type`` and is decorated with ``@register_formulation``, also if it is a
      constraint program.
2. ``build(problem)`` makes the model, adds columns (``model.binaries("z", keys)``, ``reals``, ``wholes``; a single
   column is ``real("beta")``) and families of rows: ``model.rows("flow").add(left <= right)``. It calls
   ``model.minimise(cost, unit)`` and ends with ``self.add_constraints(model, problem)``. Constraint programs have
   integer columns, rows with ``model.row(terms, low, high, only_if)``, and minimise one column:
   ``model.minimise(Linear.of(column), seconds_of_a_tick)``.
3. ``extract(model, values)`` and ``start(model, solution)`` use values by column, shape ``(len(model),)``. ``start``
   may leave unknown values NaN. ``model.filled({column: value})`` makes such an array.
4. ``separate(model, values)`` returns the rows that were left out and that the values violate; engines add each once.

Rows that both kinds of programs have are written once: ``model.rows(name).add(row)`` takes integers in a constraint
program, ``model.within(name, held, capacity)`` is a memory row, ``model.where(name, row, only_if, big)`` a conditional
one, ``model.any_column(name, key, parts)`` is 1 if any of its parts is, and ``model.completed(values)`` sets it.

The names of columns and of families of rows must not be words of :mod:`.linear`, such as ``held`` or ``start``.
Columns and rows are in the model's own units (``unit`` is the value of one unit of the cost in the problem's unit);
users' variables are in seconds, bytes and counts. ``model.timed`` holds the columns of times with a horizon,
``model.tick`` their unit in seconds. ``model.add(row)`` adds a row of a side constraint or of a user, in natural units.

The same model is passed to engines as arrays (:mod:`.arrays`) and to users as a Pyomo model (:mod:`.pyomo`); a test
checks that both are the same program. Constraint programs (:mod:`.intervals`) have the same columns, users'
variables and ``add``.
"""
