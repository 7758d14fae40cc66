"""Streams of inputs and labels.

To register a task, import it below. The command line, study files, saved files and `import recurra` know it from there.
"""

from typing import TYPE_CHECKING

from recurra.checks import registered
from recurra.tasks.add import Add as Add
from recurra.tasks.adding import Adding as Adding
from recurra.tasks.arrays import Arrays as Arrays
from recurra.tasks.base import BLOCK as BLOCK
from recurra.tasks.base import Rows as Rows
from recurra.tasks.base import Task as Task
from recurra.tasks.copy import Copy as Copy
from recurra.tasks.digits import Digits as Digits
from recurra.tasks.evidence import Evidence as Evidence
from recurra.tasks.mimic import Mimic as Mimic
from recurra.tasks.parity import Parity as Parity
from recurra.tasks.pattern import Pattern as Pattern
from recurra.tasks.sequences import Sequences as Sequences

#: the tasks that are made as they are needed, by their names on the command line
TASKS: dict[str, type[Task]] = registered(globals(), Task, leave_out=(Arrays, Sequences))  # which hold a user's data

if not TYPE_CHECKING:  # a type checker cannot read such a list, and takes all names above
    #: What `import recurra` offers of this package.
    __all__ = ["BLOCK", "TASKS", "Arrays", "Rows", "Sequences", "Task", *(kind.__name__ for kind in TASKS.values())]
