"""Import directions between packages, and a few rules for the code as a whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("memory", "research", "beacon_site")

# The packages of an app from the ground up: a module imports its own package and lower lines, no other.
# Folders inside a package have an order too: test_no_folder_leads_back_to_itself.
NO_APP = ("db", "net", "text", "providers", "embedded")
LAYERS = {
    "beacon_site": """
        text
        db embedded env formats net worker_threads wsgi
        celery health logs providers
        checks launcher settings urls web
    """,
    "memory": """
        models
        services
        accounts agents
        admin api apps management pages
        tasks urls
    """,
    "research": """
        claims models
        admin services
        api mcp pages tasks
        apps management urls
    """,
}


def _files(folder: str) -> list[Path]:
    return [p for p in sorted((ROOT / folder).rglob("*.py")) if "migrations" not in p.parts]


class ImportStatement(NamedTuple):
    node: ast.Import | ast.ImportFrom
    is_for_types: bool  # only a type checker reads it: it brings nothing in when Beacon runs
    is_in_function: bool


@cache
def _import_statements(path: Path) -> tuple[ImportStatement, ...]:
    """Parse each file once for all tests."""
    return tuple(_statements_in(ast.parse(path.read_text()), for_types=False, in_function=False))


def _statements_in(
    node: ast.AST, *, for_types: bool, in_function: bool
) -> Iterator[ImportStatement]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield ImportStatement(node, for_types, in_function)
        return
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name):
        for_types = for_types or node.test.id == "TYPE_CHECKING"
    in_function = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for inside in ast.iter_child_nodes(node):
        if not isinstance(inside, ast.expr):  # no expression contains an import
            yield from _statements_in(inside, for_types=for_types, in_function=in_function)


def _imports(path: Path, *, at_once: bool = False) -> Iterator[str]:
    """Yield all names that a module imports, or only those that it imports `at_once`, not in a function."""
    for node, is_for_types, is_in_function in _import_statements(path):
        if at_once and (is_for_types or is_in_function):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _offenders(folder: str, forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in _files(folder)
        for name in _imports(path)
        if any(name == bad or name.startswith(bad + ".") for bad in forbidden)
    ]


def test_memory_does_not_know_research():
    assert _offenders("memory", ("research",)) == []


@pytest.mark.parametrize("folder", NO_APP)
def test_what_knows_no_app_imports_none(folder: str):
    assert _files(f"beacon_site/{folder}")
    assert _offenders(f"beacon_site/{folder}", ("memory", "research")) == []


def _packages_imported(path: Path, app: str) -> Iterator[str]:
    """Yield the package, a package or a flat module, of each import from the same app."""
    for node, is_for_types, _is_in_function in _import_statements(path):
        if is_for_types:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module == app:
            names = [f"{app}.{alias.name}" for alias in node.names]
        else:
            names = [node.module or ""]
        yield from (name.split(".")[1] for name in names if name.startswith(f"{app}."))


@pytest.mark.parametrize("app", sorted(LAYERS))
def test_a_package_knows_lower_packages_alone(app: str):
    """So no two packages know each other, and each can be read when those below it are known."""
    height = {
        package: line
        for line, packages in enumerate(LAYERS[app].split("\n"))
        for package in packages.split()
    }
    offenders = []
    for path in _files(app):
        package = path.relative_to(ROOT / app).parts[0].removesuffix(".py")
        if package == "__init__":
            continue
        assert package in height, (
            f"give {app}/{package} a line in LAYERS, above all that it imports"
        )
        offenders += [
            f"{path.relative_to(ROOT)} ({package}) imports {other}"
            for other in _packages_imported(path, app)
            if other != package and other in height and height[other] >= height[package]
        ]
    assert offenders == []


def test_no_folder_leads_back_to_itself():
    """So the folders inside a package have an order too, and each can be read when those below it are known."""
    folders = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): _folder(path)
        for app in APPS
        for path in _files(app)
    }
    folders |= {folder: folder for folder in folders.values()}
    knows: dict[str, set[str]] = {}
    for app in APPS:
        for path in _files(app):
            for node, is_for_types, _is_in_function in _import_statements(path):
                if not is_for_types:
                    others = {folders[name] for name in _imported_modules(node, folders)}
                    knows.setdefault(_folder(path), set()).update(others - {_folder(path)})
    # Raises CycleError, which names the folders.
    assert {*TopologicalSorter(knows).static_order()} >= {*knows}


def _folder(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).parts[:-1])


def _imported_modules(node: ast.Import | ast.ImportFrom, known: dict[str, str]) -> set[str]:
    """Return which of ours an import names. `from a import b` is `a.b` if that's a module, else `a`."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & known.keys()
    inner = {f"{node.module}.{alias.name}" for alias in node.names} & known.keys()
    return inner or {str(node.module)} & known.keys()


