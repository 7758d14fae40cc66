"""The options of `recurra train`, from its settings."""

import json
from typing import Any, get_args

import typer

from recurra.studies.settings import Settings


def setting(name: str, panel: str, *flags: str) -> Any:
    """The option for a setting, with its help, choices and default from `Settings`."""
    field = Settings.model_fields[name]
    kinds = get_args(field.annotation) or (field.annotation,)
    choices = [each for each in kinds if isinstance(each, str)]
    shown = f"{str(field.description)[:-1]}: {', '.join(choices)}." if choices else field.description
    if field.default not in (None, ()):
        shown = f"{shown} Default: {json.dumps(field.default)}".replace('"', "")
    kind: Any = {}
    if int in kinds or float in kinds:
        kind = {"parser": _number, "metavar": "NUMBER"}
    elif str in kinds or choices:
        kind = {"metavar": "NAME"}
    return typer.Option(*flags, help=shown, rich_help_panel=panel, show_default=False, **kind)


def _number(text: str) -> int | float | str:
    """The number typed; other text stays as it is, for `Settings` to complain of in the same words everywhere."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
