"""Usage and limits: its charts, its export, and a person's monthly limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters

from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import signed_in
from memory.models import Activity, OwnKey, User
from memory.pages.shared.undo import offer_settings, settings_now
from memory.services.llm import connections, spending
from memory.services.llm.spending import UsageTotals

if TYPE_CHECKING:
    _OfUser = forms.ModelForm[User]
else:
    _OfUser = forms.ModelForm

MAX_TOKENS = 2_000_000_000  # what the column can store
_NEGATIVE = gettext_lazy(
    "A limit can’t be negative. Enter 0 to block all calls, or leave it empty for no limit."
)


class LimitsForm(_OfUser):
    """A person's own monthly limits for tokens and money."""

    monthly_tokens = forms.IntegerField(
        label=gettext_lazy("Tokens per month"),
        required=False,
        min_value=0,
        max_value=MAX_TOKENS,
        help_text=gettext_lazy("Counts input and output. Leave empty for no limit."),
        error_messages={
            "invalid": gettext_lazy("Enter a whole number of tokens, such as 2000000."),
            "min_value": _NEGATIVE,
        },
    )
    monthly_money = forms.DecimalField(
        label=gettext_lazy("USD per month"),
        required=False,
        min_value=Decimal(0),
        max_digits=10,
        decimal_places=2,
        help_text=gettext_lazy(
            "Uses the prices your admin entered. Calls with an unknown price count as 0. Leave empty for no limit."
        ),
        error_messages={
            "invalid": gettext_lazy("Enter an amount in US dollars, such as 12.50."),
            "min_value": _NEGATIVE,
        },
    )

    class Meta:
        model = User
        fields = ("monthly_tokens", "monthly_money")


class OwnKeyForm(forms.Form):
    """A person's own key for the model's endpoint."""

    secret = forms.CharField(
        label=gettext_lazy("Key"),
        strip=True,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        error_messages={"required": gettext_lazy("Enter the key.")},
    )

    def clean_secret(self) -> str:
        """Reject a key that no header can carry."""
        secret = str(self.cleaned_data["secret"])
        if not (secret.isascii() and secret.isprintable()):
            raise forms.ValidationError(
                _("The key contains invalid characters, such as a line break. Copy it again.")
            )
        return secret


# --- chart ---

MAX_MONTHS = 12
STEP, WIDE, FOOT, HIGH = (
    58,
    34,
    118,
    88,
)  # in pixels: of a column, a bar, the base line, the maximum
Amount = Callable[[UsageTotals], "Decimal | int"]


def of_months(by_first: Mapping[date, UsageTotals], limits: User | None) -> list[dict[str, Any]]:
    """Return charts of the months (newest first, from `spending.months`) in money and in tokens.

    The last 12 months, including those without calls in between; nothing if there were no calls.
    A person's limits are lines, unless they are far above all months.
    """
    if not any(spent.calls for spent in by_first.values()):
        return []
    shown = _without_a_gap(max(by_first), min(by_first))
    money, tokens = (limits.monthly_money, limits.monthly_tokens) if limits else (None, None)
    return [
        _months(
            _("Cost per month"),
            shown,
            by_first,
            _money,
            _money_short,
            knows_unknown=True,
            limit=money,
        ),
        _months(_("Tokens per month"), shown, by_first, _tokens, _tokens_short, limit=tokens),
    ]


def _money(spent: UsageTotals) -> Decimal:
    return spent.money


def _tokens(spent: UsageTotals) -> int:
    return spent.tokens


def _money_short(spent: UsageTotals) -> str:
    """Return the known money; a question mark if all prices are unknown."""
    if spent.unpriced and not spent.money:
        return "?"
    return spending.dollars(spent.money) if spent.money else ""


def _tokens_short(spent: UsageTotals) -> str:
    """Return tokens in short form: `950`, `12k`, `3.4M`."""
    count = spent.tokens
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f}M"
    if count >= 1_000:
        return f"{count // 1_000}k"
    return str(count) if count else ""


