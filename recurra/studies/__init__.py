"""Runs and studies described in words: the settings of a run, the file of a study, and how a study is carried out.

`language` says which settings there are, and `settings` checks those of a run. `blueprints` and `parts` make a network,
a task and learners of them, and `effects` says which of them have an effect. `study` and `reading` read the file of a
study, and `choices` says what varies in it and how. `sweep` computes its networks: here, in other processes, on a
cluster, or in jobs of a queue (`slurm`). `folder` keeps what is finished, `dataset` joins it, and `pages` shows it.
`tuning` searches for settings, with the `networks` of a search.
"""
