"""Telling a page from what a server sends in its place: a sign-in form, a CAPTCHA, “not found”.

Such a text says nothing about the topic, and compared with the page's last version it would look as if
all facts were gone.  Only short texts are judged: an article about CAPTCHAs is a page like any other.
"""

from __future__ import annotations

import re

from django.utils.translation import gettext as _

from memory.texts.text import one_line

LONGEST = 1_500  # characters of a text that can be a stand-in
LEAD = 400  # characters in which it says what it is

_CHALLENGE = re.compile(
    r"\b(?:verify(?:ing)? (?:that )?you(?: are|['’]re) (?:a )?(?:human|not a robot)|are you a (?:robot|human)|prove (?:that )?you(?: are|['’]re) human"
    r"|(?:complet\w+|solv\w+) the captcha|checking (?:if the site connection is secure|your browser)"
    r"|enable javascript and cookies to continue|unusual traffic from your|needs to review the security of your connection"
    r"|press (?:and|&) hold to confirm|bestätigen sie, dass sie (?:ein mensch|kein roboter)|vérifie[rz] que vous (?:êtes|n['’]êtes pas)"
    r"|verifi(?:ca|que) que (?:eres|es usted|no eres))",
    re.IGNORECASE,
)
_SIGN_IN = re.compile(
    r"\b(?:(?:please |you (?:must|need to|have to) (?:be )?)(?:sign|log)(?:ged|ed)?[ -]?in\b"
    r"|(?:sign|log)[ -]?in (?:to (?:continue|access|view|read|your account)|is required)|session (?:has )?expired"
    r"|subscribe to (?:continue|read|keep) reading|bitte (?:melden sie sich an|loggen sie sich ein)|veuillez vous (?:connecter|identifier)"
    r"|(?:inicie|inicia) sesión para)|请(?:先)?登录|ログインしてください",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(
    r"\b(?:(?:page|article|document|file)\b.{0,60}(?:does not|doesn['’]t|no longer) exists?|(?:page|article|document|file) (?:was |could )?not (?:be )?found"
    r"|(?:cannot|can['’]t|couldn['’]t|could not) find (?:the|that|this) page|404 not found|error 404"
    r"|seite (?:wurde )?nicht gefunden|seite existiert nicht|page (?:introuvable|non trouvée)|página no (?:encontrada|existe))|页面不存在|找不到(?:页面|网页)",
    re.IGNORECASE,
)
_TITLES = (
    (re.compile(r"(?:just a moment|attention required|are you a robot|captcha|security check|access denied)\b", re.IGNORECASE), "challenge"),
    (re.compile(r"(?:sign|log)[ -]?in\b|anmelden\b|(?:se )?connexion\b|iniciar sesión\b|登录|ログイン", re.IGNORECASE), "sign-in"),
    (re.compile(r"(?:page )?not found\b|404\b|seite nicht gefunden\b|page introuvable\b|página no encontrada\b", re.IGNORECASE), "not found"),
)  # fmt: skip


def reason_against(title: str, text: str) -> str:
    """Return why a text isn't the page that was asked for, as a sentence; empty if it seems to be."""
    said = one_line(text)
    if len(said) > LONGEST:
        return ""
    lead = said[:LEAD]
    kind = next((kind for pattern, kind in _TITLES if pattern.match(title.strip())), "")
    # Of a longer text neither the title nor the first words are enough: they may be its subject.
    is_brief = len(said) <= LEAD
    if _CHALLENGE.search(lead) or (kind == "challenge" and is_brief):
        return _("the site asks visitors to prove that they are human, and sent no text")
    for name, pattern, words in (
        ("sign-in", _SIGN_IN, _("the site sent a sign-in page instead of the text")),
        ("not found", _NOT_FOUND, _("the site says that the page doesn't exist")),
    ):
        signs = (kind == name) + bool(pattern.search(lead)) + is_brief
        if signs >= 2:
            return words
    return ""
