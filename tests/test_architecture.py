"""Import directions between packages, and a few rules for the code as a whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("memory", "research", "beacon_site")

# The rooms of an app from the ground up: a module imports its own room and lower lines, no other.
LAYERS = {
    "beacon_site": """
        asgi atomic_files database_errors env heartbeat http installed mail_folder redaction request_figures
        template_tags ticks web_server wsgi
        embedded env_mail json_lines logs providers
        celery disk management_base request_log runner settings variables
        backups broker health up
        checks
        command urls
    """,
    "memory": """
        texts errors actors addresses advisory_locks paging
        file_texts
        models
        origins usage topics files
        llm scratchpads
        recall notes
        observations content documents invariants
        system_status
        contexts records
        reviewing conflicts content_pages file_pages
        toolkit trash
        reflection
        chat
        archive
        accounts
        forms tasks responses admin_pages management
        double_submit
        views api admin
        urls apps
    """,
    "research": """
        models claims links palette
        outbox budgets activity
        schedules admin_notices figures recall_kinds first_steps context_processors account_deletion mcp
        topic_settings archive_kinds admin
        sources working
        search deltas
        reporting intent deep
        facts
        steps forms
        rechecks follow_ups
        running
        runs responses tool_research
        reports
        unread
        notifications home_page
        topics tasks invariants
        views api
        reference urls
        management apps
    """,
}


def _files(folder: str) -> list[Path]:
    return [p for p in sorted((ROOT / folder).rglob("*.py")) if "migrations" not in p.parts]


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
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


def test_providers_import_no_app():
    assert _offenders("beacon_site/providers", ("memory", "research")) == []


def _for_types_only(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes that only a type checker reads: they bring nothing in when Beacon runs."""
    return {
        inside
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inside in ast.walk(node)
    }


def _rooms_imported(path: Path, app: str) -> Iterator[str]:
    """Yield the room, a package or a flat module, of each import from the same app."""
    tree = ast.parse(path.read_text())
    skipped = _for_types_only(tree)
    for node in ast.walk(tree):
        if node in skipped or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module == app:
            names = [f"{app}.{alias.name}" for alias in node.names]
        else:
            names = [node.module or ""]
        yield from (name.split(".")[1] for name in names if name.startswith(f"{app}."))


@pytest.mark.parametrize("app", sorted(LAYERS))
def test_a_room_knows_lower_rooms_alone(app: str):
    """So no two rooms know each other, and each can be read when those below it are known."""
    height = {
        room: line for line, rooms in enumerate(LAYERS[app].split("\n")) for room in rooms.split()
    }
    offenders = []
    for path in _files(app):
        room = path.relative_to(ROOT / app).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        assert room in height, f"give {app}/{room} a line in LAYERS, above all that it imports"
        offenders += [
            f"{path.relative_to(ROOT)} ({room}) imports {other}"
            for other in _rooms_imported(path, app)
            if other != room and other in height and height[other] >= height[room]
        ]
    assert offenders == []


def _imported_at_once(path: Path) -> Iterator[str]:
    """Yield what a module imports when it is imported itself, and not only when it is used."""
    tree = ast.parse(path.read_text())
    later = _for_types_only(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            later |= set(ast.walk(node))
    for node in ast.walk(tree):
        if node in later:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


def test_no_module_leads_back_to_itself():
    """Else which one is imported first decides whether both can be."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for app in APPS
        for path in _files(app)
        if path.name != "__init__.py"
    }
    knows = {
        name: {other for other in _imported_at_once(path) if other in paths}
        for name, path in paths.items()
    }
    TopologicalSorter(knows).prepare()  # raises CycleError, which names the modules


@pytest.mark.parametrize(
    ("folder", "may"),
    [
        ("memory/texts", ("memory.texts", "beacon_site.providers")),
        ("memory/file_texts", ("memory.file_texts", "memory.texts", "memory.errors")),
        ("research/claims", ("research.claims", "memory.texts")),
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


def test_providers_read_settings_only_inside_functions():
    at_import = []
    for path in _files("beacon_site/providers"):
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
def test_views_do_not_import_views_and_models_no_tasks(app: str):
    offenders = []
    for path in _files(app):
        inside = path.relative_to(ROOT / app).parts
        for name in _imports(path):
            is_view = inside[0] == "views" and path.name != "__init__.py"
            if is_view and (name.startswith((f"{app}.views.", "memory.views.", "research.views."))):
                offenders.append(f"{path.relative_to(ROOT)} imports {name}")
            if inside[0] == "models" and name.startswith(
                (f"{app}.tasks", f"{app}.views", f"{app}.forms")
            ):
                offenders.append(f"{path.relative_to(ROOT)} imports {name}")
    assert offenders == []


def test_every_advisory_lock_has_its_own_number():
    """LockId is unique, so two things could share a lock only if one had its own SQL."""
    used = {
        str(path.relative_to(ROOT))
        for app in APPS
        for path in _files(app)
        if "pg_advisory" in path.read_text() or "pg_try_advisory" in path.read_text()
    }
    assert used == {"memory/advisory_locks.py"}


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
