"""What was spent: each person their own, staff also all accounts together."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from beacon_site.http import BeaconRequest
from memory.accounts import settings_undo
from memory.forms.spending import LimitsForm
from memory.models import Activity, User
from memory.responses import undo_settings_tag
from memory.usage import chart as spending_chart
from memory.usage import spending


@require_safe
@login_required
def spending_page(request: BeaconRequest) -> HttpResponse:
    """Show the months, and the chosen one in its parts."""
    context = _spent(request)
    if request.htmx:
        return render(request, "memory/_spending.html", context)
    return _page(request, context, LimitsForm(instance=request.user))


@require_safe
@login_required
def spending_csv(request: BeaconRequest) -> HttpResponse:
    """Send the chosen month's calls, one a line."""
    calls, whose = _whose(request)
    month = spending.chosen(spending.months(calls, request.user), request.GET.get("month", ""))
    if month is None:
        raise Http404
    text = spending.as_csv(spending.within(calls, month, request.user), whose=whose)
    answer = HttpResponse(text, content_type="text/csv; charset=utf-8; header=present")
    answer["Content-Disposition"] = f'attachment; filename="beacon-spending-{month.key}.csv"'
    return answer


@require_POST
@login_required
def spending_limits(request: BeaconRequest) -> HttpResponse:
    """Store what the person's month may spend."""
    # A copy: what a refused form held must not show in the frame as saved.
    form = LimitsForm(request.POST, instance=User.objects.get(pk=request.user.pk))
    if form.is_valid():
        before = settings_undo.now(request.user, "limits")
        request.user.monthly_tokens = form.cleaned_data["monthly_tokens"]
        request.user.monthly_money = form.cleaned_data["monthly_money"]
        request.user.save(update_fields=["monthly_tokens", "monthly_money"])
        Activity.log(request.user, request.actor, "limits-changed", subject=request.user)
        messages.success(
            request,
            _("Your limits are saved. They hold from the next call on."),
            extra_tags=undo_settings_tag(request, "limits", before),
        )
        if not request.htmx:
            return redirect("memory:spending")
        form = LimitsForm(instance=request.user)
    if request.htmx:
        context = {"form": form, **_limits(request.user, spending.spent_this_month(request.user))}
        return render(request, "memory/_spending_limits.html", context)
    return _page(request, _spent(request), form)


def _page(request: BeaconRequest, context: dict[str, Any], form: LimitsForm) -> HttpResponse:
    return render(request, "memory/spending.html", {"tab": "spending", "form": form, **context})


def _whose(request: BeaconRequest) -> tuple[spending.Calls, User | None]:
    """Return the calls asked for and whose they are: None is everybody's, which is for staff."""
    if request.GET.get("who") != "all":
        return spending.calls_of(request.user), request.user
    if not request.user.is_staff:
        raise Http404
    return spending.calls_of_all(), None


def _spent(request: BeaconRequest) -> dict[str, Any]:
    calls, whose = _whose(request)
    found = spending.months(calls, request.user)
    asked = request.GET.get("month", "")
    month = spending.chosen(found, asked)
    shown = month or found[0]
    detail = spending.detail(spending.within(calls, shown, request.user), whose=whose)
    return {
        "month_drawings": spending_chart.of_months(found),
        "part_drawings": spending_chart.of_lines(detail.by_topic if whose else detail.by_person),
        "months": found,
        "month": shown,
        "unknown_month": asked if month is None else "",
        "detail": detail,
        "everybody": whose is None,
        **_limits(request.user, found[0].spent if whose else spending.Spent()),
    }


def _limits(user: User, spent: spending.Spent) -> dict[str, Any]:
    return {"limits": spending.limits_of(user, spent), "present": spent}
