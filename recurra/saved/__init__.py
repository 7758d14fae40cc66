"""What goes on later, in files: one format, written whole or not at all, and read with suspicion.

`archive` reads and writes a file: named arrays, and one JSON document. `trees` turns a tree of arrays into named ones
and back. `parts` turns networks, learners and their like into JSON and back. `whole_files` replaces a file at once.
"""
