"""The docs' links work, and every page can be reached."""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest
from django.core.management import get_commands

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "clients").rglob("README.md")]
)
# Reports as they were printed: their links lead into a Beacon that is gone.
PRINTED = sorted({*(ROOT / "docs" / "examples").glob("*.md")} - {ROOT / "docs/examples/README.md"})
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


@cache
def words(page: Path) -> str:
    """Return the page without its examples."""
    return FENCED.sub("", page.read_text())


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that a forge makes of the page's headings."""
    headings = re.findall(r"^#{1,6} (.+)$", words(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return frozenset(heading.strip().replace(" ", "-") for heading in plain)


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the files of ours, each with its anchor, to which the page leads."""
    found = [to for to in LINK.findall(words(page)) if not re.match(r"[a-z]+:", to)]
    split = [to.partition("#") for to in found]
    return [((page.parent / path).resolve() if path else page, at) for path, _, at in split]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in PRINTED],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_each_link_leads_to_a_file_and_a_heading_that_are_there(page: Path):
    lost = [
        f"{to.name}#{at}"
        for to, at in links(page)
        if not to.exists() or (at and to.suffix == ".md" and at not in anchors(to))
    ]

    assert lost == []


def test_every_document_is_reached_from_the_readme():
    reached, to_read = set(), [ROOT / "README.md"]
    while to_read:
        page = to_read.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        to_read.extend(to for to, _ in links(page))

    docs = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert sorted(page.name for page in docs - reached) == []


# --- what is named in passing ---------------------------------------------------------------------

# Decisions and changes tell of what was, figures of the commit that they were taken at.
OF_THEN = {ROOT / "CHANGELOG.md", ROOT / "docs/dev/decisions.md"}
NOW = [page for page in PAGES if page not in PRINTED and page not in OF_THEN]


def named(pattern: str) -> set[str]:
    """Return what the pages name, their examples included."""
    return {name for page in NOW for name in re.findall(pattern, page.read_text(), re.MULTILINE)}


def test_every_make_that_is_named_is_one():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = named(r"(?:`|^)make ([a-z-]+)\b")

    assert {"up", "test", "docs"} <= told
    assert sorted(told - targets) == []


def test_every_command_of_manage_that_is_named_is_one():
    told = named(r"manage\.py ([a-z_]+)\b")

    assert {"backup", "research"} <= told
    assert sorted(told - get_commands().keys()) == []


def test_every_file_in_the_code_that_is_named_is_there():
    rooms = "beacon_site|memory|research|templates|static|tests|benchmarks|scripts|requirements"
    told = named(rf"`((?:{rooms})/[\w/.-]+\.\w+)(?:::\w+)?`")

    assert len(told) > 20
    places = (ROOT, ROOT / "templates", ROOT / "tests")  # so pages name templates and tests
    assert [one for one in sorted(told) if not any((at / one).exists() for at in places)] == []


def test_every_module_in_the_code_that_is_named_is_there():
    told = named(r"`((?:beacon_site|memory|research)\.(?!md`|css`)[\w.]+)`")

    assert told
    assert [name for name in sorted(told) if not resolves(name)] == []


def resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or a name in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_picture_that_is_shown_is_there_and_none_is_left_over():
    pictures = {
        (page.parent / shown).resolve()
        for page in NOW
        for shown in re.findall(
            r"!\[[^\]]*\]\(([^)\s]+)\)|<(?:img|source)[^>]+src(?:set)?=\"([^\"]+)\"",
            page.read_text(),
        )
        for shown in filter(None, shown)
        if not re.match(r"[a-z]+:", shown)
    }

    assert sorted(path.name for path in pictures if not path.exists()) == []
    stored = {path for path in (ROOT / "docs" / "pictures").rglob("*") if path.is_file()}
    assert sorted(path.name for path in stored - pictures) == []
    assert [path.name for path in stored if path.stat().st_size > 150_000] == []
