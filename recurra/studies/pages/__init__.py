"""What a study has shown: a table of the best settings, and a page that needs no other file.

`points` reads the data set, `choosing` says which settings are best and how sure that is, `tables` and `figures` show
it, and `page` puts them together.
"""
