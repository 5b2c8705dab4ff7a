"""What the documentation points at is there."""

import ast
import re
from pathlib import Path

import pytest

import tandem

ROOT = Path(__file__).parent.parent
PACKAGE = Path(tandem.__file__).parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])


def names_in(file: Path) -> set[str]:
    """Functions, classes, methods and constants of a module: `name` and `Class.name`."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_place_in_the_code_that_a_page_names_exists(page: Path) -> None:
    for file, name in re.findall(r"`([\w/]+\.py)::([\w.]+)`", page.read_text()):
        assert (PACKAGE / file).exists(), f"{page.name} names {file}"
        assert name in names_in(PACKAGE / file), f"{page.name} names {file}::{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_picture_of_a_page_exists(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
