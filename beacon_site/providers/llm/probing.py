"""The tests of models and search services in Settings: the real answer or error, and its cost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from pydantic import BaseModel

from beacon_site.net.errors import (
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ended_within,
    ms_since,
)
from beacon_site.net.rate_limit import waiting_at_most
from beacon_site.providers.llm.base import JSON_MODES, Answer, LlmProfile, Message, Tool, Usage
from beacon_site.providers.llm.endpoints import (
    context_tokens,
    embedding_dimensions,
    kind_of,
    list_models,
)
from beacon_site.providers.llm.openai_model import EndpointCapabilities, OpenAIModel
from beacon_site.providers.search.base import (
    BY_NAME,
    SearchHit,
    SearchOptions,
    SearchProfile,
    get_search,
)
from beacon_site.text.messages import gettext as _

PROBE_TOKENS = 512  # a thinking model spends a few hundred before its one word
PATIENCE = 20.0  # seconds for one answer
WHOLE_SECONDS = 45.0  # for the whole test; what it couldn't try is reported
MIN_SECONDS = 0.2  # for one more call
LOOK_SECONDS = 4.0  # for a plain GET
LITTLE_CONTEXT = 8192  # tokens; a report's pages and its answer hardly fit

TOOL = Tool(
    "weather_of",
    "Returns the current weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of testing a service once.  It never contains a key.

    `message` is for the person who pressed the button; `answer` is the model's text; `json_mode`
    the mode of structured output that worked ("" if none did); `count` a search's number of hits;
    `max_tokens_field` the endpoint's name for the token limit.  `tools` and `streams` are None if
    they couldn't be tested, `embedding_dimensions` without embeddings, `context_tokens` if the
    endpoint doesn't report it.  `refused` means that a retry won't help.  `notes` are the sentences
    about what didn't work, which are in `message` too.
    """

    ok: bool
    message: str
    ms: int
    usage: Usage = field(default_factory=Usage)
    answer: str = ""
    model: str = ""
    json_mode: str = ""
    max_tokens_field: str = ""
    count: int | None = None
    tools: bool | None = None
    streams: bool | None = None
    embedding_model: str = ""
    embedding_dimensions: int | None = None
    context_tokens: int | None = None
    notes: tuple[str, ...] = ()
    refused: bool = False


class ProbeShape(BaseModel):
    """The smallest useful shape."""

    city: str
    country: str


def probe(profile: LlmProfile) -> ProbeResult:
    """Try four tiny calls for the Settings page: chat, schema, tools and embedding.

    It is `ok` if the model chats.  The rest are capabilities for the profile, and each one that
    doesn't work has its sentence, since Beacon then uses fallbacks.  It raises nothing, and the
    result has no key.  An answer takes at most PATIENCE seconds and the whole test WHOLE_SECONDS,
    except if looking up a host hangs.
    """
    return _Probing(profile).result()


