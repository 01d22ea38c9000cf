"""Agents → Context: what an agent would be told, why, and what changes without a memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from beacon_site.providers.llm.tokens import counted
from memory import tasks
from memory.agents.chat import without
from memory.models import Agent, ModelCall, Note, Topic, TopicFact, Trust, Use, User
from memory.models.actors import Actor
from memory.pages.agents import USUAL_BUDGET
from memory.services.context.layers import build_context
from memory.services.llm import connections
from memory.services.observations.saving import write_observation
from tests.memory.review_cast import proposed_note
from tests.pages.record_cast import note, text_of
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel
from tests.undo import undone

HTMX = {"HX-Request": "true", "HX-Target": "context"}
AGENTS = reverse("memory:agents")
TEXT = reverse("memory:context-text")
DECIDE = reverse("memory:context-decide")
ANSWERS = reverse("memory:context-answers")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def fares(alice: User) -> Note:
    return note(alice, "Search results on fares are stale.", kind="rule")


@pytest.fixture
def claude(alice: User) -> Agent:
    return Agent.objects.create(owner=alice, name="claude")


@pytest.fixture
def fake_llm(monkeypatch: pytest.MonkeyPatch) -> FakeLanguageModel:
    """A model that answers what is enqueued."""
    fake = FakeLanguageModel()
    monkeypatch.setattr(connections, "language_model", lambda: fake)
    monkeypatch.setattr(connections, "llm_profile", lambda: FAKE_PROFILE)
    return fake


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The messages for workers, instead of a broker's."""
    messages: list[Any] = []
    monkeypatch.setattr(
        without, "send", lambda name, *told, queue: messages.append((name, told)) or True
    )
    return messages


@pytest.fixture
def kyoto(alice: User) -> Topic:
    """A topic with live memory: one fact, one that was struck."""
    soon = timezone.now() + timedelta(days=30)
    topic = Topic.objects.create(
        owner=alice, title="Kyoto", slug="kyoto", source="x", run_count=2,
        summary="Rooms got dearer.", expires_at=soon, last_run_at=timezone.now(),
    )  # fmt: skip
    for place, text in enumerate(("A night costs 90 euros.", "The station is closed."), start=1):
        TopicFact.objects.create(owner=alice, topic=topic, text=text, key=text, position=place)
    TopicFact.objects.filter(text__startswith="The station").update(state="struck")
    return topic


def shown(browser: Client, **asked: str) -> Any:
    return browser.get(AGENTS, asked).context["preview"]


def group(browser: Client, name: str, **asked: str) -> Any:
    return next(one for one in shown(browser, **asked)["groups"] if one["name"] == name)


def left_out(browser: Client, **asked: str) -> dict[str, str]:
    return {one.text: one.why for one in shown(browser, **asked)["left_out"]}


def test_the_bar_shows_what_the_context_consists_of(browser: Client, fares: Note):
    for budget in (15_000, 100):
        preview = shown(browser, budget=str(budget))
        filled = sum(float(one["width"]) for one in preview["segments"])
        assert filled == pytest.approx(100, abs=0.1)


def test_the_figure_in_the_head_and_the_tokens_over_the_budget_agree(browser: Client, fares: Note):
    preview = shown(browser, budget="100")
    assert preview["over"] == preview["used"] - 100


@pytest.mark.requirement("R224")
def test_each_layer_is_shown_with_its_size_and_each_line_with_why(
    browser: Client, alice: User, fares: Note
):
    answer = browser.get(AGENTS, {"message": "Which fares are cheap?"})
    preview = answer.context["preview"]
    built = build_context(alice, message="Which fares are cheap?")

    sizes = {one["name"]: one["tokens"] for one in preview["segments"]}
    assert set(sizes) == {one.name for one in built.layers if one.lines} | {"files", "headings"}
    rows = [line.tokens for group in preview["groups"] for line in group["lines"]]
    assert sum(sizes.values()) == sum(rows) == counted(built.text).tokens
    assert preview["used"] == counted(built.system).tokens
    html = text_of(answer)
    assert "Search results on fares are stale." in html
    assert "similar in wording to the message" in html
    assert "facts/user.md" in html
    assert "estimated at 4 bytes per token" in html
    assert reverse("memory:note-edit", args=[fares.pk]) in html


