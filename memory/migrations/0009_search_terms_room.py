"""How two tables lie on disk: room beside each counted term, and large texts as they are.

A save counts thousands of terms; without room each new figure went to another page, and an entry of
the index by lexeme with it.  A save of a large file stores its text three times; packed by Postgres
that took 50 ms for a quarter less of disk.
"""

from __future__ import annotations

from django.db import migrations


def _stored(how: str) -> str:
    """Return the statements that let large texts of files and of history be stored so."""
    return (
        f"ALTER TABLE memory_revision ALTER before SET STORAGE {how}, "
        f"ALTER after SET STORAGE {how};"
        f"ALTER TABLE memory_memoryfile ALTER content SET STORAGE {how}"
    )


class Migration(migrations.Migration):
    """Rows that are there follow as they are written again."""

    dependencies = [("memory", "0008_api")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE memory_searchterm SET (fillfactor = 50)",
            "ALTER TABLE memory_searchterm RESET (fillfactor)",
        ),
        migrations.RunSQL(_stored("EXTERNAL"), _stored("EXTENDED")),
    ]
