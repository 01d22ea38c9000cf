"""What a test button in Settings shows: the real answer or the real error, and what it cost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from django.utils.translation import gettext as _
from pydantic import BaseModel

from beacon_site.llm.base import JSON_MODES, Answer, LlmProfile, Message, Tool, Usage
from beacon_site.llm.endpoint_facts import context_tokens, embedding_dimensions, list_models
from beacon_site.llm.endpoints import kind_of
from beacon_site.llm.openai_model import Learned, OpenAIModel
from beacon_site.net.errors import (
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ended_within,
    ms_since,
)
from beacon_site.net.rate_limit import waiting_at_most
from beacon_site.search_services.base import SearchHit, SearchOptions, SearchProfile, get_search
from beacon_site.search_services.catalogue import BY_NAME

PROBE_TOKENS = 512  # a thinking model spends some hundred before its one word
PATIENCE = 20.0  # seconds for one answer
WHOLE_SECONDS = 45.0  # for all of a test; what is left untried then says so
LEAST_SECONDS = 0.2  # for one more call of it
LOOK_SECONDS = 4.0  # for a plain GET
LITTLE_CONTEXT = 8192  # tokens: a report's pages and its answer hardly fit

TOOL = Tool(
    "weather_of",
    "Tells the weather of a city now.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The outcome of trying a service once.  Never holds a key.

    `message` is for the person who pressed the button; `answer` what a model said; `json_mode`
    the rung of the ladder that worked ("" if none did); `count` a search's number of hits;
    `max_tokens_field` the name that the endpoint takes for the token limit.  `tools` and
    `streams` are None where that could not be found out, `embedding_dimensions` where nothing
    embeds, `context_tokens` where the endpoint does not tell.  `refused` says of one that is not
    `ok` that another try will not help.  `notes` are the sentences, each in
    `message` too, about what did not work.
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
    """The smallest shape worth asking for."""

    city: str
    country: str


def probe(profile: LlmProfile) -> ProbeResult:
    """Try four tiny calls, chat, schema, tools and embedding, for the Settings page.

    It is `ok` if the model chats; the rest are capabilities, to be kept in the profile, and what
    does not work has its sentence: Beacon then works with its fallbacks.  Nothing is raised, no
    key is in the result, no answer is waited for longer than PATIENCE seconds, and all of it ends
    within WHOLE_SECONDS, but for a name that does not resolve.
    """
    return _Probing(profile).result()


class _Probing:
    """One test of one endpoint."""

    def __init__(self, profile: LlmProfile) -> None:
        self.began = time.monotonic()
        self.profile = replace(profile, timeout=min(profile.timeout, PATIENCE))
        field_name = profile.max_tokens_field or kind_of(profile).limit_field
        self.learned = Learned(JSON_MODES.index("schema"), field_name, certain_at=1)
        self.usage = Usage()
        self.notes: list[str] = []

    def result(self) -> ProbeResult:
        """Carry the test out."""
        try:
            said = self._ask("Reply with the one word: ready", listens=True)
        except ProviderError as exc:
            refused = isinstance(exc, ProviderRejected)
            return ProbeResult(False, str(exc), self._ms(), usage=self.usage, refused=refused)
        json_mode = self._json_mode()
        tools = self._tools()
        embedding_model, dimensions = self._embedding()
        context = self._context()
        shown = {"model": said.model, "text": said.text[:80]}
        message = _("%(model)s answered “%(text)s”.") % shown
        return ProbeResult(
            ok=True,
            message=" ".join([message, *self.notes]),
            ms=self._ms(),
            usage=self.usage,
            answer=said.text[:300],
            model=said.model,
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
        """Return the rung that a schema was answered on, "" if none."""
        question = "Which city is the capital of France? Give city and country."
        try:
            self._ask(question, schema=ProbeShape)
        except ProviderError as exc:
            text = _("It cannot answer in a given shape, so fallbacks will be used: %(why)s")
            self.notes.append(text % {"why": exc})
            return ""
        if self.learned.ignored_schema:
            self.notes.append(
                _(
                    "It takes a schema but does not keep to it, so shapes will be asked for in "
                    "words and checked."
                )
            )
        return JSON_MODES[self.learned.rung]

    def _tools(self) -> bool | None:
        """Return whether the model calls a tool, None if that could not be tried."""
        question = "What is the weather in Paris now? Call the tool."
        try:
            calls = self._ask(question, tools=(TOOL,)).tool_calls
        except ProviderUnavailable as exc:
            self.notes.append(_("Tools could not be tried: %(why)s") % {"why": exc})
            return None
        except ProviderError as exc:
            self.notes.append(_("It takes no tools: %(why)s") % {"why": exc})
            return False
        if not any(call.name == TOOL.name for call in calls):
            self.notes.append(_("It was offered a tool and did not call it."))
            return False
        if any("_unparsed" in call.arguments for call in calls):
            self.notes.append(_("It calls tools with arguments that are no JSON."))
            return False
        return True

    def _embedding(self) -> tuple[str, int | None]:
        """Return the embedding model and its dimensions, ("", None) if there is none."""
        try:
            model = self._embedding_model()
            if not model:
                self.notes.append(_("No embedding model was found there."))
                return "", None
            patience = min(PATIENCE / 2, self._left())
            return model, embedding_dimensions(self.profile, model, timeout=patience)
        except ProviderError as exc:
            self.notes.append(
                _("Embeddings did not work: %(why)s.") % {"why": str(exc).rstrip(".")}
            )
            return "", None

    def _embedding_model(self) -> str:
        """Return the name to try: the chosen one, the kind's own, or one whose name says so."""
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
        """Return the size of the model's window, if the endpoint tells it."""
        kind = kind_of(self.profile)
        try:
            patience = min(LOOK_SECONDS, self._left() / 2)  # it may take two of them
        except ProviderUnavailable:
            return None
        found = context_tokens(self.profile, timeout=patience)
        if found is None and kind.default_context:
            self.notes.append(f"{kind.hint} {kind.context}")
        elif found is not None and found < LITTLE_CONTEXT:
            text = _("It reads only %(count)d tokens at once, which is little for a report.")
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
        """Return the answer, within the time that is left; counts what it spent either way."""
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
        """Return the seconds left of the whole; raises ProviderUnavailable where none are."""
        left = self.began + WHOLE_SECONDS - time.monotonic()
        if left < LEAST_SECONDS:
            text = _("the %(seconds)g seconds that a test may take were over")
            raise ProviderUnavailable(text % {"seconds": WHOLE_SECONDS})
        return left

    def _ms(self) -> int:
        return round((time.monotonic() - self.began) * 1000)


