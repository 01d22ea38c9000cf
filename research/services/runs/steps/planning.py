"""Steps 1 and 2: load the topic's memory, plan the queries, and review the plan.

Data flow: topic memory -> step output (JSON) -> `known()` -> prompt or templates -> queries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone
from pydantic import BaseModel, Field, model_validator

from beacon_site.net.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm.base import Message
from beacon_site.text.cleaning import clean, match_key, one_line
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import joined, ngettext
from beacon_site.text.sentences import language_of
from memory.models import Activity, Observation, Sensitivity, Topic, Use
from memory.models.actors import RESEARCH, Actor
from memory.services import topic_memory
from memory.services.context import topic_block
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, ask_model
from memory.services.topic_memory import TopicMemory
from research.models import Run, Step, TopicSettings
from research.models.runs import reopen_plan
from research.services.facts import correcting
from research.services.runs.context import applied_rules, inputs
from research.services.runs.context.outputs import LoadedMemory, PlanOutput, PlanReviewed
from research.services.runs.context.run_context import (
    AwaitsPlanReview,
    Cancelled,
    RunContext,
    StepResult,
)
from research.services.runs.search import searching
from research.services.topics.settings import standing_rules
from research.services.topics.settings.standing_rules import is_address

LEAST_QUERIES, MOST_QUERIES = 3, 6


class Plan(BaseModel):
    """The planner's answer: search queries. A bare list is accepted too."""

    queries: list[str] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, value: Any) -> Any:
        return {"queries": value} if isinstance(value, list) else value

    def usable(self) -> list[str]:
        """Return the usable queries: not empty, distinct, few and short."""
        cleaned = (one_line(clean(query)[0])[: inputs.MOST_QUERY_LENGTH] for query in self.queries)
        by_fold = {query.casefold(): query for query in cleaned if any(map(str.isalnum, query))}
        return list(by_fold.values())[:MOST_QUERIES]


def load_memory(work: RunContext) -> StepResult:
    """Load the topic's memory. Without live memory, the run is a baseline, whatever its number."""
    _warn_model_not_used(work)
    _warn_of_missing_model(work)
    loaded = topic_memory.load(work.topic)
    of_run = {"is_baseline": loaded.memory is None}
    if loaded.problem:
        work.run.warn(loaded.problem)
        return StepResult(
            LoadedMemory(memory=None, problem=loaded.problem),
            warning=loaded.problem,
            detail=_("couldn’t be loaded, so the report is a baseline"),
            of_run=of_run,
        )
    if loaded.memory is None:
        return StepResult(
            LoadedMemory(memory=None, problem=""), detail=_("none yet (baseline)"), of_run=of_run
        )
    # A corrected sentence isn't reported again, whatever text the fact has now.
    corrected = correcting.corrected_sentences(work.topic)
    struck = dict.fromkeys([*loaded.memory.struck, *corrected])
    secret = [
        *loaded.memory.secret_struck,
        *(said for said, is_secret in corrected.items() if is_secret),
    ]
    memory = replace(loaded.memory, struck=tuple(struck), secret_struck=tuple(secret))
    used = [("topicfact", fact.id) for fact in memory.facts]
    Use.note(work.topic.owner, used, work.run.source)
    output: LoadedMemory = {
        "memory": memory.as_json(),
        "problem": "",
        "expires_at": loaded.expires_at.isoformat() if loaded.expires_at else None,
    }
    return StepResult(
        output,
        detail=_in_words(memory),
        counts={"facts": len(memory.facts), "seen": memory.seen_count},
        of_run=of_run,
    )


def _in_words(memory: TopicMemory) -> str:
    """Return what a run starts from."""
    facts, seen = len(memory.facts), memory.seen_count
    words = [
        ngettext("%(n)d fact", "%(n)d facts", facts) % {"n": facts},
        ngettext("%(n)d seen URL", "%(n)d seen URLs", seen) % {"n": seen},
    ]
    if memory.last_run_at:
        day = timezone.localtime(memory.last_run_at).date()
        words.append(_("last run on %(day)s") % {"day": day})
    return joined(", ", words)


def _warn_model_not_used(work: RunContext) -> None:
    """Warn that the model isn't used because the topic is marked sensitive."""
    is_secret = work.topic.sensitivity == Sensitivity.SENSITIVE
    if is_secret and connections.language_model() is not None:
        work.run.warn(
            _(
                "The topic is marked as sensitive, so no model is used. Queries are planned from templates, and the report quotes the pages."
            )
        )


