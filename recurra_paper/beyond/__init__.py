"""Beyond the paper: the questions that its Discussion leaves open, one package each.

A question is a figure (NAME, TITLE, `needs`, `draw`) with the experiments it needs and the claims that were stated
before they were run (`experiments`, CLAIMS).
"""
