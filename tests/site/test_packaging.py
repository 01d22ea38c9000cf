"""The wheel: what is in it, and that Beacon runs from only the wheel, without a clone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from django.db import connection

import beacon_site
from beacon_site.embedded import processes
from tests.site.waiting import eventually, let_others_through

ROOT = Path(__file__).parents[2]
ASSETS = ("templates/", "static/")
SEES_A_PAGE = """
import json, re, sys
import django
django.setup()
from django.conf import settings
from django.core.management import call_command
from django.test import Client
call_command("collectstatic", interactive=False, verbosity=0)
browser = Client()
page = browser.get("/", follow=True, secure=True)
style = re.search(r'href="(/static/css/base\\.[0-9a-f]{12}\\.css)"', page.content.decode())[1]
served = browser.get(style, secure=True)
print(json.dumps({
    "code": page.status_code, "title": "Beacon" in page.content.decode(),
    "style": len(served.getvalue()), "kept": served.headers["Cache-Control"],
    "from": settings.TEMPLATES[0]["DIRS"][0].as_posix(),
}))
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this very tree."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it; what it needs comes from the tests' own environment."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-compile"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    return folder


def beacon(installed: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the installed Beacon outside the clone."""
    return subprocess.run(
        [str(installed / "bin" / words[0]), *words[1:]],
        cwd=installed,
        env={"PATH": os.environ["PATH"], "HOME": str(installed), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def metadata(wheel: Path) -> dict[str, list[str]]:
    """Return what the wheel says of itself: name -> values."""
    with zipfile.ZipFile(wheel) as held:
        (name,) = [one for one in held.namelist() if one.endswith(".dist-info/METADATA")]
        told = Parser().parsestr(held.read(name).decode())
    return {key: told.get_all(key, []) for key in told}


@pytest.mark.requirement("R231")
def test_the_wheel_holds_every_file_that_beacon_reads(wheel: Path):
    listed = subprocess.run(
        ["git", "ls-files", "beacon_site", "memory", "research", *ASSETS], cwd=ROOT,
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    wanted = {f"beacon_site/{one}" if one.startswith(ASSETS) else one for one in listed}
    here = {one for one in wanted if (ROOT / one.removeprefix("beacon_site/")).exists()} | {
        one for one in wanted if (ROOT / one).exists()
    }

    with zipfile.ZipFile(wheel) as held:
        assert here - set(held.namelist()) == set()
    for one in ("beacon_site/templates/prompts/", "beacon_site/providers/search/sample_articles/"):
        assert any(name.startswith(one) for name in here)


def test_the_wheel_holds_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as held:
        tops = {name.partition("/")[0] for name in held.namelist()}

    info = f"beacon-{beacon_site.__version__}.dist-info"
    assert tops == {"beacon_site", "memory", "research", info}


def test_the_wheel_asks_for_what_the_lock_files_are_made_of(wheel: Path):
    told = metadata(wheel)
    asked = {re.split(r"[\[~=;<> ]", one)[0] for one in told["Requires-Dist"]}
    wanted: set[str] = set()
    for name in ("base", "embeddings", "extras"):
        text = (ROOT / "requirements" / f"{name}.in").read_text()
        wanted |= set(re.findall(r"^[a-z0-9-]+", text, re.M))

    assert told["Version"] == [beacon_site.__version__]
    assert asked == wanted
    assert set(told["Provides-Extra"]) == {"embeddings", "extras"}


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)

    assert headings[0] == beacon_site.__version__


def test_the_licenses_of_what_others_wrote_go_along(wheel: Path):
    vendored = [path.name for path in (ROOT / "static" / "vendor").glob("*.LICENSE.txt")]
    files = metadata(wheel)["License-File"]

    assert {"LICENSE", "NOTICE.md"} <= set(files)
    assert vendored
    assert {f"static/vendor/{name}" for name in vendored} <= set(files)


def test_the_installed_command_shows_its_version_and_where_the_data_are(installed: Path):
    told = beacon(installed, "beacon", "--help", XDG_DATA_HOME=str(installed / "share"))

    assert beacon(installed, "beacon", "--version").stdout == f"Beacon {beacon_site.__version__}\n"
    assert f"Data folder: {installed / 'share' / 'beacon'}\n" in told.stdout
    assert "beacon up " in told.stdout
    assert list(installed.glob("share/*")) == [], "help makes nothing"


def test_without_anything_to_work_on_the_installed_command_speaks_of_itself(installed: Path):
    told = beacon(installed, "beacon", "verify", BEACON_DATA_DIR=str(installed / "none"))

    assert told.returncode == 1
    assert "Run `beacon up` first" in told.stderr


@pytest.mark.requirement("R231")
def test_a_page_and_its_hashed_styles_are_served_from_the_wheel(
    installed: Path, db: None, tmp_path: Path
):
    server = os.environ["DATABASE_URL"].rpartition("/")[0]
    site = {
        "DJANGO_SETTINGS_MODULE": "beacon_site.settings",
        "DATABASE_URL": f"{server}/{connection.settings_dict['NAME']}",
        "REDIS_URL": os.environ["REDIS_URL"],
        "BEACON_DATA_DIR": str(tmp_path),
        "BEACON_ENV": "production",
        "BEACON_URL": "https://testserver",
        "SECRET_KEY": os.environ["SECRET_KEY"],
    }
    done = beacon(installed, "python", "-c", SEES_A_PAGE, **site)

    told = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr
    assert told["code"] == 200 and told["title"], told
    assert told["style"] > 1000 and "immutable" in told["kept"]
    assert told["from"].startswith(installed.as_posix())


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.timeout(240)
def test_beacon_up_from_the_wheel_shows_its_first_page_and_beacon_down_stops_it(
    installed: Path, tmp_path: Path
):
    let_others_through(tmp_path)
    site = {
        "PATH": os.environ["PATH"],
        "HOME": str(installed),
        "BEACON_DATA_DIR": str(tmp_path / "data"),
        "BEACON_PORT": str(processes.free_port()),
        "BEACON_MCP_PORT": "0",
        "BEACON_EMBEDDINGS": "none",
    }
    log = tmp_path / "up.log"
    with log.open("wb") as out:
        start = [str(installed / "bin" / "beacon"), "up"]
        up = subprocess.Popen(start, cwd=installed, env=site, stdout=out, stderr=out)
    try:
        ready = "Beacon is ready at"
        eventually(lambda: ready in log.read_text() or up.poll() is not None, 180)
        assert ready in log.read_text(), log.read_text()
        assert f"Your data is in {tmp_path / 'data'}." in log.read_text()
        link = re.search(r"once, at (http\S+)", log.read_text())[1]
        with urllib.request.urlopen(link) as page:
            assert b"password" in page.read()
    finally:
        stopped = beacon(installed, "beacon", "down", **site)
        up.wait(timeout=60)
    assert stopped.stdout == "Beacon has stopped.\n"
