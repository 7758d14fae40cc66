"""Numbers gone wrong."""


class Diverged(ArithmeticError):  # noqa: N818 (it is what happened)
    """A model's numbers are no longer finite. The model stays as it was before the call that found out."""

    def __init__(self, message: str, row: int):
        super().__init__(message)
        #: the row at which it was found
        self.row = row
