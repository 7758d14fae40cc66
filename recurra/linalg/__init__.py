"""Products and sums that cells and learners are written with. `None` stands for an array that is always zero."""

from recurra.linalg.lazy import Outer as Outer
from recurra.linalg.lazy import average as average
from recurra.linalg.lazy import dense as dense
from recurra.linalg.lazy import norm as norm
from recurra.linalg.lazy import summed as summed
from recurra.linalg.products import add as add
from recurra.linalg.products import add_or_zero as add_or_zero
from recurra.linalg.products import inner as inner
from recurra.linalg.products import inside_kernel as inside_kernel
from recurra.linalg.products import matvec as matvec
from recurra.linalg.products import mul as mul
from recurra.linalg.products import outer as outer
from recurra.linalg.products import outers as outers
from recurra.linalg.products import total as total
from recurra.linalg.products import vecmat as vecmat
from recurra.linalg.trees import balance as balance
from recurra.linalg.trees import combine as combine
from recurra.linalg.trees import decomposable as decomposable
from recurra.linalg.trees import either as either
from recurra.linalg.trees import scale as scale
from recurra.linalg.trees import where as where
from recurra.linalg.trees import zeros_like as zeros_like
