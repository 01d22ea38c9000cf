"""The configuration of external services, from the environment or from Settings.

The environment overrides Settings field by field, so a deployment can fix the URL and leave the key
to Settings. The values returned here contain secrets; their classes keep them out of repr.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from beacon_site.embedded.places import BY_HAND
from beacon_site.providers.llm import adapters
from beacon_site.providers.llm.adapters import get_llm
from beacon_site.providers.llm.base import (
    DEFAULT_EMBEDDING_MODEL,
    ENDPOINT,
    LOCAL,
    Embedder,
    EmbedderProfile,
    LanguageModel,
    LlmProfile,
)
from beacon_site.providers.llm.endpoints import KINDS as MODEL_KINDS
from beacon_site.providers.llm.endpoints import VENDOR_URL, kind_by_address, kind_of
from beacon_site.providers.llm.probing import ProbeResult
from beacon_site.providers.search.base import BY_NAME, CATALOGUE, KEY, SERVICES, SearchProfile
from beacon_site.providers.search.serpapi import ENGINES
from memory.models import Activity, Connection, Sensitivity, Topic, User
from memory.models.llm import OwnKey

MODEL = "model"
SERPAPI = "serpapi"
EMBEDDINGS = "embeddings"
SET_UP = {service.name: service for service in CATALOGUE if service.is_set_up_in_settings}
KINDS = {
    MODEL: Connection.Kind.MODEL,
    EMBEDDINGS: Connection.Kind.EMBEDDINGS,
} | dict.fromkeys(SET_UP, Connection.Kind.SEARCH)
USUAL = tuple(service.name for service in CATALOGUE if service.usual)

FOUND = {"probed", "used"}  # of a row's profile: what was detected, not what was configured

_KEPT_OF_A_PROBE = (
    "message",
    "answer",
    "json_mode",
    "max_tokens_field",
    "tools",
    "streams",
    "embedding_model",
    "embedding_dimensions",
    "context_tokens",
    "ms",
)

# The environment variable that overrides each field of each connection.
VARIABLES: dict[str, dict[str, str]] = {
    MODEL: {
        "base_url": "BEACON_LLM_BASE_URL",
        "model": "BEACON_LLM_MODEL",
        "secret": "OPENAI_API_KEY",  # the name of a variable  # nosec B105
    },
    EMBEDDINGS: {"base_url": "BEACON_EMBEDDINGS_BASE_URL"},
}
for _service in SET_UP.values():
    VARIABLES[_service.name] = {"base_url": _service.url_variable} | (
        {"secret": _service.key_variable} if _service.key_variable else {}
    )


def stored(name: str) -> Connection:
    """Return the row of the named connection, or a new unsaved one."""
    return Connection.objects.by_name({name: KINDS[name]})[name]


def all_stored() -> dict[str, Connection]:
    """Return all connections by name, unsaved ones if there is no row, with one query."""
    return Connection.objects.by_name(KINDS)


def from_environment(name: str, field: str) -> str:
    """Return the environment's value for a field of a connection, or ""."""
    if name in (MODEL, EMBEDDINGS):
        value = getattr(settings, VARIABLES[name].get(field, ""), "")
    else:
        values = {"base_url": settings.SEARCH_BASE_URLS, "secret": settings.SEARCH_KEYS}
        value = values.get(field, {}).get(name, "")
    return str(value)


def fixed_fields(name: str) -> dict[str, str]:
    """Return the fields that the environment sets, each with the variable's name."""
    return {
        field: variable
        for field, variable in VARIABLES[name].items()
        if from_environment(name, field)
    }


def effective(row: Connection, field: str) -> str:
    """Return the environment's value of a field, or else the row's."""
    if set_there := from_environment(row.name, field):
        return set_there
    return row.reveal_secret() if field == "secret" else str(getattr(row, field))


# --- which key may be sent where ------------------------------------------------------------------


def key_for(row: Connection, base_url: str, kind: str = "") -> str:
    """Return the key for requests to `base_url`, or "" if none may be sent.

    The environment's key comes from the site's operator, a URL in Settings from an admin. They are
    never combined unless the URL belongs to the vendor itself.
    """
    if not from_environment(row.name, "secret") or may_have_environment_key(
        row.name, base_url, kind
    ):
        return effective(row, "secret")
    return ""


