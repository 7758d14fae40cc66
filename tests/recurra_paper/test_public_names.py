"""The reproduction is a program like a user's: what it uses of the library has an entry in the reference."""

import ast
import inspect
import pkgutil

from reference_pages import DOCS, ROOT, reference

#: types for annotations, which the reference explains in tables and sentences
TYPES = {"State", "Credit", "Weights", "Influence", "MatrixInit"}


def used(source):
    """Every name of the library that a file imports, and every attribute of a module that it imports."""
    tree, modules, found = ast.parse(source), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "recurra":
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if inspect.ismodule(pkgutil.resolve_name(name)):
                    modules[alias.asname or alias.name] = name
                else:
                    found.append(name)
        elif isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name == "recurra"}
    attributes = (
        node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )
    return found + [f"{modules[node.value.id]}.{node.attr}" for node in attributes if node.value.id in modules]


def private(names):
    """Those that have no entry: neither as they are written, nor at the top of the library."""
    listed = set(reference())
    spoken = "".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    told = lambda name: f"`{name}`" in spoken or f"`{'.'.join(name.split('.')[-2:])}`" in spoken
    short = lambda name: f"recurra.{name.rpartition('.')[2]}"
    return sorted({name for name in names if name not in listed and short(name) not in listed and not told(name)})


def test_every_name_that_the_reproduction_uses_is_in_the_reference():
    names = [name for file in (ROOT / "recurra_paper").rglob("*.py") for name in used(file.read_text("utf-8"))]
    assert len(set(names)) > 40
    assert [name for name in private(names) if name.rpartition(".")[2] not in TYPES] == []


def test_a_name_that_is_not_public_is_found():
    wrong = "from recurra import cells\nfrom recurra.engine.fold import advance\ncells.structure\ncells.orthogonal"
    assert private(used(wrong)) == ["recurra.cells.structure", "recurra.engine.fold.advance"]
