"""How numbers, settings and text are written on a page."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup, escape

RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def plain(value: Any) -> Any:
    """The value in types that JSON knows; what is not a finite number becomes null."""
    match value:
        case Mapping():
            return {str(key): plain(entry) for key, entry in value.items()}
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case float():
            return value if math.isfinite(value) else None
        case None | str() | bool() | int():
            return value
        case Sequence():
            return [plain(entry) for entry in value]
        case _:
            return str(value)


def subscripts(text: str) -> Markup:
    """`A_k B_ij` with its indices lowered."""
    return Markup(re.sub(r"_(\w+)", r"<sub>\1</sub>", str(escape(text))))


def tied(text: str) -> str:
    """The text with `a = 1` and `1 ± 2` kept on one line, and -1 with a true minus."""
    text = re.sub(r"(?<!\w)-(?=\d)", "−", str(text))
    return re.sub(r" ([=~±<>≤≥×]) ", "\u00a0\\1\u00a0", text)


def estimate(claim: Mapping[str, Any]) -> str:
    """The claim's number ± its uncertainty, if it has any, or nothing where there is no number."""
    number, uncertainty = plain(claim["number"]), plain(claim["uncertainty"])
    if not isinstance(number, int | float):
        return ""
    shown = f"{number:.3g}" + (f" ± {uncertainty:.2g}" if uncertainty else "")
    power = lambda found: "×10" + str(int(found[1])).translate(RAISED)
    return re.sub(r"e([+-]\d+)", power, shown).replace("-", "−")


def lines(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each setting and its value in words."""
    for key, value in plain(settings).items():
        if isinstance(value, dict):
            yield spaced(key), ", ".join(f"{spaced(name)} {words(entry)}" for name, entry in value.items())
        else:
            yield spaced(key), words(value)


def words(value: Any) -> str:
    """A setting's value."""
    match value:
        case list():
            return "/".join(map(words, value))
        case float():
            return f"{value:.4g}"
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case _:
            return "–" if value is None else str(value)


def spaced(key: str) -> str:
    """A name with blanks."""
    return key.replace("_", " ")