def may_have_environment_key(name: str, base_url: str, kind: str = "") -> bool:
    """Return True if `base_url` is the environment's own URL or belongs to the vendor.

    A model's vendor is the one with the default URL of its kind of endpoint; "" is the default URL.
    """
    fixed = from_environment(name, "base_url").rstrip("/")
    if fixed and base_url == fixed:
        return True
    if name == MODEL:
        own = {_origin_of(each.default_url) for each in MODEL_KINDS.values() if each.default_url}
        return _model_origin(base_url, kind or kind_by_address(base_url)) in own
    return not base_url or _origin_of(base_url) == _origin_of(SET_UP[name].vendor_url)


def _origin_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower()


def _model_origin(base_url: str, kind: str) -> str:
    usual = MODEL_KINDS[kind].default_url if kind in MODEL_KINDS else ""
    return _origin_of(base_url.strip() or usual or VENDOR_URL)


# --- the model ------------------------------------------------------------------------------------


def llm_profile(row: Connection | None = None) -> LlmProfile | None:
    """Return the model's endpoint; None means that Beacon runs without a model."""
    row = row or stored(MODEL)
    model = effective(row, "model")
    if not model:
        return None
    base_url = effective(row, "base_url").rstrip("/")
    profile = LlmProfile(
        base_url=base_url,
        model=model,
        api_key=key_for(row, base_url, kind_of_row(row)),
        kind=kind_of_row(row),
        price_in=stored_price(row.prices.get("in")),
        price_out=stored_price(row.prices.get("out")),
    )
    return replace(profile, timeout=kind_of(profile).seconds, **_found_out(row, profile))


def stored_price(value: Any) -> Decimal | None:
    """Return a stored price as an amount; None if the price is unknown."""
    if value is None or value == "":
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount >= 0 else None


def kind_of_row(row: Connection) -> str:
    """Return the chosen kind of endpoint, or else the one that the URL suggests."""
    return row.profile.get("kind") or kind_by_address(effective(row, "base_url"))


def _found_out(row: Connection, profile: LlmProfile) -> dict[str, Any]:
    """Return the configured value, or the one found by the last test of this endpoint and model."""
    probed = row.profile.get("probed") or {}
    if (probed.get("base_url"), probed.get("model")) != (profile.base_url, profile.model):
        probed = {}
    found = {name: probed.get(name) for name in ("max_tokens_field", "tools", "streams")}
    for name in ("json_mode", "context_tokens", "embedding_model"):
        found[name] = row.profile.get(name) or probed.get(name)
    return {name: value for name, value in found.items() if value not in (None, "")}


def language_model() -> LanguageModel | None:
    """Return the default model, or None if none is configured."""
    return get_llm(llm_profile())


def model_for(
    topic: Topic | None, purpose: str = "", *, owner: User | None = None
) -> LanguageModel | None:
    """Return the model to ask: the topic's, or that of the purpose's task, or the default one.

    None if no model is configured, or if the topic is marked sensitive. With an `owner`, that
    person's own key is used, if there is one for this endpoint.
    """
    if topic is not None and topic.sensitivity == Sensitivity.SENSITIVE:
        return None
    return _model_of(_profile_for(topic, purpose), owner)


def _model_of(chosen: LlmProfile | None, owner: User | None) -> LanguageModel | None:
    """Return the model of the profile, or the default one; with the owner's own key if there is one."""
    model = language_model()
    if model is None:
        return None
    profile = chosen or model.profile
    if owner is not None and (key := own_key_for(owner, profile)):
        profile = replace(profile, api_key=key)
    return model if profile is model.profile else get_llm(profile)


def _profile_for(topic: Topic | None, purpose: str) -> LlmProfile | None:
    """Return the profile of the model chosen for the topic or the purpose; None for the default."""
    row = stored(MODEL)
    others = other_models(row)
    if not others:
        return None
    value = MODEL_OF_TOPIC[-1](topic) if topic is not None else ""
    task = TASK_OF.get(purpose, "")
    for other in others:
        if other["model"] == value if value else task and task in other["tasks"]:
            return other_profile(row, other)
    return None


# --- other models at the same endpoint ---

# The task of each purpose of a call, for which another model can be used.
TASK_OF = {
    "plan": "plan",
    "track": "read",
    "extract": "read",
    "compact": "read",
    "write": "write",
    "summarise": "write",
    "condense": "write",
    "merge": "write",
    "reflect": "write",
    "judge": "judge",
    "compare": "judge",
    "ask": "answer",
    "preview": "answer",
}
MAX_OTHERS = 5

# Returns the model that a topic's settings name, or "". Research registers it.
MODEL_OF_TOPIC: list[Callable[[Topic], str]] = [lambda _topic: ""]


def other_models(row: Connection) -> list[dict[str, Any]]:
    """Return the endpoint's other models, as an admin entered them; [] without a default model.

    People can choose each `model` for a topic, and admins for `tasks`. `prices` are as in
    `Connection.prices`.
    """
    return (row.profile.get("others") or []) if effective(row, "model") else []


