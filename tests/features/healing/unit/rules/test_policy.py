"""The document of a policy: defaults, inheritance, faults."""

import pytest

from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.features.healing.rules.policy import DEFAULT, MemberLimit, PolicySettings, check_policy, read_policy
from heatlite.features.healing.rules.slots import POOL_MEMBER, Slot, slot_at
from heatlite.features.healing.terms import Mode
from tests.tables import table

BASE: JsonMap = {"healing_policy": "2026-11-22"}


def test_an_empty_policy_is_the_default() -> None:
    assert read_policy(BASE) == DEFAULT
    assert DEFAULT.top == PolicySettings()
    assert (DEFAULT.top.mode, DEFAULT.top.max_unhealthy) == (Mode.OFF, MemberLimit(30, True))


def test_the_first_rule_that_matches_changes_what_it_names() -> None:
    policy = read_policy({
        **BASE, "cooldown": 5, "confirm": {"hold": 7}, "max_repairs": {"count": 2, "per": 60},
        "rules": [
            {"match": "web/0", "mode": "off"},
            {"match": "web", "mode": "auto", "max_unhealthy": 1, "confirm": {"reports": 3}},
            {"match": "db*/?", "mode": "propose"},
        ],
    })  # fmt: skip
    web = policy.at("web/2/server")
    assert (web.mode, web.max_unhealthy, web.cooldown, web.hold, web.reports) == (Mode.AUTO, MemberLimit(1), 5, 7, 3)
    assert (web.max_repairs, web.repairs_per) == (2, 60)
    assert policy.at("web/0/server").mode is Mode.OFF
    assert [policy.at(path).mode for path in ("db1/a", "db1/ab", "db1", "webber", "x/web")] == [
        Mode.PROPOSE, Mode.OFF, Mode.OFF, Mode.OFF, Mode.OFF
    ]  # fmt: skip
    assert policy.of_scope("web") == web
    assert policy.of_scope("type:OS::Nova::Server") == policy.top


@table(
    ("given", "seconds"),
    [
        ({}, 3600),
        ({"max_repairs": {"count": 1, "per": 604_800}}, 604_800),
        ({"cooldown": 86_400, "give_up_after": 2}, 4 * 86_400),
        ({"rules": [{"match": "a", "min_healthy": 7200}, {"match": "b"}]}, 7200),
        ({"rules": [{"match": "a", "ladder": [{"step": "reboot"}, {"step": "replace", "settle": 9000}]}]}, 9000),
    ],
)
def test_how_long_a_repair_counts(given: JsonMap, seconds: int) -> None:
    assert read_policy({**BASE, **given}).longest_period == seconds


def test_sources_and_steps() -> None:
    settings = read_policy({**BASE, "ladder": [{"step": "rebuild"}, {"step": "replace", "settle": 9}]}).top
    assert [settings.step_at(n).step for n in range(4)] == ["rebuild", "replace", "replace", "replace"]
    assert [settings.settle(settings.step_at(n)) for n in range(2)] == [600, 9]
    assert PolicySettings().settle(PolicySettings().step_at(0)) == 600
    assert [PolicySettings().lists(source) for source in ("grafana", "api", "check")] == [True, False, False]
    named = read_policy({**BASE, "sources": ["check", "mine"]}).top
    assert [named.lists(source) for source in ("grafana", "api", "check", "mine")] == [False, False, True, True]


FAULTS: list[JsonMap] = [
    {"healing_policy": "2020-01-01"}, {**BASE, "mode": "on"}, {**BASE, "grace": 86401}, {**BASE, "grace": -1},
    {**BASE, "max_unhealthy": "101%"}, {**BASE, "max_unhealthy": "30%\n"},
    {**BASE, "parallel": 0}, {**BASE, "parallel": "0%"}, {**BASE, "ladder": []},
    {**BASE, "ladder": [{"step": "fence"}]}, {**BASE, "colour": "red"}, {**BASE, "rules": [{"mode": "off"}]},
    {**BASE, "confirm": {"reports": 0}}, {**BASE, "windows": [{"cron": "* * * * *", "duration": 59}]},
    {**BASE, "windows": [{"cron": "x", "duration": 60}]},
    {**BASE, "windows": [{"cron": "* * * * *", "duration": 60, "timezone": "Mars/Olympus"}]},
    {**BASE, "windows": [{"cron": "* * * * *", "duration": 60, "timezone": "../../etc/passwd"}]},
]  # fmt: skip


