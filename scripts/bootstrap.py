"""What `make` calls before there is an environment: standard library only, any Python 3.

It makes .venv, installs the locked packages when a lock file has changed, and then becomes
the command that was asked for.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
MIN = (3, 11)
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_CHROMIUMS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
# What Beacon does without where a machine has no package of it: lock file -> what is missing then.
OPTIONAL = {
    "embeddings": "Beacon continues without the local embedder, so recall searches by words only. It "
    "tries again at each start."
}
# Packages that are required by others, but only for what Beacon never does: putting pictures into PDFs,
# a client for Valkey, downloading models, and reading models for other uses than running them (39 MB).
LEFT_OUT = {
    "base": ("pillow", "valkey"),
    "embeddings": (
        "huggingface-hub", "hf-xet", "fsspec", "filelock", "pyyaml", "tqdm", "protobuf", "flatbuffers",
    ),
}  # fmt: skip
COVERAGE = 95  # percent of the lines of memory and research
# Each test runs in the same order every time: pytest-randomly is for `make test ARGS=...`.
IN_ORDER = ("-p", "no:randomly")
FAST = ("-m", "not slow", *IN_ORDER, "-n", "3", "--dist", "worksteal", "--durations=25")
SLOW = (
    "-m", "slow", *IN_ORDER, "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder",
    "--durations=25",
)  # fmt: skip


def main(arguments: list[str]) -> None:
    """Run the target named by the first argument."""
    target, rest = arguments[0], arguments[1:]
    os.chdir(ROOT)
    need_python()
    if target == "up":
        environment("base", "embeddings")
        # Each start would compile everything again.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        become("-m", "beacon_site.launcher.command", "up")
    if target == "down":
        if not PYTHON.exists():
            sys.exit("Beacon: nothing is installed here yet, so nothing is running.")
        become("-m", "beacon_site.launcher.command", "down")
    if target == "vendor":
        become_program("bash", ["vendor-src/build.sh"])
    environment("base", "embeddings", "extras", "build", "dev")
    targets = {
        "test": test,
        "test-slow": test_slow,
        "test-long": test_long,
        "coverage": coverage,
        "faults": faults,
        "attacks": attacks,
        "screenshots": screenshots,
        "pictures": pictures,
        "docs": docs,
        "languages": languages,
        "bench": bench,
        "lint": lint,
        "dist": dist,
        "sbom": sbom,
        "lock": lock,
        "audit": audit,
    }
    targets[target](rest)


def need_python() -> None:
    """Become a Python that is new enough, or say that there is none."""
    if sys.version_info >= MIN:
        return
    for name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        if shutil.which(name):
            os.execvp(name, [name, __file__, *sys.argv[1:]])
    sys.exit(
        "Beacon needs Python {}.{} or later, but this is {}. Install one, or set it: "
        "make up PYTHON=/path/to/python3".format(*MIN, sys.version.split()[0])
    )


def environment(*locks: str) -> None:
    """Make .venv hold exactly what the named lock files say; quick if nothing has changed."""
    # Two makes at once take turns. The lock is on the folder itself, and ends with this process.
    folder = os.open(ROOT, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        for name in locks:
            lock_file = ROOT / "requirements" / f"{name}.txt"
            if lock_file.exists():
                install(lock_file)
    finally:
        os.close(folder)


def install(lock_file: Path) -> None:
    """Install one lock file, unless its stamp says that this was done."""
    stamp = VENV / f"beacon-{lock_file.stem}.stamp"
    wanted = hashlib.sha256(lock_file.read_bytes()).hexdigest() + f" {VENV}"
    if stamp.exists() and stamp.read_text() == wanted and works():
        return
    make_venv()
    say(f"Installing requirements/{lock_file.name} (takes a minute or two the first time)…")
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-q"]
    if not any(VENV.glob("beacon-*.stamp")):
        # pip 23.2, which Python 3.11 brings along, crashes on this set of packages.
        subprocess.run([*pip, "--no-compile", "--upgrade", "pip"], check=False)
    # A lock names everything that is needed: nothing is left to resolve.
    packages = ["--no-compile", "--no-deps", "--require-hashes", "-r", str(lock_file)]
    done = subprocess.run([*pip, *packages], check=False)
    if done.returncode != 0 and lock_file.stem in OPTIONAL:
        say(OPTIONAL[lock_file.stem])
        return
    if done.returncode != 0:
        sys.exit(
            f"Beacon: the packages in requirements/{lock_file.name} couldn't be installed. pip's "
            "output is above. Usually this means that the network or the package index couldn't be "
            "reached. Check the connection, then run the same command again."
        )
    # Otherwise Python compiles what it imports, a third of all files, when it first does.
    if lock_file.stem == "dev":
        compiled = [str(PYTHON), "-m", "compileall", "-q", "-j", "0", str(VENV / "lib")]
        subprocess.run(compiled, check=False, capture_output=True)
    subprocess.run([str(PYTHON), "scripts/unused_files.py"], check=False, cwd=ROOT)
    stamp.write_text(wanted)


def works() -> bool:
    """Return whether .venv is an environment for this very folder (a moved clone's is not)."""
    if not PYTHON.exists():
        return False
    show = [str(PYTHON), "-c", "import sys; print(sys.prefix)"]
    shown = subprocess.run(show, capture_output=True, text=True, check=False).stdout.strip()
    return bool(shown) and Path(shown) == VENV


def make_venv() -> None:
    """Create .venv if there is no working one; if that fails, name the package to install."""
    if works():
        return
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        version = "{}.{}".format(*sys.version_info)
        sys.exit(
            f"Beacon: this Python {version} can't create virtual environments (ensurepip is "
            f"missing). On Debian and Ubuntu: apt install python{version}-venv"
        )
    say("Creating the virtual environment .venv…")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False)
    if made.returncode != 0:
        sys.exit(
            f"Beacon: the virtual environment {VENV} couldn't be created. See the output above."
        )


