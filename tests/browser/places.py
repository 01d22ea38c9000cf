"""Every page in its states: its URL, who sees it, and the required setup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.browser import (
    ask_places,
    content_places,
    file_history_places,
    file_places,
    list_places,
    notice_places,
    record_places,
    review_places,
    script_places,
    trust_places,
    watch_places,
)
from tests.browser.visitor import Visitor, unfold

STRANGER, FULL, EMPTY, WORDS = "", "grace", "nils", "hedy"


@dataclass(frozen=True, slots=True)
class Place:
    """A page in one state; `act` brings it there once it is open."""

    name: str
    path: str
    who: str = FULL
    act: Callable[[Visitor], None] | None = None

    def enter(self, visitor: Visitor) -> None:
        """Open it."""
        visitor.goto(self.path)
        if self.act:
            self.act(visitor)


def _reordered(visitor: Visitor) -> None:
    unfold(visitor)
    visitor.page.locator("#services_brave").check()  # no key is set for it here
    visitor.page.locator("#down-arxiv").click()
    visitor.page.locator("#down-arxiv[data-focus]").wait_for()
    unfold(visitor)


def _report_template(visitor: Visitor, text: str, shown: str) -> None:
    unfold(visitor)
    visitor.page.locator("[name=report_template]").fill(text)
    visitor.page.locator("#preview-report").click()
    visitor.page.locator(shown).first.wait_for()


def _report_preview(visitor: Visitor) -> None:
    text = "# New in {{ topic }}\n{{ new }}\n\n# Changed\n{{ changed }}\n\n# Read\n{{ sources }}"
    _report_template(visitor, text, "#report-preview[data-focus]")


def _bad_report_template(visitor: Visitor) -> None:
    _report_template(visitor, "New: {{ new }}\n{{ owner.password }}", "#part-report .errorlist")


def _no_code(visitor: Visitor) -> None:
    visitor.page.locator("[name=code]").fill("x")
    visitor.page.locator("[name=password]").fill("guess")
    visitor.press("Turn on")
    visitor.page.locator(".errorlist").first.wait_for()


def _bad_topic(visitor: Visitor) -> None:
    unfold(visitor)
    visitor.page.locator("[name=title]").fill("All of it, " * 50)
    visitor.page.locator("[name=block_domains]").fill("https://example.org/a/path")
    visitor.page.locator("[name=max_pages]").fill("-3")
    visitor.page.locator("button[name=make]").click()
    visitor.page.locator("[aria-invalid]").first.wait_for()


def _bad_agent(visitor: Visitor) -> None:
    visitor.page.locator("[name=name]").fill("research")
    visitor.press("Allow access")
    visitor.page.locator("[aria-invalid]").first.wait_for()


def _known_topic(visitor: Visitor) -> None:
    visitor.page.locator("[name=title]").press_sequentially("postgresql release")
    visitor.page.locator("#known a").first.wait_for()


def _bad_plan(visitor: Visitor) -> None:
    box = visitor.page.locator("#plan-form textarea")
    box.fill("solid-state batteries\n?!\nSolid-State Batteries\n" + "x" * 401)
    visitor.page.get_by_role("button", name="Run these queries").click()
    visitor.page.locator("#plan-form [aria-invalid]").wait_for()


def _gone_plan(visitor: Visitor) -> None:
    visitor.page.evaluate("document.querySelector('#plan-form [name=seen]').value = ''")
    visitor.page.locator("#plan-form textarea").fill("what I typed\nin the other window")
    visitor.page.get_by_role("button", name="Run these queries").click()
    visitor.page.locator("#typed").wait_for()


def _stale_soul(visitor: Visitor) -> None:
    visitor.page.evaluate(
        "document.querySelector('#soul [name=standing]').value = "
        "'00000000-0000-4000-8000-000000000000'"
    )
    visitor.page.locator("#soul textarea").first.fill("# Soul\n\nWhat I typed in the other window.")
    visitor.press("Save as new soul")
    visitor.page.locator("#identity_conflict").wait_for()


def _card(visitor: Visitor) -> None:
    visitor.page.locator("article sup a").first.click()
    visitor.page.locator(".cite-card").wait_for()


def _correct_nothing(visitor: Visitor) -> None:
    visitor.page.locator(".sentences a.btn").first.click()
    visitor.page.locator("[name=wrong]").fill(" ")
    visitor.press("Save")
    visitor.page.locator(".errorlist").first.wait_for()


def _keys(visitor: Visitor) -> None:
    visitor.page.keyboard.press("?")
    visitor.page.locator("dialog[open]").wait_for()


def _palette(visitor: Visitor) -> None:
    visitor.page.keyboard.press("Control+k")
    visitor.page.locator("#palette [name=words]:focus").wait_for()
    visitor.page.keyboard.type("postgres")
    visitor.page.locator("#palette-rows a", has_text="Search memory for “postgres”").wait_for()


def _bad_sign_in(visitor: Visitor) -> None:
    visitor.page.get_by_label("Username").fill("grace-who-is-not")
    visitor.page.get_by_label("Password").fill("wrong")
    visitor.press("Sign in")
    visitor.page.locator("main [role=alert], main .form-errors").first.wait_for()


def chosen(found: list[Place], wanted: list[str]) -> list[Place]:
    """Return the places whose name contains one of the words; all without words."""
    return [place for place in found if not wanted or any(word in place.name for word in wanted)]


def places(cast: dict[str, str]) -> list[Place]:
    """Return every page in every state that the cast gives it."""
    return [
        *_outside(),
        *_empty(),
        *_topic_pages(cast),
        *_runs(cast),
        *_shares(cast),
        *_compare(cast),
        *(Place(name, path, FULL, act) for name, path, act in list_places.found()),
        *(Place(name, path, EMPTY) for name, path in list_places.empty()),
        *(Place(name, path, FULL, act) for name, path, act in record_places.found(cast)),
        *(Place(name, path, FULL, act) for name, path, act in trust_places.found(cast)),
        *(Place(name, path, EMPTY) for name, path in trust_places.empty()),
        *(Place(name, path, FULL, act) for name, path, act in review_places.found(cast)),
        *(Place(name, path, FULL, act) for name, path, act in ask_places.found(cast)),
        *(Place(name, path, EMPTY) for name, path in ask_places.empty()),
        *(Place(name, path, FULL, act) for name, path, act in content_places.found(cast)),
        *(Place(name, path, EMPTY) for name, path in content_places.empty()),
        *(Place(name, path, EMPTY) for name, path in review_places.empty()),
        *(Place(name, path, FULL, act) for name, path, act in file_places.found(cast)),
        *(Place(name, path, EMPTY) for name, path in file_places.empty()),
        *(Place(name, path, FULL, act) for name, path, act in file_history_places.found(cast)),
        *(Place(name, path) for name, path in notice_places.found(cast)),
        *(Place(name, path, EMPTY) for name, path in notice_places.empty()),
        *(Place(name, path, FULL, act) for name, path, act in watch_places.found(cast)),
        *(Place(name, path, EMPTY) for name, path in watch_places.empty()),
        *(Place(name, path, STRANGER) for name, path in watch_places.outside(cast)),
        *(Place(name, path, WORDS, act) for name, path, act in script_places.found(cast)),
        *_archives(cast),
        *_rest(cast),
    ]


def _archives(cast: dict[str, str]) -> list[Place]:
    names = (
        "export done",
        "export going",
        "import archive",
        "import lines",
        "import vault",
        "import app",
        "import bookmarks",
        "pages going",
        "pages stopped",
        "pages done",
    )
    return [
        Place("archive", "/settings/archive/", FULL),
        Place("archive empty", "/settings/archive/", EMPTY),
        *(Place(f"archive {n}", cast[n]) for n in (*names, "import done", "import failed")),
    ]


def _outside() -> list[Place]:
    return [
        Place("sign-in", "/sign-in/", STRANGER),
        Place("sign-in wrong", "/sign-in/", STRANGER, _bad_sign_in),
        Place("dead link", "/invitation/no-such-token/", STRANGER),
        Place("not found", "/topics/no-such-topic/", FULL),
        Place("not found outside", "/nowhere/", STRANGER),
    ]


def _empty() -> list[Place]:
    return [
        Place("home empty", "/", EMPTY),
        Place("topics empty", "/topics/", EMPTY),
        Place("topics none found", "/topics/?q=nothing-is-like-this", FULL),
        Place("reports empty", "/reports/", EMPTY),
        Place("library empty", "/library/", EMPTY),
        Place("schedule empty", "/schedule/", EMPTY),
        Place("profile plain", "/settings/profile/", EMPTY),
        Place("soul first", "/settings/soul/", EMPTY),
    ]


def _topic_pages(cast: dict[str, str]) -> list[Place]:
    def named(tab: str) -> str:
        return tab.replace("/?", " ").strip("/").replace("=", " ") or "read"

    tabs = (
        "",
        "facts/",
        "facts/?view=list",
        "facts/?slot=1",
        "sources/",
        "runs/",
        "memory/",
        "settings/",
    )
    found = [
        Place("topics", "/topics/"),
        Place("topics all", "/topics/?show=all&sort=title"),
        Place("topics trash", "/trash/?type=topic"),
        Place("topic purge", cast["purge"]),
        Place("schedule", "/schedule/"),
        Place("topic forecast", f"/topics/{cast['topic']}/forecast/"),
        Place("topic new", "/topics/new/", FULL),
        Place("topic new unfolded", "/topics/new/", FULL, unfold),
        Place("topic new template", "/topics/new/?template=competitor-scan", FULL, unfold),
        Place("topic new ordered", "/topics/new/?template=research-field", FULL, _reordered),
        Place("topic new wrong", "/topics/new/", FULL, _bad_topic),
        Place("topic new known", "/topics/new/", FULL, _known_topic),
        Place("fact edit", cast["fact"]),
        Place("fact history", cast["history"]),
        Place("as of before the first record", "/files/?as_of=1999-12-31"),
        Place("as of the future", "/memory/?q=release&as_of=2999-12-31"),
    ]
    found.append(Place("report correct in place", cast["report 2"], FULL, _correct_in_place))
    moment = f"as_of={datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    found += [
        Place(f"dated {name}", f"{page}?{moment}")
        for name, page in (
            ("topics", "/topics/"), ("read", f"/topics/{cast['sample']}/"),
            ("sources", f"/topics/{cast['sample']}/sources/"),
            ("runs", f"/topics/{cast['sample']}/runs/"),
            ("context", f"/topics/{cast['sample']}/memory/"), ("notes", "/notes/"),
            ("observations", "/observations/"), ("schedule", "/schedule/"),
        )
    ]  # fmt: skip
    for name, slug in (("sample", cast["sample"]), ("aio", cast["topic"])):
        found += [Place(f"topic {name} {named(tab)}", f"/topics/{slug}/{tab}") for tab in tabs]
    found += [
        Place(f"topic {name} {tab.strip('/') or 'read'}", f"/topics/{cast[name + ' slug']}/{tab}")
        for name in ("long", "rtl", "chinese", "emoji")
        for tab in ("", "facts/", "sources/")
    ]
    settings = f"/topics/{cast['sample']}/settings/"
    found += [
        Place("topic report preview", settings, FULL, _report_preview),
        Place("topic report template wrong", settings, FULL, _bad_report_template),
    ]
    pages = f"/topics/{cast['topic']}/sources/?by=page"
    found.append(Place("topic aio source pages", pages, FULL, unfold))
    sample = f"/topics/{cast['sample']}/"
    found += [
        Place("topic read one", f"{sample}?from=2&to=2", FULL, unfold),
        Place("topic read several", f"{sample}?from=1&to=4"),
        Place("topic read pressed", f"{sample}?from=2&to=3", FULL, _pressed),
        Place("topic read correcting", f"{sample}?from=2&to=3", FULL, _correcting),
        Place(
            "sentence note",
            f"{sample}note/?sentence=PostgreSQL+13+reached+its+end+of+life+on+13+November+2025%2C+with+13.23+as+its+last+minor+release.",
        ),
    ]
    return [*found, Place("topic failed", f"/topics/{cast['failed slug']}/")]


def _pressed(visitor: Visitor) -> None:
    visitor.page.keyboard.press("j")
    visitor.page.locator("li.line.here").wait_for()


def _correcting(visitor: Visitor) -> None:
    _pressed(visitor)
    visitor.page.keyboard.press("e")
    visitor.page.locator(".edit-here textarea").wait_for()


def _shares(cast: dict[str, str]) -> list[Place]:
    return [
        Place("share", cast["share"]),
        Place("share wrong", cast["share"], FULL, _long_note),
        Place("shared links", "/reports/shared-links/"),
        Place("shared links empty", "/reports/shared-links/", EMPTY),
        Place("topic people", cast["people"]),
        Place("topic people wrong", cast["people"], FULL, _no_person),
        Place("topics shared", "/topics/", WORDS),
        Place("shared topic", cast["member"], WORDS),
        *(
            Place(f"shared topic {tab}", f"{cast['member']}{tab}/", WORDS)
            for tab in ("facts", "sources", "reports")
        ),
        Place("shared topic report", cast["member report"], WORDS, unfold),
        Place("shared topic settings", cast["member settings"], WORDS),
        Place("shared topic settings wrong", cast["member settings"], WORDS, _no_document),
        Place("comments of the owner", cast["commented"]),
        Place("comment edit", cast["comment"], WORDS),
        Place("comment wrong", cast["member report"], WORDS, _no_comment),
        Place("shared report", cast["shared"], STRANGER),
        Place("shared over", cast["shared over"], STRANGER),
        Place("shared unknown", "/shared/no-such-link/", STRANGER),
    ]


def _no_person(visitor: Visitor) -> None:
    visitor.page.locator("[name=username]").fill("grace")  # the owner
    visitor.page.get_by_role("button", name="Share", exact=True).click()
    visitor.page.locator("[name=username][aria-invalid]").wait_for()


def _no_document(visitor: Visitor) -> None:
    visitor.page.locator("[name=always_check]").fill("library:2b6b6a2e/1")
    visitor.page.get_by_role("button", name="Save", exact=True).click()
    visitor.page.locator("[name=always_check][aria-invalid]").wait_for()


def _no_comment(visitor: Visitor) -> None:
    # The field itself takes no blank: a program that posts one gets the error too.
    visitor.page.evaluate("document.querySelector('[name=text]').removeAttribute('required')")
    visitor.page.get_by_role("button", name="Comment", exact=True).click()
    visitor.page.locator("[name=text][aria-invalid]").wait_for()


def _long_note(visitor: Visitor) -> None:
    # The field itself allows no more: a program that posts gets the error too.
    visitor.page.evaluate("document.querySelector('[name=note]').removeAttribute('maxlength')")
    visitor.page.locator("[name=note]").fill("x" * 151)
    visitor.page.get_by_role("button", name="Create link").click()
    visitor.page.locator("[name=note][aria-invalid]").wait_for()


def _runs(cast: dict[str, str]) -> list[Place]:
    names = (
        "delta",
        "partial",
        "long",
        "chinese",
        "rtl",
        "emoji",
        "running",
        "failed",
        "cancelled",
    )
    samples = [f"report {number}" for number in range(1, 5)]
    return [
        *(Place(f"run {name}", cast[name]) for name in (*names, *samples)),
        Place("run deep", cast["deep"]),
        Place("run deep report", cast["deep report"]),
        Place("run deep report unfolded", cast["deep report"], FULL, unfold),
        Place("run waiting", cast["waiting"]),
        Place("run waiting wrong", cast["waiting"], FULL, _bad_plan),
        Place("run waiting gone", cast["waiting"], FULL, _gone_plan),
        Place("topic waiting", f"/topics/{cast['waiting slug']}/"),
        Place("run unfolded", cast["delta"], FULL, unfold),
        Place("run card", cast["report 1"], FULL, _card),
        Place("run source", cast["report 1"] + "sources/1/"),
        Place("run sentences", cast["report 1"] + "sentences/"),
        Place("run sentences unsupported", cast["report 1"] + "sentences/?show=unsupported"),
        Place("run sentence wrong", cast["report 1"] + "sentences/", FULL, _correct_nothing),
        Place("topic corrections", f"/topics/{cast['sample']}/corrections/"),
        Place("run trace", cast["delta"] + "trace/"),
        Place("run removing", cast["delta"] + "trash/"),
    ]


def _compare(cast: dict[str, str]) -> list[Place]:
    page, young = cast["compare"], f"/topics/{cast['young']}/compare/"
    sample = f"/topics/{cast['sample']}/compare/?from=1&to=3"
    return [
        Place("compare", page),
        Place("compare facts", f"{page}?from=1&to=4", FULL, unfold),
        Place("compare words", f"{page}?from=1&to=4&view=words"),
        Place("compare words all", f"{page}?from=1&to=4&view=words&show=all"),
        Place("compare lines", f"{page}?from=1&to=4&view=lines"),
        Place("compare side", f"{page}?from=1&to=4&view=lines&layout=side"),
        Place("compare sources", f"{page}?from=1&to=4&view=sources"),
        Place("compare backwards", f"{page}?from=4&to=2&view=words"),
        Place("compare wrong", f"{page}?from=99&to=2"),
        Place("compare empty", young),
        Place("compare sample", sample, FULL, unfold),
        Place("compare sample words", f"{sample}&view=words"),
        Place("run writing", cast["writing"]),
    ]


def _rest(cast: dict[str, str]) -> list[Place]:
    return [
        Place("home", "/"),
        Place("keys", "/topics/", FULL, _keys),
        Place("palette", "/palette/?words=postgresql"),
        Place("palette open", "/topics/", FULL, _palette),
        Place("reports", "/reports/"),
        Place("reports unread", "/reports/?show=unread"),
        Place("library", "/library/"),
        Place("library found", "/library/?q=pilot"),
        Place("library add", "/library/add/"),
        Place("library document", cast["document"]),
        Place("library edit", cast["document edit"]),
        Place("profile", "/settings/profile/", FULL),
        Place("persona", "/settings/persona/", FULL),
        Place("soul", "/settings/soul/"),
        Place("soul unfolded", "/settings/soul/", FULL, unfold),
        Place("soul edit", "/settings/soul/?edit=1"),
        Place("soul conflict", "/settings/soul/?edit=1", FULL, _stale_soul),
        Place("source rules", "/settings/sources/"),
        Place("sign-ins", "/settings/sign-ins/"),
        Place("authenticator app", "/settings/sign-ins/app/"),
        Place("passkey add", "/settings/sign-ins/passkeys/"),
        Place("authenticator app wrong", "/settings/sign-ins/app/", act=_no_code),
        Place("app consent", cast["asking app"]),
        Place("app consent wrong", cast["asking app"], act=_bad_agent),
        Place("app refused", "/oauth/authorize?client_id=nobody"),
        Place("account delete refused", "/settings/account/delete/"),
        Place("account delete", "/settings/account/delete/", EMPTY),
        Place("api tokens", "/settings/tokens/"),
        Place("api token made", "/settings/tokens/", FULL, _make_token),
        Place("agent", "/agents/permissions/", FULL, lambda visitor: visitor.follow("desk")),
        Place(
            "agent research",
            "/agents/permissions/",
            FULL,
            lambda visitor: visitor.follow("research"),
        ),
        Place("people", "/settings/people/"),
        Place("backups", "/settings/backups/"),
        Place("backups made", "/settings/backups/", FULL, _back_up),
        Place("people invited", "/settings/people/", FULL, _invite),
        *_settings(),
    ]


def _settings() -> list[Place]:
    connections = "/settings/connections/"
    return [
        Place("connections", connections),
        Place("connections unfolded", connections, FULL, unfold),
        Place("connections wrong", connections, FULL, _wrong_model),
        Place("connections set up", connections, FULL, _set_up),
        Place("spending own key", "/settings/spending/", FULL, _enter_own_key),
        Place("connections empty again", connections, FULL, _take_down),
        Place("spending", "/settings/spending/"),
        Place("spending all", "/settings/spending/?who=all"),
        Place("spending wrong", "/settings/spending/?month=soon", FULL, _wrong_limit),
        Place("spending empty", "/settings/spending/", EMPTY),
        Place("health", "/settings/health/"),
    ]


def _fill(visitor: Visitor, section: str, **fields: str) -> None:
    """Fill in a section's form and save it; the section of the answer is there afterwards."""
    for name, value in fields.items():
        visitor.page.locator(f"[name={section}-{name}]").fill(value)
    whole = visitor.page.locator(f"#connection_{section}")
    before = whole.element_handle()
    whole.locator("form:not([id]) .form-actions button").first.click()
    # What was true before the save may be true after it: the old section has to be gone.
    before.wait_for_element_state("hidden")


