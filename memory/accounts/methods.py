"""Sign-in methods besides a password: an authenticator app, recovery codes and passkeys.

`allauth.mfa` speaks the protocols and has the tables.  Beacon decides when a method is needed, and counts
failures like wrong passwords.  An authenticator app is a second step after the password or single sign-on.
A passkey replaces both, since it checks the person's fingerprint, face or PIN itself.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import structlog
from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from axes.handlers.proxy import AxesProxyHandler
from cryptography.exceptions import InvalidSignature
from django.conf import settings
from django.contrib.auth.signals import user_login_failed
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.web.http import BeaconRequest
from memory.accounts import people, sign_ins, single_sign_on
from memory.models import Activity, SignIn, User
from memory.models.errors import InvalidValue
from memory.models.llm import seal, unseal

logger = structlog.get_logger(__name__)

MAX_CODES = 10  # codes of one account that are checked in 15 minutes, from all addresses together
CODES_WINDOW = 15 * 60
FRESH = timedelta(minutes=10)  # a sign-in that confirms who it is, if the account has no password
PENDING_FIELD = "second_step"
PENDING_SECONDS = 10 * 60

Type = Authenticator.Type


class Unreadable(Exception):
    """A stored secret can't be decrypted, since SECRET_KEY has changed."""


class Adapter(DefaultMFAAdapter):  # type: ignore[misc]
    """What allauth asks Beacon for (MFA_ADAPTER)."""

    def encrypt(self, text: str) -> str:
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        """Return the secret, and never "": a code for an empty one can be computed by anyone."""
        if text := unseal(encrypted_text):
            return text
        raise Unreadable

    def get_totp_label(self, user: User) -> str:
        return user.get_username()

    def build_totp_svg(self, url: str) -> str:
        """Draw the QR code on white, since cameras can't read black on a dark page."""
        import qrcode
        from qrcode.image.svg import SvgPathFillImage

        return str(qrcode.make(url, image_factory=SvgPathFillImage).to_string(encoding="unicode"))

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """Bind passkeys to BEACON_URL, whatever host name a request came by."""
        return {"id": urlsplit(settings.BEACON_URL).hostname or "", "name": "Beacon"}


# --- failures ---


def is_locked(request: HttpRequest, person: User) -> bool:
    """Whether failed attempts have locked this account for this IP address, by any method."""
    return not AxesProxyHandler.is_allowed(request, {"username": person.get_username()})


def count_failure(request: HttpRequest, person: User) -> None:
    """Count a failed attempt like a wrong password, and log it for the person."""
    name = person.get_username()
    user_login_failed.send(sender=__name__, credentials={"username": name}, request=request)
    sign_ins.note_failure(request, name)


def check_confirmed(request: BeaconRequest, password: str) -> None:
    """Raise InvalidValue unless the person has just shown who they are.

    A stolen session must not be enough to add a sign-in method: the password is needed, or a sign-in of
    the last 10 minutes if the account has none.
    """
    person = request.user
    if is_locked(request, person):
        raise InvalidValue(
            _("Too many failed attempts. Nothing was changed. Try again in 15 minutes.")
        )
    if person.has_usable_password():
        if person.check_password(password):
            return
        count_failure(request, person)
        problem = _("Wrong password. Nothing was changed.")
        raise InvalidValue(problem, errors={"password": [problem]})
    here = SignIn.objects.for_user(person).filter(pk=request.session.get(sign_ins.SESSION_FIELD))
    if not here.filter(created__gt=timezone.now() - FRESH).exists():
        raise InvalidValue(
            _(
                "This change requires a recent sign-in, so nothing was changed. Sign out and back in, then try again within 10 minutes."
            )
        )


# --- the second step of a sign-in ---


def has_second_step(person: User) -> bool:
    """Return True if the person needs more than the password to sign in."""
    return bool(Authenticator.objects.filter(user=person, type=Type.TOTP).exists())