def _without_a_gap(last: date, first: date) -> list[date]:
    """Return the first days of the months up to `last`, at most MAX_MONTHS, oldest first."""
    found = [last]
    while found[-1] > first and len(found) < MAX_MONTHS:
        day = found[-1]
        found.append(date(day.year - (day.month == 1), (day.month - 2) % 12 + 1, 1))
    return found[::-1]


def _pillar(x: int, y: int, *, is_unknown: bool) -> dict[str, Any]:
    """Return where a month's bar is drawn, with an open box on it for calls of unknown price."""
    amount_y, unknown_y = y - (18 if is_unknown else 6), y - 14
    return {
        "x": x, "y": y, "middle": x + WIDE // 2, "amount_y": amount_y, "unknown_y": unknown_y,
        "is_unknown": is_unknown,
    }  # fmt: skip


def _months(
    title: str,
    shown: Sequence[date],
    by_first: Mapping[date, UsageTotals],
    amount_of: Amount,
    short: Callable[[UsageTotals], str],
    *,
    knows_unknown: bool = False,
    limit: Decimal | int | None = None,
) -> dict[str, Any]:
    spents = [by_first.get(first, UsageTotals()) for first in shown]
    most = max(amount_of(spent) for spent in spents)
    if limit is not None and limit > 2 * most:
        limit = None
    most = max(most, limit or 0)
    pillars = [
        _pillar(
            STEP * place + (STEP - WIDE) // 2,
            FOOT - (height := _height(amount_of(spent), most)),
            is_unknown=knows_unknown and bool(spent.unpriced),
        )
        | {
            "height": height,
            "label": date_format(first, "M"),
            "year": str(first.year) if place == 0 or first.month == 1 else "",
            "amount": short(spent),
            "words": _bar_label(first, spent, knows_unknown=knows_unknown),
            "first": first,
            "key": f"{first:%Y-%m}" if first in by_first else "",
        }
        for place, (first, spent) in enumerate(zip(shown, spents, strict=True))
    ]
    ends = {"first": date_format(shown[0], "F Y"), "last": date_format(shown[-1], "F Y")}
    words = _("%(title)s, %(first)s to %(last)s") % {"title": title, **ends}
    return {
        "title": title,
        "words": words,
        "pillars": pillars,
        "width": STEP * len(pillars) + 8,
        "limit_y": FOOT - _height(limit, most) if limit is not None else None,
        "limit_words": _limit_words(limit, is_money=knows_unknown) if limit is not None else "",
    }


def _limit_words(limit: Decimal | int, *, is_money: bool) -> str:
    text = spending.dollars(Decimal(limit)) if is_money else spending.format_tokens(int(limit))
    return _("Your current limit: %(limit)s") % {"limit": text}


def _bar_label(first: date, spent: UsageTotals, *, knows_unknown: bool) -> str:
    if knows_unknown:
        text = spent.cost if spent.calls else spending.dollars(Decimal(0))
    else:
        text = spending.format_tokens(spent.tokens)
    return f"{date_format(first, 'F Y')}: {text}"


def _height(amount: Decimal | int, most: Decimal | int) -> int:
    """Return the height of a bar; anything above 0 stays visible."""
    return max(round(HIGH * amount / most), 2) if most and amount else 0


# --- pages ---


@signed_in("GET", "HEAD")
def spending_page(request: BeaconRequest) -> HttpResponse:
    """Show the months, and the details of the selected one."""
    context = _spent(request)
    if request.htmx:
        return render(request, "memory/_spending.html", context)
    return _page(request, context, LimitsForm(instance=request.user))


@signed_in("GET", "HEAD")
def spending_csv(request: BeaconRequest) -> HttpResponse:
    """Send the selected month's calls, one per line."""
    calls, whose = _whose(request)
    month = spending.chosen(spending.months(calls, request.user), request.GET.get("month", ""))
    if month is None:
        raise Http404
    text = spending.as_csv(spending.within(calls, month, request.user), whose=whose)
    answer = HttpResponse(text, content_type="text/csv; charset=utf-8; header=present")
    answer["Content-Disposition"] = f'attachment; filename="beacon-spending-{month:%Y-%m}.csv"'
    return answer