def _choose_other_provider(visitor: Visitor) -> None:
    """The fields of the model are shown once a provider is selected."""
    visitor.page.locator("[name=model-kind][value=compatible]").check()


def _wrong_model(visitor: Visitor) -> None:
    _choose_other_provider(visitor)
    _fill(visitor, "model", base_url="me@h/v1?x", secret="typed")
    visitor.page.locator("#connection_model [aria-invalid]").first.wait_for()


def _set_up(visitor: Visitor) -> None:
    """Enter the model of the cast's stored test, and a service that doesn't answer."""
    nowhere = "http://127.0.0.1:9"
    _choose_other_provider(visitor)
    _fill(visitor, "model", base_url=f"{nowhere}/v1", model="llama3.1:8b")
    visitor.page.locator("#connection_model .probe").wait_for()
    visitor.page.locator("#connection_tavily summary").click()
    _fill(visitor, "tavily", base_url=nowhere, secret="tvly-of-no-use-1234")
    visitor.page.locator("#connection_tavily", has_text="ends in …1234").wait_for()
    visitor.page.locator("#connection_tavily").get_by_role("button", name="Test").click()
    visitor.page.locator("#test_tavily .callout").wait_for()


def _enter_own_key(visitor: Visitor) -> None:
    section = visitor.page.locator("#spending_key")
    section.get_by_label("Key", exact=True).fill("sk-own-key-of-grace")
    section.get_by_role("button", name="key").first.click()
    section.get_by_text("in use", exact=True).wait_for()