def other_profile(row: Connection, other: dict[str, Any]) -> LlmProfile | None:
    """Return the default model's profile with another model. What a test found isn't taken over."""
    usual = llm_profile(row)
    if usual is None:
        return None
    bare = LlmProfile(
        base_url=usual.base_url,
        model=other["model"],
        api_key=usual.api_key,
        kind=usual.kind,
        price_in=stored_price(other["prices"].get("in")),
        price_out=stored_price(other["prices"].get("out")),
        timeout=usual.timeout,
        embedding_model=usual.embedding_model,
    )
    configured = {name: row.profile.get(name) for name in ("json_mode", "context_tokens")}
    return replace(bare, **{name: value for name, value in configured.items() if value})


def names_of_models() -> list[str]:
    """Return the names of all models that can be asked, the default one first."""
    row = stored(MODEL)
    usual = effective(row, "model")
    return [usual, *(one["model"] for one in other_models(row))] if usual else []


def named_model(name: str, *, owner: User) -> LanguageModel | None:
    """Return the model of this name, or the default one; with the owner's own key if there is one."""
    row = stored(MODEL)
    found = next((one for one in other_models(row) if one["model"] == name), None)
    return _model_of(other_profile(row, found) if found else None, owner)


def forecast_profiles() -> tuple[LlmProfile | None, dict[str, LlmProfile]]:
    """Return the profile to forecast a run's cost with, and that of each model by its name.

    The first has the highest prices of the models that a run without a model of its own uses.
    """
    usual = llm_profile()
    if usual is None:
        return None, {}
    row = stored(MODEL)
    others = other_models(row)
    named = {one["model"]: found for one in others if (found := other_profile(row, one))}
    used = [
        usual,
        *(named[one["model"]] for one in others if one["tasks"] and one["model"] in named),
    ]
    prices = [(each.price_in, each.price_out) for each in used]
    if any(None in pair for pair in prices):
        return replace(usual, price_in=None, price_out=None), named
    return replace(
        usual,
        price_in=max(pair[0] for pair in prices if pair[0] is not None),
        price_out=max(pair[1] for pair in prices if pair[1] is not None),
    ), named


# --- a person's own key ---


def model_origin() -> str:
    """Return the scheme and host of the model's endpoint, or "" if there is no model."""
    profile = llm_profile()
    return _model_origin(profile.base_url, profile.kind) if profile else ""


def own_key_for(owner: User, profile: LlmProfile) -> str:
    """Return the person's own key for requests with this profile, or "" if there is none."""
    row = OwnKey.objects.filter(owner=owner).first()
    if row is None or row.origin != _model_origin(profile.base_url, profile.kind):
        return ""
    return row.reveal_secret()


def save_own_key(owner: User, secret: str) -> None:
    """Store the person's key for the model's endpoint, or delete it if `secret` is empty.

    Raises ValueError if there is no endpoint that it could be for.
    """
    origin = model_origin()
    with transaction.atomic():
        if not secret:
            OwnKey.objects.filter(owner=owner).delete()
        elif not origin:
            raise ValueError("no model is set up")
        else:
            row = OwnKey(owner=owner, origin=origin)
            row.set_secret(secret)
            row.save()
        Activity.log(owner, owner.actor, "own-key-changed", subject=owner)


def keep_probe(profile: LlmProfile, result: ProbeResult) -> None:
    """Store what a test found about the endpoint, so that calls start with settings that work.

    A test without any answer keeps the earlier findings and adds its error.
    """
    tried = {"base_url": profile.base_url, "model": profile.model, "kind": profile.kind}
    now = timezone.now().isoformat(timespec="seconds")
    if result.ok:
        found = {name: getattr(result, name) for name in _KEPT_OF_A_PROBE}
        keep_found(MODEL, tried | found | {"ok": True, "at": now, "notes": list(result.notes)})
        return
    failed = {"ok": False, "message": result.message, "failed": result.message}
    earlier = stored(MODEL).profile.get("probed") or {}
    is_of_this = all(earlier.get(name) == value for name, value in tried.items())
    kept = earlier if is_of_this and "json_mode" in earlier else tried | {"at": now}
    keep_found(MODEL, kept | failed)


# --- the embedder -------------------------------------------------------------------------------

NO_EMBEDDINGS, AUTO = "none", "auto"
ASKING_SECONDS = 5.0  # for a question's vector, since a person is waiting for the results


