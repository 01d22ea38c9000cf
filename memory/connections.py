"""Which outside services are set up: by the environment, else by staff in Settings.

The environment wins field by field, so a deployment may fix the address and leave the key to
Settings.  What is returned here holds secrets; its classes keep them out of their repr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from beacon_site.providers.llm import LanguageModel, LlmProfile, get_llm
from beacon_site.providers.probing import ProbeResult
from beacon_site.providers.search import SERVICES, SearchProfile, SearchProvider, get_search
from beacon_site.providers.serpapi import ENGINES
from memory.library import library_search
from memory.models import Activity, Connection, User

MODEL = "model"
SERPAPI = "serpapi"
KINDS = {MODEL: Connection.Kind.MODEL, SERPAPI: Connection.Kind.SEARCH}

# Which environment variable stands over which field of which connection.
VARIABLES = {
    MODEL: {
        "base_url": "BEACON_LLM_BASE_URL",
        "model": "BEACON_LLM_MODEL",
        "secret": "OPENAI_API_KEY",
    },
    SERPAPI: {"base_url": "SERPAPI_BASE_URL", "secret": "SERPAPI_API_KEY"},
}


def stored(name: str) -> Connection:
    """Return the row of the named connection, or a new one that is not stored."""
    kind = KINDS[name]
    found = Connection.objects.filter(kind=kind, name=name).first()
    return found or Connection(kind=kind, name=name)


def fixed_fields(name: str) -> dict[str, str]:
    """Return the fields that the environment sets, each with the variable's name."""
    return {
        field: variable
        for field, variable in VARIABLES[name].items()
        if getattr(settings, variable)
    }


def effective(row: Connection, field: str) -> str:
    """Return the environment's value of a field, else the row's."""
    from_environment: str = getattr(settings, VARIABLES[row.name].get(field, ""), "")
    if from_environment:
        return from_environment
    return row.reveal_secret() if field == "secret" else str(getattr(row, field))


# --- the model -------------------------------------------------------------------------------


def llm_profile() -> LlmProfile | None:
    """Return the model's endpoint, or None where no model is set up, which is a mode."""
    row = stored(MODEL)
    model = effective(row, "model")
    if not model:
        return None
    base_url = effective(row, "base_url").rstrip("/")
    profile = LlmProfile(
        base_url=base_url,
        model=model,
        api_key=effective(row, "secret"),
        kind=row.profile.get("kind") or ("compatible" if base_url else "openai"),
        price_in=money(row.prices.get("in")),
        price_out=money(row.prices.get("out")),
    )
    if context := row.profile.get("context_tokens"):
        profile = replace(profile, context_tokens=int(context))
    return replace(profile, **_found_out(row, profile))


def _found_out(row: Connection, profile: LlmProfile) -> dict[str, Any]:
    """Return what was chosen, or found by the last test of this very endpoint and model."""
    probed = row.profile.get("probed") or {}
    if (probed.get("base_url"), probed.get("model")) != (profile.base_url, profile.model):
        probed = {}
    chosen = {
        "json_mode": row.profile.get("json_mode") or probed.get("json_mode"),
        "max_tokens_field": probed.get("max_tokens_field"),
    }
    return {name: value for name, value in chosen.items() if value}


def language_model() -> LanguageModel | None:
    """Return the model to ask, or None where none is set up."""
    return get_llm(llm_profile())


def keep_probe(profile: LlmProfile, result: ProbeResult) -> None:
    """Keep what a test found out about the endpoint, so that calls begin with what works."""
    if not result.ok:
        return
    found = {
        "base_url": profile.base_url,
        "model": profile.model,
        "json_mode": result.json_mode,
        "max_tokens_field": result.max_tokens_field,
        "at": timezone.now().isoformat(timespec="seconds"),
    }
    with transaction.atomic():
        row, _made = Connection.objects.select_for_update().get_or_create(
            kind=Connection.Kind.MODEL, name=MODEL
        )
        row.profile = {**row.profile, "probed": found}
        row.save(update_fields=["profile", "updated"])


def money(value: Any) -> Decimal:
    """Return a stored price as an amount; nothing stored costs nothing."""
    try:
        return Decimal(str(value or 0))
    except InvalidOperation:
        return Decimal(0)


# --- search ----------------------------------------------------------------------------------


def serpapi_profile() -> SearchProfile:
    """Return SerpAPI's address and key, both empty where none are set up."""
    row = stored(SERPAPI)
    return SearchProfile(
        service=SERPAPI,
        base_url=effective(row, "base_url").rstrip("/"),
        api_key=effective(row, "secret"),
        contact=settings.BEACON_CONTACT,
    )


def serpapi_engine() -> str:
    """Return the engine that a new topic starts with."""
    return str(stored(SERPAPI).profile.get("engine") or ENGINES[0])


def search_services(names: Sequence[str] = ()) -> list[str]:
    """Return the services that a topic uses which names `names` (none: the usual ones).

    BEACON_SEARCH, where set, is what is usual and the outer limit of what may be named; the
    sample stays allowed, since it asks nobody.  Unset, the usual ones are SerpAPI if it has a
    key or an address, the feeds and the library; never the sample.
    """
    allowed = [name for name in settings.BEACON_SEARCH or SERVICES if name in SERVICES]
    if names:
        return [name for name in dict.fromkeys(names) if name in allowed or name == "sample"]
    if settings.BEACON_SEARCH:
        return allowed
    serpapi = serpapi_profile()
    ready = {"feeds", "library"} | ({SERPAPI} if serpapi.api_key or serpapi.base_url else set())
    return [name for name in SERVICES if name in ready]


def search_provider(name: str, *, owner: User) -> SearchProvider | None:
    """Return the provider of a service, or None for one that Beacon does not have.

    One that is not set up is returned all the same: asked, it says what is missing.
    """
    if name == "library":
        return library_search(owner)
    if name not in SERVICES:
        return None
    if name == SERPAPI:
        return get_search(serpapi_profile())
    return get_search(SearchProfile(service=name, contact=settings.BEACON_CONTACT))


# --- changing one ----------------------------------------------------------------------------


def save(row: Connection, *, by: User, new_secret: str = "", remove_secret: bool = False) -> None:
    """Store a connection as staff set it; without a new secret the stored one stays.

    What a test found out since `row` was read stays too.  The log says that it changed and by
    whom, never a value.
    """
    fields = ["base_url", "model", "profile", "prices", "updated"]
    if new_secret or remove_secret:
        row.set_secret(new_secret)
        fields.append("secret")
    with transaction.atomic():
        now, made = Connection.objects.select_for_update().get_or_create(
            kind=row.kind, name=row.name, defaults={"secret": row.secret}
        )
        row.pk = now.pk
        if not made and "probed" in now.profile:
            row.profile = {**row.profile, "probed": now.profile["probed"]}
        row.save(force_update=True, update_fields=fields)
        Activity.log(by, by.actor, "connection-changed", subject=row)
