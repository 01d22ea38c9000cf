"""`/context`: what an agent gets before its first message, layer by layer with sizes."""

from __future__ import annotations

from pydantic import BaseModel, Field

from memory.api.auth import READ, ApiRequest
from memory.api.frame import Body, router
from memory.api.shown import as_it_was, shows, topic_of
from memory.models.as_of import AS_OF_WORDS
from memory.services.context.layers import build_context, context_data

api = router("context")


class ContextIn(Body):
    """What the context is for. Without a message, the newest rules and summaries are used."""

    message: str = Field("", max_length=10_000)
    topic: str | None = Field(
        None, max_length=500, description="A slug. Notes on other topics are left out."
    )
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)
    external: bool = Field(
        True,
        description="False leaves out records whose text comes from the web. After reading such text, an agent’s writes wait for approval.",
    )


class LayerOut(BaseModel):
    """One of the six layers, with its size and the number of records left out."""

    name: str
    title: str
    lines: int
    left_out: int
    bytes: int
    tokens: int
    text: str


class ContextOut(BaseModel):
    """The layers in order, the list of memory files, and both joined, as sent to a model."""

    layers: list[LayerOut]
    system: str
    index: str
    text: str
    bytes: int
    tokens: int
    tokens_are: str = Field(description="How the tokens were counted.")


@api.post("", auth=READ, response=ContextOut)
def read_context(request: ApiRequest, asked: ContextIn) -> ContextOut:
    """Read the context for a message. It never includes sensitive, quarantined or expired records."""
    caller = request.auth
    with as_it_was(caller, asked.as_of):
        built = build_context(
            caller.owner,
            message=asked.message,
            topic=topic_of(caller, asked.topic),
            place=caller.place,
            scopes=caller.context().scopes,
            with_external=asked.external,
        )
        shows(*built.records, *built.files)
        return ContextOut(**context_data(built))
