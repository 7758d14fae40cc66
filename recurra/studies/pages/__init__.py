"""The results of a study: a table of the best settings, and a page that needs no other file.

`points` reads the data set, `choosing` says which settings are best and how sure that is, `tables` puts it into tables
and sentences, `lines`, `maps` and `figures` draw it, and `page` puts everything together.
"""
