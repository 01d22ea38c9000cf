"""Text that is hard to lay out, for the checked pages: an owner whose memory is full of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from memory.agents.chat import conversation
from memory.agents.chat import turn as conversation_turn
from memory.models import Conflict, Note, Proposal, SavedView
from memory.models.actors import RESEARCH, Actor
from memory.services import scratchpad
from memory.services.content.items import store
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, save_file
from memory.services.library import documents as library_services
from memory.services.notes.saving import edit_note, write_note
from memory.services.observations.saving import write_observation
from memory.services.review import proposals as review_services
from research.models import DeltaItem, Run
from research.services.notifications import channels
from research.services.schedules import scheduling
from tests.research import factories

ARABIC = "أسعار البطاريات الصلبة (solid-state) في 2026: ما الذي تغيّر؟"
HEBREW = "ביצועי סוללות מצב מוצק (LFP) ושוק האנרגיה, נובמבר 2026"
JAPANESE = (
    "家庭用蓄電池の補助金制度と主要メーカーの最新動向、二〇二六年十一月時点のまとめと今後の見通し"
)
EMOJI = "🔋⚡ Batteries & <b>cells</b> 👩🏽‍🔬👨‍👩‍👧‍👦 🇪🇺🇯🇵"
WORD = "Grundstücksverkehrsgenehmigungszuständigkeitsübertragungsverordnung" * 5
ENGLISH = (
    "The long-term behaviour of lithium-iron-phosphate cells in stationary storage of one to ten "
    "megawatt hours, with prices, makers, tenders, recalls and the rules of insurers in Europe"
)
TITLES = {
    "arabic": ARABIC, "hebrew": HEBREW, "japanese": JAPANESE, "emoji": EMOJI,
    "word": WORD[:200], "english": ENGLISH,
}  # fmt: skip
SENTENCES = {
    "arabic": "بلغت كثافة الطاقة 400 واط ساعة لكل كيلوغرام، وفق ما أعلنته شركة QuantumScape (NYSE: QS).",
    "hebrew": "צפיפות האנרגיה הגיעה ל-400 וואט-שעה לקילוגרם, כך מסרה חברת StoreDot (לא נסחרת).",
    "japanese": "新型固体電池のエネルギー密度は一キログラム当たり四百ワット時に達し、前世代より三割高いと発表された。",
    "emoji": "🔋 The cell holds 400 Wh/kg 🎉🎉🎉, says the maker 👩🏽‍🔬.",
    "word": f"{WORD[:300]}.",
    "english": "A cell of the new kind holds 400 Wh/kg, says the maker, a third more than before.",
}
OLDER = {
    "arabic": "بلغت كثافة الطاقة 350 واط ساعة لكل كيلوغرام، وفق ما أعلنته الشركة.",
    "hebrew": "צפיפות האנרגיה הגיעה ל-350 וואט-שעה לקילוגרם, כך מסרה החברה.",
    "japanese": "新型固体電池のエネルギー密度は一キログラム当たり三百五十ワット時であった。",
    "emoji": "🔋 The cell holds 350 Wh/kg 🎉, says the maker 👩🏽‍🔬.",
    "word": f"{WORD[3:290]}.",
    "english": "A cell of the new kind holds 350 Wh/kg, says the maker.",
}
AGENT = Actor("agent", "وكيل-البحث")
FILE = "facts/memory.md"


def hard_words(owner: Any) -> dict[str, str]:
    """Fill every list of an owner with them; return the addresses that need a key."""
    found: dict[str, str] = {}
    for name, title in TITLES.items():
        found |= _topic(owner, name, title)
    return found | _remembered(owner) | _held(owner) | _kept(owner) | _talk(owner)


def _topic(owner: Any, name: str, title: str) -> dict[str, str]:
    """Create a topic with a schedule, two runs, a change between them, facts and sources."""
    sentence, older = SENTENCES[name], OLDER[name]
    at_seven = scheduling.schedule_fields(preset="weekly", time_zone="Asia/Tokyo")
    topic = factories.make_topic(
        owner, title, schedule=at_seven, labels=[title[:30], "energy"],
        settings={"objective": sentence, "focus": older[:200]},
    )  # fmt: skip
    sources = [factories.make_source(n, title, domain=f"{n}.example.org") for n in (1, 2)]
    for n, source in enumerate(sources, start=1):
        source["quotes"] = [{"sentence": sentence, "quote": sentence[: 90 + n], "found": True}]
    first, second = factories.make_run(topic), factories.make_run(topic)
    long_ago = timezone.now() - timedelta(days=7)
    Run.objects.filter(pk=first.pk).update(created=long_ago, finished_at=long_ago)
    factories.make_report(first, body=_body(title, older), summary=older, sources=sources)
    factories.make_report(second, body=_body(title, sentence), summary=sentence, sources=sources)
    fact = factories.make_fact(
        topic, older, first, source_title=title, url="https://1.example.org/a"
    )
    fact.retire(by=RESEARCH, why="replaced", run=2, source=second.source)
    known = factories.make_fact(topic, f"{sentence} ({name})", second, source_title=title)
    factories.make_item(
        second, DeltaItem.Status.CHANGED, sentence, previous_fact=fact, previous_text=older,
        citations=[1], quote=sentence,
    )  # fmt: skip
    factories.make_item(second, "new", f"{title}.", citations=[2], quote=title)
    factories.make_item(second, "contradicted", sentence, previous_text=older, citations=[1])
    factories.make_item(second, "confirmed", f"{sentence} ({name})", previous_fact=known)
    factories.make_hit(second, 1, title=title, url=f"https://example.org/{'long-' * 40}")
    factories.make_hit(second, 2, title=sentence, url="https://مثال.example/أخبار")
    factories.make_steps(second)
    return {
        f"words {name}": f"/topics/{topic.slug}/",
        f"words {name} run": reverse("research:run", args=[topic.slug, second.pk]),
        f"words {name} fact": reverse("research:fact-history", args=[topic.slug, known.pk]),
    }


def _body(title: str, sentence: str) -> str:
    return (
        f"{sentence} [1]\n\n## {title[:60]}\n\n- {sentence} [2]\n- {title}\n\n> {sentence}\n\n"
        f"1. {sentence}\n2. {title}\n\n| {title[:20]} | 2026 |\n|---|---|\n| {sentence} | 2 |\n"
    )


def _remembered(owner: Any) -> dict[str, str]:
    """Create notes, observations, values under keys and memory files of them."""
    for name, sentence in SENTENCES.items():
        note = write_note(
            owner, "rule", f"{sentence}\n\n- {OLDER[name]}", by=owner.actor, confidence=0.9,
            evidence=[TITLES[name]], tags=[TITLES[name][:20], "words"],
        )  # fmt: skip
        edit_note(note, by=owner.actor, content=f"{sentence} {OLDER[name]}", why=TITLES[name])
        write_observation(
            owner, "finding", sentence, by=AGENT, source=f"import:{TITLES[name][:40]}",
        )  # fmt: skip
        scratchpad.set_value(owner, TITLES[name][:120], sentence, by=AGENT)
        append_to(
            owner, "episodes/2026-11.md", f"## {TITLES[name]}\n- Summary: {sentence}\n- {OLDER[name]}",
            by=owner.actor, why=TITLES[name][:100],
        )  # fmt: skip
        library_services.add_document(owner, text=f"# {TITLES[name]}\n\n{sentence}", by=owner.actor)
        SavedView.objects.create(
            owner=owner, page="notes", name=TITLES[name][:50], query="q=kind%3Arule"
        )
    for text in (OLDER["arabic"], SENTENCES["word"], OLDER["japanese"]):
        write_note(owner, "log", text, by=owner.actor).trash(by=owner.actor, why=ARABIC)
    rows = "\n".join(f"- {sentence}" for sentence in SENTENCES.values())
    save_file(owner, FILE, f"# Memory\n\n## {HEBREW}\n\n{rows}\n", by=owner.actor, why=ARABIC)
    note = Note.objects.for_user(owner).filter(kind="rule").order_by("created").first()
    assert note
    return {"words note": note.get_absolute_url()}


def _held(owner: Any) -> dict[str, str]:
    """Create proposals and pairs that do not go together."""
    file, proposal = read_file(owner, FILE), None
    for name, sentence in SENTENCES.items():
        proposal = review_services.hold(
            owner, "note", by=AGENT, source=f"agent:{AGENT.name}", before={},
            after={"kind": "log", "content": sentence}, why=TITLES[name], held=OLDER[name],
        )  # fmt: skip
        left, right = (
            write_note(owner, "log", text, by=owner.actor) for text in (OLDER[name] + "!", sentence)
        )
        pair: Any = Conflict.objects.note(
            owner, "contradiction", left, right, source="run:1", reason="number"
        )
    changed: Proposal = review_services.hold(
        owner, "file", by=AGENT, source="run:1", before={"content": file.content},
        after={"path": FILE, "content": file.content.replace("400", "450")}, why=ARABIC,
        held="", target_id=file.pk, version_seen=file.version,
    )  # fmt: skip
    first: Any = Conflict.objects.filter(owner=owner).order_by("created").first()
    return {
        "words proposal": changed.get_absolute_url(),
        "words proposal note": proposal.get_absolute_url() if proposal else "",
        "words conflict": first.get_absolute_url(),
        "words conflict last": pair.get_absolute_url(),
    }


def _kept(owner: Any) -> dict[str, str]:
    """Create content items and channels of them."""
    found = {}
    for name, sentence in SENTENCES.items():
        item = store(
            owner, f"{TITLES[name]}\n\n{sentence}\n" * 9, by=AGENT, type="web_content", title=TITLES[name],
            source="run:1", scope="run:1", url=f"https://example.org/{name}", tags=[TITLES[name][:20]],
            trust="external",
        )  # fmt: skip
        found[f"words content {name}"] = item.get_absolute_url()
    desk = channels.add(
        owner, kind="email", name=HEBREW[:60], address="desk@example.org", by=owner.actor
    )
    return found | {"words channel": f"/settings/channels/{desk.pk}/"}


def _talk(owner: Any) -> dict[str, str]:
    """Create a session in which each of them is asked, and one a title."""
    session = None
    for title in (WORD[:180], JAPANESE, ARABIC):
        session = conversation.start(owner, title)
        for text in (ARABIC, SENTENCES["japanese"], WORD[:300]):
            conversation_turn.answer(conversation.ask(session, text, by=owner.actor).pk)
    assert session
    return {"words session": session.get_absolute_url()}