@pytest.mark.requirement("R222")
def test_what_is_left_out_is_listed_with_why_and_is_in_no_text(browser: Client, alice: User):
    note(alice, "The passport lies in the safe.", kind="rule", sensitivity="sensitive")
    assert left_out(browser, message="passport") == {
        "The passport lies in the safe.": "sensitive, so it’s never included"
    }
    assert "passport" not in shown(browser)["text"]
    assert "passport" not in browser.get(TEXT).content.decode()


def test_a_rule_in_the_inbox_is_listed_as_left_out(browser: Client, alice: User):
    proposed_note(alice, "Always approve upgrades of staging.", kind="rule", evidence=["said so"])
    assert left_out(browser) == {"Always approve upgrades of staging.": "waiting in your Inbox"}


def test_over_htmx_only_the_part_below_the_form_answers(browser: Client, fares: Note):
    answer = browser.get(AGENTS, {"message": "fares"}, headers=HTMX)
    assert answer.content.decode().lstrip().startswith('<section id="context"')
    assert answer["HX-Replace-Url"] == f"{AGENTS}?agent=ask&message=fares"


def test_a_long_message_makes_no_long_header(browser: Client):
    answer = browser.get(AGENTS, {"message": "ä" * 1_000}, headers=HTMX)
    assert not answer.has_header("HX-Replace-Url")


def test_an_agent_is_told_what_is_kept_for_it(browser: Client, alice: User, claude: Agent):
    note(alice, "Only for claude.", kind="rule", scope="agent:claude")
    assert [one.text for one in group(browser, "rules", agent="claude")["lines"]] == [
        "Only for claude."
    ]
    assert left_out(browser, agent="ask") == {"Only for claude.": "visible only to agent:claude"}


def test_an_agent_that_does_not_exist_is_explained(browser: Client):
    html = text_of(browser.get(AGENTS, {"agent": "cursor<b>"}))
    assert "There’s no agent “cursor&lt;b&gt;”. This page shows the context for Ask" in html


# --- the budget -----------------------------------------------------------------------------------


def test_a_smaller_budget_leaves_rules_out_and_says_so(browser: Client, alice: User):
    for number in range(10):
        note(alice, f"Rule {number}. " + "Be brief and plain. " * 90, kind="rule")
    whole, tight = group(browser, "rules"), group(browser, "rules", budget="3000")
    assert len(whole["lines"]) == 10
    assert 0 < len(tight["lines"]) < 10
    assert (tight["given"], tight["most"]) == (len(tight["lines"]), 10)
    why = "doesn’t fit: all layers together can have at most 3,000 tokens"
    assert why in left_out(browser, budget="3000").values()


def test_a_budget_that_not_even_the_fixed_layers_keep_is_reported(browser: Client):
    assert "tokens over the budget" in text_of(browser.get(AGENTS, {"budget": "10"}))


@pytest.mark.parametrize("budget", ["none", "-1", "0", "1.5", "9" * 40, "٣٠٠", "1e5"])
def test_a_budget_that_cannot_be_is_explained_and_kept(browser: Client, budget: str):
    answer = browser.get(AGENTS, {"budget": budget})
    assert answer.context["preview"]["most"] == USUAL_BUDGET
    assert "Enter a whole number from 1 to 1,000,000" in text_of(answer)
    assert f'value="{budget[:20]}"' in text_of(answer)


def test_a_message_that_is_too_long_is_cut_and_that_is_explained(browser: Client):
    html = text_of(browser.get(AGENTS, {"message": "fares " * 2_000}))
    assert "Only the first 10,000 of 11,999 characters" in html


@pytest.mark.parametrize(
    "asked",
    [
        {"topic": "x\x00<b>"},
        {"message": "\x00"},
        {"without": "no,\x00,,"},
        {"asked": "1.2.3"},
        {"asked": f"{'0' * 32}.{'9' * 20}"},
        {"agent": "\x00"},
    ],
)
def test_an_address_that_cannot_be_isnt_an_error(browser: Client, asked: dict[str, str]):
    assert browser.get(AGENTS, asked).status_code == 200