def _take_down(visitor: Visitor) -> None:
    """Take what `_set_up` stored away again: runs of other tests must not ask it."""
    _fill(visitor, "model", base_url="", model="")
    visitor.page.locator("#connection_model header .tag", has_text="not set up").wait_for()
    visitor.page.locator("#connection_tavily summary").click()
    for box in visitor.page.locator("[name=tavily-remove_secret]").all():  # none the second time
        box.check()
    _fill(visitor, "tavily", base_url="")
    visitor.page.locator("#connection_tavily", has_text="no key").wait_for()


def _wrong_limit(visitor: Visitor) -> None:
    visitor.page.locator("#spending_limits summary").click()
    visitor.page.locator("[name=monthly_money]").fill("-1")
    visitor.press("Save limits")
    visitor.page.locator("[aria-invalid]").first.wait_for()


def _make_token(visitor: Visitor) -> None:
    visitor.page.locator("#create-token > summary").click()
    visitor.page.locator("main form [name=name]").fill("claude")
    visitor.press("Create token")
    visitor.page.locator("#new-token").wait_for()


def _back_up(visitor: Visitor) -> None:
    visitor.press("Back up now")
    visitor.page.get_by_text("restore tested").first.wait_for()


def _invite(visitor: Visitor) -> None:
    visitor.page.locator(".head a[href='#invite']").click()
    visitor.page.locator("main form [name=note]").fill("Kim")
    visitor.press("Create invite link")
    visitor.page.locator("#invitation-link").wait_for()


def _correct_in_place(visitor: Visitor) -> None:
    visitor.page.locator(".delta .body-text[tabindex]").first.focus()
    visitor.page.keyboard.press("Enter")
    visitor.page.locator(".report .edit-here form").wait_for()