def _warn_of_missing_model(work: RunContext) -> None:
    """Warn that the model that the topic names is no longer set up."""
    wanted = work.settings.model
    if wanted and (names := connections.names_of_models()) and wanted not in names:
        told = _(
            "The model “%(model)s” is no longer set up, so %(usual)s was used. Choose another one in the topic’s settings."
        )
        work.run.warn(told % {"model": wanted, "usual": names[0]})


def plan(work: RunContext) -> StepResult:
    """Plan the queries: by the model with the memory in its prompt, or by templates.

    A repeated run uses the same queries, and warns about services that are no longer available.

    Without a model, facet queries are used. If the model fails or its answer is unusable, there are
    3 fallback queries (R45, R46).
    """
    memory = inputs.known(work)
    lessons = topic_block.of_topic(work.topic)
    told = inputs.choose(work, memory, lessons)
    warning = ""
    try:
        if work.run.rerun_of is not None:
            queries, by = searching.queries_of(work.run.rerun_of), "rerun"
            warning = _unavailable_services(work, work.run.rerun_of)
        elif work.is_stopping:
            queries, by = _by_facets(work, memory), "facets"
        else:
            asked = _by_model(work, memory, told, lessons)
            queries, by = (asked, "model") if asked else (_by_facets(work, memory), "facets")
    except BudgetReached as exc:
        warning = _("Planned without the model: %(why)s") % {"why": exc}
        work.run.warn(warning)
        queries, by = _by_facets(work, memory), "facets"
    except ProviderError as exc:
        warning = _(
            "The model couldn’t plan the queries, so 3 standard ones were used. %(why)s"
        ) % {"why": exc}
        work.run.warn(warning)
        queries, by = fallback_queries(work.topic.title, timezone.localdate()), "fallback"
    # a rerun uses the exact queries of the original, including those from its rules
    if by != "rerun":
        queries = applied_rules.with_always_included(queries, work.settings)
    output: PlanOutput = {"queries": queries, "by": by}
    if always := applied_rules.checked_in(queries, work.settings):
        output["always"] = always
    if not_at := standing_rules.places_of(work.settings):
        output["not_at"] = not_at
    if told:
        output["observations"] = [str(one.pk) for one in told]
    if lessons:
        output["taught"] = [str(one.pk) for one in lessons]
    return StepResult(
        output, detail=in_words(output), counts={"queries": len(queries)}, warning=warning
    )


def _unavailable_services(work: RunContext, was: Run) -> str:
    gone = searching.unavailable_services(work, was)
    for warning in gone:
        work.run.warn(warning)
    return joined(" ", gone)


def in_words(output: PlanOutput) -> str:
    """Return a summary of a plan's output: its queries, who planned them, and the rules used."""
    count = len(output["queries"])
    queries = ngettext("%(count)d query", "%(count)d queries", count) % {"count": count}
    words = [
        joined(", ", [queries, by_words(output["by"])]),
        inputs.in_words(output),
        applied_rules.plan_in_words(output),
    ]
    return joined("; ", filter(None, words))


def by_words(by: str) -> str:
    """Return who or what planned the queries. `by` is the value in the step's output."""
    return {
        "model": _("planned by the model"),
        "facets": _("planned from templates"),
        "fallback": _("planned without the model, which failed"),
        "person": _("edited by you"),
        "rerun": _("copied from the original run"),
    }.get(by, by)


def _by_facets(work: RunContext, memory: TopicMemory | None) -> list[str]:
    return facet_queries(
        work.topic.title,
        objective=work.settings.objective,
        focus=work.settings.focus,
        now=timezone.localdate(),
        last_run_at=memory.last_run_at if memory else None,
        languages=work.settings.languages,
        known=[fact.text for fact in memory.facts] if memory else [],
    )