# --- topics, web text, files ----------------------------------------------------------------------


def test_a_topic_shows_what_its_runs_are_reported_with_its_observations(
    browser: Client, alice: User, kyoto: Topic
):
    write_observation(alice, "finding", "Kyoto has a new night train.", by=Actor("agent", "desk"))
    block = group(browser, "topic", topic="kyoto")
    assert [line.text for line in block["lines"]] == [
        "Rooms got dearer.", "A night costs 90 euros.", "The station is closed.",
        "Kyoto has a new night train.",
    ]  # fmt: skip
    assert "Do NOT research or report these again" in block["text"]
    assert "- Kyoto has a new night train." in block["text"]
    assert block["text"] in browser.get(TEXT, {"topic": "kyoto"}).content.decode()


def test_a_topic_that_is_not_there_is_reported(browser: Client):
    assert "There’s no topic “osaka”" in text_of(browser.get(AGENTS, {"topic": "osaka"}))


def test_what_came_from_outside_is_marked_in_the_list_and_on_the_bar(browser: Client, alice: User):
    note(alice, "Read on the web.", kind="summary", trust=Trust.EXTERNAL)
    answer = browser.get(AGENTS)
    assert '<span class="tag warn">external</span>' in text_of(answer)
    assert "external, marked as data" in text_of(answer)
    sizes = {one["name"]: one["tokens"] for one in answer.context["preview"]["segments"]}
    assert sizes["outside"] > 0


def test_looking_isnt_use(browser: Client, fares: Note, kyoto: Topic):
    browser.get(AGENTS, {"message": "fares", "topic": "kyoto", "without": str(fares.pk)})
    browser.get(TEXT, {"message": "fares"})
    assert not Use.objects.exists()


def test_the_text_is_a_file(browser: Client, alice: User):
    answer = browser.get(TEXT)
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "attachment" in answer["Content-Disposition"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "Available memory:" in answer.content.decode()


# --- without a memory -----------------------------------------------------------------------------


def test_a_cleared_checkbox_changes_the_preview_alone(browser: Client, alice: User, fares: Note):
    other = note(alice, "Cite two sources.", kind="rule")
    sent = {"message": "fares", "listed": f"{fares.pk},{other.pk}", "keep": str(other.pk)}

    answer = browser.get(AGENTS, sent)  # as a browser without scripts sends it

    assert answer.status_code == 302
    query = parse_qs(urlsplit(answer["Location"]).query)
    assert query["without"] == [str(fares.pk)]
    page = browser.get(answer["Location"])
    preview = page.context["preview"]
    assert "Cite two sources." in preview["text"]
    assert "fares are stale" not in preview["text"]
    assert preview["saved"] > 0
    assert [one.is_kept for one in preview["groups"][0]["lines"] if one.pk == str(fares.pk)] == [
        False
    ]
    assert "This prompt leaves out 1 memory." in text_of(page)
    assert "fares are stale" in shown(browser, message="fares")["text"]
    assert Note.objects.get(pk=fares.pk).version == 1


def test_nothing_takes_the_place_of_a_memory_that_is_left_out(browser: Client, alice: User):
    rules = [note(alice, f"Rule number {n}.", kind="rule") for n in range(12)]
    whole = shown(browser)["text"]
    gone = next(one for one in rules if one.content in whole)

    less = shown(browser, without=str(gone.pk))["text"]

    numbers = re.compile(r"Rule number \d+\.")
    assert set(numbers.findall(whole)) - set(numbers.findall(less)) == {gone.content}
    assert set(numbers.findall(less)) < set(numbers.findall(whole))


def ask(browser: Client, query: str, **more: Any) -> Any:
    return browser.post(ANSWERS, {"query": query}, **more)


@pytest.mark.requirement("R262")
def test_the_model_answers_with_and_without_it(
    browser: Client, alice: User, fares: Note, fake_llm: FakeLanguageModel, sent: list[Any]
):
    fake_llm.enqueue("They are stale.", "I don’t know.")

    answer = ask(browser, f"message=Are+fares+stale&without={fares.pk}")

    ((name, arguments),) = sent
    assert name == "memory.tasks.answer_without"
    page = browser.get(answer["Location"])
    assert "asking the model" in text_of(page)
    tasks.answer_without(*arguments)
    tasks.answer_without(*arguments)  # delivered twice
    html = text_of(browser.get(answer["Location"]))
    assert html.index("They are stale.") < html.index("I don’t know.")
    first, second = (call.prompt for call in ModelCall.objects.for_user(alice).order_by("id"))
    assert "fares are stale" in first[0]["content"]
    assert "fares are stale" not in second[0]["content"]
    assert first[1] == second[1]


def test_a_poll_gets_the_answers_alone(
    browser: Client, fares: Note, fake_llm: FakeLanguageModel, sent: list[Any]
):
    answer = ask(browser, f"message=Fares&without={fares.pk}")
    polled = {"HX-Request": "true", "HX-Target": "context-answers"}
    html = browser.get(answer["Location"], headers=polled).content.decode()
    assert html.lstrip().startswith("{#") or html.lstrip().startswith(
        '<section id="context-answers"'
    )
    assert "Rules" not in html


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("message=Fares", "Clear at least one memory’s checkbox first."),
        ("without={pk}", "Enter a message for the model to answer."),
    ],
)
def test_what_is_missing_for_the_answers_is_reported(
    browser: Client, fares: Note, fake_llm: FakeLanguageModel, sent: list[Any], query: str, why: str
):
    page = browser.post(ANSWERS, {"query": query.format(pk=fares.pk)}, follow=True)
    assert why in text_of(page)
    assert not sent


