"""`python run_blocks.py PAGE OUT`: runs blocks from standard input in one namespace, and writes what they showed."""

import contextlib
import io
import json
import linecache
import sys
import traceback


def drawn() -> list[str]:
    """Every open figure of matplotlib's as SVG; they are closed."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    pictures = []
    for number in pyplot.get_fignums():
        text = io.StringIO()
        pyplot.figure(number).savefig(text, format="svg", bbox_inches="tight")
        pictures.append(text.getvalue())
    pyplot.close("all")
    return pictures


def main(page: str, out: str) -> None:
    """Stops at the first block that fails, and names its line."""
    scope: dict = {"__name__": "__main__"}
    result: dict = {"shown": []}
    for line, code in json.load(sys.stdin):
        text, printed = "\n" * (line - 1) + code, io.StringIO()  # so that lines are those of the page
        linecache.cache[page] = (len(text), None, text.splitlines(keepends=True), page)
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(text, page, "exec"), scope)
            result["shown"].append({"printed": printed.getvalue(), "drawn": drawn()})
        except BaseException as error:
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == page]
            result["line"] = getattr(error, "lineno", None) or (frames[0].lineno if frames else line)
            result["error"] = traceback.format_exc(limit=-6)
            break
    with open(out, "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