def enter(request: HttpRequest, person: User, goal: str) -> bool:
    """Sign the person in, or remember that the second step is missing and return False."""
    if not has_second_step(person):
        sign_ins.begin(request, person)
        return True
    # Bound to the password, so that changing it ends this too.
    request.session[PENDING_FIELD] = {
        "person": person.pk,
        "hash": person.get_session_auth_hash(),
        "goal": goal,
        "until": time.time() + PENDING_SECONDS,
    }
    return False


def pending(request: HttpRequest) -> tuple[User, str] | None:
    """Return who is between the two steps of a sign-in in this browser, and where they're going."""
    told = request.session.get(PENDING_FIELD)
    if not told or told["until"] < time.time():
        return None
    person = User.objects.filter(pk=told["person"], is_active=True).first()
    if person is None or person.get_session_auth_hash() != told["hash"]:
        return None
    return person, told["goal"]


def code_wait(person: User) -> int:
    """Count a code of the account; return the seconds to wait, or 0."""
    return sign_ins.over_limit("codes", person.pk, MAX_CODES, CODES_WINDOW)


def takes_code(person: User, code: str) -> bool:
    """Whether `code` is the app's current code or a recovery code.  Either works only once."""
    with transaction.atomic():
        rows = Authenticator.objects.select_for_update().filter(user=person)
        for row in rows.filter(type__in=[Type.TOTP, Type.RECOVERY_CODES]).order_by("-type"):
            try:
                right = (
                    _takes_app_code(row, code)
                    if row.type == Type.TOTP
                    else RecoveryCodes(row).validate_code(code)
                )
            except Unreadable:
                continue
            if right:
                Authenticator.objects.filter(pk=row.pk).update(last_used_at=timezone.now())
                if row.type == Type.RECOVERY_CODES:
                    Activity.log(person, person.actor, "recovery-code-used", subject=person)
                return True
    return False


def _takes_app_code(row: Authenticator, code: str) -> bool:
    """Accept each period's code once.

    allauth keeps the used ones in the cache.  Beacon's is in Redis, and a sign-in must work without it.
    """
    secret = Adapter().decrypt(row.data["secret"])
    for period in totp.yield_hotp_counters_from_time():
        value = totp.format_hotp_value(totp.hotp_value(secret, period))
        if compare_user_code(actual=code, expected=value) and period > row.data.get("period", 0):
            row.data["period"] = period
            row.save(update_fields=["data"])
            return True
    return False


# --- changing methods ---


def of(person: User) -> list[Authenticator]:
    """Return the person's methods, the oldest first."""
    return list(Authenticator.objects.filter(user=person).order_by("created_at", "pk"))


def turn_on_app(person: User, secret: str, code: str) -> list[str]:
    """Store the app's secret if `code` shows that the app has it; return new recovery codes.

    Raises InvalidValue for a wrong code, or if an app is already set up.
    """
    if not totp.validate_totp_code(secret, code):
        problem = _(
            "Wrong code. Enter the code that the app shows now. If that doesn’t work, check that your phone sets its clock automatically."
        )
        raise InvalidValue(problem, errors={"code": [problem]})
    try:
        with transaction.atomic():
            row = totp.TOTP.activate(person, secret).instance
            _takes_app_code(row, code)  # not a second time, to sign in
            codes = _new_codes(person)
            Activity.log(person, person.actor, "sign-in-method-added", label=name_of(row))
    except IntegrityError:
        raise InvalidValue(_("An authenticator app is already set up. Remove it first.")) from None
    return codes


def new_recovery_codes(person: User) -> list[str]:
    """Replace the recovery codes, and return the new ones to show them once."""
    with transaction.atomic():
        codes = _new_codes(person)
        Activity.log(person, person.actor, "recovery-codes-created", subject=person)
    return codes