def test_without_a_model_that_is_reported_and_nothing_is_asked(
    browser: Client, fares: Note, sent: list[Any]
):
    page = browser.post(ANSWERS, {"query": f"message=Fares&without={fares.pk}"}, follow=True)
    assert "No model is set up" in text_of(page)
    assert not sent


def test_a_used_up_month_asks_nothing(
    browser: Client, alice: User, fares: Note, fake_llm: FakeLanguageModel, sent: list[Any]
):
    User.objects.filter(pk=alice.pk).update(monthly_tokens=0)
    page = browser.post(ANSWERS, {"query": f"message=Fares&without={fares.pk}"}, follow=True)
    assert "limit" in text_of(page)
    assert not sent


# --- decisions ------------------------------------------------------------------------------------


def decide(browser: Client, do: str, agent: str = "claude", **more: Any) -> Any:
    return browser.post(DECIDE, {"do": do, "query": f"agent={agent}"}, follow=True, **more)


@pytest.mark.requirement("R263")
def test_a_pinned_rule_is_in_every_context(browser: Client, alice: User, fares: Note):
    for number in range(12):
        note(alice, f"Trains run on rail {number}.", kind="rule")
    assert "fares are stale" not in shown(browser, message="Trains on rail")["text"]

    page = decide(browser, f"pin:{fares.pk}")

    assert "Pinned. It’s now included in every context." in text_of(page)
    first = group(browser, "rules", message="Trains on rail")["lines"][0]
    assert (first.text, first.why) == (fares.content, "pinned")
    undone(browser, page)
    assert not Note.objects.get(pk=fares.pk).pinned


def test_of_too_many_pinned_rules_the_newest_are_included_and_that_is_explained(
    browser: Client, alice: User, fares: Note
):
    Note.objects.filter(pk=fares.pk).update(created=timezone.now() - timedelta(days=1))
    for number in range(10):
        note(alice, f"Pinned rule {number}.", kind="rule", pinned=True)

    page = decide(browser, f"pin:{fares.pk}", "ask")

    assert "A context includes only your 10 newest pinned records" in text_of(page)
    assert left_out(browser) == {
        fares.content: "pinned, but only the 10 newest pinned items are included"
    }


def test_never_hides_it_from_one_agent_and_can_be_undone(
    browser: Client, alice: User, fares: Note, claude: Agent
):
    page = decide(browser, f"never:{fares.pk}")

    assert "claude can no longer see this memory" in text_of(page)
    assert left_out(browser, agent="claude") == {fares.content: "you hid it from this agent"}
    assert fares.content in shown(browser, agent="ask")["text"]
    undone(browser, page)
    assert fares.content in shown(browser, agent="claude")["text"]