def embedder(
    *, for_question: bool = False, rows: Mapping[str, Connection] | None = None
) -> Embedder | None:
    """Return the embedder to use, or None; for a question it gets one try and a short timeout.

    Pass `rows` (all connections) if they are already loaded.
    """
    chosen = embedder_profile(rows)
    if chosen is not None and for_question:
        chosen = replace(chosen, timeout=min(chosen.timeout, ASKING_SECONDS), tries=1)
    return adapters.get_embedder(chosen)


def embedder_profile(rows: Mapping[str, Connection] | None = None) -> EmbedderProfile | None:
    """Return the profile that results from BEACON_EMBEDDINGS, the environment and Settings."""
    mode = settings.BEACON_EMBEDDINGS
    found = _embeddings_endpoint(rows) if mode in (AUTO, ENDPOINT) else None
    if found is None and mode in (AUTO, LOCAL) and adapters.local_is_installed():
        found = EmbedderProfile(LOCAL)
    return found


def has_no_embeddings() -> bool:
    """Return True if BEACON_EMBEDDINGS turns vectors off, so that none are needed."""
    return bool(settings.BEACON_EMBEDDINGS == NO_EMBEDDINGS)


def why_no_embedder() -> str:
    """Return why there is no embedder, and what to do about it, for the user."""
    mode = settings.BEACON_EMBEDDINGS
    if mode == NO_EMBEDDINGS:
        return _("Search matches words only, because semantic search is turned off.")
    if mode == ENDPOINT:
        return _(
            "Search matches words only, because BEACON_EMBEDDINGS requires an embeddings endpoint and none is set up. An admin can add one in Settings → Models and search."
        )
    return (
        _(
            "Search matches words only, because no embedder is set up. Install a local one with “%(embedder)s”, or ask an admin to add an endpoint in Settings → Models and search."
        )
        % BY_HAND
    )


def _embeddings_endpoint(rows: Mapping[str, Connection] | None) -> EmbedderProfile | None:
    """Return the endpoint for vectors: their own, or else the model's.

    The language model's endpoint is used if an admin chose an embedding model for it, or if it is
    of a kind with a default embedding model, such as OpenAI's, and has a key.
    """
    rows = rows or all_stored()
    row, llm = rows[EMBEDDINGS], llm_profile(rows[MODEL])
    url = effective(row, "base_url").rstrip("/")
    key = effective(row, "secret")
    if url or key or row.model:
        if not url and llm is not None and not key:
            return _at(llm.base_url, llm.kind, row.model or DEFAULT_EMBEDDING_MODEL, llm.api_key)
        kind = kind_by_address(url)
        if (
            not key
            and llm is not None
            and _model_origin(url, kind) == _model_origin(llm.base_url, llm.kind)
        ):
            key = llm.api_key  # the vectors come from the same server
        return _at(url, kind, row.model or DEFAULT_EMBEDDING_MODEL, key)
    if llm is None:
        return None
    chosen = str(rows[MODEL].profile.get("embedding_model") or "")
    usual = MODEL_KINDS[llm.kind].embedding_model if llm.kind in MODEL_KINDS and llm.api_key else ""
    model = chosen or usual
    return _at(llm.base_url, llm.kind, model, llm.api_key) if model else None


def _at(url: str, kind: str, model: str, key: str) -> EmbedderProfile:
    return EmbedderProfile(ENDPOINT, model=model, base_url=url, api_key=key, kind=kind)


# --- search ----------------------------------------------------------------------------------


def search_profile(name: str, row: Connection | None = None) -> SearchProfile:
    """Return a service's URL and key; both are empty if it isn't configured."""
    if name not in SET_UP:
        return SearchProfile(service=name, contact=settings.BEACON_CONTACT)
    row = row or stored(name)
    base_url = effective(row, "base_url").rstrip("/")
    return SearchProfile(
        service=name,
        base_url=base_url,
        api_key=key_for(row, base_url) if SET_UP[name].key_variable else "",
        contact=settings.BEACON_CONTACT,
    )


def search_profiles() -> dict[str, SearchProfile]:
    """Return the profiles of all services in Settings, with one query."""
    rows = all_stored()
    return {name: search_profile(name, rows[name]) for name in SET_UP}


def secrets_in_use() -> list[str]:
    """Return every configured key, to keep them out of prompts."""
    rows = all_stored()
    keys = [effective(row, "secret") for row in rows.values()]
    return [key for key in keys if key]


def serpapi_engine() -> str:
    """Return the default engine for a new topic."""
    return str(stored(SERPAPI).profile.get("engine") or ENGINES[0])


