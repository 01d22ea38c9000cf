"""docs/reference/ says what the code does: variables, REST, tools, commands, figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import call_command, load_command_class

from beacon_site.env import READ
from beacon_site.providers.search.base import BY_NAME
from memory.agents.tools.registry import REGISTRY
from research.api.joined import api
from research.management.commands import document
from research.management.commands.document import PAGES, stale
from research.management.variables import VARIABLES
from research.pages.metrics import FIGURES

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


def test_the_pages_say_what_the_code_does():
    assert sorted(stale(FOLDER)) == [], "run `make docs`"


def test_no_page_of_the_reference_is_left_that_nothing_writes():
    assert {path.name for path in FOLDER.iterdir()} == {*PAGES, "limits.md"}  # by hand


def test_every_variable_that_is_read_is_told_of_and_no_other():
    told = [name for group in VARIABLES.values() for one in group for name in one.names.split()]
    read_elsewhere = {"BEACON_DATA_DIR", "BEACON_API_TOKEN"}

    assert sorted(told) == sorted(READ.keys() | read_elsewhere)


def test_the_page_of_variables_names_bounds_choices_and_defaults():
    page = (FOLDER / "settings.md").read_text()

    assert "| `BEACON_PORT` | number, 1 to 65,535 | `8000` |" in page
    assert "| `BEACON_ENV` | local or production | `local` |" in page
    assert "| `BEACON_MIRROR_GIT` | 0 or 1 | `0` |" in page
    assert all(name in page for name in BY_NAME)


def test_the_page_of_rest_has_every_call_with_what_it_takes():
    page = (FOLDER / "rest.md").read_text()
    paths = api.get_openapi_schema()["paths"]
    calls = [
        f"### `{method.upper()} {path.removeprefix('/api/v1')}`"
        for path, methods in paths.items()
        for method in methods
    ]

    assert [call for call in calls if f"{call}\n" not in page] == []
    assert "| `content` | string | required | The text to remember, at most 64 KiB." in page


def test_every_shape_that_the_page_of_rest_refers_to_is_reported():
    page = (FOLDER / "rest.md").read_text()
    answers = set(
        re.findall(r"(?:^| or |list of |\d{3} |; `\w+` )`([A-Z]\w+)`", page, re.MULTILINE)
    )
    told = set(re.findall(r"^`(\w+)`: ", page, re.MULTILINE))

    assert len(answers) > 20
    assert sorted(answers - told) == []


def test_the_page_of_tools_has_each_tool():
    page = (FOLDER / "mcp-tools.md").read_text()

    assert [name for name in REGISTRY if f"## `{name}`" not in page] == []


@pytest.mark.parametrize("name", document.own_commands())
def test_each_command_says_what_it_does_and_what_each_argument_is(name: str):
    app = "memory" if (FOLDER.parents[1] / f"memory/management/commands/{name}.py").exists() else ""
    parser = load_command_class(app or "research", name).create_parser("manage.py", name)
    mute = [one.dest for one in parser._actions if not one.help and one.metavar != "DIR|FILE.zip"]

    assert parser.description
    assert mute == []


def test_the_page_of_figures_has_each_figure_with_its_labels():
    page = (FOLDER / "metrics.md").read_text()

    assert [name for name in FIGURES if f"| `beacon_{name}` |" not in page] == []
    assert "| `beacon_model_calls_last_hour` | `model`, `outcome` |" in page


def test_the_command_renews_what_is_stale_and_says_so(
    tmp_path: Path, settings, capsys: pytest.CaptureFixture[str]
):
    settings.BASE_DIR = tmp_path
    (tmp_path / "Makefile").write_text("up: ## run it\n")
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / "docs" / "reference" / "metrics.md").write_text("old")

    call_command("document")
    assert "docs/reference/metrics.md: renewed\n" in capsys.readouterr().out
    call_command("document")

    assert set(capsys.readouterr().out.split(": ")[1:]) >= {"unchanged\n"}
    assert "`beacon_info`" in (tmp_path / "docs" / "reference" / "metrics.md").read_text()
    assert "| `make up` | run it |" in (tmp_path / "docs/reference/commands.md").read_text()
