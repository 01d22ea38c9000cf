"""One file that holds all of Beacon: written of one moment, checked before anything is brought back.

A zip of `manifest.json`, `database.sql` and a few files.  The manifest says of each table how many
rows it has and their sum, and of each part of the zip its length and SHA-256; it is sealed with
SECRET_KEY, so that a backup which somebody else wrote is no backup of ours.  A restore reads the
whole file against that first, then fills the database in one transaction, counts again, and only
then lets it stand.  What a stored secret is sealed with (SECRET_KEY) is no part of it: a file that
held both the locks and the key would be worth more to a thief than to its owner.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any

from django.conf import settings
from django.utils.translation import gettext as _

from beacon_site import dumps
from beacon_site.dumps import CHUNK, Counted, DumpFailed
from beacon_site.whole_files import put_in_place

KIND, FORMAT = "beacon backup", 1
MANIFEST, DATABASE, FILES = "manifest.json", "database.sql", "files/"
# What zipfile raises for a file that is no zip, is cut off, locked, or packed in an unknown way.
UNREADABLE = (
    OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile,
)  # fmt: skip
LARGEST_MANIFEST = 64 * 1024 * 1024
# Tables whose rows stay behind, and why.
LEFT_OUT = {
    "django_session": "who was signed in then signs in again: a session that was ended since must "
    "not come back to life",
    "research_worker": "says which processes lived then",
}


class NoBackup(DumpFailed):
    """The file is not a whole backup, or not one that this Beacon can bring back."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the zip, as it must be found again."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself; `key` tells SECRET_KEYs apart and nothing more of them."""

    made_at: str
    postgres: int
    schema: str
    key: str
    migrations: list[str]
    tables: dict[str, Counted]
    left_out: dict[str, str]
    parts: dict[str, Part]
    kind: str = KIND
    format: int = FORMAT

    def as_json(self) -> bytes:
        """Return it as it stands in the zip, with its seal."""
        return json.dumps(asdict(self) | {"seal": self.seal()}, indent=1).encode()

    def seal(self) -> str:
        """Return what only this SECRET_KEY makes of it: so nobody else writes one, or changes it."""
        told = json.dumps(asdict(self), sort_keys=True).encode()
        return hmac.new(_sealing(), told, hashlib.sha256).hexdigest()

    @property
    def is_of_this_key(self) -> bool:
        """Whether it was made under the present SECRET_KEY, by which its seal can be told."""
        return hmac.compare_digest(self.key.encode(), key_mark().encode())

    @property
    def rows(self) -> int:
        """Return how many rows all tables have together."""
        return sum(counted.rows for counted in self.tables.values())

    @property
    def files(self) -> list[str]:
        """Return the names of the files beside the database."""
        return [name.removeprefix(FILES) for name in self.parts if name.startswith(FILES)]


@dataclass(slots=True)
class _Measured:
    """Counts and sums up what passes through to `out`."""

    out: IO[bytes]
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def write(self, data: bytes, /) -> int:
        self.size += len(data)
        self.digest.update(data)
        return self.out.write(data)

    @property
    def part(self) -> Part:
        return Part(self.size, self.digest.hexdigest())


# --- writing --------------------------------------------------------------------------------------


def write(database: Mapping[str, Any], file: Path, files: Mapping[str, Path]) -> Manifest:
    """Write a backup that its owner alone may read; what stood at `file` is replaced by a whole one.

    `files` are further ones to take along, by the name that they are to have.  Beacon may run
    meanwhile.  Raises DumpFailed.
    """
    file = Path(os.path.realpath(file))  # a link goes on leading where it led
    if file.is_dir():
        raise DumpFailed(_("%(file)s is a folder: name a file in it.") % {"file": file})
    if file.exists() and not file.is_file():
        # A device in whose place a file is put is gone for every program of the machine.
        said = _("%(file)s is no ordinary file, and would be replaced by one: name another.")
        raise DumpFailed(said % {"file": file})
    try:
        with put_in_place(file) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
            manifest = _written(database, zipped, files)
            zipped.writestr(MANIFEST, manifest.as_json())
    except OSError as exc:
        told = {"file": file, "why": exc.strerror or exc}
        raise DumpFailed(_("%(file)s cannot be written: %(why)s.") % told) from exc
    return manifest


def _written(
    database: Mapping[str, Any], zipped: zipfile.ZipFile, files: Mapping[str, Path]
) -> Manifest:
    parts = {}
    with dumps.opened(database) as raw:
        schema = dumps.schema_of(raw)
        with dumps.moment(raw) as snapshot:
            migrations = _applied(raw)
            names = dumps.tables(raw, schema)
            counted = {n: dumps.count(raw, schema, n) for n in names if n not in LEFT_OUT}
            left_out = {name: why for name, why in LEFT_OUT.items() if name in names}
            with zipped.open(DATABASE, "w", force_zip64=True) as part:
                measured = _Measured(part)
                dumps.dump(
                    database, measured, schema=schema, snapshot=snapshot, without_rows=left_out
                )
            parts[DATABASE] = measured.part
        postgres = int(raw.info.server_version) // 10_000
    for name, path in files.items():
        parts[FILES + name] = _take_along(zipped, FILES + name, path)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Manifest(now, postgres, schema, key_mark(), migrations, counted, left_out, parts)


def _take_along(zipped: zipfile.ZipFile, name: str, path: Path) -> Part:
    with path.open("rb") as source, zipped.open(name, "w", force_zip64=True) as part:
        measured = _Measured(part)
        while chunk := source.read(CHUNK):
            measured.write(chunk)
    return measured.part


def _applied(raw: Any) -> list[str]:
    """Return the migrations that the database has; empty where it was never migrated."""
    if raw.execute("SELECT to_regclass('django_migrations')").fetchone()[0] is None:
        return []
    rows = raw.execute("SELECT app || '.' || name FROM django_migrations ORDER BY id")
    return [name for (name,) in rows]


def _sealing() -> bytes:
    return hashlib.sha256(b"beacon backup seal\0" + settings.SECRET_KEY.encode()).digest()


def key_mark() -> str:
    """Return what tells this SECRET_KEY from another."""
    return hmac.new(_sealing(), b"which key", hashlib.sha256).hexdigest()[:16]


# --- reading --------------------------------------------------------------------------------------


def read(file: Path) -> Manifest:
    """Read the whole file against its manifest, and return that; writes nothing.  Raises NoBackup."""
    try:
        with zipfile.ZipFile(file) as zipped:
            manifest = _manifest(zipped)
            _check_names(zipped, manifest)
            for name, part in manifest.parts.items():
                _check(zipped, name, part)
    except NoBackup:
        raise
    except UNREADABLE as exc:
        raise _damaged(exc) from exc
    return manifest


def _damaged(why: object) -> NoBackup:
    told = _("The file is no backup of Beacon, or it is damaged or cut off (%(why)s).")
    return NoBackup(told % {"why": why})


def _manifest(zipped: zipfile.ZipFile) -> Manifest:
    try:
        entry = zipped.getinfo(MANIFEST)
    except KeyError as exc:
        raise NoBackup(_("The file is a zip, but no backup of Beacon.")) from exc
    if entry.file_size > LARGEST_MANIFEST:
        raise _damaged(_("its manifest is too large"))
    told = json.loads(zipped.read(MANIFEST))
    if not isinstance(told, dict) or told.get("kind") != KIND:
        raise NoBackup(_("The file is a zip, but no backup of Beacon."))
    if told.get("format") != FORMAT:
        raise NoBackup(
            _(
                "The backup has the format %(has)s, this Beacon reads %(reads)s: it was made by "
                "a newer version. Restore it with that one."
            )
            % {"has": told.get("format"), "reads": FORMAT}
        )
    manifest = _typed(told)
    seal = str(told.get("seal", ""))
    if manifest.is_of_this_key and not hmac.compare_digest(seal.encode(), manifest.seal().encode()):
        raise _damaged(_("it was changed after it was made"))
    return manifest


def _typed(told: dict[str, Any]) -> Manifest:
    """Return the manifest, all of the types that the rest relies on.  Raises NoBackup."""
    try:
        return Manifest(
            made_at=datetime.fromisoformat(told["made_at"]).isoformat(),
            postgres=int(told["postgres"]),
            schema=str(told["schema"]),
            key=str(told["key"]),
            migrations=[str(name) for name in told["migrations"]],
            tables={str(n): Counted(int(c[0]), str(c[1])) for n, c in told["tables"].items()},
            left_out={str(name): str(why) for name, why in told["left_out"].items()},
            parts={
                str(n): Part(int(p["size"]), str(p["sha256"])) for n, p in told["parts"].items()
            },
        )
    except (KeyError, IndexError, TypeError, AttributeError) as exc:
        raise _damaged(f"{type(exc).__name__}: {exc}") from exc


def _check_names(zipped: zipfile.ZipFile, manifest: Manifest) -> None:
    if sorted(zipped.namelist()) != sorted([MANIFEST, *manifest.parts]):
        raise _damaged(_("it holds other parts than its manifest names"))
    if DATABASE not in manifest.parts:
        raise _damaged(_("the database is missing"))
    for name in manifest.files:
        path = PurePosixPath(name)
        if path.is_absolute() or not path.parts or ".." in path.parts or "\\" in name:
            raise _damaged(_("it names a file outside of its folder"))


def _check(zipped: zipfile.ZipFile, name: str, part: Part) -> None:
    size, digest = 0, hashlib.sha256()
    with zipped.open(name) as source:
        while size <= part.size and (chunk := source.read(CHUNK)):
            size += len(chunk)
            digest.update(chunk)
    if Part(size, digest.hexdigest()) != part:
        raise _damaged(_("%(name)s is not as it was written") % {"name": name})


# --- bringing back --------------------------------------------------------------------------------


def bring_back(database: Mapping[str, Any], file: Path, manifest: Manifest) -> None:
    """Put what the backup holds in the place of what the database holds: all of it, or nothing.

    Raises DumpFailed.
    """
    with dumps.opened(database) as raw, zipfile.ZipFile(file) as zipped:
        schema = dumps.schema_of(raw)
        if schema != manifest.schema:
            told = {"was": manifest.schema, "here": schema}
            raise NoBackup(
                _("It was made of the schema “%(was)s”; here tables lie in “%(here)s”.") % told
            )
        with raw.transaction(), zipped.open(DATABASE) as script:
            dumps.wipe(raw, schema)
            try:
                dumps.load(raw, io.BufferedReader(script, CHUNK), schema=schema)  # type: ignore[type-var]
            except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as exc:
                raise _damaged(exc) from exc
            _compare(raw, schema, manifest)


def _compare(raw: Any, schema: str, manifest: Manifest) -> None:
    """Raise DumpFailed unless each table has the very rows that were counted."""
    wanted = sorted([*manifest.tables, *manifest.left_out])
    if dumps.tables(raw, schema) != wanted:
        raise DumpFailed(_("Other tables came of it than the backup names."))
    # Another version of Postgres may write a value otherwise; then the number of rows has to do.
    exactly = int(raw.info.server_version) // 10_000 == manifest.postgres
    for name, counted in manifest.tables.items():
        found = dumps.count(raw, schema, name)
        if found.rows != counted.rows or (exactly and found != counted):
            told = {"table": name, "have": found.rows, "want": counted.rows}
            raise DumpFailed(
                _(
                    "The rows of %(table)s are not those of the backup (%(have)d here, %(want)d "
                    "there)."
                )
                % told
            )


def unpack(file: Path, manifest: Manifest, folder: Path) -> int:
    """Put the files of the backup into the folder; return how many.  Raises OSError."""
    with zipfile.ZipFile(file) as zipped:
        for name in manifest.files:
            target = folder.joinpath(*PurePosixPath(name).parts)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with zipped.open(FILES + name) as source, target.open("xb") as out:
                target.chmod(0o600)
                while chunk := source.read(CHUNK):
                    out.write(chunk)
    return len(manifest.files)


def accounts(raw: Any) -> int | None:
    """Return how many accounts the database has; None where there is no table of Beacon's.

    Raises NoBackup where it holds tables, but none of Beacon's.
    """
    names = dumps.tables(raw, dumps.schema_of(raw))
    if "memory_user" in names:
        return int(raw.execute("SELECT count(*) FROM memory_user").fetchone()[0])
    if names:
        raise NoBackup(
            _(
                "The database holds tables that are not Beacon's (%(names)s): give Beacon one of "
                "its own, by DATABASE_URL."
            )
            % {"names": ", ".join(names[:5])}
        )
    return None


def newer(manifest: Manifest, known: Sequence[str]) -> list[str]:
    """Return the migrations that the backup has and this Beacon has not: it was a newer one."""
    return sorted(set(manifest.migrations) - set(known))


def older(manifest: Manifest, known: Sequence[str]) -> bool:
    """Whether the database has to be brought up to date after the restore."""
    return bool(set(known) - set(manifest.migrations))
