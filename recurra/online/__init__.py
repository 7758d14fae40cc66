"""Models for data that arrive: they predict, learn, and can be saved.

The step of learning is the same as in training. What is added to it follows from the past alone: `step` has pure
functions, `model` the object around them, `race` several models on one stream. `in_c` has the same step in C: `export`
writes it for devices, and `native` compiles it for this machine.
"""
