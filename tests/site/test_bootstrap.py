"""What `make` does before there is an environment."""

from __future__ import annotations

import ast
import importlib.util
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, for a folder in which nothing is there yet."""
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "scripts" / "bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    return module


def test_it_needs_nothing_that_python_does_not_bring_along():
    tree = ast.parse((ROOT / "scripts" / "bootstrap.py").read_text())
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}

    tops = {name.partition(".")[0] for name in imported}
    assert tops - sys.stdlib_module_names == set()


def test_a_missing_ensurepip_names_the_package(bootstrap, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    wanted = "apt install python{}.{}-venv".format(*sys.version_info)

    with pytest.raises(SystemExit, match=wanted):
        bootstrap.make_venv()


def test_a_python_that_is_too_old_is_named(bootstrap, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bootstrap, "MIN", (99, 0))
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)

    with pytest.raises(SystemExit, match=r"needs Python 99\.0 or later"):
        bootstrap.need_python()


def test_under_ci_a_missing_chromium_is_a_failure(bootstrap, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("BEACON_TEST_CHROMIUM", raising=False)
    monkeypatch.setattr(bootstrap, "MAC_CHROMIUMS", ())
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)

    with pytest.raises(SystemExit, match="need Chromium, which wasn"):
        bootstrap.test_slow([])


def test_an_unchanged_lock_is_not_installed_again(bootstrap, monkeypatch, tmp_path: Path):
    lock = tmp_path / "base.txt"
    lock.write_text("a==1 --hash=sha256:00\n")
    calls: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "works", lambda: True)
    monkeypatch.setattr(
        bootstrap.subprocess,
        "run",
        lambda command, **more: calls.append(command) or subprocess.CompletedProcess(command, 0),
    )
    bootstrap.VENV.mkdir()

    bootstrap.install(lock)
    first = len(calls)
    bootstrap.install(lock)

    upgrade, install, deleted = calls
    assert first == 3
    assert upgrade[-1] == "pip" and "--require-hashes" in install
    assert deleted[-1] == "scripts/unused_files.py"


def test_pip_is_brought_up_to_date_once_for_all_locks(bootstrap, monkeypatch, tmp_path: Path):
    calls: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "works", lambda: True)
    monkeypatch.setattr(
        bootstrap.subprocess,
        "run",
        lambda command, **more: calls.append(command) or subprocess.CompletedProcess(command, 0),
    )
    bootstrap.VENV.mkdir()
    for name in ("base", "dev"):
        (tmp_path / f"{name}.txt").write_text("a==1 --hash=sha256:00\n")
        bootstrap.install(tmp_path / f"{name}.txt")

    assert [command[-1] for command in calls].count("pip") == 1
    # The tests start many processes; a first start compiles only what it imports.
    assert ["compileall" in command for command in calls].count(True) == 1


def test_an_environment_that_was_moved_is_made_again(bootstrap):
    bootstrap.PYTHON.parent.mkdir(parents=True)
    bootstrap.PYTHON.symlink_to(sys.executable)

    assert bootstrap.works() is False


def test_a_machine_without_packages_for_vectors_runs_all_the_same(
    bootstrap, monkeypatch, tmp_path: Path, capsys
):
    lock = tmp_path / "embeddings.txt"
    lock.write_text("a==1 --hash=sha256:00\n")
    monkeypatch.setattr(bootstrap, "works", lambda: True)
    fails = lambda command, **more: subprocess.CompletedProcess(command, 1)  # noqa: E731
    monkeypatch.setattr(bootstrap.subprocess, "run", fails)
    bootstrap.VENV.mkdir()

    bootstrap.install(lock)

    assert "recall searches by words only" in capsys.readouterr().out


@pytest.fixture
def unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that deletes unused files, for packages in `tmp_path`."""
    spec = importlib.util.spec_from_file_location("unused", ROOT / "scripts" / "unused_files.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.sysconfig, "get_path", lambda name: str(tmp_path))
    return module


def test_files_that_nothing_reads_are_deleted(unused: ModuleType, tmp_path: Path):
    django = "django/contrib/admin/locale"
    gone = [
        "numpy/lib/tests/test_format.py", "onnxruntime/capi/libonnxruntime.so.1.31.1",
        "setuptools/__init__.py", "distutils-precedence.pth", "babel/locale-data/sv.dat",
        f"{django}/sv/LC_MESSAGES/django.mo", f"{django}/de/LC_MESSAGES/django.po",
    ]  # fmt: skip
    kept = [
        "numpy/lib/format.py", "onnxruntime/capi/_pybind_state.py", "babel/locale-data/en.dat",
        f"{django}/sv/formats.py", f"{django}/de/LC_MESSAGES/django.mo",
        f"{django}/en/LC_MESSAGES/django.mo", "other/locale/sv/LC_MESSAGES/other.mo",
    ]  # fmt: skip
    for name in [*gone, *kept]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    unused.main()

    left = {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()}
    assert left == set(kept)


def program(*, symbols: int = 50_000, after: bytes = b"") -> bytes:
    """A 64-bit ELF file: a segment of 1,000 bytes, then symbols, then the table of two sections."""
    table_at = 64 + 56 + 1_000 + symbols
    head = b"\x7fELF\x02\x01" + bytes(10)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, table_at, 0, 64, 56, 1, 64, 2, 1)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 64 + 56 + 1_000, 64 + 56 + 1_000, 4_096)
    return head + segment + b"c" * 1_000 + b"s" * symbols + bytes(2 * 64) + after


