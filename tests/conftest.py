"""The fixed cast.  The servers are started by tests/servers.py."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import hypothesis
import pytest
from django.conf import settings
from django.contrib.auth import (
    BACKEND_SESSION_KEY,
    HASH_SESSION_KEY,
    SESSION_KEY,
    get_user_model,
)
from django.contrib.auth.models import update_last_login
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.test import Client
from django.utils.crypto import get_random_string
from whitenoise.middleware import WhiteNoiseMiddleware
from xdist.scheduler import LoadScopeScheduling

from beacon_site import celery
from beacon_site.db import leased_jobs
from beacon_site.net import browser as chromium_of_runs
from beacon_site.net.extract import Extractor
from beacon_site.providers.llm.openai_model import learned_about
from memory.services.llm import connections
from tests import database_cleanup, kept_users
from tests.attacks import figures as attacks
from tests.chromium import chromium
from tests.faults import figures
from tests.faults.guards import GUARDS
from tests.faults.unguarded import Unguarded, add_twins
from tests.migrated import migrated
from tests.providers.servers import ScriptedChatServer

# A crowded machine must fail no test: no example has a deadline, and none is given up for having
# taken long to make.  Under CI Hypothesis itself takes the same examples each time.
hypothesis.settings.register_profile(
    "beacon",
    hypothesis.settings(),
    deadline=None,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.function_scoped_fixture,
    ],
)
hypothesis.settings.load_profile("beacon")

Say = Callable[[str, str, str], None]


MEASURED = ("BEACON_TEST_FAULTS", "BEACON_TEST_ATTACKS", "BEACON_TEST_LONG")
TESTS = Path(__file__).resolve().parent
OF_THE_WEB = ("wikipedia", "arxiv", "hackernews")
SLOW_FOLDERS = ("attacks", "browser", "contract", "faults")
SHARED_SITE_FOLDERS = ("tests/browser", "tests/faults")
ALL_SLOW = re.compile(r"^pytestmark = (\[[^\]]*)?pytest\.mark\.slow\b", re.M)
GUARDED_FILES = {guard.test.partition("::")[0] for guard in GUARDS}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Add the tests without guards, mark what is slow, and leave out what isn't asked for.

    Tests marked `long` run only in `make test-long`, `make faults` and `make attacks`. Browser tests are skipped on
    a machine without a browser, but fail there under CI.
    """
    add_twins(items)
    if "full" not in map(os.environ.get, MEASURED):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in SLOW_FOLDERS or isinstance(item, Unguarded):
            item.add_marker(pytest.mark.slow)
    if not chromium() and os.environ.get("CI") != "true":
        skip = pytest.mark.skip(reason="no Chromium was found: see `make test-slow`")
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(skip)
    yield  # to pytest-django, which sorts the tests by their use of the database
    # Files that share a site run first: started last, they would leave the other processes idle.
    items.sort(key=lambda item: [not item.nodeid.startswith(f) for f in SHARED_SITE_FOLDERS])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't read files that hold nothing of what `make test` or `make test-slow` asks for.

    Reading all of them takes each of three processes 20 seconds, and twice that in a new clone.
    """
    asked = config.option.markexpr
    if asked not in ("slow", "not slow") or not collection_path.match("test_*.py"):
        return None
    if collection_path in _named_files(config):
        return None
    folder = collection_path.relative_to(TESTS).parts[0]
    text = collection_path.read_text(encoding="utf-8")
    if asked == "not slow":
        is_unwanted = folder in SLOW_FOLDERS or ALL_SLOW.search(text)
    else:
        is_guarded = f"tests/{collection_path.relative_to(TESTS).as_posix()}" in GUARDED_FILES
        is_unwanted = folder not in SLOW_FOLDERS and "mark.slow" not in text and not is_guarded
    return True if is_unwanted else None


def _named_files(config: pytest.Config) -> set[Path]:
    """Return the files that the command names."""
    start = config.invocation_params.dir
    return {(start / argument.partition("::")[0]).resolve() for argument in config.args}


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each process compile its share of the files before it reads all of them."""
    given = getattr(session.config, "workerinput", None)
    if given is None:
        return
    number, count = int(given["workerid"].removeprefix("gw")), given["workercount"]
    for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
        if not pytest_ignore_collect(path, session.config):
            name = ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
            with suppress(Exception, pytest.skip.Exception):  # reading it says what is wrong
                import_module(name)


class SharedSites(LoadScopeScheduling):  # type: ignore[misc]
    """Runs each file in one process, and the files that share a site in two groups.

    xdist's own `--dist loadgroup` doesn't find the groups under pytest 9.2
    (https://github.com/pytest-dev/pytest-xdist/issues/1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        folder, _slash, file = path.rpartition("/")
        if folder not in SHARED_SITE_FOLDERS:
            return path
        return f"{folder}, {'a-m' if file < 'test_n' else 'n-z'}"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedSites | None:
    """Use groups of files where whole files are asked for, as `make test-slow` does."""
    return SharedSites(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let the database to copy be created while the processes of pytest-xdist collect tests."""
    options = session.config.option
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if getattr(options, "tx", None) and not is_worker and not options.collectonly:
        Thread(target=migrated, args=[_admin()], daemon=True).start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Collect garbage again, but not among what was loaded: see tests/servers.py.

    Wait here for the database to copy, where no test's time runs out.
    """
    gc.freeze()
    gc.enable()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        migrated(_admin())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables of faults and attacks."""
    figures.show(terminalreporter)
    attacks.show(terminalreporter)


