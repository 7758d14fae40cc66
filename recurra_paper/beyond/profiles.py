"""At which scale the study is run. How many seeds and steps that means, each question says for itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """The name of a scale: quick takes minutes on two cores, full is the study itself, tiny is for tests."""

    name: str


PROFILES = {name: Profile(name) for name in ("quick", "full", "tiny")}