def _by_model(
    work: RunContext,
    memory: TopicMemory | None,
    told: Sequence[Observation],
    lessons: Sequence[Observation],
) -> list[str]:
    settings = work.settings
    context = {
        "least": LEAST_QUERIES,
        "most": MOST_QUERIES,
        "languages": ", ".join(settings.languages),
        "memory": memory.as_prompt() if memory else "",
        "since": f"{memory.last_run_at:%Y-%m-%d}" if memory and memory.last_run_at else "",
        "observations": inputs.enter(work, told),
        "taught": inputs.teach(work, lessons),
        "topic": work.topic.title,
        "objective": settings.objective,
        "focus": settings.focus,
        "time_frame": settings.get_time_frame_display() if inputs.since(settings) else "",
        "allow_domains": ", ".join(settings.allow_domains),
        "today": timezone.localdate().isoformat(),
        **applied_rules.for_plan(settings),
    }
    answer = ask_model(
        "plan",
        [
            Message("system", render_to_string("prompts/plan_system.txt", context)),
            Message("user", render_to_string("prompts/plan_user.txt", context)),
        ],
        owner=work.topic.owner,
        source=work.run.source,
        topic=work.topic,
        schema=Plan,
        max_tokens=600,
        meter=work.meter,
        wait_for=work.wait_for,
    )
    if answer is None:
        return []
    queries = answer.parsed.usable() if isinstance(answer.parsed, Plan) else []
    if not queries:
        raise ProviderNonsense(_("its plan has no queries"), text=answer.text)
    return queries


# --- plan review ---

DAY = timedelta(days=1)  # PlanReview.DAY: continues by itself after a day


class PlanNotWaiting(Exception):
    """The plan no longer waits for review. The message says what happened to it."""


def hold(work: RunContext) -> None:
    """Raise AwaitsPlanReview if the run's settings require a review of its plan.

    Not for a run that repeats another, is stopping, or has begun to search. Raises Cancelled if the
    run was cancelled or its topic archived.
    """
    wanted = work.settings.plan_review
    if wanted == TopicSettings.PlanReview.NO or work.run.rerun_of_id or work.has_begun("search"):
        return
    if "reviewed" in work.output("plan"):
        return
    work.look(at_once=True)
    if Topic.objects.filter(pk=work.topic.pk).exclude(archived_at=None).exists():
        raise Cancelled(_("the topic was archived"))
    if not work.is_stopping:
        raise AwaitsPlanReview(DAY if wanted == TopicSettings.PlanReview.DAY else None)


def accept(run: Run, queries: list[str], *, seen: datetime, by: Actor) -> None:
    """Continue the run with these queries, which were validated (`research.services.runs.page.PlanForm`).

    `seen` is the `waiting_since` of the plan that the person saw. The planned queries are stored
    next to the edited ones. Raises PlanNotWaiting if that plan no longer waits.
    """
    with transaction.atomic():
        step = _held(run, seen)
        edited = queries != step.output["queries"]
        output: PlanOutput = step.output
        output["reviewed"] = _seen_by(str(by), edited=edited)
        if edited:
            output["proposed"] = output.get("proposed", output["queries"])
            output["queries"], output["by"] = queries, "person"
        _store(step, output)
        kind = "plan-edited" if edited else "plan-accepted"
        # A retry can create a new plan. The person's queries stay in the log.
        Activity.log(run.topic.owner, by, kind, subject=run, queries=queries)


def replan(run: Run, *, seen: datetime, by: Actor) -> None:
    """Have the run create a new plan, and wait for review again. Raises PlanNotWaiting."""
    with transaction.atomic():
        _held(run, seen)
        reopen_plan(run)
        Activity.log(run.topic.owner, by, "plan-made-anew", subject=run)


def resume_unreviewed() -> int:
    """Continue the runs whose plan wasn't reviewed within a day. Return how many."""
    done = 0
    for run in Run.objects.waited_long_enough().select_related("topic__owner")[:200]:
        since = run.waiting_since
        assert since is not None  # noqa: S101  (waited_long_enough asks for it)  # nosec B101
        try:
            with transaction.atomic():
                step = _held(run, since)
                output: PlanOutput = step.output
                output["reviewed"] = _seen_by("", edited=False)
                _store(step, output)
                Activity.log(run.topic.owner, RESEARCH, "plan-went-on", subject=run)
        except PlanNotWaiting:
            continue
        done += 1
    return done


def _held(run: Run, seen: datetime) -> Step:
    """Queue the run again and return the step of its plan, both locked until the commit."""
    if not run.go_on(seen):
        raise PlanNotWaiting(plan_outcome(run))
    run.wake_after_commit()
    return Step.objects.get(run=run, name="plan", part=0)


def _seen_by(who: str, *, edited: bool) -> PlanReviewed:
    return {"by": who, "at": timezone.now().isoformat(timespec="seconds"), "edited": edited}