def test(rest: list[str]) -> None:
    """Run the fast tests: all of them, or those that `rest` selects."""
    become("-m", "pytest", *(["-m", "not slow", *rest] if rest else FAST))


def test_slow(rest: list[str]) -> None:
    """Run the slow tests: all of them, or those that `rest` selects."""
    need_chromium()
    become("-m", "pytest", *(["-m", "slow", *rest] if rest else SLOW))


def test_long(rest: list[str]) -> None:
    """Run the slow tests with everything that CI has no time for."""
    os.environ["BEACON_TEST_LONG"] = "full"
    test_slow(rest)


def coverage(rest: list[str]) -> None:
    """Run the fast tests and fail if they execute too few lines of the two apps.

    slipcover instruments bytecode, which costs far less than coverage.py's tracing on Python 3.11.
    """
    counted = ["--source", "memory,research", "--omit", "*/migrations/*", "--skip-covered"]
    become("-m", "slipcover", *counted, f"--fail-under={COVERAGE}", "-m", "pytest", *FAST, *rest)


def need_chromium() -> None:
    """Name the Chromium to the tests, or say what is left out without one."""
    browser = chromium()
    if browser:
        os.environ["BEACON_TEST_CHROMIUM"] = browser
    else:
        said = (
            "The browser tests need Chromium, which wasn't found. Debian: apt install chromium. "
            "macOS: brew install --cask chromium. Or set BEACON_TEST_CHROMIUM to its path."
        )
        if os.environ.get("CI") == "true":
            sys.exit(f"Beacon: {said}")
        say(said + " Without it, they are skipped.")


def faults(rest: list[str]) -> None:
    """Break real processes in every way there is a promise for, and print what came of it.

    With `--write` the table goes into docs/dev/reliability.md.
    """
    measure("faults", rest, *_of_other_folders(), "-m", "faults")


def _of_other_folders() -> list[str]:
    """Return the files beside tests/faults that print a line, or hold a guard's test."""
    found = _named_in("tests/faults/guards.py") | {*_that_hold("mark.faults")}
    return sorted(name for name in found if not name.startswith("tests/faults/"))


def _named_in(table: str) -> set[str]:
    """Return the test files that a table of tests names."""
    return set(re.findall(r"\btests/[\w/]+\.py\b", (ROOT / table).read_text(encoding="utf-8")))


def _that_hold(mark: str) -> list[str]:
    """Return the test files outside the suites of faults and attacks that bear a mark."""
    files = [one for one in (ROOT / "tests").rglob("test_*.py") if mark in one.read_text("utf-8")]
    names = sorted(one.relative_to(ROOT).as_posix() for one in files)
    return [name for name in names if not name.startswith(("tests/faults/", "tests/attacks/"))]


def attacks(rest: list[str]) -> None:
    """Attack everything that shows or takes what others wrote, and print what came of it.

    With `--write` the table goes into docs/dev/reliability.md.
    """
    need_chromium()
    found = _named_in("tests/attacks/classes.py") | {*_that_hold("mark.attacks")}
    measure("attacks", rest, *sorted(found))


def measure(suite: str, rest: list[str], *choice: str) -> None:
    """Run one suite with all that is long in it; with `--write` its table is written down."""
    variable = f"BEACON_TEST_{suite.upper()}"
    os.environ[variable] = "full"
    if "--write" in rest:
        os.environ[f"{variable}_WRITE"] = "1"
        rest = [word for word in rest if word != "--write"]
    spread = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", *IN_ORDER, "-q"]
    become("-m", "pytest", f"tests/{suite}", *choice, *spread, *rest)


def screenshots(rest: list[str]) -> None:
    """Take a picture of every page in its states, or of those whose name contains a word."""
    os.environ.setdefault("BEACON_TEST_CHROMIUM", chromium())
    become("-m", "tests.browser.screenshots", *rest)


def pictures(rest: list[str]) -> None:
    """Walk the tutorial, and take its pictures."""
    os.environ.setdefault("BEACON_TEST_CHROMIUM", chromium())
    become("-m", "tests.browser.pictures", *rest)


