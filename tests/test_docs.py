"""The documentation: named places, links and pictures exist, and the README stays short."""

import ast
import re
from pathlib import Path

import pytest

import tandem

ROOT = Path(__file__).parent.parent
PACKAGE = Path(tandem.__file__).parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
README_LINES = 110
PICTURE_BYTES = 2 * 2**20


def names_in(file: Path) -> set[str]:
    """Names of functions, classes, methods and constants of a module: `name` and `Class.name`."""
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
def test_every_place_in_the_code_named_on_a_page_exists(page: Path) -> None:
    for file, name in re.findall(r"`([\w/]+\.py)::([\w.]+)`", page.read_text()):
        found = [folder / file for folder in (PACKAGE, ROOT) if (folder / file).exists()]
        assert found, f"{page.name} names {file}"
        assert name in names_in(found[0]), f"{page.name} names {file}::{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_named_on_a_page_exists(page: Path) -> None:
    for name in re.findall(r"`((?!RUN/)[\w.-]+/[\w./-]+\.(?:py|toml|xml|md))`", page.read_text()):
        assert any((folder / name).exists() for folder in (PACKAGE, ROOT)), f"{page.name} names {name}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_picture_of_a_page_exists(page: Path) -> None:
    for target, _, anchor in (link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", page.read_text())):
        if target.startswith(("http:", "https:")):
            continue
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(path), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_readme_is_short(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= README_LINES


def test_pictures_are_small() -> None:
    large = [picture.name for picture in (ROOT / "docs" / "images").iterdir() if picture.stat().st_size > PICTURE_BYTES]
    assert not large, f"larger than 2 MB: {large}"


def test_the_package_page_has_no_relative_links() -> None:
    """A package index shows docs/package.md without the repository: neither links nor pictures of it would work there."""
    relative = [target for target in re.findall(r"\]\(([^)]+)\)", (ROOT / "docs" / "package.md").read_text()) if "://" not in target]
    assert not relative
