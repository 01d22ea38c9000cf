"""The tool that tells an agent what it is given before a task: get_context."""

from __future__ import annotations

from django.utils.translation import gettext as _
from pydantic import Field

from memory.contexts.context import build_context
from memory.contexts.data import context_data
from memory.models import Topic
from memory.recall.filters import named_topic
from memory.texts.text import clean, shorten
from memory.toolkit.types import Arguments, MemoryTool, ToolContext, ToolResult, named, refused


class ContextArguments(Arguments):
    """What the context is for."""

    message: str = Field(
        "", max_length=100_000, description="The task or question: rules and summaries near to it."
    )
    topic: str | None = Field(None, description="The slug or title of a topic, if it is about one.")


def _get_context(context: ToolContext, asked: ContextArguments) -> ToolResult:
    topic = context.topic
    if asked.topic:
        topics = Topic.objects.of(context.owner).live()
        topic = topics.filter(named_topic(clean(asked.topic)[0].strip())).first()
        if topic is None:
            text = _("There is no topic “%(topic)s”. Leave it out, or name it as it is called.")
            return refused("not_found", text % {"topic": shorten(asked.topic, 80)})
    built = build_context(context.owner, message=asked.message, topic=topic, scopes=context.scopes)
    context.read(built.records)
    context.shown(*built.files)  # by the summary lines in the list of files
    records = [named(record) for record in built.records]
    return ToolResult(built.text, data={**context_data(built), "records": records})


TOOLS = (
    MemoryTool(
        "get_context",
        "Read what an agent of this person is given before a task: who it is, how it thinks, the "
        "machine, the person, rules and recent summaries, and the list of memory files, each with "
        "its size.",
        ContextArguments,
        _get_context,
    ),
)
