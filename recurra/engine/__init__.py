"""How steps of learning run fast: over many members, on the cores or an accelerator.

`protocol` says what an engine is; `experiment` what it runs; `scan` is the engine of compiled loops. The rest are its
parts: `fold` strings steps together, `plan` decides where and how they run, `specialise` puts faster forms of learners
in the place of published ones, `compiling` chooses options of the compiler, `tuning` holds the tuned numbers.
"""
