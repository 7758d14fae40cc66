"""Numbers gone wrong."""


class Diverged(ArithmeticError):  # noqa: N818 (it is what happened)
    """A model's numbers are no longer finite. The model stays as it was before the call that found out.

    >>> series, model = np.sin(np.arange(300) / 7)[:, None], rc.forecaster(n_in=1)
    >>> try:
    ...     predictions = model.learn_many(series, series)
    ... except rc.Diverged as error:
    ...     print(error.row)
    """

    def __init__(self, message: str, row: int):
        super().__init__(message)
        #: the row at which it was found
        self.row = row
