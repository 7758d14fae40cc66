"""How the file of a study is read: what its tables mean, which combinations they make, and what is wrong with them."""
