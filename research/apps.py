"""The app that finds things out."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ResearchConfig(AppConfig):
    """Finding out: runs, reports, deltas, schedules."""

    name = "research"
    verbose_name = _("Research")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load the Celery application, so that shared tasks know their broker, and register with memory.

        Memory learns here how searches went, how research's records are moved, exported and recalled,
        which run a record comes from, and which tools research adds.
        """
        from beacon_site import celery as celery
        from memory import system_status
        from memory.contexts import topic_block
        from research import account_deletion, archive_kinds, recall_kinds, tool_research
        from research import invariants as invariants
        from research.facts import staleness
        from research.running import content_keeping, content_uses
        from research.runs import origins, traces
        from research.search import search_health
        from research.topics import record_moves, settings_kinds
        from research.working import memory_for_prompt

        system_status.FAILING.append(search_health.failing)
        topic_block.TASKS.append(memory_for_prompt.task_of)
        record_moves.register_kinds()
        settings_kinds.register_kinds()
        recall_kinds.register()
        origins.register()
        traces.register()
        content_uses.register()
        content_keeping.register()
        archive_kinds.register_kinds()
        tool_research.register()
        account_deletion.register()
        staleness.register()