def _nobody(_text: str) -> None:
    """Listen, so that the endpoint is asked to stream."""


# --- Asking a search service once, for the person who pressed its test button in Settings ---

SEARCH_PROBE_PATIENCE = 12.0  # seconds: a person waits at the page
TURN_SECONDS = 8.0  # of them for a turn that other searches have first; the rest is the service's
WORD = "news"  # every service has something on it


def try_search(profile: SearchProfile) -> ProbeResult:
    """Search once, for one result, and say what came: the result or the reason for none.

    Ends within PATIENCE seconds whatever the service does; nothing is raised for its failures, and
    no key is in the result.
    """
    began = time.monotonic()
    service = BY_NAME.get(profile.service)
    name = service.label if service else profile.service
    if service and not service.adapter:
        return ProbeResult(True, _("%(name)s asks nobody outside.") % {"name": name}, ms=0)
    if profile.service == "feeds":
        return ProbeResult(False, _("Feeds are tested by their addresses, each by itself."), ms=0)
    try:
        hits, warnings = _searched(profile)
    except ProviderError as exc:
        return ProbeResult(False, str(exc), ms_since(began))
    except TimeoutError:
        text = _("%(name)s did not answer within %(seconds)g seconds. Is its address right?")
        return ProbeResult(
            False, text % {"name": name, "seconds": SEARCH_PROBE_PATIENCE}, ms_since(began)
        )
    text = _("%(name)s answered, but found nothing for “%(word)s”.")
    if hits:
        text = _("%(name)s answered. Its first result is “%(title)s”.")
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
