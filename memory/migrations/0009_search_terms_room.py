"""Room beside each counted term, so that a new count is written where the old one stands.

A save counts thousands of terms; without room each new figure went to another page, and an entry of
the index by lexeme with it.
"""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """Rows written before get their room as they are written again."""

    dependencies = [("memory", "0008_api")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE memory_searchterm SET (fillfactor = 50)",
            "ALTER TABLE memory_searchterm RESET (fillfactor)",
        )
    ]