class _Probing:
    """One test of one endpoint."""

    def __init__(self, profile: LlmProfile) -> None:
        self.began = time.monotonic()
        self.profile = replace(profile, timeout=min(profile.timeout, PATIENCE))
        field_name = profile.max_tokens_field or kind_of(profile).limit_field
        self.learned = EndpointCapabilities(JSON_MODES.index("schema"), field_name, certain_at=1)
        self.usage = Usage()
        self.notes: list[str] = []

    def result(self) -> ProbeResult:
        try:
            answer = self._ask("Reply with the one word: ready", listens=True)
        except ProviderError as exc:
            refused = isinstance(exc, ProviderRejected)
            return ProbeResult(False, str(exc), self._ms(), usage=self.usage, refused=refused)
        json_mode = self._json_mode()
        tools = self._tools()
        embedding_model, dimensions = self._embedding()
        context = self._context()
        shown = {"model": answer.model, "text": answer.text[:80]}
        message = _("%(model)s answered “%(text)s”.") % shown
        return ProbeResult(
            ok=True,
            message=" ".join([message, *self.notes]),
            ms=self._ms(),
            usage=self.usage,
            answer=answer.text[:300],
            model=answer.model,
            json_mode=json_mode,
            max_tokens_field=self.learned.limit_field,
            tools=tools,
            streams=self.learned.streams,
            embedding_model=embedding_model,
            embedding_dimensions=dimensions,
            context_tokens=context,
            notes=tuple(self.notes),
        )

    def _json_mode(self) -> str:
        """Return the JSON mode that worked for a schema, "" if none did."""
        question = "Which city is the capital of France? Give city and country."
        try:
            self._ask(question, schema=ProbeShape)
        except ProviderError as exc:
            text = _(
                "Beacon will use fallbacks because the model doesn’t support structured output: %(why)s"
            )
            self.notes.append(text % {"why": exc})
            return ""
        if self.learned.ignored_schema:
            self.notes.append(
                _(
                    "The model accepts a schema but doesn’t follow it, so Beacon will describe the format in the prompt and check the answer."
                )
            )
        return JSON_MODES[self.learned.rung]

    def _tools(self) -> bool | None:
        """Return whether the model calls a tool, None if that couldn't be tested."""
        question = "What is the weather in Paris now? Call the tool."
        try:
            calls = self._ask(question, tools=(TOOL,)).tool_calls
        except ProviderUnavailable as exc:
            self.notes.append(_("Tools couldn’t be tested: %(why)s") % {"why": exc})
            return None
        except ProviderError as exc:
            self.notes.append(_("The model doesn’t support tools: %(why)s") % {"why": exc})
            return False
        if not any(call.name == TOOL.name for call in calls):
            self.notes.append(_("The model didn’t call the tool it was offered."))
            return False
        if any("_unparsed" in call.arguments for call in calls):
            self.notes.append(_("The model calls tools with arguments that aren’t valid JSON."))
            return False
        return True

    def _embedding(self) -> tuple[str, int | None]:
        """Return the embedding model and its dimensions, ("", None) if there is none."""
        try:
            model = self._embedding_model()
            if not model:
                self.notes.append(_("The endpoint has no embedding model."))
                return "", None
            patience = min(PATIENCE / 2, self._left())
            return model, embedding_dimensions(self.profile, model, timeout=patience)
        except ProviderError as exc:
            self.notes.append(
                _("Embeddings aren’t working: %(why)s.") % {"why": str(exc).rstrip(".")}
            )
            return "", None

    def _embedding_model(self) -> str:
        """Return the model to try: the selected one, the kind's default, or one named like it."""
        kind = kind_of(self.profile)
        if chosen := self.profile.embedding_model or kind.embedding_model:
            return chosen
        if kind.name == "llamacpp":
            return self.profile.model
        patience = min(LOOK_SECONDS, self._left())
        try:
            names = list_models(self.profile, timeout=patience)
        except ProviderError:
            return ""
        return next((name for name in names if "embed" in name.lower()), "")

    def _context(self) -> int | None:
        """Return the size of the model's window, if the endpoint reports it."""
        kind = kind_of(self.profile)
        try:
            patience = min(LOOK_SECONDS, self._left() / 2)  # it can take two requests
        except ProviderUnavailable:
            return None
        found = context_tokens(self.profile, timeout=patience)
        if found is None and kind.default_context:
            self.notes.append(f"{kind.hint} {kind.context}")
        elif found is not None and found < LITTLE_CONTEXT:
            text = _(
                "The model’s context window is only %(count)d tokens, which is small for a report."
            )
            self.notes.append(f"{text % {'count': found}} {kind.context}".rstrip())
        return found

    def _ask(
        self,
        question: str,
        *,
        listens: bool = False,
        schema: type[BaseModel] | None = None,
        tools: tuple[Tool, ...] = (),
    ) -> Answer:
        """Return the answer, within the time left; its tokens count even if it fails."""
        ends_at = time.monotonic() + min(PATIENCE, self._left())
        model = OpenAIModel(self.profile, learned=self.learned, ends_at=ends_at)
        try:
            answer = model.ask(
                [Message("user", question)],
                max_tokens=PROBE_TOKENS,
                schema=schema,
                on_text=_nobody if listens else None,
                tools=tools,
            )
        except ProviderError as exc:
            self.usage += Usage(exc.prompt_tokens, exc.completion_tokens)
            raise
        self.usage += answer.usage
        return answer

    def _left(self) -> float:
        """Return the seconds left in total; raises ProviderUnavailable if there are none."""
        left = self.began + WHOLE_SECONDS - time.monotonic()
        if left < MIN_SECONDS:
            text = _("the test reached its limit of %(seconds)g seconds")
            raise ProviderUnavailable(text % {"seconds": WHOLE_SECONDS})
        return left

    def _ms(self) -> int:
        return round((time.monotonic() - self.began) * 1000)


def _nobody(_text: str) -> None:
    """A listener, so that a stream is requested."""


# --- search services ---

SEARCH_PROBE_PATIENCE = 12.0  # seconds, since a person waits for the page
TURN_SECONDS = 8.0  # of them to wait for other searches; the rest is for the service
WORD = "news"  # every service finds something for it


def try_search(profile: SearchProfile) -> ProbeResult:
    """Search once, for one result, and return it or the reason for its absence.

    It ends within SEARCH_PROBE_PATIENCE seconds, raises nothing if the service fails, and the
    result has no key.
    """
    began = time.monotonic()
    service = BY_NAME.get(profile.service)
    name = service.label if service else profile.service
    if service and not service.adapter:
        return ProbeResult(True, _("%(name)s works offline.") % {"name": name}, ms=0)
    if profile.service == "feeds":
        return ProbeResult(False, _("To test a feed, enter its URL."), ms=0)
    try:
        hits, warnings = _searched(profile)
    except ProviderError as exc:
        return ProbeResult(False, str(exc), ms_since(began))
    except TimeoutError:
        text = _("%(name)s didn’t respond within %(seconds)g seconds. Check its URL.")
        return ProbeResult(
            False, text % {"name": name, "seconds": SEARCH_PROBE_PATIENCE}, ms_since(began)
        )
    text = _("%(name)s responded, but found nothing for “%(word)s”.")
    if hits:
        text = _("%(name)s responded. Its first result is “%(title)s”.")
    shown = {"name": name, "word": WORD, "title": hits[0].title if hits else ""}
    message = " ".join([text % shown, *warnings])
    return ProbeResult(True, message, ms_since(began), count=len(hits))


def _searched(profile: SearchProfile) -> tuple[list[SearchHit], list[str]]:
    """Return the hits and the warnings; raises the service's failures, and TimeoutError."""
    provider = get_search(profile)

    def ask() -> list[SearchHit]:
        with waiting_at_most(TURN_SECONDS):
            return provider.search(WORD, SearchOptions(limit=1))

    hits = ended_within(SEARCH_PROBE_PATIENCE, ask)
    return hits, [str(warning) for warning in getattr(provider, "warnings", ())]
