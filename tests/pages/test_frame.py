"""The frame of every page: vendored files, the CSP's conditions, contrast, base templates."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from django.template.loader import render_to_string
from django.test import RequestFactory

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted(
    path for path in (ROOT / "templates").rglob("*.html") if "prompts" not in path.parts
)
STYLES = sorted((ROOT / "static/css").glob("*.css"))
SCRIPTS = sorted((ROOT / "static/js").glob("*.js"))
ERRORS = ["400", "401", "403", "404", "405", "409", "413", "429", "500"]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _without_comments(path: Path) -> str:
    comments = r"{#.*?#}|{% comment %}.*?{% endcomment %}"
    return re.sub(comments, "", path.read_text(), flags=re.S)


@pytest.mark.parametrize("folder", ["static/vendor", "tests/vendor"])
def test_vendored_files_are_the_ones_whose_sums_were_written_down(folder: str) -> None:
    lines = (ROOT / folder / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {path.name: path for path in (ROOT / folder).iterdir() if path.name in sums}
    assert {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in files.items()} == sums


@pytest.mark.parametrize("folder", ["static/vendor", "tests/vendor"])
def test_every_vendored_script_and_style_has_a_sum_and_a_license(folder: str) -> None:
    code = [
        p.name for p in (ROOT / folder).iterdir() if p.suffix in {".js", ".css", ".woff2", ".ttf"}
    ]
    sums = (ROOT / folder / "SHA256SUMS").read_text()
    missing = []
    for name in code:
        package = re.split(r"[.](?:min|css|js|woff2|ttf)|-ext|-italic|-bold", name)[0]
        if name not in sums or not (ROOT / folder / f"{package}.LICENSE.txt").exists():
            missing.append(name)
    assert missing == []


# --- fonts ------------------------------------------------------------------------------------

SIZES = re.findall(
    r"--size-(\d+): ([\d.]+rem);", (ROOT / "static/css/tokens.css").read_text(encoding="utf-8")
)


def _sizes_in(css: str) -> list[str]:
    """Return the font sizes that declarations set: `font-size`, or the size of a `font`."""
    css = re.sub(r"/\*.*?\*/|@font-face \{.*?\}", "", css, flags=re.S)
    sizes = re.findall(r"[\s;{]font-size:\s*([^;}]+)", css)
    for value in re.findall(r"[\s;{]font:\s*([^;}]+)", css):
        before_family = re.split(
            r'\s/\s|\svar\(--(?:sans|serif|mono)\)|\s["A-Z]|\ssystem-ui', value
        )[0]
        sizes.append(before_family.split()[-1])
    return [size.strip() for size in sizes]


def test_there_are_seven_font_sizes() -> None:
    assert [int(px) for px, _ in SIZES] == [11, 12, 13, 15, 17, 21, 24]
    assert [float(rem.removesuffix("rem")) * 16 for _, rem in SIZES] == [int(px) for px, _ in SIZES]


@pytest.mark.parametrize("path", STYLES, ids=_name)
def test_every_style_sheet_uses_only_the_seven_font_sizes(path: Path) -> None:
    allowed = {f"var(--size-{px})" for px, _ in SIZES} | {"inherit"}
    if path.name == "export.css":  # it's also sent by email, which knows no variables
        allowed = {rem for _, rem in SIZES}
    if path.name == "print.css":
        allowed = {"9pt", "11pt", "12pt"}
    assert [size for size in _sizes_in(path.read_text()) if size not in allowed] == []


def test_the_size_of_every_kind_of_declaration_is_found() -> None:
    css = 'a{font:600 9px / 1 "A"} b { font: italic 2em Charter; font-size: 3rem } c{font: inherit}'
    assert sorted(_sizes_in(css)) == ["2em", "3rem", "9px", "inherit"]


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_style_sheets_have_no_repeated_rules_and_no_broken_comments(path: Path):
    css = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    rules = re.findall(r"[^{}]+\{[^{}]*\}", css)

    assert "*/" not in css and css.count("{") == css.count("}")
    assert not [rule for rule, times in Counter(rules).items() if times > 1 and len(rule) > 60]


def test_the_fonts_come_from_beacon_and_weigh_little() -> None:
    css = (ROOT / "static/css/tokens.css").read_text()
    files = re.findall(r'url\("\.\./(vendor/[a-z-]+\.woff2)"\)', css)
    assert len(files) == css.count("url(") == 5
    assert sum((ROOT / "static" / one).stat().st_size for one in files) < 130_000
    head = render_to_string("_head.html")
    assert re.search(r'<link rel="preload" href="[^"]+source-sans\S*woff2" as="font"', head)


def test_the_vendor_lock_names_no_registry() -> None:
    lock = (ROOT / "vendor-src/package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert all("integrity" in p for name, p in json.loads(lock)["packages"].items() if name)


def test_templates_hold_nothing_inline_that_the_csp_would_refuse() -> None:
    refused = (
        r"\sstyle=|\son[a-z]+=[\"']|\shx-on|<style|<script(?![^>]*\ssrc=| type=\"application/json)"
    )
    inline = {_name(p): re.findall(refused, _without_comments(p)) for p in TEMPLATES}
    assert {name: found for name, found in inline.items() if found} == {}


def test_no_page_loads_anything_from_elsewhere() -> None:
    loads = r"""(?:src=|url\(|@import\s|<link[^>]*href=)\s*["']?(?:https?:)?//"""
    loaded = {_name(p): re.findall(loads, p.read_text()) for p in TEMPLATES + STYLES}
    assert {name: found for name, found in loaded.items() if found} == {}


def test_scripts_evaluate_nothing_and_insert_no_markup() -> None:
    refused = r"\beval\(|new Function|innerHTML|document\.write"
    held = {_name(p): re.findall(refused, p.read_text()) for p in SCRIPTS}
    assert {name: found for name, found in held.items() if found} == {}


def test_template_comments_of_one_line_end_on_it() -> None:
    """A `{#` without its `#}` on the same line would be shown to the person."""
    loose = [
        f"{_name(path)}: {line}"
        for path in TEMPLATES
        for line in path.read_text().splitlines()
        if line.count("{#") != line.count("#}")
    ]
    assert loose == []


def test_every_icon_a_template_names_is_in_the_sprite() -> None:
    sprite = (ROOT / "templates/_sprite.html").read_text()
    named = {
        name
        for path in TEMPLATES
        for name in re.findall(r'_icon\.html" with name="([a-z-]+)"', _without_comments(path))
    }
    assert {name for name in named if f'id="i-{name}"' not in sprite} == set()


# --- contrast ---------------------------------------------------------------------------------


def _tokens() -> dict[str, tuple[str, str]]:
    """Return each color token's day and night value."""
    css = (ROOT / "static/css/tokens.css").read_text()
    pairs = re.findall(r"--([a-z0-9-]+): light-dark\((#\w{6}), (#\w{6})\)", css)
    return {name: (day, night) for name, day, night in pairs}


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    """Return WCAG's contrast ratio of two `#rrggbb` colors, 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


GROUNDS = ["paper", "sheet", "wash"]
TEXT = [
    *((ink, ground) for ink in ["ink", "ink-2", "ink-3", "link", "accent"] for ground in GROUNDS),
    *((ink, ground) for ink in ["add", "del", "warn", "info"] for ground in GROUNDS),
    *((f"{mood}", f"{mood}-wash") for mood in ["add", "del", "warn", "info", "accent"]),
    *(("ink", f"{mood}-wash") for mood in ["add", "del", "warn", "info", "accent"]),
    *(("ink-2", ground) for ground in ["accent-wash", "line", "add-wash", "del-wash"]),
    ("accent-ink", "accent"),
    ("accent-ink", "accent-hover"),
    ("slab-ink", "slab"),
    ("slab-accent", "slab"),
]


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXT)
def test_text_stands_out_by_four_and_a_half_to_one(ink: str, ground: str, mode: int) -> None:
    tokens = _tokens()
    assert _contrast(tokens[ink][mode], tokens[ground][mode]) >= 4.5


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("edge", "ground"), [(e, g) for e in ["edge", "accent"] for g in GROUNDS])
def test_borders_of_controls_stand_out_by_three_to_one(edge: str, ground: str, mode: int) -> None:
    tokens = _tokens()
    assert _contrast(tokens[edge][mode], tokens[ground][mode]) >= 3


# --- templates --------------------------------------------------------------------------------


def _person(**more: Any) -> SimpleNamespace:
    person = {"username": "alice", "display_name": "", "is_authenticated": True, "is_staff": False}
    return SimpleNamespace(**{**person, "shortcuts": True, "time_zone": "Asia/Tokyo", **more})


def _frame(**context: Any) -> str:
    item = {"label": "Topics", "url": "/topics/", "current": True, "count": "3"}
    nav = [[{**item, "key": "t", "icon": "topics"}]]
    base = {"nav": nav, "user": _person(), "messages": [], "unread_reports": 3}
    return render_to_string("base.html", {**base, **context}, RequestFactory().get("/reports/?q=1"))


def test_the_rail_shows_where_one_is_and_what_waits() -> None:
    page = _frame()
    assert re.search(r'href="/topics/" aria-current="page" data-hotkey="g t"', page)
    assert '<span class="count hot">3' in page


def test_the_frame_has_one_heading_and_a_way_past_the_rail() -> None:
    page = _frame()
    assert page.count("<h1") == 1
    assert page.index('class="skip" href="#main"') < page.index('class="rail"')


def test_signing_out_is_a_post_with_a_token() -> None:
    form = re.search(r'<form method="post" action="([^"]+)">(.*?)</form>', _frame(), re.S)
    assert form and "csrfmiddlewaretoken" in form[2] and "Sign out" in form[2]


def test_the_banner_is_there_only_when_something_is_wrong() -> None:
    assert 'class="banner"' not in _frame()
    assert "No background worker is running" in _frame(
        health_banner="No background worker is running"
    )


def test_a_message_with_undo_is_a_form_that_comes_back_here() -> None:
    message = SimpleNamespace(
        level_tag="success", extra_tags="6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
    )
    page = _frame(messages=[message])
    assert f'<form method="post" action="/undo/{message.extra_tags}/">' in page
    assert 'name="next" value="/reports/?q=1"' in page


def test_shortcuts_can_be_turned_off_and_times_know_the_zone() -> None:
    page = _frame(user=_person(shortcuts=False))
    assert 'data-shortcuts="off"' in page
    assert 'data-time-zone="Asia/Tokyo"' in page


def test_htmx_can_evaluate_nothing_and_shows_conflicts_and_limits() -> None:
    found = re.search(r"<meta name=\"htmx-config\" content='(.*?)'>", _frame())
    config = json.loads(found[1]) if found else {}
    off = ["includeIndicatorStyles", "allowEval", "allowScriptTags", "historyCacheSize"]
    assert [config[name] for name in off] == [False, False, False, 0]
    assert {"code": "409|413|422|429", "swap": True} in config["responseHandling"]


@pytest.mark.parametrize("code", ERRORS)
def test_error_pages_need_no_context_and_lead_home(code: str) -> None:
    page = render_to_string(f"{code}.html")
    assert f">{code}<" in page
    assert 'href="/"' in page


@pytest.mark.parametrize("code", ["401", "403", "404", "405", "409", "413", "429"])
def test_over_htmx_an_error_is_a_fragment_that_says_why(code: str) -> None:
    request = RequestFactory().get("/")
    request.htmx = True  # type: ignore[attr-defined]
    part = render_to_string(f"{code}.html", {"why": "Because of this."}, request)
    assert "<html" not in part
    assert "Because of this." in part


@pytest.mark.parametrize(("unread", "shown"), [(3, "3"), (12, "12"), (240, "99")])
def test_the_favicon_bears_how_many_reports_are_unread(unread: int, shown: str) -> None:
    icon = render_to_string("_favicon.html", {"unread_reports": unread})
    drawn = ElementTree.fromstring(unquote(icon.split("svg+xml,")[1].split(chr(34))[0]))  # noqa: S314  (our own)
    assert [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")] == [shown]


def test_without_anything_unread_the_favicon_is_the_plain_one() -> None:
    assert 'href="/static/favicon.svg"' in render_to_string("_favicon.html", {"unread_reports": 0})
    assert 'href="/static/favicon.svg"' in render_to_string("_favicon.html")