def _store(step: Step, output: PlanOutput) -> None:
    asked = {query.casefold() for query in output["queries"]}
    # Rules whose query the person removed aren't listed as applied.
    always = [
        rule for rule in output.get("always", []) if is_address(rule) or rule.casefold() in asked
    ]
    if "always" in output:
        output["always"] = always
    Step.objects.filter(pk=step.pk).update(
        output=output,
        detail=in_words(output),
        counts={"queries": len(output["queries"])},
    )


def plan_outcome(run: Run) -> str:
    """Return what happened to a plan that no longer waits."""
    run.refresh_from_db(fields=["status", "waiting_since", "number"])
    if run.waiting_since is not None:
        return _("A newer plan exists. Review that plan instead.")
    if run.status == Run.Status.CANCELLED:
        return _("The run was cancelled in the meantime.")
    step = Step.objects.filter(run=run, name="plan", part=0).first()
    reviewed = (step.output if step else {}).get("reviewed")
    if not reviewed:
        return _("A new plan is being created.")
    if not reviewed["by"]:
        return _(
            "The run has already continued with the planned queries because they weren’t reviewed in time."
        )
    if reviewed["edited"]:
        return _("The run has already continued with queries edited in another window.")
    return _("The run has already continued with the planned queries.")


def resumes_at(run: Run) -> datetime | None:
    """Return when a waiting run continues automatically, or None."""
    if run.waiting_since is None:
        return None
    waits = run.asked_for.plan_review == TopicSettings.PlanReview.WAIT
    return None if waits else run.not_before


# --- Plan queries without a model: facets by kind of topic, in its language ---
#
# A first plan covers the breadth of the topic. A later one searches for changes since the last run
# (R50). A query uses only the topic's own words and facet words, never words from pages.


MOST_FROM_FACETS = 6
LONGEST_QUERY = 400
MOST_FOCUSES = 2
LONGEST_FOCUS = 6  # words from the focus in a query
ENOUGH_TEXT = 200  # characters of known facts that are enough to detect the topic's language

GENERAL, QUESTION, SOFTWARE, LAW, PRICES, STANDARD, PLACE, EVENT, SCIENCE = (
    "general", "question", "software", "law", "prices", "standard", "place", "event", "science",
)  # fmt: skip

