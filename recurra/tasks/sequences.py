"""A task that serves sequences of a user's in shuffled minibatches."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from recurra import checks
from recurra.losses import Loss
from recurra.tasks import orders
from recurra.tasks.base import BLOCK, Rows, Task
from recurra.tasks.given import check_types, flags, in_precision, real, unmasked


class MinibatchStream(NamedTuple):
    """What tells the rows of a stream: its number in the minibatch, and the random words behind all orders."""

    number: Int[Array, ""]
    words: UInt32[Array, " two"]


class Sequences(Task):
    """Sequences of any lengths, served in minibatches of `batch` sequences, in a new order every epoch.

    `inputs` are an array (sequence, step, n_in), whose sequences end after `lengths` steps and are filled up with
    padding of any kind, or a list of arrays (step, n_in) of different lengths. `labels` have one for each step, in the
    same form with n_out columns, or one for each sequence, (sequence, n_out), which counts at its last step. `present`
    tells, for each label, whether there is one; labels that a NumPy mask covers are missing too.

    A network learns from a minibatch in as many streams, so `train` needs no `streams`. All of them start their
    sequences together, each from the first state of the network. A minibatch takes as many steps as the longest of all
    sequences. After the end of a shorter one its stream has inputs of 0 and no labels, and so do streams that have no
    sequence in the last minibatch of an epoch. An epoch is one pass over all sequences, and `epoch` is the number of
    its steps: train for `steps=10 * task.epoch`. Orders depend on the seed and the epoch. With `shuffle=False`, every
    epoch has the order in which the sequences are given.

    What does not match, is not finite within a sequence or would lose digits is a ValueError, and what holds no numbers
    a TypeError.

    >>> lengths = [5, 3, 4]
    >>> inputs = [np.ones((length, 2)) for length in lengths]
    >>> task = rc.Sequences(inputs, np.eye(4)[[0, 1, 3]], batch=2)
    >>> task.n_in, task.n_out, task.streams, task.epoch
    (2, 4, 2, 10)
    """

    inputs: Float[Array, "sequences rows n_in"]
    labels: Float[Array, "sequences *steps n_out"]
    lengths: Int[Array, " sequences"]
    batch: int
    present: Bool[Array, "sequences *steps"]
    shuffle: bool

    def __init__(
        self,
        inputs: Any,
        labels: Any,
        lengths: Any = None,
        *,
        batch: int = 1,
        present: Any = None,
        shuffle: bool = True,
    ):
        self.batch, self.shuffle = batch, shuffle
        checks.whole(self, "batch")
        checks.flag(self, "shuffle")
        inputs, lengths = _inputs(inputs, lengths)
        count, rows, _ = inputs.shape
        if batch > count:
            raise ValueError(
                f"`batch` is {batch}, and there {_are(count)}: a minibatch cannot have more, so use at most "
                f"batch={count}."
            )
        inside = np.arange(rows) < lengths[:, None]
        labels, present = _labels(labels, present, inside)
        if np.ma.is_masked(inputs) and np.ma.getmaskarray(inputs)[inside].any():
            raise ValueError("`inputs` have a mask of NumPy's, and every step needs an input: fill them first.")
        longest = lengths.max()
        inputs, inside = np.ma.getdata(inputs)[:, :longest], inside[:, :longest]
        if present.ndim == 2:
            labels, present = labels[:, :longest], present[:, :longest]
        of_step = lambda at: "row {1} of sequence {0}".format(*np.argwhere(inside)[at[-1]])
        self.inputs = _filled(inside, in_precision(real(inputs[inside], "inputs"), "inputs", of_step))
        words = "row {1} of sequence {0}" if present.ndim == 2 else "sequence {0}"
        of_label = lambda at: words.format(*np.argwhere(present)[at[-1]])
        self.labels = _filled(present, in_precision(real(labels[present], "labels"), "labels", of_label))
        self.lengths, self.present = jnp.asarray(lengths, "int32"), jnp.asarray(present)

    @property
    def n_in(self) -> int:
        return self.inputs.shape[-1]

    @property
    def n_out(self) -> int:
        return self.labels.shape[-1]

    @property
    def streams(self) -> int:
        return self.batch

    @property
    def epoch(self) -> int:
        return self._rows * self._batches

    @property
    def _rows(self) -> int:
        """The steps of a minibatch, as many as the longest sequence has."""
        return self.inputs.shape[1]

    @property
    def _batches(self) -> int:
        """The minibatches of an epoch."""
        return -(-len(self.inputs) // self.batch)

    def split(self, part: float, key: int | PRNGKeyArray = 0) -> tuple["Sequences", "Sequences"]:
        """Two tasks: one without a random part of the sequences, and one of this part, to be held out.

        `part` is its share of all sequences, between 0 and 1, and each of the two has at least one of them. The same
        `key` makes the same parts. Both have this task's `batch`, or fewer where they have fewer sequences.

        >>> rest, held_out = rc.Sequences(np.ones((10, 5, 2)), np.ones((10, 1)), batch=4).split(0.2)
        >>> len(rest.inputs), len(held_out.inputs), held_out.batch
        (8, 2, 2)
        """
        count = len(self.inputs)
        try:
            share = checks.number(part)
        except TypeError as error:
            raise TypeError(f"`part` {error}") from None
        if share is None or not 0 < share < 1:
            raise ValueError(f"`part` is a share of all sequences, above 0 and below 1, and is {part!r}.")
        if count == 1:
            raise ValueError("There is one sequence, which cannot be split: give two or more.")
        shuffled = jax.random.permutation(checks.key_of(key), count)
        size = min(max(round(share * count), 1), count - 1)
        return self._of(shuffled[size:]), self._of(shuffled[:size])

    def _of(self, chosen: Int[Array, " chosen"]) -> "Sequences":
        """Those of the sequences that are chosen, in the order in which they were given."""
        fewer = {name: getattr(self, name)[jnp.sort(chosen)] for name in ("inputs", "labels", "lengths", "present")}
        return dataclasses.replace(self, batch=min(self.batch, len(chosen)), **fewer)

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        if streams != self.batch:
            raise ValueError(
                f"`streams` is {streams}, and Sequences are served in minibatches of {self.batch}: leave `streams` "
                f"out, or give Sequences batch={streams}."
            )
        check_types(dtype, inputs=self.inputs, labels=self.labels)
        present = np.asarray(self.present)
        loss.check_labels(np.asarray(self.labels)[present])
        first = np.argwhere(present)[:, 1] if present.ndim == 2 else np.asarray(self.lengths)[present] - 1
        if steps <= first.min(initial=self._rows):
            raise ValueError(
                f"No sequence has a label in its first {steps} steps, so there would be no loss: take more steps. An "
                f"epoch has {self.epoch}."
            )

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> MinibatchStream:
        return MinibatchStream(jnp.zeros((), "int32"), jax.random.bits(key, (2,), "uint32"))

    def in_stream(self, state: MinibatchStream, stream: Int[Array, ""]) -> MinibatchStream:
        return state._replace(number=stream)

    def block(
        self, state: MinibatchStream, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Rows, MinibatchStream]:
        # Everything follows from the number of the step. It belongs to one of the few minibatches of this block.
        t = number * BLOCK + jnp.arange(BLOCK, dtype="int32")
        first, row = t[0] // self._rows, t % self._rows
        minibatch = first + jnp.arange(_spanned(self._rows), dtype="int32")
        found, is_there = self._sequence(state, minibatch)
        sequence, is_there = found[t // self._rows - first], is_there[t // self._rows - first]
        x = jnp.where(is_there[:, None], self.inputs[sequence, row], 0).astype(dtype)
        at = (sequence, row) if self.present.ndim == 2 else sequence
        label, present = self.labels[at], self.present[at]
        if self.present.ndim == 1:
            present = present & (row == self.lengths[sequence] - 1)
        present = present & is_there
        return Rows(x, jnp.where(present[:, None], label, 0).astype(dtype), present, row == 0), state

    def _sequence(
        self, state: MinibatchStream, minibatch: Int[Array, " minibatches"]
    ) -> tuple[Int[Array, " minibatches"], Bool[Array, " minibatches"]]:
        """The sequence that the stream has in each of these minibatches, and whether there is one."""
        count, batches = len(self.inputs), self._batches
        epoch, place = minibatch // batches, minibatch % batches * self.batch + state.number
        is_there = place < count
        place = jnp.minimum(place, count - 1)
        if not self.shuffle:
            return place, is_there
        words = jax.random.wrap_key_data(state.words, impl="threefry2x32")
        epochs = epoch[0] + jnp.arange(_spanned(self.epoch), dtype="int32")
        of_epoch = jax.vmap(lambda epoch: orders.shuffle(jax.random.fold_in(words, epoch), count), out_axes=1)(epochs)
        of_place = jax.tree.map(lambda leaf: leaf[:, epoch - epoch[0]], of_epoch)
        return orders.at(place, of_place, count), is_there


def _spanned(steps: int) -> int:
    """How many stretches of so many steps a block can touch."""
    return (BLOCK - 2) // steps + 2


def _filled(where: np.ndarray, rows: np.ndarray) -> Array:
    """The rows at their places, and zeros at all others."""
    array = np.zeros((*where.shape, rows.shape[-1]), rows.dtype)
    array[where] = rows
    return jnp.asarray(array)


def _are(count: int) -> str:
    return "is one sequence" if count == 1 else f"are {count} sequences"


def _padded(value: Any, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """The value as one array. The arrays of a list may differ in length: zeros are added, and all lengths returned."""
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        value = list(value)
    if not isinstance(value, list | tuple):
        return value if isinstance(value, np.ma.MaskedArray) else np.asarray(value), None
    each = [_array(one, f"`{name}[{at}]`") for at, one in enumerate(value)]
    has_masks = any(isinstance(one, np.ma.MaskedArray) for one in each)
    if len({one.shape for one in each}) <= 1:
        return np.ma.stack(each) if has_masks else np.array(each), None
    other = next((at for at, one in enumerate(each) if one.shape[1:] != each[0].shape[1:] or not one.ndim), None)
    if other is not None:
        raise ValueError(
            f"All sequences of `{name}` must have the same features, and the first has shape {each[0].shape}, number "
            f"{other} {each[other].shape}."
        )
    lengths = np.array([len(one) for one in each])
    kind = np.result_type(*(one.dtype for one in each))
    array = np.ma.zeros if has_masks else np.zeros
    found = array((len(each), lengths.max(), *each[0].shape[1:]), kind)
    for at, one in enumerate(each):
        found[at, : len(one)] = one
    return found, lengths


def _array(value: Any, name: str) -> np.ndarray:
    try:
        return value if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be one array, (steps, features), and has rows of different lengths.") from None


def _inputs(inputs: Any, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
    """The padded inputs, and the length of each sequence."""
    inputs, own = _padded(inputs, "inputs")
    if len(inputs.shape) == 0 or len(inputs) == 0:
        raise ValueError(f"`inputs` must hold sequences, and have shape {inputs.shape}: give at least one sequence.")
    if inputs.ndim != 3:
        raise ValueError(
            f"`inputs` must have three axes, (sequences, steps, features), or be a list of arrays (steps, features), "
            f"and have shape {inputs.shape}: use array[..., None] for a single feature, and array[None] for a single "
            "sequence."
        )
    count, rows, _ = inputs.shape
    if own is not None and lengths is not None:
        raise ValueError(
            "`inputs` are a list of arrays of different lengths, and `lengths` are given too: leave `lengths` out."
        )
    if own is not None and not own.all():
        raise ValueError(f"`inputs[{own.argmin()}]` has no rows: a sequence needs at least one, so leave it out.")
    if inputs.size == 0:
        raise ValueError(f"`inputs` are empty, shape {inputs.shape}: give at least one step and one feature.")
    return inputs, _lengths(lengths, count, rows) if own is None else own


def _lengths(value: Any, count: int, rows: int) -> np.ndarray:
    if value is None:
        return np.full(count, rows)
    array = np.asarray(value)
    if array.shape != (count,):
        raise ValueError(f"`lengths` must have one for each of {count} sequences, and have shape {array.shape}.")
    if array.dtype.kind not in "iu":
        raise TypeError(f"`lengths` must be whole numbers, and are {array.dtype}: use lengths.astype(int).")
    wrong = np.flatnonzero((array < 1) | (array > rows))
    if wrong.size:
        least = "leave out sequences without steps" if array[wrong[0]] < 1 else "give longer arrays, or cut the lengths"
        raise ValueError(
            f"`lengths` must lie in 1..{rows}, the steps of `inputs`, and `lengths[{wrong[0]}]` is {array[wrong[0]]}: "
            f"{least}."
        )
    return array.astype(int)


def _labels(labels: Any, present: Any, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The labels, one a step or one a sequence, and which of them count. `inside` are the steps of the sequences."""
    (count, rows), lengths = inside.shape, inside.sum(axis=1)
    labels, own = _padded(labels, "labels")
    _check_outputs(labels, inside.shape, own is not None)
    if own is not None and len(own) == count:
        if (wrong := np.flatnonzero(own != lengths)).size:
            at = wrong[0]
            raise ValueError(
                f"Sequence {at} has {lengths[at]} rows of `inputs` and {own[at]} of `labels`: make them equal."
            )
        labels = _longer(labels, rows)
    of_steps = labels.ndim == 3 and labels.shape[:2] == inside.shape
    if not of_steps and not (labels.ndim == 2 and len(labels) == count):
        raise ValueError(
            f"`labels` must be one for each step, shape ({count}, {rows}, n_out), or one for each sequence, ({count}, "
            f"n_out), and have shape {labels.shape}."
        )
    if labels.shape[-1] == 0:
        raise ValueError("`labels` are empty: give at least one output.")
    counted = inside if of_steps else np.ones(count, bool)
    words = "row {1} of sequence {0}" if of_steps else "the row of sequence {0}"
    if np.ma.is_masked(labels):
        if present is not None:
            raise ValueError("`labels` have a mask of NumPy's, and `present` is given too: leave one of them out.")
        masks = np.ma.getmaskarray(labels) & counted[..., None]
        counted = counted & unmasked(np.ma.masked_array(labels, masks), lambda at: words.format(*at))
    if present is not None:
        given, known = _padded(present, "present")
        given = _longer(given, rows) if of_steps and known is not None and given.ndim == 2 else given
        counted = counted & flags(given, "present", counted.shape)
    if not counted.any():
        raise ValueError("`labels` are all missing, so there is nothing to learn: give at least one.")
    return np.ma.getdata(labels), counted


