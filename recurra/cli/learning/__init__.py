"""`recurra learn`: predict, score, then learn, row by row of a table.

`feeds` brings bytes, `csv_rows` cuts them into rows, `columns` turns rows into numbers. `run` passes these to the model
and to the `baselines`, keeps `scores`, and saves all of it with `kept`, so that a run can go on after any end.
"""