def _new_codes(person: User) -> list[str]:
    User.objects.select_for_update().get(pk=person.pk)
    Authenticator.objects.filter(user=person, type=Type.RECOVERY_CODES).delete()
    codes: list[str] = RecoveryCodes.activate(person).generate_codes()
    return ["-".join(code[at : at + 4] for at in range(0, len(code), 4)) for code in codes]


def codes_left(row: Authenticator) -> int:
    """Return how many recovery codes haven't been used."""
    total: int = settings.MFA_RECOVERY_CODE_COUNT
    return total - int(row.data["used_mask"]).bit_count()


def remove(row: Authenticator, *, by: User) -> None:
    """Remove a method.  Raises InvalidValue for the only way to sign in.

    Recovery codes are of no use without the authenticator app, so they're removed with it.
    """
    with transaction.atomic():
        person = User.objects.select_for_update().get(pk=row.user_id)
        if row.type == Type.WEBAUTHN:
            _check_not_last(person, passkey=row.pk)
        if row.type == Type.TOTP:
            Authenticator.objects.filter(user=person, type=Type.RECOVERY_CODES).delete()
        Authenticator.objects.filter(pk=row.pk).delete()
        Activity.log(person, by.actor, "sign-in-method-removed", label=name_of(row))


def _check_not_last(person: User, *, passkey: int) -> None:
    """Raise InvalidValue if nothing but this passkey opens the account."""
    others = Authenticator.objects.filter(user=person, type=Type.WEBAUTHN).exclude(pk=passkey)
    if person.has_usable_password() or others.exists():
        return
    if not (single_sign_on.provider_name() and single_sign_on.links_of(person).exists()):
        raise InvalidValue(people.only_way_in())


def name_of(row: Authenticator) -> str:
    """Return a method's name, as people see it."""
    if row.type == Type.WEBAUTHN:
        return str(row.data.get("name", ""))
    return _("authenticator app") if row.type == Type.TOTP else _("recovery codes")


def reset_second_step(person: User, *, by: User) -> bool:
    """Turn off the second step of a person who lost the app and the codes; return whether it was on."""
    row = Authenticator.objects.filter(user=person, type=Type.TOTP).first()
    if row is not None:
        remove(row, by=by)
    return row is not None


def qr_code(person: User, secret: str) -> str:
    """Return the app's secret as a QR code: an SVG in a `data:` address."""
    adapter = Adapter()
    svg: str = adapter.build_totp_svg(adapter.build_totp_url(person, secret))
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()


def summary(person: User) -> dict[str, Any]:
    """Return the person's methods for the page in the settings; one query."""
    rows = of(person)
    app = next((row for row in rows if row.type == Type.TOTP), None)
    codes = next((row for row in rows if row.type == Type.RECOVERY_CODES), None)
    return {
        "app": app,
        "codes_left": codes_left(codes) if codes else 0,
        "passkeys_blocked": passkeys_blocked(),
        "passkeys": [(row, name_of(row)) for row in rows if row.type == Type.WEBAUTHN],
    }


# --- passkeys ---
#
# allauth.mfa.webauthn loads fido2, so it's imported only where it's used.

MAX_PASSKEYS = 20
MAX_ANSWER_LENGTH = 20_000  # characters that a browser sends for a passkey
CONFIRMED_FIELD = "passkey_confirmed"


def passkeys_blocked() -> str:
    """Return why browsers don't offer passkeys at BEACON_URL, or "" if they do."""
    url = urlsplit(settings.BEACON_URL)
    if url.scheme == "https" or url.hostname == "localhost":
        return ""
    return _("Passkeys need HTTPS or http://localhost, but this server’s URL is %(url)s.") % {
        "url": settings.BEACON_URL
    }


def passkey_options(request: BeaconRequest) -> dict[str, Any]:
    """Return what the browser needs to create a passkey, after the person confirmed who they are."""
    from allauth.mfa.webauthn.internal import auth

    request.session[CONFIRMED_FIELD] = time.time()
    options: dict[str, Any] = auth.begin_registration(request.user, passwordless=True)
    return options


