"""What stands in the search index already learns which terms a record says several times.

The ranking leaves records out by these levels (`recall/bm25_sql.py`), so one that lacked its own
would be lost.  The triggers count them as they count any term.
"""

from __future__ import annotations

from django.db import migrations

_LEVELS = """
UPDATE memory_searchentry entry SET words = entry.words || told.levels
  FROM (SELECT one.id, array_to_tsvector(array_agg('~' || level || word.lexeme)) AS levels
          FROM memory_searchentry one, unnest(one.words) word,
               (VALUES (2), (3), (5), (8)) known (level)
         WHERE cardinality(word.positions) >= level GROUP BY one.id) told
 WHERE told.id = entry.id
"""


class Migration(migrations.Migration):
    """Takes a second for some ten thousand records; backwards they may stay: nobody asks for them."""

    dependencies = [("memory", "0014_budgets")]

    operations = [migrations.RunSQL(_LEVELS, migrations.RunSQL.noop)]