@table("document", [*FAULTS, None, [], "text", {}])
def test_a_fault_is_refused(document: JsonMap) -> None:
    with pytest.raises(HTTPBadRequest, match="The healing policy is not valid"):
        read_policy(document)


@table(
    ("given", "text"),
    [
        ({"mode": "on"}, "healing.mode: must be one of: auto, off, propose."),
        ({"ladder": [{"step": "fence"}]}, "healing.ladder[0].step: must be one of: reboot, rebuild, replace."),
        ({"grace": "x" * 1000}, "healing.grace: must be a whole number, not text."),
        *(
            (
                {"windows": [{"cron": "0 2 * * *", "duration": 60, "timezone": zone}]},
                f"healing.windows[0]: there is no time zone {zone!r}; use a name like Europe/Vienna",
            )
            for zone in ("", "Europe", "../etc/passwd")
        ),
        ({"colour": "red"}, "healing: unknown key colour; there are: "),
        (
            {"max_unhealthy": "200%"},
            "healing.max_unhealthy: must match ^([0-9]|[1-9][0-9]|100)%$.",
        ),
    ],
)
def test_a_fault_is_explained(given: JsonMap, text: str) -> None:
    with pytest.raises(HTTPBadRequest) as caught:
        read_policy({**BASE, **given})
    assert caught.value.message.startswith(f"The healing policy is not valid. {text}")


def test_all_faults_are_named_at_once() -> None:
    rule: JsonMap = {"match": "a", "windows": [{"cron": "bad", "duration": 60}]}
    zone: JsonMap = {"cron": "* * * * *", "duration": 60, "timezone": "Mars/Olympus"}
    with pytest.raises(HTTPBadRequest, match=r"healing.windows\[0\].*Mars/Olympus.*healing.rules\[0\].windows\[0\]"):
        read_policy({**BASE, "windows": [zone], "rules": [rule]})
    with pytest.raises(HTTPBadRequest, match=r"healing.grace.*healing.mode"):
        read_policy({**BASE, "mode": 5, "grace": "x"})


def test_a_window_that_never_opens_is_refused() -> None:
    never: JsonMap = {"cron": "0 2 30 2 *", "duration": 60}
    always: JsonMap = {"cron": "0 2 * * *", "duration": 60}
    given: JsonMap = {**BASE, "windows": [always, never], "rules": [{"match": "a"}, {"match": "b", "windows": [never]}]}
    with pytest.raises(HTTPBadRequest) as caught:
        check_policy(given)
    assert caught.value.message == (
        "The healing policy is not valid. healing.windows[1]: cron: there is no such day, so it never opens;"
        " healing.rules[1].windows[0]: cron: there is no such day, so it never opens"
    )
    check_policy({**BASE, "windows": [always], "rules": [{"match": "b", "windows": [always]}]})
    read_policy(given)  # of an earlier version
    with pytest.raises(HTTPBadRequest, match="mode"):
        check_policy({**BASE, "mode": "on"})


GROUP, SERVER, STACK = "OS::Heat::ResourceGroup", "OS::Nova::Server", "OS::Heat::Stack"
SCALED = "AWS::AutoScaling::AutoScalingGroup"


@table(
    ("chain", "slot"),
    [
        ([("db", SERVER)], Slot("db", "db", f"type:{SERVER}")),
        ([("web", GROUP)], Slot("web", "web", f"type:{GROUP}")),
        ([("web", GROUP), ("2", SERVER)], Slot("web/2", "web/2", "web")),
        ([("web", GROUP), ("2", "my.yaml"), ("server", SERVER)], Slot("web/2/server", "web/2", "web")),
        ([("web", GROUP), ("2", GROUP), ("1", SERVER)], Slot("web/2/1", "web/2/1", "web/2")),
        ([("web", GROUP), ("2", GROUP)], Slot("web/2", "web/2", "web")),
        ([("in", STACK), ("db", SERVER)], Slot("in/db", "in/db", f"type:{SERVER}")),
        ([("in", STACK), ("web", GROUP), ("a", SERVER)], Slot("in/web/a", "in/web/a", "in/web")),
        ([("web", SCALED), ("a", "AWS::EC2::Instance")], Slot("web/a", "web/a", "web")),
        ([("web", SCALED), ("a-p", POOL_MEMBER)], Slot("web/a-p", "web/a-p", f"type:{POOL_MEMBER}")),
        ([("web", GROUP), ("2", POOL_MEMBER)], Slot("web/2", "web/2", "web")),
    ],
)
def test_places_in_a_tree(chain: list[tuple[str, str]], slot: Slot) -> None:
    assert slot_at(chain) == slot
