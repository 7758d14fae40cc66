"""Streams of inputs and labels."""

from recurra.tasks.add import Add as Add
from recurra.tasks.arrays import Arrays as Arrays
from recurra.tasks.base import BLOCK as BLOCK
from recurra.tasks.base import Rows as Rows
from recurra.tasks.base import Task as Task
from recurra.tasks.mimic import Mimic as Mimic