# The first kind that matches a topic's words. Latin words match whole, with endings where \w*
# allows them.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?<!\w)(?:{latin})(?!\w)|{other}", re.IGNORECASE))
    for kind, latin, other in (
        (
            STANDARD,
            (r"standards?|specifications?|specs?|wcag|ecmascript|tc39|(?:rfc|iso|iec|ieee|pep|eip|bip|din|en|cve)[ /-]?\d[\d.-]*"
            r"|proposals?|norme?s?|normen|norma|protocols?|spezifikation\w*|estándar\w*|especificaci\w+|spécifications?"),
            "标准|標準|规范|規格|표준",
        ),
        (
            LAW,
            (r"acts?|laws?|bills?|regulations?|directives?|legislation|statutes?|gdpr|constitution|\w*gesetz\w*|\w*verordnung\w*"
            r"|\w*richtlinie\w*|dsgvo|bgb|grundgesetz|lois?|décrets?|règlements?|code (?:civil|pénal|du travail)|leye?s?|decretos?"
            r"|reglamentos?|código (?:civil|penal)|privacy policy|terms of (?:service|use)|site polic\w+|polic(?:y|ies)"),
            "法$|法律|法案|条例|规定|規定|법$|법률",
        ),
        (
            PRICES,
            (r"prices?|pricing|costs?|tariffs?|fees?|fares?|rents?|\w*preise?n?|\w*kosten|gebühren|\w*tarife?|mieten?|prix|tarifs?"
            r"|coûts?|loyers?|precios?|tarifas?|costes?|alquiler\w*|how much"),
            "价格|價格|费用|费率|房价|電気代|料金|値段|가격|요금",
        ),
        (
            SOFTWARE,
            (r"releases?|versions?|versionen|versiones|changelogs?|release notes|end[ -]of[ -]life|eol|lts|sdk|frameworks?|open[ -]source"
            r"|software|apps?|logiciels?|firmware|\w+\.js|\w+sql|linux|kubernetes|django|android|ios|firefox|golang"
            r"|docker|typescript|ubuntu|debian|iphone"),
            "版本|软件|軟體|バージョン|ソフト|버전|소프트웨어",
        ),
        (
            EVENT,
            (r"elections?|world cup|olympics?|championships?|season|conference|festival|expo|referendum|tournament|\w*wahl(?:en)?|\w*meisterschaft"
            r"|élections?|coupe du monde|elecci\w+|mundial|copa|saison|fixtures|squads?"),
            "选举|世界杯|奥运|大会|選挙|ワールドカップ|五輪|선거|월드컵|올림픽",
        ),
        (
            SCIENCE,
            (r"vaccines?|therap(?:y|ies)|treatments?|diseases?|drugs?|cancer|clinical|batter(?:y|ies)|quantum|fusion|genes?|climate|species"
            r"|research|stud(?:y|ies)|archa?eolog\w+|astronom\w+|medicine|\w*impfung\w*|\w*therapie\w*|\w*batterien?|\w*forschung\w*"
            r"|klima\w*|vaccins?|recherches?|climat|vacunas?|cambio climático|investigaci\w+|pox|virus\w*|influenza"),
            "疫苗|电池|電池|量子|治疗|治療|研究|气候|気候|백신|배터리|양자|기후",
        ),
        (
            PLACE,
            (r"city|town|village|county|district|airport|station|river|harbou?r|port|museum|bridge|park|street|council|tram|metro|railway"
            r"|stadt\w*|landkreis\w*|\w*bahnhof|\w*flughafen|\w*straße|\w*bahn|ville|gare|aéroport|quartier|tramway|ciudad|aeropuerto"
            r"|barrio|tranvía|puerto"),
            "地铁|机场|車站|车站|空港|駅|공항|지하철|市$|시$",
        ),
    )
)  # fmt: skip
_ASKING = re.compile(
    r"(?:how (?:much|many|long|often|far)|how|why|what(?:'s|’s)?|which|when|where|who|is|are|does|do|did|can|should|will|has|have"
    r"|wie (?:viel\w*|lange|oft|hoch|teuer)|wie|warum|wieso|was|wann|wo|wer|welche\w*|kann|gibt es|wird"
    r"|comment|pourquoi|quand|combien|quels?|quelles?|qui|où|est-ce que?|qu'est-ce que?"
    r"|¿?(?:cómo|por qué|cuándo|cuánt[oa]s?|qué|dónde|quién\w*|cuál\w*))\s+"
    r"(?:(?:is|are|was|were|do|does|did|can|has|have|will|to|kommt|kostet|ist|sind|war|wird|werden|hat|haben|est|sont|es|son|está|están|the|der|die"
    r"|das|le|la|les|el|los|las|a|an|ein|eine|un|une)\s+)*",
    re.IGNORECASE,
)
_ASKED_WIDE = re.compile(
    "什么|什麼|如何|为什么|為什麼|怎么|怎麼|多少|吗|なぜ|どう|ですか|왜|어떻게|무엇"
)