@signed_in("POST")
def spending_limits(request: BeaconRequest) -> HttpResponse:
    """Save the person's monthly limits."""
    # A copy, so that a rejected form's values don't appear in the frame as saved.
    form = LimitsForm(request.POST, instance=User.objects.get(pk=request.user.pk))
    if form.is_valid():
        before = settings_now(request.user, "limits")
        request.user.monthly_tokens = form.cleaned_data["monthly_tokens"]
        request.user.monthly_money = form.cleaned_data["monthly_money"]
        request.user.save(update_fields=["monthly_tokens", "monthly_money"])
        Activity.log(request.user, request.actor, "limits-changed", subject=request.user)
        messages.success(
            request,
            _("Limits saved. They apply from the next call."),
            extra_tags=offer_settings(request, "limits", before),
        )
        if not request.htmx:
            return redirect("memory:spending")
        form = LimitsForm(instance=request.user)
    if request.htmx:
        context = {"form": form, **_limits(request.user, spending.spent_this_month(request.user))}
        return render(request, "memory/_spending_limits.html", context)
    return _page(request, _spent(request), form)


@sensitive_post_parameters("secret")
@signed_in("POST")
def own_key(request: BeaconRequest) -> HttpResponse:
    """Save or remove the person's own key for the model."""
    form = OwnKeyForm(request.POST)
    is_removed = "remove" in request.POST
    if is_removed or (form.is_valid() and connections.model_origin()):
        connections.save_own_key(request.user, "" if is_removed else form.cleaned_data["secret"])
        message = (
            _("Key removed.")
            if is_removed
            else _("Key saved. It will be used starting with the next call.")
        )
        messages.success(request, message)
        if not request.htmx:
            return redirect("memory:spending")
        form = OwnKeyForm()
    if request.htmx:
        context = {"key_form": form, **_own_key(request.user)}
        return render(request, "memory/_spending_key.html", context)
    return _page(request, _spent(request), LimitsForm(instance=request.user), key_form=form)


def _own_key(user: User) -> dict[str, Any]:
    return {
        "own_key": OwnKey.objects.filter(owner=user).first(),
        "model_origin": connections.model_origin(),
    }


def _page(
    request: BeaconRequest,
    context: dict[str, Any],
    form: LimitsForm,
    *,
    key_form: OwnKeyForm | None = None,
) -> HttpResponse:
    more = {"tab": "spending", "form": form, "key_form": key_form or OwnKeyForm()}
    return render(request, "memory/spending.html", more | context | _own_key(request.user))


def _whose(request: BeaconRequest) -> tuple[spending.Calls, User | None]:
    """Return the requested calls and their owner: None for everyone's, which only admins see."""
    if request.GET.get("who") != "all":
        return spending.calls_of(request.user), request.user
    if not request.user.is_staff:
        raise Http404
    return spending.calls_of_all(), None


def _spent(request: BeaconRequest) -> dict[str, Any]:
    calls, whose = _whose(request)
    found = spending.months(calls, request.user)
    value = request.GET.get("month", "")
    month = spending.chosen(found, value)
    shown = month or next(iter(found))
    detail = spending.detail(spending.within(calls, shown, request.user), whose=whose)
    drawings = of_months(found, request.user if whose else None)
    return {
        "month_drawings": drawings,
        "has_limit_lines": any(drawing["limit_words"] for drawing in drawings),
        "months": found.items(),
        "newest": next(iter(found)),
        "month": shown,
        "spent": found[shown],
        "unknown_month": value if month is None else "",
        "detail": detail,
        "everybody": whose is None,
        **_limits(request.user, next(iter(found.values())) if whose else UsageTotals()),
    }


def _limits(user: User, spent: spending.UsageTotals) -> dict[str, Any]:
    return {"limits": spending.limits_of(user, spent), "present": spent}
