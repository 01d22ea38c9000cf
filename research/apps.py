"""The research app: runs, reports, changes and schedules."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ResearchConfig(AppConfig):
    name = "research"
    verbose_name = _("Research")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load the Celery application, so jobs and tasks know their broker, and register with memory.

        This tells memory how searches went, how research's records are moved, exported and
        recalled, which run a record comes from, and which tools research adds.
        """
        from beacon_site import celery
        from beacon_site.db.leased_jobs import LeasedJob
        from memory.pages import health
        from memory.services.content import items
        from memory.services.context import topic_block
        from memory.services.llm import connections
        from research.services.extensions import archive, content, tools
        from research.services.extensions import invariants as invariants
        from research.services.facts import staleness
        from research.services.runs import presenters, trash
        from research.services.runs.context import inputs
        from research.services.runs.search import searching
        from research.services.topics import acts
        from research.services.topics.settings import editing

        LeasedJob.BROKER = celery
        health.FAILING.append(searching.failing)
        topic_block.TASKS.append(inputs.task_of)
        connections.MODEL_OF_TOPIC.append(editing.model_of)
        acts.register_record_moves()
        content.register_recall_kinds()
        content.register_dates()
        presenters.register()
        trash.register()
        items.USED_IN.append(content.used_in)
        items.KEEPERS.append(content.cited)
        archive.register_kinds()
        tools.register()
        content.register_account_deletion()
        staleness.register()