_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}
_WIDE_DATES = {
    "zh": ("{year}年", "{year}年{number}月"),
    "ja": ("{year}年", "{year}年{number}月"),
    "ko": ("{year}년", "{year}년 {number}월"),
}
# The first queries of a later run, for any kind.
_NEWS = {
    "en": ("news since {since}", "changes {month}"),
    "de": ("Nachrichten seit {since}", "Änderungen {month}"),
    "fr": ("actualités depuis {since}", "changements {month}"),
    "es": ("noticias desde {since}", "cambios {month}"),
    "zh": ("新闻 {since}以来", "变化 {month}"),
    "ja": ("ニュース {since}以降", "変更 {month}"),
    "ko": ("뉴스 {since} 이후", "변화 {month}"),
}
# Four facets of each kind. {when} is the year in a first plan, and the month in a later one.
_FACETS: dict[str, dict[str, str]] = {
    "en": {
        GENERAL: "latest {month}|announcement {when}|report study {when}|numbers statistics {when}",
        QUESTION: "explained|latest {month}|study {when}|numbers {when}",
        SOFTWARE: "latest release {when}|release notes changelog|security fixes {when}|end of life support schedule",
        LAW: "changes {when}|effective date|court ruling {when}|official text",
        PRICES: "price list {when}|price change {month}|comparison {when}|forecast {when}",
        STANDARD: "status {when}|new version draft|adoption implementations {when}|changes from previous version",
        PLACE: "news {month}|plans {when}|opening date|council decision {when}",
        EVENT: "results {when}|dates schedule {when}|news {month}|polls standings {when}",
        SCIENCE: "latest research {when}|results {when}|study published {month}|numbers statistics {when}",
    },
    "de": {
        GENERAL: "aktuell {month}|Ankündigung {when}|Studie Bericht {when}|Zahlen Statistik {when}",
        QUESTION: "einfach erklärt|aktuell {month}|Studie {when}|Zahlen {when}",
        SOFTWARE: "neue Version {when}|Versionshinweise|Sicherheitslücke {when}|Supportende",
        LAW: "Änderung {when}|Inkrafttreten|Urteil {when}|Gesetzestext",
        PRICES: "Preisliste {when}|Preisänderung {month}|Vergleich {when}|Prognose {when}",
        STANDARD: "Status {when}|neue Fassung Entwurf|Umsetzung {when}|Änderungen gegenüber Vorversion",
        PLACE: "Nachrichten {month}|Pläne {when}|Eröffnung|Stadtrat Beschluss {when}",
        EVENT: "Ergebnisse {when}|Termine {when}|Nachrichten {month}|Umfragen Tabelle {when}",
        SCIENCE: "neue Studie {when}|Ergebnisse Forschung {when}|aktuell {month}|Zahlen Statistik {when}",
    },
    "fr": {
        GENERAL: "actualités {month}|annonce {when}|étude rapport {when}|chiffres statistiques {when}",
        QUESTION: "explication|actualités {month}|étude {when}|chiffres {when}",
        SOFTWARE: "nouvelle version {when}|notes de version|faille de sécurité {when}|fin de support",
        LAW: "modification {when}|entrée en vigueur|jurisprudence {when}|texte officiel",
        PRICES: "tarifs {when}|évolution des prix {month}|comparaison {when}|prévisions {when}",
        STANDARD: "état {when}|nouvelle version projet|mise en œuvre {when}|changements par rapport à la version précédente",
        PLACE: "actualités {month}|projets {when}|ouverture|décision conseil municipal {when}",
        EVENT: "résultats {when}|calendrier {when}|actualités {month}|sondages classement {when}",
        SCIENCE: "nouvelle étude {when}|résultats recherche {when}|actualités {month}|chiffres {when}",
    },
    "es": {
        GENERAL: "últimas noticias {month}|anuncio {when}|estudio informe {when}|cifras estadísticas {when}",
        QUESTION: "explicación|últimas noticias {month}|estudio {when}|cifras {when}",
        SOFTWARE: "nueva versión {when}|notas de la versión|vulnerabilidad {when}|fin de soporte",
        LAW: "reforma {when}|entrada en vigor|sentencia {when}|texto oficial",
        PRICES: "tarifas {when}|subida de precios {month}|comparación {when}|previsión {when}",
        STANDARD: "estado {when}|nueva versión borrador|adopción {when}|cambios respecto a la versión anterior",
        PLACE: "noticias {month}|planes {when}|apertura|decisión ayuntamiento {when}",
        EVENT: "resultados {when}|calendario {when}|noticias {month}|encuestas clasificación {when}",
        SCIENCE: "nuevo estudio {when}|resultados investigación {when}|noticias {month}|cifras {when}",
    },
    "zh": {
        GENERAL: "最新进展 {month}|发布 公告 {when}|研究 论文 {when}|数据 统计 {when}",
        QUESTION: "原因 解读|最新进展 {month}|研究 {when}|数据 {when}",
        SOFTWARE: "最新版本 {when}|更新日志|安全漏洞 {when}|停止支持",
        LAW: "修订 {when}|施行日期|判决 {when}|全文",
        PRICES: "价格表 {when}|调价 {month}|对比 {when}|预测 {when}",
        STANDARD: "状态 {when}|新版 草案|实施 {when}|与旧版区别",
        PLACE: "新闻 {month}|规划 {when}|开通|政府 决定 {when}",
        EVENT: "结果 {when}|日程 {when}|新闻 {month}|民调 排名 {when}",
        SCIENCE: "最新研究 {when}|研究 结果 {when}|最新进展 {month}|数据 统计 {when}",
    },
    "ja": {
        GENERAL: "最新 {month}|発表 リリース {when}|研究 論文 {when}|統計 データ {when}",
        QUESTION: "解説|最新 {month}|研究 {when}|データ {when}",
        SOFTWARE: "最新版 {when}|変更履歴|脆弱性 {when}|サポート終了",
        LAW: "改正 {when}|施行日|判決 {when}|条文",
        PRICES: "料金表 {when}|値上げ {month}|比較 {when}|見通し {when}",
        STANDARD: "状況 {when}|新版 草案|実装 {when}|旧版との違い",
        PLACE: "ニュース {month}|計画 {when}|開業|市議会 決定 {when}",
        EVENT: "結果 {when}|日程 {when}|ニュース {month}|世論調査 順位 {when}",
        SCIENCE: "最新研究 {when}|研究 結果 {when}|最新 {month}|統計 データ {when}",
    },
    "ko": {
        GENERAL: "최신 {month}|발표 출시 {when}|연구 논문 {when}|통계 수치 {when}",
        QUESTION: "설명|최신 {month}|연구 {when}|수치 {when}",
        SOFTWARE: "최신 버전 {when}|변경 사항|보안 취약점 {when}|지원 종료",
        LAW: "개정 {when}|시행일|판결 {when}|전문",
        PRICES: "가격표 {when}|가격 인상 {month}|비교 {when}|전망 {when}",
        STANDARD: "현황 {when}|새 버전 초안|도입 {when}|이전 버전과 차이",
        PLACE: "뉴스 {month}|계획 {when}|개통|시의회 결정 {when}",
        EVENT: "결과 {when}|일정 {when}|뉴스 {month}|여론조사 순위 {when}",
        SCIENCE: "최신 연구 {when}|연구 결과 {when}|최신 {month}|통계 수치 {when}",
    },
}
# Words, letters and endings that show a topic's language, used only to word its queries.
_SIGNS = {
    "de": r"[äöüß]|(?<!\w)(?:der|die|das|und|für|von|zur|zum|beim|wie|warum|welche\w*|gibt|ist)(?!\w)|\w{4}(?:ung|ungen|keit|heit|schaft|gesetz|recht|preise?|wandel|wahl|ische[rsn]?)(?!\w)",
    "fr": r"[çèêàùœ]|(?<!\w)(?:du|des|les|une|pour|dans|sur|aux|quand|comment|prix|loi)(?!\w)|(?<!\w)[dl]['’]\w|é\w*(?:e|s)(?!\w)",
    "es": r"[ñ¿¡áíóú]|(?<!\w)(?:el|los|las|del|por|para|ley|precio|precios|cuándo)(?!\w)|ci[óo]n(?!\w)",
}
_SIGN_PATTERNS = {code: re.compile(signs, re.IGNORECASE) for code, signs in _SIGNS.items()}