def _check_outputs(labels: np.ndarray, shape: tuple[int, ...], are_ragged: bool) -> None:
    """Raise if labels are numbers or classes without an axis of outputs."""
    is_class = (
        labels.shape == shape and shape[1] > 1 and labels.dtype.kind in "iu" and not np.isin(labels, (0, 1)).all()
    )
    if labels.ndim < 2 or (is_class and not are_ragged):
        other = f", or labels.astype(float) for {shape[1]} outputs of a sequence" * (labels.ndim == 2)
        raise ValueError(
            f"`labels` must have a last axis of outputs, and hold {labels.dtype} of shape {labels.shape}: use "
            f"np.eye(k)[labels] for k classes, or labels[..., None] for single numbers{other}."
        )
    if labels.ndim == 2 and are_ragged:
        raise ValueError(
            "`labels` are a list of arrays with one axis, and each must have two, (steps, n_out): use "
            "[np.eye(k)[each] for each in labels] for k classes, or each[:, None] for single numbers."
        )


def _longer(array: np.ndarray, rows: int) -> np.ndarray:
    """The array with zeros after its last rows, so that it has at least so many."""
    more = ((0, 0), (0, max(rows - array.shape[1], 0)), *((0, 0),) * (array.ndim - 2))
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.masked_array(np.pad(array.data, more), np.pad(np.ma.getmaskarray(array), more))
    return np.pad(array, more)
