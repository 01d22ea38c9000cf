"""Keys and passwords in text: what is found, what isn't, and what each writer's text becomes."""

from __future__ import annotations

import io
import random
import re
import string
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from beacon_site.text.secret_scanner import find, mask, mask_all, shapes
from memory.management.commands.verify import Command
from memory.models import (
    Activity,
    Conflict,
    MemoryFile,
    Note,
    Observation,
    ReviewLevel,
    Topic,
)
from memory.services.files.saving import save_file
from memory.services.library.reading import read_document
from tests.api.cast import Program
from tests.memory.tool_cast import accept_all, call
from tests.pages.record_cast import HTMX, note, text_of
from tests.research.factories import make_topic

_KINDS = {
    "a": string.ascii_letters,
    "A": string.ascii_uppercase + "234567",
    "h": "0123456789abcdef",
    "n": string.ascii_letters + string.digits,
    "d": string.digits,
}


def sample(form: str) -> str:
    """Return a text of this form, in which `<n36>` is 36 random letters and digits.

    The keys are put together here, so that no scanner of repositories takes them for real ones.
    """
    dice = random.Random(form)
    return re.sub(
        r"<([a-zA-Z])(\d+)>",
        lambda match: "".join(dice.choices(_KINDS[match[1]], k=int(match[2]))),
        form,
    )


