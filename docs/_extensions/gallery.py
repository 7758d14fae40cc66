"""The gallery: a page for each script of `examples/`, with what it prints and draws, and an index of their figures.

A script's docstring begins with a title. The words below it are Markdown. Its code runs as code on other pages does
(see `runs`): in a fresh process, and again only if it or the library has changed.

    ```{example} drift
    ```

is the page of `examples/drift.py`, and

    ```{gallery}
    drift: One sentence that says what the figure shows.
    ```

is a grid of thumbnails that lead to such pages.
"""

import ast
import os
from pathlib import Path
from typing import NamedTuple

import runs
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOG = logging.getLogger(__name__)
EXAMPLES = Path(__file__).parents[2] / "examples"


class Example(NamedTuple):
    """A script: the title and the words of its docstring, and the code below it, which begins at a line."""

    title: str
    words: str
    code: str
    line: int

    @classmethod
    def of(cls, file: Path) -> "Example":
        """A script as it is in its file."""
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        if (words := ast.get_docstring(tree)) is None:
            raise ValueError(f"{file.name} needs a docstring: its first line is the title of its page.")
        title, _, words = words.partition("\n")
        above = tree.body[0].end_lineno or 0
        lines = text.splitlines()
        while above < len(lines) and not lines[above].strip():
            above += 1
        return cls(title, words.strip(), "\n".join(lines[above:]), above + 1)


class Running(SphinxDirective):
    """What both directives need."""

    def example(self, name: str) -> tuple[Example, dict]:
        """A script, and what it showed when it was run."""
        file = EXAMPLES / f"{name}.py"
        self.env.note_dependency(str(file))
        runs.remember(self.env.app)
        example = Example.of(file)
        result = runs.run([(example.line, example.code)], f"examples/{file.name}", runs.kept(self.env.app))
        if "error" in result:
            LOG.error("this example fails:\n%s", result["error"], location=f"{file}:{result['line']}")
        return example, (result["shown"] or [{"printed": "", "drawn": []}])[0]


class Page(Running):
    """The page of one script."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        example, shown = self.example(name)
        script = os.path.relpath(EXAMPLES / f"{name}.py", Path(self.env.doc2path(self.env.docname)).parent)
        words = f"{example.words}\n\nScript: {{download}}`examples/{name}.py <{script}>`\n"
        code = nodes.literal_block(example.code, example.code, language="python", source=name)
        section = nodes.section("", nodes.title(example.title, example.title), *self.parse_text_to_nodes(words))
        section += [*runs.drawn(shown, "The figure that the code below draws"), code, *runs.printed(shown)]
        self.state.document.note_implicit_target(section)
        return [section]


class Gallery(Running):
    """Thumbnails of scripts, each with its title and a sentence."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        cards = ["::::{grid} 1 2 2 3", ":gutter: 3", ""]
        for line in self.content:
            name, _, sentence = line.partition(": ")
            example, shown = self.example(name)
            figures = [runs.image(svg, f"The figure of {example.title}") for svg in shown["drawn"]]
            cards += [":::{grid-item-card}", f":link: {name}", ":link-type: doc", ":class-card: thumbnail", ""]
            cards += [*figures, "", f"**{example.title}**", "", sentence, ":::"]
        return self.parse_text_to_nodes("\n".join([*cards, "::::"]))


def setup(app: Sphinx) -> dict:
    """Called by Sphinx."""
    app.add_directive("example", Page)
    app.add_directive("gallery", Gallery)
    return {"parallel_read_safe": False, "parallel_write_safe": True, "version": "1"}
