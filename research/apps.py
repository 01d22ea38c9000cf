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
        from beacon_site import broker
        from beacon_site import celery as celery
        from beacon_site.db.leased_jobs import LeasedJob
        from memory.context import topic_block
        from memory.pages import health
        from research import archive_kinds, hooks, tool_research
        from research import invariants as invariants
        from research.facts import staleness
        from research.run_context import memory_for_prompt
        from research.runs import presenters, trash
        from research.search import searching
        from research.topics import acts

        LeasedJob.BROKER = broker
        health.FAILING.append(searching.failing)
        topic_block.TASKS.append(memory_for_prompt.task_of)
        acts.register_record_moves()
        acts.register_settings()
        hooks.register_recall_kinds()
        hooks.register_dates()
        presenters.register()
        trash.register()
        hooks.register_uses()
        hooks.register_kept_items()
        archive_kinds.register_kinds()
        tool_research.register()
        hooks.register_account_deletion()
        staleness.register()