def is_ready(profile: SearchProfile) -> bool:
    """Return True if a service has everything it needs: a key, a URL, or nothing."""
    return not lacks(profile)


def lacks(profile: SearchProfile) -> str:
    """Return what a service still needs: catalogue.KEY, ADDRESS, or "" for nothing.

    A custom URL makes a key unnecessary.
    """
    needs = BY_NAME[profile.service].needs
    return "" if profile.base_url or (needs == KEY and profile.api_key) else needs


def was_entered(row: Connection) -> bool:
    """Whether a key or a URL was entered for the service, in Settings or in the environment."""
    return bool(effective(row, "secret") or effective(row, "base_url"))


def search_services(names: Sequence[str] = ()) -> list[str]:
    """Return the services for a topic that lists `names` (or the default ones if empty), in order.

    If BEACON_SEARCH is set, it defines the default services and limits which ones can be named; the
    sample is always allowed, because it makes no requests. Otherwise the defaults are the services
    with a key or a URL and those that need neither (catalogue.usual), never the sample.
    """
    allowed = [name for name in settings.BEACON_SEARCH or SERVICES if name in SERVICES]
    if names:
        return [name for name in dict.fromkeys(names) if name in allowed or name == "sample"]
    if settings.BEACON_SEARCH:
        return allowed
    profiles = search_profiles()
    return [name for name in USUAL if name not in profiles or is_ready(profiles[name])]


# --- test results ---------------------------------------------------------------------------------


def keep_test(row: Connection, result: ProbeResult) -> None:
    """Store the result of a test of a search service or an embedder, to show it beside its form."""
    found = {
        "base_url": effective(row, "base_url").rstrip("/"),
        "model": row.model,
        "ok": result.ok,
        "message": result.message,
        "ms": result.ms,
        "at": timezone.now().isoformat(timespec="seconds"),
    }
    keep_found(row.name, found)


def keep_found(name: str, found: dict[str, Any], *, under: str = "probed") -> None:
    """Store a finding of a test or of normal use in the row, under one of the keys in FOUND."""
    with transaction.atomic():
        row, _made = Connection.objects.select_for_update().get_or_create(
            kind=KINDS[name], name=name
        )
        row.profile = {**row.profile, under: found}
        row.save(update_fields=["profile", "updated"])


def last_found(row: Connection) -> dict[str, Any]:
    """Return the result of a connection's last test, or {} if there was none.

    `at` is a datetime. `is_stale` means that the URL, the model or the key has changed since.
    """
    found = dict(row.profile.get("probed") or {})
    if not found:
        return {}
    of_this = found.get("base_url", "") == effective(row, "base_url").rstrip("/")
    if row.kind != Connection.Kind.SEARCH:
        of_this = of_this and found.get("model", "") == effective(row, "model")
    if row.kind == Connection.Kind.MODEL:
        of_this = of_this and found.get("kind", "") == kind_of_row(row)
    at = parse_datetime(str(found.get("at", "")))
    return found | {"at": at, "is_stale": not of_this or bool(found.get("of_another_key"))}


# --- saving ---------------------------------------------------------------------------------------


class ConnectionChanged(Exception):
    """The connection was changed by someone else since it was read."""


def version_of(row: Connection) -> str:
    """Return a short digest of a connection's settings that doesn't reveal the key.

    Test results aren't included, so a test never blocks a change.
    """
    profile = {
        name: value
        for name, value in row.profile.items()
        if name not in FOUND and value not in (None, "")
    }
    text = json.dumps([row.base_url, row.model, row.secret, profile, row.prices], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def save(
    row: Connection,
    *,
    by: User,
    new_secret: str = "",
    remove_secret: bool = False,
    version: str = "",
) -> None:
    """Save a connection as an admin edited it; without a new secret the stored one stays.

    Test results since `row` was read are kept, and marked as outdated if the key changed. The log
    says who changed it, but never a value. Raises Moved if the current settings don't match
    `version`.
    """
    fields = ["base_url", "model", "profile", "prices", "updated"]
    has_new_key = bool(new_secret) or remove_secret
    if has_new_key:
        row.set_secret(new_secret)
        fields.append("secret")
    with transaction.atomic():
        now, _made = Connection.objects.select_for_update().get_or_create(
            kind=row.kind, name=row.name
        )
        if version and version != version_of(now):
            raise ConnectionChanged
        row.pk = now.pk
        for name in FOUND & now.profile.keys():
            found = now.profile[name] | ({"of_another_key": True} if has_new_key else {})
            row.profile = {**row.profile, name: found}
        row.save(force_update=True, update_fields=fields)
        Activity.log(by, by.actor, "connection-changed", subject=row)
