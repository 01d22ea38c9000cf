"""Backups of all data in one zip file: writing, checking and restoring them."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any

import psycopg
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.backends.postgresql.client import DatabaseClient
from django.db.migrations.recorder import MigrationRecorder
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _
from psycopg import sql
from pydantic import BaseModel, ValidationError

from beacon_site import __version__
from beacon_site.embedded import EmbeddedError
from beacon_site.embedded.binaries import client_program

UNFINISHED = ".part"
YOUNG_SECONDS = 60.0  # a younger unfinished file may not be locked by its writer yet


@contextmanager
def atomic_write(file: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `file` after the block, once it is on the disk.

    If the block raises, or its process is killed, `file` keeps its content.  Only the owner can
    read the new file.  Unfinished files of killed writers are deleted.
    """
    _delete_abandoned(file)
    unfinished = file.with_name(f".{file.name}.{secrets.token_hex(4)}{UNFINISHED}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as out:
            _lock(out.fileno())
            yield out
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(file)
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        unfinished.unlink(missing_ok=True)


def _delete_abandoned(file: Path) -> None:
    for left in file.parent.glob(f".{glob.escape(file.name)}.*{UNFINISHED}"):
        try:
            if time.time() - left.stat().st_mtime < YOUNG_SECONDS:
                continue
            descriptor = os.open(left, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # already deleted, or not ours
            continue
        try:
            if _lock(descriptor):
                left.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another writer holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


# --- format: one zip of a manifest, the output of `pg_dump -Fc`, and files ---

KIND, FORMAT = "beacon backup", 2
MANIFEST, SIGNATURE, DATABASE, FILES = "manifest.json", "manifest.hmac", "database.dump", "files/"
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
CHUNK = 1024 * 1024
LOCK_SECONDS = 20  # how long a restore waits for another connection to release a table
# Tables that are restored empty, and why.
WITHOUT_ROWS = {
    "django_session": "a session that has ended since then must not become valid again",
    "research_worker": "lists the processes that ran at the time",
    "memory_backupfile": "lists files outside the database, which a restore doesn't change",
}
# Tables that pgvector searches; `manage.py vectors` creates them from memory_embedding.
DERIVED_TABLES = "embedding_[0-9]*"
# Text forms of a row that don't depend on the server's settings.
_PLAIN_TEXT = "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'iso_8601'; SET extra_float_digits = 1; SET bytea_output = 'hex'"
_TABLES = """
    SELECT relname FROM pg_class
     WHERE relnamespace = %s::regnamespace AND relkind = 'r' AND NOT relname = ANY(%s)
       AND relname !~ '^embedding_[0-9]+$' ORDER BY relname
"""
# What zipfile raises for a file that is truncated, encrypted, or not a zip.
UNREADABLE = (
    OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile,
)  # fmt: skip
# Tables first: dropping them drops the views and sequences that depend on them.
DROP_STATEMENTS = """
    SELECT format('DROP %%s IF EXISTS %%s CASCADE;', kind, name) FROM (
        SELECT 'pg_class'::regclass AS catalog, oid, oid::regclass::text AS name,
               CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                    WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind
          FROM pg_class
         WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
        UNION ALL
        SELECT 'pg_proc'::regclass, oid, oid::regprocedure::text, 'ROUTINE'
          FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
    ) AS object
    WHERE NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = catalog AND objid = object.oid AND deptype = 'e'
    )
    ORDER BY kind <> 'TABLE', name
"""


class BackupError(Exception):
    """The backup can't be written, read or restored; the text says why."""


class Part(BaseModel):
    """The size in bytes and the checksum of one part of the zip."""

    size: int
    sha256: str


class TableSum(BaseModel):
    """What a table held: its number of rows, and a checksum that doesn't depend on their order."""

    rows: int
    checksum: str


class Manifest(BaseModel):
    """The description of a backup, stored in the zip."""

    kind: str = KIND
    format: int = FORMAT
    created_at: datetime
    version: str
    database_schema: str
    accounts: int
    migrations: list[str]
    parts: dict[str, Part]
    tables: dict[str, TableSum] = {}  # the tables whose rows are in the dump


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup whose parts match its manifest; `is_ours` if this SECRET_KEY signed it."""

    path: Path
    manifest: Manifest
    is_ours: bool

    @property
    def files(self) -> list[str]:
        return [name.removeprefix(FILES) for name in self.manifest.parts if name.startswith(FILES)]


class _Client(subprocess.Popen[bytes]):
    """A client program of Postgres; killed at the end of its `with` block if it still runs.

    A password is passed in the environment, because every user of the machine can read a
    command line.
    """

    def __init__(
        self, program: str, *options: str, connect: bool = True, database: str = "",
        stdin: int = subprocess.DEVNULL, stdout: int = subprocess.DEVNULL,
    ) -> None:  # fmt: skip
        secret: Mapping[str, str] | None = None
        arguments = list(options)
        if connect:
            connected = connection.settings_dict | ({"NAME": database} if database else {})
            words, secret = DatabaseClient.settings_to_cmd_args_env(connected, arguments)
            arguments = words[1:]
        try:
            path = client_program(program)
        except EmbeddedError as exc:
            raise BackupError(str(exc)) from exc
        self.program = program
        self.error_output = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        super().__init__(
            [path, *arguments], env={**os.environ, **(secret or {})},
            stdin=stdin, stdout=stdout, stderr=self.error_output,
        )  # fmt: skip

    def finish(self) -> None:
        """Wait for the program to end.  Raises BackupError with its error output if it failed."""
        with contextlib.suppress(BrokenPipeError):
            if self.stdin:
                self.stdin.close()
        if status := self.wait():
            self.error_output.seek(0)
            why = (
                self.error_output.read().decode(errors="replace").strip() or f"exit status {status}"
            )
            raise BackupError(
                _("%(program)s failed: %(why)s") % {"program": self.program, "why": why}
            )

    def __exit__(self, *exc: Any) -> None:
        self.kill()
        with contextlib.suppress(BrokenPipeError):
            super().__exit__(*exc)
        self.error_output.close()


# --- writing --------------------------------------------------------------------------------------


def write(path: Path, files: Mapping[str, Path]) -> Manifest:
    """Write a backup of the database and of `files` (by their name in the backup) to `path`.

    Beacon can keep running.  An existing file is replaced once the new one is complete.
    Raises BackupError.
    """
    path = Path(os.path.realpath(path))  # write through a link instead of replacing it
    if path.is_dir():
        raise BackupError(_("%(path)s is a folder. Add a file name to the path.") % {"path": path})
    if path.exists() and not path.is_file():  # replacing a device would break other programs
        raise BackupError(_("%(path)s isn’t a regular file. Choose another name.") % {"path": path})
    schema = current_schema()
    migrations = sorted(
        f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations()
    )
    options = ["--format=custom", "--no-owner", "--no-privileges", f'--schema="{schema}"']
    options += [f'--exclude-table="{schema}".{DERIVED_TABLES}']
    options += [f'--exclude-table-data="{schema}".{table}' for table in WITHOUT_ROWS]
    parts = {}
    try:
        with (
            _connected() as snapshot,
            atomic_write(path) as out,
            zipfile.ZipFile(out, "w") as archive,
        ):
            # The checksums and the dump must see the same rows, while Beacon keeps writing.
            snapshot.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            (name,) = snapshot.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
            options.append(f"--snapshot={name}")
            with _Client("pg_dump", *options, stdout=subprocess.PIPE) as pg_dump:
                parts[DATABASE] = _add(archive, DATABASE, _pipe(pg_dump.stdout))
                pg_dump.finish()
            tables = table_sums(snapshot, schema)
            for name, file in files.items():
                with file.open("rb") as source:
                    parts[FILES + name] = _add(archive, FILES + name, source)
            manifest = Manifest(
                created_at=datetime.now(UTC).replace(microsecond=0),
                version=__version__,
                database_schema=schema,
                accounts=get_user_model()._default_manager.count(),
                migrations=migrations,
                parts=parts,
                tables=tables,
            )
            data = manifest.model_dump_json(indent=1).encode()
            archive.writestr(MANIFEST, data)
            archive.writestr(SIGNATURE, signature(data))
    except OSError as exc:
        raise BackupError(
            _("%(path)s can’t be written: %(why)s.") % {"path": path, "why": exc.strerror or exc}
        ) from exc
    except psycopg.Error as exc:
        raise BackupError(
            _("The database didn’t respond: %(why)s.") % {"why": str(exc).strip()}
        ) from exc
    return manifest


@contextmanager
def _connected(database: str = "") -> Iterator[psycopg.Connection[Any]]:
    """Open a separate connection, without a time limit, that commits each statement."""
    django_only = {"context", "cursor_factory", "options", "prepare_threshold"}
    given = connection.get_connection_params()
    given = {key: value for key, value in given.items() if key not in django_only}
    with psycopg.connect(
        **given | {"dbname": database or given["dbname"]}, autocommit=True
    ) as opened:
        opened.execute("SET statement_timeout = 0")
        yield opened


def table_sums(opened: psycopg.Connection[Any], schema: str) -> dict[str, TableSum]:
    """Count the rows of every table that a backup contains, and add up a hash of each row.

    It reads every row once.
    """
    opened.execute(_PLAIN_TEXT)
    names = opened.execute(_TABLES, [f'"{schema}"', list(WITHOUT_ROWS)]).fetchall()
    found = {}
    for (name,) in names:
        query = sql.SQL(
            "SELECT count(*), coalesce(sum(hashtextextended(one::text, 0)::numeric), 0)::text FROM {} one"
        ).format(sql.Identifier(schema, name))
        rows, checksum = opened.execute(query).fetchone() or (0, "")
        found[name] = TableSum(rows=rows, checksum=checksum)
    return found


def _add(archive: zipfile.ZipFile, name: str, source: IO[bytes]) -> Part:
    size, digest = 0, hashlib.sha256()
    with archive.open(name, "w", force_zip64=True) as part:
        while chunk := source.read(CHUNK):
            part.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return Part(size=size, sha256=digest.hexdigest())


def signature(manifest: bytes) -> str:
    return salted_hmac("beacon.backup", manifest, algorithm="sha256").hexdigest()


def current_schema() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_schema()")
        return str(cursor.fetchone()[0])


# --- reading --------------------------------------------------------------------------------------


def read(path: Path) -> Backup:
    """Check the whole file against its manifest.  Raises BackupError."""
    try:
        with zipfile.ZipFile(path) as archive:
            data = _manifest_bytes(archive)
            manifest = _parsed(data)
            _check_names(archive, manifest)
            for name, part in manifest.parts.items():
                _check_part(archive, name, part)
            signed = archive.read(SIGNATURE).decode("ascii")
    except UNREADABLE as exc:
        raise _damaged(exc) from exc
    return Backup(path, manifest, constant_time_compare(signed, signature(data)))


def _damaged(why: object) -> BackupError:
    return BackupError(
        _("This file isn’t a Beacon backup, or it’s damaged (%(why)s).") % {"why": why}
    )


def _manifest_bytes(archive: zipfile.ZipFile) -> bytes:
    if MANIFEST not in archive.namelist():
        raise _damaged(_("the manifest is missing"))
    if archive.getinfo(MANIFEST).file_size > MAX_MANIFEST_BYTES:
        raise _damaged(_("the manifest is too large"))
    return archive.read(MANIFEST)


def _parsed(data: bytes) -> Manifest:
    fields = json.loads(data)
    if not isinstance(fields, dict) or fields.get("kind") != KIND:
        raise _damaged(_("the manifest wasn’t written by Beacon"))
    if fields.get("format") != FORMAT:
        raise BackupError(
            _(
                "This backup has format %(found)s, but this version of Beacon reads format %(known)s. Restore it with the version that created it."
            )
            % {"found": fields.get("format"), "known": FORMAT}
        )
    try:
        return Manifest.model_validate(fields)
    except ValidationError as exc:
        raise _damaged(_("the manifest is invalid")) from exc


def _check_names(archive: zipfile.ZipFile, manifest: Manifest) -> None:
    if sorted(archive.namelist()) != sorted([MANIFEST, SIGNATURE, *manifest.parts]):
        raise _damaged(_("the contents don’t match the manifest"))
    if DATABASE not in manifest.parts:
        raise _damaged(_("the database is missing"))
    for name in manifest.parts.keys() - {DATABASE}:
        path = PurePosixPath(name.removeprefix(FILES))
        is_inside = path.parts and not path.is_absolute() and ".." not in path.parts
        if not name.startswith(FILES) or not is_inside or "\\" in name:
            raise _damaged(_("the manifest refers to a file outside its folder"))


def _check_part(archive: zipfile.ZipFile, name: str, part: Part) -> None:
    size, digest = 0, hashlib.sha256()
    with archive.open(name) as source:
        while size <= part.size and (chunk := source.read(CHUNK)):
            size += len(chunk)
            digest.update(chunk)
    if (size, digest.hexdigest()) != (part.size, part.sha256):
        raise _damaged(_("the checksum of %(name)s doesn’t match") % {"name": name})


# --- restoring ------------------------------------------------------------------------------------


def restore_database(backup: Backup, scratch: str = "") -> None:
    """Replace everything in the schema with the database of the backup, in one transaction.

    With `scratch`, fill the empty database of that name instead.

    pg_restore converts the dump to SQL and psql runs it.  `pg_restore --clean` couldn't do both,
    because it drops only what the dump contains, and the schema here may be of a newer version.
    psql rolls back unless it reads the COMMIT at the end, so nothing changes if a program fails
    or is killed.  pg_restore (17.6, 18 and later) first puts psql into restricted mode, in which no
    line of the dump can be a psql command.  Raises BackupError.
    """
    schema = backup.manifest.database_schema
    if schema != (current := current_schema()):
        raise BackupError(
            _("The backup uses the schema “%(schema)s”, but this database uses “%(current)s”.")
            % {"schema": schema, "current": current}
        )
    before = ["BEGIN;", f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s';"]
    if not scratch:
        before += _drop_statements(schema)
        connection.close()  # what it knows about the tables is outdated after the restore
    with (
        zipfile.ZipFile(backup.path) as archive,
        archive.open(DATABASE) as dump,
        ThreadPoolExecutor(1) as feeder,
        _Client(
            "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", database=scratch,
            stdin=subprocess.PIPE,
        ) as psql,
        _Client(
            "pg_restore", "--no-owner", "--no-privileges", f"--schema={schema}", "--file=-",
            connect=False, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as pg_restore,
    ):  # fmt: skip
        feeding = feeder.submit(_feed, dump, _pipe(pg_restore.stdin))
        script, commands = _pipe(pg_restore.stdout), _pipe(psql.stdin)
        try:
            commands.write("\n".join(before).encode() + b"\n")
            commands.flush()
            # Postgres before 17 doesn't know this setting, which the first lines of a script set.
            commands.write(script.read(CHUNK).replace(b"SET transaction_timeout = 0;\n", b"", 1))
            shutil.copyfileobj(script, commands, CHUNK)
            pg_restore.finish()
            feeding.result()
            commands.write(b"COMMIT;\n")
            commands.flush()
        except BrokenPipeError as exc:
            psql.finish()
            raise _damaged(_("psql exited early")) from exc
        except UNREADABLE as exc:
            raise _damaged(exc) from exc
        psql.finish()


def _feed(dump: IO[bytes], pipe: IO[bytes]) -> None:
    # pg_restore's exit status says whether it had what it needed.
    with contextlib.suppress(BrokenPipeError), pipe:
        shutil.copyfileobj(dump, pipe, CHUNK)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise TypeError("the process was started without its pipe")
    return stream


def _drop_statements(schema: str) -> list[str]:
    """Return SQL that drops everything in the schema that doesn't belong to an extension."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path = ''")  # so that names are qualified
        cursor.execute(DROP_STATEMENTS, {"schema": schema})
        return [statement for (statement,) in cursor.fetchall()]


def try_restore(backup: Backup) -> list[str]:
    """Restore into a scratch database, and return the tables that differ from the backup's sums.

    Beacon can keep running: only the scratch database changes, and it is deleted afterwards.
    Raises BackupError, also if the database user can't create databases.
    """
    if not backup.manifest.tables:
        raise BackupError(
            _("This backup has no table checksums, so a restored copy can’t be compared with it.")
        )
    scratch = f"beacon_restore_test_{secrets.token_hex(4)}"
    schema = backup.manifest.database_schema
    try:
        with _connected() as server:
            extensions = server.execute("SELECT extname FROM pg_extension").fetchall()
            server.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(
                    sql.Identifier(scratch)
                )
            )
            try:
                with _connected(scratch) as empty:
                    create = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}")
                    empty.execute(create.format(sql.Identifier(schema)))
                    empty.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
                    for (name,) in extensions:
                        create = sql.SQL("CREATE EXTENSION IF NOT EXISTS {}")
                        empty.execute(create.format(sql.Identifier(name)))
                restore_database(backup, scratch)
                with _connected(scratch) as restored:
                    found = table_sums(restored, schema)
            finally:
                drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
                server.execute(drop.format(sql.Identifier(scratch)))
    except psycopg.Error as exc:
        raise BackupError(
            _("The restore into a scratch database failed: %(why)s.") % {"why": str(exc).strip()}
        ) from exc
    wanted = backup.manifest.tables
    return sorted(name for name in wanted | found if wanted.get(name) != found.get(name))


def unpack_files(backup: Backup, folder: Path) -> None:
    """Write the files of the backup to new files in the folder.  Raises OSError."""
    with zipfile.ZipFile(backup.path) as archive:
        for name in backup.files:
            target = folder.joinpath(*PurePosixPath(name).parts)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with archive.open(FILES + name) as source, target.open("xb") as out:
                target.chmod(0o600)
                shutil.copyfileobj(source, out, CHUNK)