def test_no_module_leads_back_to_itself():
    """Else which one is imported first decides whether both can be."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for app in APPS
        for path in _files(app)
        if path.name != "__init__.py"
    }
    knows = {
        name: {other for other in _imports(path, at_once=True) if other in paths}
        for name, path in paths.items()
    }
    # Raises CycleError, which names the modules.
    assert {*TopologicalSorter(knows).static_order()} >= {*knows}


@pytest.mark.parametrize(
    ("folder", "may"),
    [
        (
            "beacon_site/text",
            ("beacon_site.text", "beacon_site.net", "beacon_site.providers.llm.base"),
        ),
        ("research/claims", ("research.claims", "beacon_site.text")),
    ],
)
def test_what_only_handles_text_knows_no_record(folder: str, may: tuple[str, ...]):
    """Both can be read, tried and measured without a database, since they import nothing that has one."""
    own = ("memory", "research", "beacon_site")
    offenders = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in _files(folder)
        for name in _imports(path)
        if name.split(".")[0] in own and not name.startswith(may)
    ]
    assert _files(folder)
    assert offenders == []


@pytest.mark.parametrize("folder", ["net", "providers", "text"])
def test_outside_services_read_settings_only_inside_functions(folder: str):
    at_import = []
    for path in _files(f"beacon_site/{folder}"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                continue
            names = {
                n.value.id
                for n in ast.walk(node)
                if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
            }
            if "settings" in names:
                at_import.append(str(path.relative_to(ROOT)))
    assert at_import == []


@pytest.mark.parametrize("app", ["memory", "research"])
@pytest.mark.parametrize("folder", ["models", "services"])
def test_models_and_services_import_neither_tasks_nor_pages(app: str, folder: str):
    above = ("memory.tasks", "memory.pages", "memory.api", f"{app}.tasks", f"{app}.pages")
    assert _offenders(f"{app}/{folder}", above) == []


def test_every_advisory_lock_has_its_own_number():
    """LockId is unique, so two things could share a lock only if one had its own SQL."""
    used = {
        str(path.relative_to(ROOT))
        for app in APPS
        for path in _files(app)
        if "pg_advisory" in path.read_text() or "pg_try_advisory" in path.read_text()
    }
    assert used == {"beacon_site/db/advisory_locks.py"}


@pytest.mark.parametrize("app", ["memory", "research"])
def test_no_receivers_on_our_models(app: str):
    hooks = ("django.db.models.signals", "django.dispatch")
    assert _offenders(app, hooks) == []


def test_every_template_that_another_includes_is_there():
    """A page that is seldom shown would end in an error 500 only then."""
    folder = ROOT / "templates"
    missing = [
        f"{path.relative_to(folder)} includes {name}"
        for path in sorted(folder.rglob("*.html"))
        for name in re.findall(r'{% include "([^"]+)"', re.sub(r"{#.*?#}", "", path.read_text()))
        if not (folder / name).exists()
    ]
    assert missing == []
