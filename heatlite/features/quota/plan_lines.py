"""Lines of `heatlite plan` and `up` about quotas."""

import time

from msgspec import convert

from heatlite.cli.client import Object, an_object, objects, text
from heatlite.cli.output import render
from heatlite.cli.session import PlanFacts
from heatlite.features.quota.assessment import KindState, QuotaState
from heatlite.features.quota.sentences import kind_text

WORDS = {QuotaState.FITS: "it fits", QuotaState.SHORT: "does not fit", QuotaState.UNKNOWN: "not known"}


def planned(facts: Object) -> PlanFacts:
    """Return the lines of a plan, and whether it does not fit.

    A kind that fits has no line of its own. A plan that needs nothing, or was not compared, has no lines.
    """
    if "quota" not in facts:
        return PlanFacts()
    quota = an_object(facts, "quota")
    kinds = [convert(one, KindState) for one in objects(quota, "kinds")]
    if not kinds:
        return PlanFacts()
    state, read_at = QuotaState(text(quota.get("state"))), text(quota.get("read_at"))
    when = f" (read {render.age(read_at, time.time())} ago)" if read_at else ""
    told = [one for one in kinds if one.short or one.limit is None or not one.known]
    width = max((len(one.kind) for one in told), default=0)
    lines = [f"Quota{when}: {WORDS[state]}"]
    lines += [f"  {one.kind.ljust(width)} {kind_text(one)}" for one in told]
    lines += [f"  {service}: {text(cause)}" for service, cause in an_object(quota, "causes").items()]
    return PlanFacts(lines, state is QuotaState.SHORT)
