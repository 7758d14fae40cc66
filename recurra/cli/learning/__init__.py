"""`recurra learn`: predict, score, then learn, row by row of a table.

`options` says what was asked for. `sources` brings lines, `rows` cuts them into rows, `columns` turns these into
numbers, cell by cell with `cells`; `demos` are tables to try it on. `session` passes them to the model and to the
`baselines`, and keeps `scores`. `run` repeats that until the input ends, and saves all of it with `files`, so that a
run can continue however it ended. `report` and `page` show it.
"""