@pytest.fixture
def say(record_property: Callable[[str, object], None]) -> Say:
    """Record a row of the table: the fault, the promise, the result."""

    def noted(injected: str, promise: str, figure: str) -> None:
        record_property(figures.NAME, [injected, promise, figure])
        print(f"{injected} | {promise} | {figure}")

    return noted


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The program to give to Playwright as `executable_path`."""
    path = chromium()
    assert path, "no Chromium was found: apt install chromium, or set BEACON_TEST_CHROMIUM"
    return path


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Let each process of pytest-xdist copy one migrated database instead of migrating its own."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        connection.settings_dict["TEST"]["TEMPLATE"] = migrated(_admin())


def _admin() -> str:
    """Return the address of the database from which others are made."""
    return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path="/postgres"))


@pytest.fixture(autouse=True, scope="session")
def _suits_tests() -> None:
    """Change once what would slow tests down or stop them."""
    # The real hasher takes half a second on purpose.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Tests sign in far more often in a minute, from one address, than people do.
    settings.BEACON_SIGN_INS_PER_MINUTE = 100_000
    # No worker takes tests' messages, so a test can always start another run.
    celery.MAX_WAITING = 1_000_000
    # A run within a test's transaction has no beat: another connection would not see its row.
    # On a crowded machine a run takes longer than a beat of ten seconds.
    leased_jobs.BEAT_SECONDS = 300.0
    # A topic without services doesn't use the keyless ones, because they are on the web.
    connections.USUAL = tuple(name for name in connections.USUAL if name not in OF_THE_WEB)


@pytest.fixture(autouse=True, scope="session")
def _pages_arent_queued_behind_other_test_processes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    chromium_of_runs.LOCK_FOLDER = tmp_path_factory.mktemp("chromium")


@pytest.fixture(autouse=True, scope="session")
def _static_files_are_found_once() -> None:
    """Each client makes its own middleware, and a search for all files takes an eighth of a test."""
    search = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, Any] = {}

    def once(self: Any) -> None:
        if not found:
            search(self)
            found.update(self.files)
        self.files = found

    WhiteNoiseMiddleware.add_files_from_finders = once


def _user(name: str, **more: Any) -> Any:
    return get_user_model().objects.create_user(
        username=name, email=f"{name}@example.org", password=f"{name}-horse-battery", **more
    )


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Keep the rows of the three users, which nearly every test needs."""
    database_cleanup.instead_of_flush()
    with django_db_blocker.unblock():
        kept_users.keep("alice", lambda: _user("alice"))
        kept_users.keep("bob", lambda: _user("bob"))
        kept_users.keep("admin", lambda: _user("admin", is_staff=True, is_superuser=True))


@pytest.fixture(scope="module")
def stored_once(
    django_db_setup: None, django_db_blocker: Any
) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Return a context in which a fixture of the same scope can store rows for all tests of a module.

    What a test changes is rolled back to these rows, and they are deleted after the last test. So no
    test of the module can commit (`transaction=True`). A test gets its own copy of each row from the database.
    """
    rows = transaction.atomic()
    with django_db_blocker.unblock():
        rows.__enter__()
    yield django_db_blocker.unblock
    with django_db_blocker.unblock():
        transaction.set_rollback(True)
        rows.__exit__(None, None, None)


@pytest.fixture
def alice(db: None) -> Any:
    """The owner of what a test makes."""
    return kept_users.copied("alice")


@pytest.fixture
def bob(db: None) -> Any:
    """Another signed-in person, without access."""
    return kept_users.copied("bob")


@pytest.fixture
def admin(db: None) -> Any:
    """A staff member with all rights."""
    return kept_users.copied("admin")


@pytest.fixture
def client_of() -> Callable[[Any], Client]:
    """Return a function: a user in, a client signed in as that user out.

    It stores what `Client.force_login` stores, with 2 queries instead of 17.
    """

    def signed_in(user: Any) -> Client:
        user.backend = "django.contrib.auth.backends.ModelBackend"
        update_last_login(type(user), user)
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = _session_of(user).session_key
        return client

    return signed_in


def _session_of(user: Any) -> Session:
    signed_in = {
        SESSION_KEY: str(user.pk),
        BACKEND_SESSION_KEY: user.backend,
        HASH_SESSION_KEY: user.get_session_auth_hash(),
    }
    empty = SessionStore()
    row: Session = Session.objects.create(
        session_key=get_random_string(32, VALID_KEY_CHARS),
        session_data=empty.encode(signed_in),
        expire_date=empty.get_expiry_date(),
    )
    return row


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> attacks.Count:
    """Record a sink's attempts: how many were rejected, neutralized and run.

    Everything that was tried counts as neutralized unless noted otherwise.  Note before you assert: a test
    that fails is counted too.  Many tests can note the same sink; the table adds them up.
    """

    def noted(sink: str, tried: int, *, refused: int = 0, run: int = 0) -> None:
        record_property(attacks.NAME, [sink, tried, refused, tried - refused - run, run])

    return noted


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks aren't sent to workers."""
    monkeypatch.setattr(celery, "send", lambda *args, **kwargs: True)


@pytest.fixture(scope="module")
def extractor() -> Iterator[Extractor]:
    """One warm reader of pages for all tests of a module."""
    reader = Extractor()
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedChatServer]:
    """A model endpoint on this machine, whose answers a test scripts."""
    with ScriptedChatServer() as server:
        yield server


@pytest.fixture
def chat(endpoint: ScriptedChatServer) -> ScriptedChatServer:
    """The endpoint, of which nothing is known yet."""
    learned_about.cache_clear()
    endpoint.forget()
    return endpoint
