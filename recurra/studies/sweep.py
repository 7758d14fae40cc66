"""A study carried out: its networks are those of a sweep, and what is finished is kept in its folder at once."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recurra.studies.dataset import whole
from recurra.studies.folder import Folder
from recurra.studies.settings import Settings, SettingsError
from recurra.studies.study import Study
from recurra.training.folder import Groups, Kept
from recurra.training.interrupts import Interrupted
from recurra.training.places.base import Place
from recurra.training.places.dispatching import Local
from recurra.training.provenance import machine
from recurra.training.provenance import versions as all_versions

if TYPE_CHECKING:
    import xarray

    from recurra.engine.programs import SharedProgram
    from recurra.training.cases import Made
    from recurra.training.computing import Collected
    from recurra.training.orders import Batch, Networks


class Sweep:
    """The networks of a study, and how they are computed."""

    def __init__(self, study: Study) -> None:
        self.study, self.points = study, study.points()
        self.settings = [study.settings(point) for point in self.points]
        self._kept: Kept | None = None
        self._found: Collected | None = None

    @functools.cached_property
    def networks(self) -> "Networks":
        """All networks, put into orders when they are asked for."""
        return networks_of(self.settings, self.study.seeds)

    def kept(self, groups: Groups) -> Kept:
        """What a folder has of the networks."""
        if self._kept is None or self._kept.groups is not groups:
            self._kept, self._found = Kept(groups, self.networks), None
        return self._kept

    def found(self, folder: Folder) -> "Collected":
        """What there is of the networks: what a folder has of them, and what was computed since it was first read."""
        from recurra.training.sweep import found_of

        kept = self.kept(folder.groups)
        self._found = found_of(self.networks, kept) if self._found is None else self._found
        return self._found

    def missing(self, folder: Folder) -> "list[Batch]":
        """The networks that are to be computed."""
        from recurra.training.sweep import done

        return self.networks.batches(done(self.networks, self.found(folder)))

    def run(self, folder: Folder, place: Place) -> list[dict[str, Any]]:
        """Compute all that is missing, and keep each group as it is finished; what failed, and why.

        What the study's engine cannot run is a `SettingsError` before anything is computed.
        """
        from recurra.training.sweep import carry_out

        check_engine(self.networks, [batch.program for batch in self.missing(folder)], place)
        count = len(self.points) * len(self.study.seeds)
        label = f"{count:,} network{'s' * (count != 1)}"
        ended = carry_out(self.networks, self.found(folder), self.kept(folder.groups), place, label, True)
        if ended.signal:
            raise Interrupted("The study was stopped.", self.dataset(folder), ended.signal)
        return [{"points": list(order.points), "reason": failure.reason} for order, failure in ended.failures]

    def dataset(self, folder: Folder) -> "xarray.Dataset":
        """All that is found, as one data set."""
        return whole(self.study, self.points, self.found(folder), folder.recall())

    def estimate(self, batches: "Sequence[Batch]") -> dict[str, Any]:
        """How long it will take, from a short probe of each program on this machine."""
        from recurra.training.orders import network_steps

        check_engine(self.networks, [batch.program for batch in batches], Local())
        seconds, compiling = self.networks.estimate(batches)
        return {
            "programs": len(batches),
            "network_steps": network_steps(batches),
            "seconds": round(seconds, 1),
            "compile_seconds": round(compiling, 1),
        }


def check_engine(networks: "Networks", found: "Sequence[SharedProgram]", place: Place) -> None:
    """Raise a `SettingsError` if the on-chip engine is asked for, and cannot run one of these programs."""
    from recurra.engine.choosing import engine_of
    from recurra.engine.on_chip.engine import OnChipEngine
    from recurra.engine.on_chip.fits import DoesNotFitError
    from recurra.engine.settings import having
    from recurra.training.sweep import check_on_chip

    engine = engine_of(networks.engine)
    if isinstance(engine, OnChipEngine) and not _is_here(place):
        engine = OnChipEngine(interpret=True)  # which needs no GPU: whether other machines have one is not known
    try:
        with having(networks.settings):
            check_on_chip(engine, found)
    except DoesNotFitError as error:
        raise SettingsError(str(error)) from None


def _is_here(place: Place) -> bool:
    """Whether a place computes on this machine."""
    if isinstance(place, Local):
        return True
    from recurra.training.places.workers import Processes  # needs Dask, as all other places do

    return isinstance(place, Processes)


def networks_of(
    settings: Sequence[Settings],
    seeds: Sequence[int],
    x64: bool | None = None,
    engine: str | None = None,
    at_once: bool = False,
) -> "Networks":
    """A network of each of these settings and seed. `engine` takes the place of that of the settings."""
    import jax

    from recurra.engine.experiment import KnownRows
    from recurra.training.orders import Networks

    x64 = any(each.dtype == "float64" for each in settings) if x64 is None else x64
    with jax.enable_x64(x64):
        shapes = KnownRows()
        made = [made_of(each, shapes) for each in settings]
        return Networks(made, seeds, jax.random.key(settings[0].key), engine or settings[0].engine, at_once)


def made_of(settings: Settings, shapes: Any) -> "Made":
    """What a run of these settings, with one learner, trains."""
    from recurra.studies.parts import build
    from recurra.training.cases import Case

    parts = build(settings)
    (learner,) = parts.learners.values()
    case = parts.network, learner, parts.task, parts.optimizer, settings.steps, settings.window, settings.streams
    return Case.of(*case).made(shapes)


def made_by(place: str, failures: list[dict[str, Any]]) -> dict[str, Any]:
    """How and where a study was carried out."""
    return {"place": place, "machine": machine(), "versions": all_versions(), "failures": failures}
