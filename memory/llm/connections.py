"""Which outside services are set up: by the environment, else by staff in Settings.

The environment wins field by field, so a deployment may fix the address and leave the key to
Settings.  What is returned here holds secrets; its classes keep them out of their repr.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from beacon_site.llm.base import LanguageModel, LlmProfile, get_llm
from beacon_site.llm.endpoints import KINDS as MODEL_KINDS
from beacon_site.llm.endpoints import address_of, kind_by_address, kind_of
from beacon_site.llm.probing import ProbeResult
from beacon_site.net.errors import ProviderRejected
from beacon_site.search_services.base import SERVICES, SearchProfile
from beacon_site.search_services.catalogue import BY_NAME, CATALOGUE, KEY
from beacon_site.search_services.serpapi import ENGINES
from memory.models import Activity, Connection, Sensitivity, Topic, User
from memory.usage.spending import stored_price

MODEL = "model"
SERPAPI = "serpapi"
EMBEDDINGS = "embeddings"
SET_UP = {service.name: service for service in CATALOGUE if service.is_set_up_in_settings}
KINDS = {
    MODEL: Connection.Kind.MODEL,
    EMBEDDINGS: Connection.Kind.EMBEDDINGS,
} | dict.fromkeys(SET_UP, Connection.Kind.SEARCH)
USUAL = tuple(service.name for service in CATALOGUE if service.usual)

FOUND = {"probed", "used"}  # of a row's profile: what was found out, not what was set

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

# Which environment variable stands over which field of which connection.
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
    """Return the row of the named connection, or a new one that is not stored."""
    kind = KINDS[name]
    found = Connection.objects.filter(kind=kind, name=name).first()
    return found or Connection(kind=kind, name=name)


def all_stored() -> dict[str, Connection]:
    """Return every connection by name, those that are not stored made anew, by one query."""
    rows = {row.name: row for row in Connection.objects.filter(name__in=KINDS)}
    return {name: rows.get(name) or Connection(kind=KINDS[name], name=name) for name in KINDS}


def from_environment(name: str, field: str) -> str:
    """Return what the environment sets for a field of a connection, or ""."""
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
    """Return the environment's value of a field, else the row's."""
    if set_there := from_environment(row.name, field):
        return set_there
    return row.reveal_secret() if field == "secret" else str(getattr(row, field))


# --- where a key may go ----------------------------------------------------------------------


def key_for(row: Connection, base_url: str, kind: str = "") -> str:
    """Return the key that goes with requests to `base_url`, "" where none may.

    The environment's key was given by who runs the site, an address in Settings by staff: the two
    are never put together, except where the address is the vendor's own.
    """
    if not from_environment(row.name, "secret") or may_have_environment_key(
        row.name, base_url, kind
    ):
        return effective(row, "secret")
    return ""


def may_have_environment_key(name: str, base_url: str, kind: str = "") -> bool:
    """Whether `base_url` is the environment's own address or leads to the vendor itself.

    A model's vendor is who has the usual address of a kind of endpoint; "" is the usual address.
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
    try:
        return address_of(LlmProfile(base_url=base_url, model="", kind=kind)).origin.lower()
    except ProviderRejected:
        return ""


# --- the model -------------------------------------------------------------------------------


def llm_profile(row: Connection | None = None) -> LlmProfile | None:
    """Return the model's endpoint, or None where no model is set up, which is a mode."""
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


def kind_of_row(row: Connection) -> str:
    """Return the kind of endpoint that was chosen, else the one that the address speaks for."""
    return row.profile.get("kind") or kind_by_address(effective(row, "base_url"))


def _found_out(row: Connection, profile: LlmProfile) -> dict[str, Any]:
    """Return what was chosen, or found by the last test of this very endpoint and model."""
    probed = row.profile.get("probed") or {}
    if (probed.get("base_url"), probed.get("model")) != (profile.base_url, profile.model):
        probed = {}
    found = {name: probed.get(name) for name in ("max_tokens_field", "tools", "streams")}
    for name in ("json_mode", "context_tokens", "embedding_model"):
        found[name] = row.profile.get(name) or probed.get(name)
    return {name: value for name, value in found.items() if value not in (None, "")}


def language_model() -> LanguageModel | None:
    """Return the model to ask, or None where none is set up."""
    return get_llm(llm_profile())


def model_for(topic: Topic | None) -> LanguageModel | None:
    """Return the model to ask about a topic: none about one that is marked sensitive."""
    is_secret = topic is not None and topic.sensitivity == Sensitivity.SENSITIVE
    return None if is_secret else language_model()


