"""Streams of inputs and labels."""

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