def test_symbols_of_libraries_are_cut_off_and_what_is_loaded_stays(
    unused: ModuleType, tmp_path: Path
):
    library, kept = tmp_path / "one/lib.so", tmp_path / "one/other.so"
    library.parent.mkdir()
    library.write_bytes(program())
    kept.write_bytes(program(after=b"an archive at the end"))
    elsewhere = tmp_path / "cache.so"
    elsewhere.write_bytes(program())
    (tmp_path / "one/linked.so").hardlink_to(elsewhere)
    (tmp_path / "one/text.so").write_text("no program")

    unused.main()
    cut = library.read_bytes()
    unused.main()

    assert len(cut) == 64 + 56 + 1_000
    assert cut == library.read_bytes()
    assert struct.unpack_from("<Q", cut, 40) == (0,)
    assert struct.unpack_from("<HH", cut, 60) == (0, 0)
    assert (
        cut[:40] + cut[48:60] + cut[64:] == program()[:40] + program()[48:60] + program()[64:1_120]
    )
    assert kept.read_bytes() == program(after=b"an archive at the end")
    assert elsewhere.read_bytes() == program()
    assert (tmp_path / "one/text.so").read_text() == "no program"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other formats")
def test_a_library_works_without_its_symbols(
    unused: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import Stemmer

    monkeypatch.setattr(unused, "MIN_CUT", 1)
    (tmp_path / Path(Stemmer.__file__).name).write_bytes(Path(Stemmer.__file__).read_bytes())
    unused.main()

    asks = "import Stemmer; print(Stemmer.__file__, Stemmer.Stemmer('en').stemWord('batteries'))"
    told = subprocess.run(
        [sys.executable, "-c", asks], env={"PYTHONPATH": str(tmp_path)}, capture_output=True,
        text=True, check=True,
    ).stdout  # fmt: skip

    assert told.startswith(str(tmp_path)) and told.split()[1] == "batteri"


def test_packages_that_are_left_out_are_in_no_lock(bootstrap):
    for name, left_out in bootstrap.LEFT_OUT.items():
        text = (ROOT / "requirements" / f"{name}.txt").read_text()
        assert [one for one in left_out if f"\n{one}==" in text] == []
        assert [one for one in left_out if f"\n# {one}\n" not in text] == []


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"PIL", "valkey", "google", "flatbuffers"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
"""
WRITES_PDF = """
from research.services.reports import pdf_document
wanted = {"text": "# Batteries\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |", "title": "T", "subject": "S",
          "domains": [], "language": "en", "note": ""}
print(len(pdf_document._prepare()(wanted)["file"]) > 1_000)
"""
EMBEDS = """
from beacon_site.providers.llm import minilm_child
print(len(minilm_child.means(*minilm_child.loaded(), ["a battery"])) > 1_000)
"""
FINDS_VALKEY = """
from pathlib import Path
from beacon_site.embedded import binaries, processes
print(binaries.valkey_server(Path("."), processes.Account()).is_file())
"""


@pytest.mark.parametrize("works", [WRITES_PDF, EMBEDS, FINDS_VALKEY])
def test_beacon_works_without_the_packages_that_are_left_out(works: str):
    if works is EMBEDS:
        pytest.importorskip("onnxruntime")
    told = subprocess.run(
        [sys.executable, "-c", WITHOUT + works], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert told.stdout == "True\n", told.stderr