def keep_probe(profile: LlmProfile, result: ProbeResult) -> None:
    """Keep what a test found out about the endpoint, so that calls begin with what works.

    A test that got no answer at all leaves what an earlier one found out, and says so beside it.
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


# --- search ----------------------------------------------------------------------------------


def search_profile(name: str, row: Connection | None = None) -> SearchProfile:
    """Return a service's address and key, both empty where none are set up."""
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
    """Return the profiles of all services that Settings knows, by one query."""
    rows = all_stored()
    return {name: search_profile(name, rows[name]) for name in SET_UP}


def secrets_in_use() -> list[str]:
    """Return every key that is set up, so that none of them leaves in a prompt."""
    rows = all_stored()
    keys = [effective(row, "secret") for row in rows.values()]
    return [key for key in keys if key]


def serpapi_engine() -> str:
    """Return the engine that a new topic starts with."""
    return str(stored(SERPAPI).profile.get("engine") or ENGINES[0])


def is_ready(profile: SearchProfile) -> bool:
    """Whether a service has what it needs to be asked: a key, an address, or nothing."""
    return not lacks(profile)


def lacks(profile: SearchProfile) -> str:
    """Return what a service needs and has not: catalogue.KEY, ADDRESS, or "" for nothing.

    An address of one's own does instead of a key.
    """
    needs = BY_NAME[profile.service].needs
    return "" if profile.base_url or (needs == KEY and profile.api_key) else needs


def was_entered(row: Connection) -> bool:
    """Whether somebody gave a key or an address for the service, here or in the environment."""
    return bool(effective(row, "secret") or effective(row, "base_url"))


def search_services(names: Sequence[str] = ()) -> list[str]:
    """Return the services that a topic uses which names `names` (none: the usual ones), in order.

    BEACON_SEARCH, where set, is what is usual and the outer limit of what may be named; the
    sample stays allowed, since it asks nobody.  Unset, the usual ones are those with a key or an
    address and those that need neither (catalogue.usual); never the sample.
    """
    allowed = [name for name in settings.BEACON_SEARCH or SERVICES if name in SERVICES]
    if names:
        return [name for name in dict.fromkeys(names) if name in allowed or name == "sample"]
    if settings.BEACON_SEARCH:
        return allowed
    profiles = search_profiles()
    return [name for name in USUAL if name not in profiles or is_ready(profiles[name])]


def keep_search_test(profile: SearchProfile, result: ProbeResult) -> None:
    """Keep what the last test of a service said, to be shown beside its form."""
    found = {
        "base_url": profile.base_url,
        "ok": result.ok,
        "message": result.message,
        "ms": result.ms,
        "at": timezone.now().isoformat(timespec="seconds"),
    }
    keep_found(profile.service, found)


# --- what tests found ------------------------------------------------------------------------


def keep_found(name: str, found: dict[str, Any], *, under: str = "probed") -> None:
    """Keep in the row, under one of FOUND, what a test or the use of a connection showed."""
    with transaction.atomic():
        row, _made = Connection.objects.select_for_update().get_or_create(
            kind=KINDS[name], name=name
        )
        row.profile = {**row.profile, under: found}
        row.save(update_fields=["profile", "updated"])


def last_found(row: Connection) -> dict[str, Any]:
    """Return what the last test of a connection found, {} if there was none.

    `at` is a datetime; `is_stale` says that the address, the model or the key is another since.
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


# --- changing one ----------------------------------------------------------------------------


class Moved(Exception):
    """Somebody else changed the connection since it was read."""


def version_of(row: Connection) -> str:
    """Return what a connection is set to, as a short digest: no key can be had from it.

    What a test found out is no part of it: a test does not stand in the way of a change.
    """
    profile = {
        name: value
        for name, value in row.profile.items()
        if name not in FOUND and value not in (None, "")
    }
    told = json.dumps([row.base_url, row.model, row.secret, profile, row.prices], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def save(
    row: Connection,
    *,
    by: User,
    new_secret: str = "",
    remove_secret: bool = False,
    version: str = "",
) -> None:
    """Store a connection as staff set it; without a new secret the stored one stays.

    What a test found out since `row` was read stays too, marked as older than a changed key.  The
    log says that it changed and by whom, never a value.  Raises Moved where it is set to something
    else than `version` says.
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
            raise Moved
        row.pk = now.pk
        for name in FOUND & now.profile.keys():
            found = now.profile[name] | ({"of_another_key": True} if has_new_key else {})
            row.profile = {**row.profile, name: found}
        row.save(force_update=True, update_fields=fields)
        Activity.log(by, by.actor, "connection-changed", subject=row)
