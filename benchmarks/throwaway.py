"""The database in which a benchmark works: created only for it, gone when it ends."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def database(*, durable: bool = False, embeddings: str = "") -> Iterator[Path]:
    """Set Django up on an empty database; yield the data folder, which goes with it.

    It is on DATABASE_URL's server if that is set, else on an embedded one; `durable` says
    whether that one waits for the disk, as a real one does.  `embeddings` is BEACON_EMBEDDINGS.
    """
    from beacon_site import embedded

    folder = Path(tempfile.mkdtemp(prefix="beacon-bench-"))
    os.environ["BEACON_DATA_DIR"] = str(folder)
    if embeddings:
        os.environ["BEACON_EMBEDDINGS"] = embeddings
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    os.environ.setdefault("SECRET_KEY", "a key only for this benchmark, long enough for Django")
    missing = tuple(name for name in ("DATABASE_URL", "REDIS_URL") if not os.environ.get(name))
    servers = embedded.ensure(folder, durable=durable, need=missing)
    os.environ |= servers.urls
    try:
        with _test_database():
            yield folder
    finally:
        servers.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _test_database() -> Iterator[None]:
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import setup_test_environment, teardown_test_environment

    logging.disable(logging.WARNING)
    name = connection.settings_dict["NAME"]
    setup_test_environment()
    connection.creation.create_test_db(verbosity=0)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
        teardown_test_environment()
