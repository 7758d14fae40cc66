"""How steps of learning run fast: over many members, on the cores or an accelerator.

`protocol` says what an engine is, and `experiment` what it runs. There are two engines: `scan` runs compiled loops, and
`on_chip` whole runs inside one GPU kernel. `choosing` takes the faster one, and `run` is what both share. The rest are
their parts: `fold` strings steps together, `plan` decides where and how they run, `specialise` puts faster forms of
learners, which are in `forms`, in the place of published ones, `compiling` chooses options of the compiler, and
`tuning` holds the tuned numbers.
"""