JWT = "eyJ<n30>.eyJ<n60>.<n43>"
SECRETS = {
    "private key": "-----BEGIN RSA PRIVATE KEY-----\n<n64>\n<n64>\n-----END RSA PRIVATE KEY-----",
    "age secret key": "AGE-SECRET-KEY-1" + ("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2)[:58],
    "AWS access key": "AKIA<A16>",
    "AWS secret key": "aws_secret_access_key = <n40>",
    "Azure storage key": "AccountName=x;AccountKey=<n86>==;",
    "Azure client secret": "abc8Q~<n34>",
    "Google API key": "AIza<n35>",
    "Google client secret": "GOCSPX-<n28>",
    "Google access token": "ya29.<n80>",
    "GitHub token": "ghp_<n36>",
    "GitLab token": "glpat-<n20>",
    "Bitbucket or Atlassian token": "ATATT3<n180>",
    "OpenAI key": "sk-proj-<n80>",
    "Anthropic key": "sk-ant-api03-<n93>",
    "OpenRouter key": "sk-or-v1-<h64>",
    "API key (sk-…)": "sk-<h32>",
    "Hugging Face token": "hf_<a34>",
    "Groq key": "gsk_<n52>",
    "xAI key": "xai-<n80>",
    "Perplexity key": "pplx-<n48>",
    "Replicate token": "r8_<n37>",
    "Tavily key": "tvly-dev-<n32>",
    "Slack token": "xoxb-<d12>-<d12>-<n24>",
    "Slack webhook": "https://hooks.slack.com/services/T<A8>/B<A8>/<n24>",
    "Discord webhook": "https://discord.com/api/webhooks/<d18>/<n68>",
    "Discord bot token": "The discord bot uses M<n23>.<n6>.<n27>",
    "Teams webhook": "https://acme.webhook.office.com/webhookb2/<h36>@<h36>/IncomingWebhook/<h32>",
    "Telegram bot token": "<d9>:AA<n33>",
    "Stripe key": "sk_live_<n24>",
    "webhook signing secret": "whsec_<n32>",
    "Square token": "sq0atp-<n22>",
    "Braintree token": "access_token$production$<h16>$<h32>",
    "Shopify token": "shpat_<h32>",
    "Twilio key": "twilio: SK<h32>",
    "SendGrid key": "SG.<n22>.<n43>",
    "Mailgun key": "key-<h32>",
    "Mailchimp key": "<h32>-us12",
    "Brevo key": "xkeysib-<h64>-<n16>",
    "Resend key": "re_<n8>_<n24>",
    "npm token": "npm_<n36>",
    "PyPI token": "pypi-AgE<n150>",
    "RubyGems key": "rubygems_<h48>",
    "crates.io token": "cio<n32>",
    "Docker token": "dckr_pat_<n27>",
    "DigitalOcean token": "dop_v1_<h64>",
    "Cloudflare origin key": "v1.0-<h24>-<h146>",
    "Heroku key": "HRKU-<n58>",
    "Fly.io token": "fo1_<n43>",
    "Netlify token": "nfp_<n36>",
    "Linear key": "lin_api_<n40>",
    "Notion token": "ntn_<d11><n35>",
    "Figma token": "figd_<n40>",
    "Airtable token": "pat<n14>.<h64>",
    "HubSpot token": "pat-na1-<h8>-<h4>-<h4>-<h4>-<h12>",
    "Dropbox token": "sl.u.<n140>",
    "Postman key": "PMAK-<h24>-<h34>",
    "New Relic key": "NRAK-<n27>",
    "Grafana token": "glsa_<n32>_<h8>",
    "Sentry token": "sntryu_<h64>",
    "PostHog key": "phx_<n43>",
    "Vault token": "hvs.<n90>",
    "Terraform token": "<n14>.atlasv1.<n67>",
    "Pulumi token": "pul-<h40>",
    "Databricks token": "dapi<h32>",
    "Supabase key": "sbp_<h40>",
    "PlanetScale token": "pscale_tkn_<n43>",
    "Doppler token": "dp.pt.<n43>",
    "1Password token": "ops_eyJ<n200>",
    "Tailscale key": "tskey-auth-<n17>-<n32>",
    "Beacon token": "bcn_<n40>",
    "signed token (JWT)": JWT,
    "password in a URL": "postgres://app:Kt7<n9>@db.internal:5432/app",
    "authorization header": "Authorization: Bearer <n40>",
    "password or key": "DB_PASSWORD=9f<n14>",
}

# Texts that look like keys but aren't.
FALSE_FRIENDS = [
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:" + "a3f5" * 16,
    'integrity="sha512-' + "Qm9va2luZ3M" * 7 + '=="',
    "id 6f1ed002-ab55-4f0a-9d3c-2a4b6c8d0e1f",
    "AKIAIOSFODNN7EXAMPLE, the key of AWS's own documentation",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "OPENAI_API_KEY=sk-...",
    "OPENAI_API_KEY=${OPENAI_API_KEY}",
    "API_KEY=your-api-key-1234",
    'password = "correct horse battery staple"',
    "PASSWORD=changeme12345",
    "token: Optional[str] = None",
    "token_count: 12,345,678,901",
    "max_tokens=1000000000000",
    "secret: os.environ['APP_SECRET_KEY_2']",
    "password: /run/secrets/db_password_1",
    "api_key: https://example.com/settings/keys/v2",
    "secret_name = projects/12/secrets/mail/versions/3",
    "pk_live_" + "aB3" * 9,
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk4Xt2Z7vQm9s1",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIB0zCCAXmgAwIBAgIUe\n-----END CERTIFICATE-----",
    "Start the file with -----BEGIN PRIVATE KEY----- and add your key.",
    "scikit-learn, sk-learn and sk-image are packages",
    "risk-adjustedreturnsoverthelastdecade",
    "postgres://user:password@localhost/app",
    "https://user@example.com/path",
    "https://example.com:8443/a@b",
    "price_1NabcDEFghiJKLmnoPQRstuv, cus_9s6XKzkNRiz8i3",
    "123456789012-abcdefghijklmnop.apps.googleusercontent.com",
    "C024BE91L is a Slack channel, T024BE7LD a team",
    "eyJhbGciOiJIUzI1NiJ9 is the header of a token",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
    "DE89 3704 0044 0532 0130 00",
    "The password policy: at least twelve characters, no reuse.",
    "Authorization: Bearer <token>",
    "Bearer tokens are described in RFC 6750.",
    "the key-value store key-0000000000000000000000000000000",
    "hf_hub_download(repo_id, filename)",
    "npm_config_registry and npm_package_version",
    "re_compile_fastmap_internal_structures",
    "SG. Wattenscheid 09 played 2.2.",
    "cio" + "n" * 32,
]


def test_every_shape_has_a_sample():
    assert {shape.name for shape in shapes()} == SECRETS.keys()
    assert len(SECRETS) >= 60


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_found_in_a_sentence_and_masked(kind: str):
    text = f"We rotate it in May: {sample(SECRETS[kind])}\nThe desk opens at nine."
    masked, kinds = mask(text)
    assert kinds == [kind]
    assert f"[removed: {kind}]" in masked
    assert masked.startswith("We rotate it in May: ")
    assert masked.endswith("\nThe desk opens at nine.")
    assert find(masked) == []


@pytest.mark.parametrize("text", FALSE_FRIENDS)
def test_a_false_friend_survives(text: str):
    assert mask(text) == (text, [])


def test_a_word_that_a_key_is_part_of_is_none():
    assert find("x" + sample(SECRETS["GitHub token"])) == []


def test_only_the_password_of_a_url_goes():
    masked, _kinds = mask(sample(SECRETS["password in a URL"]))
    assert masked == "postgres://app:[removed: password in a URL]@db.internal:5432/app"


def test_letters_that_grow_when_lowered_move_nothing():
    key = sample(SECRETS["password or key"])
    assert mask("İİİİ " + key)[0] == "İİİİ DB_PASSWORD=[removed: password or key]"


@given(st.text(), st.sampled_from(sorted(SECRETS)))
def test_masking_again_changes_nothing(text: str, kind: str):
    masked, _kinds = mask(f"{text} {sample(SECRETS[kind])} {text}")
    assert mask(masked)[0] == masked


def test_values_inside_lists_and_objects_are_masked_but_not_quotes():
    key = sample(SECRETS["GitHub token"])
    masked, kinds = mask_all({"a": [key, 1], "old": key}, keep=frozenset({"old"}))
    assert masked == {"a": ["[removed: GitHub token]", 1], "old": key}
    assert kinds == ["GitHub token"]


def test_fields_that_quote_stay_only_where_they_quote():
    key = sample(SECRETS["GitHub token"])
    given = {
        "key": key,
        "patches": [{"old_text": key, "new_text": key}],
        "value": {"key": key, "list": [{"old_text": key}], key: 1},
    }
    masked, _kinds = mask_all(given, keep=frozenset({"key", "old_text"}))
    gone = "[removed: GitHub token]"
    assert masked == {
        "key": key,
        "patches": [{"old_text": key, "new_text": gone}],
        "value": {"key": gone, "list": [{"old_text": gone}], gone: 1},
    }


# --- each writer ---

KEY = sample(SECRETS["GitHub token"])
MASKED = "[removed: GitHub token]"


@pytest.mark.requirement("R266")
def test_a_tool_call_stores_no_key_and_says_so(alice: Any):
    answer = call(alice, "remember", content=f"The deploy key is {KEY}.", kind="log")
    assert "GitHub token" in answer.text
    assert answer.data["masked"] == ["GitHub token"]
    assert Note.objects.for_user(alice).get(kind="log").content == f"The deploy key is {MASKED}."


def test_a_tool_can_still_remove_a_key_that_a_person_kept(alice: Any):
    accept_all(alice)
    path = "facts/memory.md"
    save_file(alice, path, f"- Deploys: {KEY}\n", by=alice.actor)
    patch = {"old_text": f"- Deploys: {KEY}", "new_text": "- Deploys: by hand"}
    answer = call(alice, "memory_patch", path=path, patches=[patch])
    assert KEY not in MemoryFile.objects.for_user(alice).get(path=path).content, answer.text


@pytest.mark.requirement("R266")
def test_rest_masks_and_names_the_kind(alice: Any):
    agent = Program(alice, "read", "write")
    answer = agent.post("/notes", {"content": f"Key: {KEY}"})
    assert answer.status_code == 201, answer.content
    assert answer["Beacon-Masked"] == "GitHub token"
    assert answer.json()["content"] == f"Key: {MASKED}"


def test_only_a_person_s_own_token_can_keep_a_key(alice: Any):
    headers = {"Beacon_Keep_Secrets": "true"}
    answer = Program(alice, "read", "write").post("/notes", {"content": KEY}, **headers)
    assert answer.json()["content"] == MASKED
    own = Program(alice, "admin", name="own")
    assert own.post("/notes", {"content": KEY}, **headers).json()["content"] == KEY
    assert own.post("/notes", {"content": KEY + " "}).json()["content"] == MASKED


@pytest.mark.requirement("R266")
def test_a_person_is_asked_and_nothing_typed_is_lost(
    alice: Any, client_of: Callable[[Any], Client]
):
    browser, url = client_of(alice), reverse("memory:note-new")
    sent = {"content": f"Key: {KEY}", "kind": "log", "stability": "", "sensitivity": "normal"}
    page = text_of(browser.post(url, sent))
    assert "seems to contain a secret: GitHub token" in page
    assert KEY in page
    assert 'name="keep_secrets"' in page
    assert not Note.objects.for_user(alice).filter(kind="log").exists()
    browser.post(url, sent | {"keep_secrets": "1"})
    assert Note.objects.for_user(alice).get(kind="log").content == f"Key: {KEY}"


def test_a_key_that_is_already_stored_is_not_asked_about_again(
    alice: Any, client_of: Callable[[Any], Client]
):
    kept = note(alice, f"Key: {KEY}")
    url = reverse("memory:record-inline", args=["note", kept.pk])
    sent = {"content": f"The key is {KEY}", "tags": "", "version": kept.version}
    client_of(alice).post(url, sent, headers=HTMX)
    kept.refresh_from_db()
    assert kept.content == f"The key is {KEY}"


def test_activity_shows_no_key_that_an_agent_sent(alice: Any):
    call(alice, "recall", query=f"what is {KEY}")
    assert MASKED in Activity.objects.get(kind="tool-called").detail["query"]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("remember", id="remember"),
        pytest.param("note of a sentence", id="note of a sentence"),
        pytest.param("topic", id="topic"),
    ],
)
def test_each_form_asks(alice: Any, client_of: Callable[[Any], Client], path: str):
    browser = client_of(alice)
    topic = make_topic(alice, "Harbours")
    url, sent = {
        "remember": (reverse("memory:remember"), {"text": f"Key: {KEY}"}),
        "note of a sentence": (
            reverse("research:sentence-note", args=[topic.slug]),
            {"note": f"Key: {KEY}", "sentence": "It opens at nine."},
        ),
        "topic": (reverse("research:topic-new"), {"title": "Lanterns", "objective": f"Key: {KEY}"}),
    }[path]
    page = text_of(browser.post(url, sent))
    assert "seems to contain a secret: GitHub token" in page
    assert KEY in page
    assert 'name="keep_secrets"' in page
    assert not Note.objects.for_user(alice).exclude(kind__in=Note.IDENTITY).exists()
    assert not Observation.objects.for_user(alice).exists()
    assert Topic.objects.for_user(alice).count() == 1


