"""A study carried out: its networks are those of a sweep, and what is finished is kept in its folder at once."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recurra.studies.choices import Point
from recurra.studies.dataset import whole
from recurra.studies.folder import Folder
from recurra.studies.settings import Settings
from recurra.studies.study import Study
from recurra.training.console import say
from recurra.training.folder import Group, Pending, placed
from recurra.training.interrupts import Interrupted, asked_to_stop
from recurra.training.places.base import Failure, Place
from recurra.training.progress import progress
from recurra.training.provenance import machine
from recurra.training.provenance import versions as all_versions

if TYPE_CHECKING:
    import xarray

    from recurra.training.cases import Made
    from recurra.training.orders import Batch, Networks


@dataclass
class Sweep:
    """The networks of a study, and how they are computed."""

    study: Study
    points: list[Point] = field(init=False)
    settings: list[Settings] = field(init=False)

    def __post_init__(self) -> None:
        self.points = self.study.points()
        self.settings = [self.study.settings(point) for point in self.points]

    @functools.cached_property
    def networks(self) -> "Networks":
        """All networks, put into orders when they are asked for."""
        return networks_of(self.settings, self.study.seeds)

    def done(self, folder: Folder) -> set[tuple[int, int]]:
        """The networks that are finished, each a point's number and a seed."""
        seeds = self.study.seeds
        return {(point, seeds[column]) for group in folder.groups for (point, column), _ in self.placed(group)}

    def placed(self, group: Group) -> list[tuple[tuple[int, int], int]]:
        """The networks of a group that the study has: their places, as (point, seed's column), and their rows."""
        points: dict[str, list[int]] = {}
        for point, digest in enumerate(self.networks.digests):
            points.setdefault(digest, []).append(point)
        return list(placed(group, points, {seed: column for column, seed in enumerate(self.study.seeds)}))

    def known_as(self) -> set[tuple[str, int]]:
        """What the networks are known by in a folder."""
        return {(digest, seed) for digest in self.networks.digests for seed in self.study.seeds}

    def run(self, folder: Folder, place: Place) -> list[dict[str, Any]]:
        """Compute all that is missing, and keep each group as it is finished; what failed, and why."""
        from recurra.training.orders import network_steps
        from recurra.training.sweep import computed

        batches = self.networks.batches(self.done(folder))
        total, failures = network_steps(batches), []
        count = sum(len(batch.members) for batch in batches)
        label = f"{count:,} network{'s' * (count != 1)}"
        with (
            Pending(folder.groups, self.networks.digests) as kept,
            place,
            asked_to_stop() as asked,
            progress(label, total, True, "network-steps") as report,
        ):
            for order, found in computed(self.networks, batches, place, asked, report):
                if isinstance(found, Failure):
                    failures.append({"points": list(order.points), "reason": found.reason})
                    say(f"{order.label()} failed: {found.reason}. The study goes on without them.")
                elif found.signal is None:
                    kept.keep(order, found)
        if asked.signal:
            raise Interrupted("The study was stopped.", self.dataset(folder), asked.signal)
        return failures

    def dataset(self, folder: Folder) -> "xarray.Dataset":
        """All that is kept, as one data set."""
        groups = [(group, self.placed(group)) for group in folder.groups]
        return whole(self.study, self.points, groups, folder.recall())

    def estimate(self, batches: "Sequence[Batch]") -> dict[str, Any]:
        """How long it will take, from a short probe of each program on this machine."""
        from recurra.training.orders import network_steps

        seconds, compiling = self.networks.estimate(batches)
        return {
            "networks": sum(len(batch.members) for batch in batches),
            "programs": len(batches),
            "network_steps": network_steps(batches),
            "seconds": round(seconds, 1),
            "compile_seconds": round(compiling, 1),
        }


def networks_of(settings: Sequence[Settings], seeds: Sequence[int], x64: bool | None = None) -> "Networks":
    """A network of each of these settings and seed."""
    import jax

    from recurra.engine.experiment import KnownRows
    from recurra.training.orders import Networks

    x64 = any(each.dtype == "float64" for each in settings) if x64 is None else x64
    with jax.enable_x64(x64):
        shapes = KnownRows()
        made = [made_of(each, shapes) for each in settings]
        return Networks(made, seeds, jax.random.key(settings[0].key), settings[0].engine, x64)


def made_of(settings: Settings, shapes: Any) -> "Made":
    """What a run of these settings, with one learner, trains."""
    from recurra.studies.parts import build
    from recurra.training.cases import Case

    parts = build(settings)
    (learner,) = parts.learners.values()
    window = window_of(settings)
    case = Case(parts.network, learner, parts.task, parts.optimizer, settings.steps, window, settings.streams)
    return case.made(shapes)


def window_of(settings: Settings) -> int:
    """The steps that a kept loss is averaged over."""
    return settings.window or max(settings.steps // 100, 1)


def made_by(place: str, failures: list[dict[str, Any]]) -> dict[str, Any]:
    """How and where a study was carried out."""
    return {"place": place, "machine": machine(), "versions": all_versions(), "failures": failures}