def facet_queries(
    topic: str,
    *,
    objective: str = "",
    focus: str = "",
    now: date,
    last_run_at: datetime | date | None = None,
    languages: Sequence[str] = (),
    known: Sequence[str] = (),
) -> list[str]:
    """Return at most six distinct queries of at most 400 characters, the most important first.

    Without `last_run_at` it is a first plan: the topic itself, facets of its kind, and its focus.
    With it: news and changes since that date, then the facets by month. `languages` are the topic's
    setting and `known` its facts. They decide the language of the queries.
    """
    topic = one_line(topic)
    language = query_language(topic, languages, known)
    subject, kind = subject_of(topic), kind_of(topic)
    narrowed = [f"{subject} {part}" for part in _parts(focus, objective, topic)]
    fresh = last_run_at is None
    dates = _dates(language, now)
    if language not in _FACETS:
        year, month = dates["year"], f"{now:%Y-%m}"
        plain = [topic, f"{subject} {year}"] if fresh else [f"{subject} {month}", topic]
        return _distinct([*plain, *narrowed, f"{subject} {month}", f"{subject} {year}"])
    dates["when"] = dates["year"] if fresh else dates["month"]
    dates["since"] = "" if last_run_at is None else f"{last_run_at:%Y-%m-%d}"
    covered = [set(match_key(part).split()) for part in narrowed]
    facets = [f for f in _FACETS[language][kind].split("|") if not _is_covered(f, covered)]
    if fresh:
        asked = [topic, *(_asked(subject, facet.format(**dates)) for facet in facets)]
        return _distinct([*asked[:3], *narrowed, *asked[3:]])
    news = [f"{subject} {words.format(**dates)}" for words in _NEWS[language]]
    dated = [_asked(subject, facet.format(**dates)) for facet in facets if "{when}" in facet]
    return _distinct([*news, *dated[:1], *narrowed, *dated[1:]])