def docs(rest: list[str]) -> None:
    """Write the reference from the code."""
    become("manage.py", "document", *rest)


def languages(rest: list[str]) -> None:
    """Update the catalogs of translations, or do what `rest` says."""
    become("-m", "scripts.languages", *rest)


def bench(rest: list[str]) -> None:
    """Measure how fast, how good and how frugal Beacon is, and write one report."""
    become("-m", "benchmarks", *rest)


def chromium() -> str:
    """Return the Chromium to test with, or an empty text."""
    named = os.environ.get("BEACON_TEST_CHROMIUM", "")
    found = [named] if named else [shutil.which(name) or "" for name in CHROMIUMS]
    for path in (*found, *MAC_CHROMIUMS):
        if path and os.access(path, os.X_OK):
            return path
    return ""


def lint(rest: list[str]) -> None:
    """Run every check but the tests, all of them even if one fails."""
    manage = [str(PYTHON), "manage.py"]
    # Neither types nor settings are checked against a database: nothing listens at these.
    nowhere = {
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "REDIS_URL": "redis://127.0.0.1:1/0",
    }
    production = {
        **nowhere,
        "BEACON_ENV": "production",
        "BEACON_URL": "https://beacon.example",
        "SECRET_KEY": hashlib.sha256(os.urandom(32)).hexdigest(),
    }
    module = [str(PYTHON), "-m"]
    checks = [
        ([*module, "ruff", "check", "."], {}),
        ([*module, "ruff", "format", "--check", "--output-format=concise", "."], {}),
        ([*module, "mypy", "beacon_site", "memory", "research", "manage.py"], nowhere),
        ([*module, "scripts.weaknesses"], {}),
        ([str(PYTHON), "scripts/house.py", "--check"], {}),
        ([str(PYTHON), "scripts/words.py", "--check"], {}),
        ([*module, "djlint", "templates", "--lint", "--quiet"], {}),
        ([*manage, "makemigrations", "--check", "--dry-run"], {}),
        ([*manage, "check", "--deploy", "--fail-level", "WARNING"], production),
    ]
    failed = []
    # Types take as long as all the rest, on one processor: they begin at once, and are printed last.
    checks.sort(key=lambda check: "mypy" not in check[0])
    running = {}
    with ThreadPoolExecutor(max_workers=2) as at_once:
        for command, extra in checks:
            shown = " ".join(command[1:]).replace("-m ", "", 1)
            running[at_once.submit(_checked, command, extra)] = shown
        for done in as_completed(running):
            say(f"$ {running[done]}\n{done.result().stdout}".rstrip())
            if done.result().returncode != 0:
                failed.append(running[done])
    sys.exit("Failed: " + "; ".join(failed) if failed else 0)


def _checked(command: list[str], extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run one check; return it with all that it said."""
    return subprocess.run(
        command,
        env={**os.environ, **extra},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def dist(rest: list[str]) -> None:
    """Build the wheel and the archive of sources into dist/, the client's wheel beside them."""
    subprocess.run([str(PYTHON), "-m", "hatchling", "build", "-d", "dist"], check=True)
    client = [str(PYTHON), "-m", "hatchling", "build", "-t", "wheel", "-d", str(ROOT / "dist")]
    subprocess.run(client, check=True, cwd=ROOT / "clients" / "python")


def sbom(rest: list[str]) -> None:
    """Write what Beacon is made of into dist/: see sbom.py."""
    environment("sbom")
    become("-m", "scripts.sbom", *rest)


def lock(rest: list[str]) -> None:
    """Resolve each requirements/*.in, base first, since each is bound by those before it."""
    if not shutil.which("uv"):
        sys.exit("Beacon: `make lock` needs uv (https://docs.astral.sh/uv/): pipx install uv")
    options = ["--universal", "--python-version", "3.11", "--generate-hashes"]
    options += ["--no-emit-index-url", "--no-header", "--quiet"]
    bounds: list[str] = []
    for name in ("base", "embeddings", "extras", "build", "dev", "sbom"):
        paths = [f"requirements/{name}.in", "-o", f"requirements/{name}.txt"]
        left_out = [f"--no-emit-package={one}" for one in LEFT_OUT.get(name, ())]
        subprocess.run(["uv", "pip", "compile", *options, *left_out, *bounds, *paths], check=True)
        bounds += ["-c", f"requirements/{name}.txt"]


def audit(rest: list[str]) -> None:
    """Ask about the lock files: see audit.py, which any Python can run."""
    become("-m", "scripts.audit", *rest)


def become(*arguments: str) -> None:
    """Continue as .venv's Python, so that signals meant for make's child reach it."""
    sys.stdout.flush()
    os.execv(str(PYTHON), [str(PYTHON), *arguments])


def become_program(name: str, arguments: list[str]) -> None:
    """Continue as another program, or say that it is missing."""
    if not shutil.which(name):
        sys.exit(f"Beacon: this needs {name}, which isn't installed.")
    os.execvp(name, [name, *arguments])


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
