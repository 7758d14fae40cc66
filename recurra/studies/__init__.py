"""Runs and studies described in words: the settings of a run, the file of a study, and how a study is carried out.

`settings` and `parts` turn words into a network, a task and learners. `study` and `reading` read the file of a study,
and `choices` says what varies in it and how. `sweep` puts its networks into orders, `work` computes an order, and
`places` says where: here, in other processes, or on a cluster. `folder` keeps what is finished, `dataset` joins it, and
`pages` shows it. `tuning` searches for settings.
"""
