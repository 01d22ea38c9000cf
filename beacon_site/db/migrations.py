"""Creating many tables at once.

Django renders a new model, and all models that are related to it, after each `CreateModel`.  Nearly
all tables here belong to a user, so that took six of the ten seconds of CPU time for migrating.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ProjectState
from pgtrigger.migrations import AddTrigger

# None of them needs the others' tables to exist, only their models.
TOGETHER = (migrations.CreateModel, AddTrigger)


class InitialMigration(migrations.Migration):
    """Renders the models once for all consecutive operations that create tables, or triggers."""

    def apply(
        self,
        project_state: ProjectState,
        schema_editor: BaseDatabaseSchemaEditor,
        collect_sql: bool = False,
    ) -> Any:
        """Change the database. Where the SQL is only printed, Django's own method does that."""
        if collect_sql:
            return super().apply(project_state, schema_editor, collect_sql)
        for kind, group in groupby(self.operations, type):
            operations = list(group)
            if kind not in TOGETHER:
                others = migrations.Migration(self.name, self.app_label)
                others.operations = operations  # type: ignore[misc]  # of the class, in Django
                project_state = others.apply(project_state, schema_editor)
                continue
            before = project_state.clone()
            project_state.__dict__.pop("apps", None)  # rendered again by the first table
            for operation in operations:
                operation.state_forwards(self.app_label, project_state)
            for operation in operations:
                operation.database_forwards(self.app_label, schema_editor, before, project_state)
        return project_state