def sign_in_options() -> dict[str, Any]:
    """Return what the browser needs to sign a person in with a passkey."""
    from allauth.mfa.webauthn.internal import auth

    options: dict[str, Any] = auth.begin_authentication()
    return options


def add_passkey(request: BeaconRequest, answer: str, name: str) -> None:
    """Store the passkey that the browser created.  Raises InvalidValue."""
    from allauth.mfa.webauthn.internal import auth

    person = request.user
    confirmed = request.session.pop(CONFIRMED_FIELD, 0)
    if confirmed < time.time() - FRESH.total_seconds():
        raise InvalidValue(_("Adding the passkey took too long. Start again."))
    try:
        read = _read(answer)
        if auth.parse_registration_response(read).response.client_data.origin != _origin():
            raise ValueError
        if not auth.complete_registration(read).is_user_verified():
            raise ValueError
    except _WRONG_ANSWER:
        raise InvalidValue(
            _("The passkey couldn’t be verified, so nothing was added. Try again.")
        ) from None
    with transaction.atomic():
        User.objects.select_for_update().get(pk=person.pk)
        mine = Authenticator.objects.filter(user=person, type=Type.WEBAUTHN)
        if mine.count() >= MAX_PASSKEYS:
            raise InvalidValue(
                _("You’ve reached the limit of %(most)d passkeys. Remove one first.")
                % {"most": MAX_PASSKEYS}
            )
        row = auth.WebAuthn.add(person, name, read).instance
        Activity.log(person, person.actor, "sign-in-method-added", label=name_of(row))


def passkey_person(request: HttpRequest, answer: str) -> User:
    """Return the person whose passkey signed the browser's answer.  Raises InvalidValue.

    A wrong answer that names an account counts as a failed sign-in there, for this address.
    """
    from allauth.mfa.webauthn.internal import auth

    person: User | None = None
    try:
        read = _read(answer)
        person = auth.extract_user_from_response(read)
        response = auth.parse_authentication_response(read).response
        if response.client_data.origin != _origin():
            raise ValueError
        row = auth.complete_authentication(person, read)
        _count_signature(row.pk, response.authenticator_data.counter)
    except _WRONG_ANSWER:
        if person is not None:
            count_failure(request, person)
        raise InvalidValue(
            _("This passkey isn’t registered with any account. Sign in another way, or try again.")
        ) from None
    return person


def _count_signature(pk: int, count: int) -> None:
    """Store that a passkey was used.  Raises ValueError if its counter didn't increase.

    Then a copy of it has signed (WebAuthn, 6.1.1), or the answer was sent twice.  Passkeys that are
    synchronized between devices don't count and always send 0.  allauth and fido2 don't check it.
    """
    with transaction.atomic():
        row = Authenticator.objects.select_for_update().get(pk=pk)
        last = row.data.get("counter", row.wrap().authenticator_data.counter)
        if (count or last) and count <= last:
            logger.warning("passkey counter went back", account=row.user_id, passkey=pk)
            raise ValueError("the passkey's counter didn't increase")
        row.data["counter"] = count
        row.last_used_at = timezone.now()
        row.save(update_fields=["data", "last_used_at"])


# What allauth and fido2 raise for answers that no browser sends.
_WRONG_ANSWER = (ValidationError, ValueError, TypeError, KeyError, AttributeError, InvalidSignature)


def _read(answer: str) -> dict[str, Any]:
    read = json.loads(answer) if len(answer) <= MAX_ANSWER_LENGTH else None
    if not isinstance(read, dict):
        raise TypeError
    return read


def _origin() -> str:
    """Return the only origin whose passkeys are accepted, which excludes other ports and subdomains."""
    url = urlsplit(settings.BEACON_URL)
    return f"{url.scheme}://{url.netloc}"