def test_allow_takes_back_only_that_agents_exclusion(
    browser: Client, alice: User, fares: Note, claude: Agent
):
    decide(browser, f"never:{fares.pk}", "ask")
    decide(browser, f"never:{fares.pk}", "claude")
    assert Note.objects.get(pk=fares.pk).scope == "except:ask:claude"

    decide(browser, f"allow:{fares.pk}", "ask")

    assert Note.objects.get(pk=fares.pk).scope == "except:claude"
    decide(browser, f"allow:{fares.pk}", "claude")
    assert Note.objects.get(pk=fares.pk).scope == "owner"


def test_never_does_not_vouch_for_web_text(browser: Client, alice: User, claude: Agent):
    outside = note(alice, "Read on the web.", kind="summary", trust=Trust.EXTERNAL)
    decide(browser, f"never:{outside.pk}")
    assert Note.objects.get(pk=outside.pk).trust == Trust.EXTERNAL


def test_over_htmx_a_decision_answers_with_the_part_and_a_toast(
    browser: Client, fares: Note, claude: Agent
):
    answer = browser.post(
        DECIDE, {"do": f"never:{fares.pk}", "query": "agent=claude"}, headers=HTMX
    )
    html = answer.content.decode()
    assert html.lstrip().startswith('<section id="context"')
    assert "can no longer see this memory" in html


@pytest.mark.parametrize("do", ["", "pin:", "pin:x", "burn:{pk}", "never:{soul}"])
def test_a_decision_that_cannot_be_changes_nothing(
    browser: Client, alice: User, fares: Note, do: str
):
    soul = Note.objects.for_user(alice).get(kind="soul")
    answer = browser.post(DECIDE, {"do": do.format(pk=fares.pk, soul=soul.pk), "query": ""})
    assert answer.status_code in (302, 404)
    assert set(Note.objects.for_user(alice).values_list("version", flat=True)) == {1}


def test_a_stranger_sees_and_decides_their_own(
    fares: Note, kyoto: Topic, claude: Agent, bob: User, client_of: Callable[[User], Client]
):
    stranger = client_of(bob)
    asked = {"message": "fares", "topic": "kyoto", "agent": "claude", "without": str(fares.pk)}
    html = text_of(stranger.get(AGENTS, asked))
    assert "stale" not in html
    assert "There’s no topic “kyoto”" in html
    assert "There’s no agent “claude”" in html
    assert "90 euros" not in html
    assert stranger.post(DECIDE, {"do": f"pin:{fares.pk}", "query": ""}).status_code == 404
    assert not Note.objects.get(pk=fares.pk).pinned


def test_answers_of_another_are_not_shown(
    browser: Client,
    alice: User,
    fares: Note,
    fake_llm: FakeLanguageModel,
    sent: list[Any],
    bob: User,
    client_of: Callable[[User], Client],
):
    fake_llm.enqueue("They are stale.", "Nothing.")
    address = ask(browser, f"message=Fares&without={fares.pk}")["Location"]
    tasks.answer_without(*sent[0][1])
    assert "They are stale." in text_of(browser.get(address))
    assert "They are stale." not in text_of(client_of(bob).get(address))


def test_the_page_takes_a_fixed_number_of_queries(
    browser: Client, alice: User, kyoto: Topic, django_assert_max_num_queries: Any
):
    for number in range(30):
        note(alice, f"Fares rule {number}.", kind="rule", pinned=number < 3)
        note(alice, f"Fares summary {number}.", kind="summary")
        proposed_note(alice, f"Fares proposal {number}.", kind="rule", evidence=["x"])
        Agent.objects.create(owner=alice, name=f"agent {number}")
    # Rules and summaries are recalled each for itself, and a topic's observations twice.
    with django_assert_max_num_queries(40):
        browser.get(AGENTS, {"message": "fares", "topic": "kyoto"})
    with django_assert_max_num_queries(23):
        browser.get(AGENTS)