def test_remember_saves_a_key_if_asked_to(alice: Any, client_of: Callable[[Any], Client]):
    sent = {"text": f"Key: {KEY}", "keep_secrets": "1"}
    client_of(alice).post(reverse("memory:remember"), sent)
    assert Observation.objects.for_user(alice).get().content == f"Key: {KEY}"


def test_a_merged_text_asks(alice: Any, client_of: Callable[[Any], Client]):
    pair = Conflict.objects.note(
        alice, Conflict.Kind.CONTRADICTION, note(alice, "It opens at 7."),
        note(alice, "It opens at 9."),
    )  # fmt: skip
    assert pair is not None
    url = reverse("memory:conflict-resolve", args=[pair.pk])
    sent = {"how": "merged", "text": f"Key: {KEY}", "left_version": "1", "right_version": "1"}
    page = text_of(client_of(alice).post(url, sent))
    assert "seems to contain a secret" in page
    assert KEY in page
    pair.refresh_from_db()
    assert pair.is_open
    client_of(alice).post(url, sent | {"keep_secrets": "1"})
    pair.refresh_from_db()
    assert not pair.is_open


def test_an_edited_proposal_asks(alice: Any, client_of: Callable[[Any], Client]):
    hold = {"note": "hold all"}
    for kind, level in hold.items():
        ReviewLevel.objects.create(owner=alice, kind=kind, level=level)
    held = call(alice, "remember", content="The deploy is on Monday.", kind="log")
    url = reverse("memory:proposal-accept", args=[held.data["proposal"]])
    sent = {"edit": "1", "content": f"Key: {KEY}"}
    page = text_of(client_of(alice).post(url, sent))
    assert "seems to contain a secret" in page
    assert 'name="keep_secrets"' in page
    assert not Note.objects.for_user(alice).filter(kind="log").exists()
    client_of(alice).post(url, sent | {"keep_secrets": "1"})
    assert Note.objects.for_user(alice).get(kind="log").content == f"Key: {KEY}"


@pytest.mark.requirement("R266")
def test_a_document_is_read_without_its_keys():
    read = read_document("notes.md", f"# Deploying\n\nUse {KEY} to deploy.\n".encode())
    assert read.text.strip().endswith(f"Use {MASKED} to deploy.")


@pytest.mark.requirement("R266")
def test_verify_lists_old_keys_and_changes_nothing(alice: Any):
    own = Program(alice, "admin")
    made = own.post("/notes", {"content": f"Key: {KEY}"}, Beacon_Keep_Secrets="true").json()
    out = io.StringIO()
    Command(stdout=out).report_secrets()
    assert f"note {made['id']} GitHub token" in out.getvalue()
    assert KEY not in out.getvalue()
    assert KEY in Note.objects.get(pk=made["id"]).content