def fallback_queries(topic: str, now: date) -> list[str]:
    """Return the seed's three queries: the topic, its news of the year, and a comparison (R45)."""
    topic = one_line(topic)
    return _distinct([topic, f"{topic} {now.year} news", f"{topic} comparison"])


def kind_of(topic: str) -> str:
    """Return the kind of a topic by its words. A question about prices is of the kind prices."""
    for kind, pattern in _KINDS:
        if pattern.search(topic):
            return kind
    return QUESTION if _is_question(topic) else GENERAL


def subject_of(topic: str) -> str:
    """Return what a question is about: "Why are trams so late?" is about "trams so late"."""
    if not _is_question(topic):
        return topic
    rest = _ASKING.sub("", topic, count=1).rstrip("?？ ")
    return rest if len(rest) > 2 else topic.rstrip("?？ ") or topic


def _is_question(topic: str) -> bool:
    begins = _ASKING.match(topic)
    return topic.endswith(("?", "？")) or bool(begins or _ASKED_WIDE.search(topic))


def query_language(topic: str, languages: Sequence[str] = (), known: Sequence[str] = ()) -> str:
    """Return the language for a topic's queries, as two letters.

    The script decides, then the topic's setting, then the language of its known facts. Only for the
    wording of a query is it guessed from the topic itself.
    """
    by_script = language_of(topic) if not topic.isascii() else "en"
    if by_script in _WIDE_DATES or by_script in (
        "ru",
        "el",
        "ar",
        "fa",
        "ur",
        "hi",
        "am",
        "my",
        "hy",
    ):
        return by_script
    if languages:
        return languages[0].replace("_", "-").partition("-")[0].lower()
    facts = " ".join(known)
    if len(facts) >= ENOUGH_TEXT:
        return language_of(facts)
    found = {code: len(signs.findall(topic)) for code, signs in _SIGN_PATTERNS.items()}
    best = max(found, key=lambda code: found[code])
    return best if found[best] else "en"


def _is_covered(facet: str, parts: Sequence[set[str]]) -> bool:
    words = set(match_key(re.sub(r"\{\w+\}", "", facet)).split())
    return any(words <= part for part in parts)


def _asked(subject: str, facet: str) -> str:
    """Return the subject with the words of a facet that it doesn't contain yet."""
    held = [word.strip(".,:").casefold() for word in subject.split()]
    added = [word for word in facet.split() if not any(_is_like(word, other) for other in held)]
    return " ".join([subject, *added])


def _is_like(word: str, other: str) -> bool:
    word = word.casefold()
    return word == other or (len(word) > 4 and other.startswith(word[:-1]) and word.isalpha())


def _dates(language: str, now: date) -> dict[str, str]:
    parts = {"year": str(now.year), "number": str(now.month)}
    if language in _WIDE_DATES:
        year, month = (pattern.format(**parts) for pattern in _WIDE_DATES[language])
    else:
        names = _MONTHS.get(language, _MONTHS["en"]).split()
        year, month = parts["year"], f"{names[now.month - 1]} {now.year}"
    return {"year": year, "month": month}


def _parts(focus: str, objective: str, topic: str) -> list[str]:
    """Return the first short parts of what narrows a topic. A long sentence isn't a query."""
    parts = re.split(r"[.,;:。；，、\n]", focus or objective)
    cleaned = [one_line(part).strip() for part in parts]
    short = [part for part in cleaned if 0 < len(part.split()) <= LONGEST_FOCUS]
    return [part for part in short if _adds(part, topic)][:MOST_FOCUSES]


def _adds(phrase: str, topic: str) -> bool:
    """Whether a phrase adds anything to the topic."""
    words = set(match_key(phrase).split())
    return bool(words) and not words <= set(match_key(topic).split())


def _distinct(queries: Iterable[str]) -> list[str]:
    kept: dict[str, str] = {}
    for query in queries:
        query = _at_most(one_line(query))
        if query:
            kept.setdefault(query.casefold(), query)
    return list(kept.values())[:MOST_FROM_FACETS]


def _at_most(query: str) -> str:
    """Shorten a query at a word boundary."""
    if len(query) <= LONGEST_QUERY:
        return query
    cut = query[: LONGEST_QUERY + 1]
    head, space, _tail = cut.rpartition(" ")
    return head if space else query[:LONGEST_QUERY]
