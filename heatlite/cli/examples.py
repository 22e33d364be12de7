"""Examples for the help of commands."""

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "up": ("up web.yaml", "up web.yaml -e prod.yaml -P size=3 -n web --yes", "up web.yaml -y -f json"),
    "plan": ("plan web.yaml", "plan web.yaml -n web --detailed-exitcode"),
    "down": ("down web", "down web --yes --no-wait"),
    "retry": ("retry web",),
    "ls": ("ls", "ls --watch", "ls --unhealthy -f value -c stack_name"),
    "show": ("show web", "show web -f json -c outputs"),
    "explain": ("explain web",),
    "resources": ("resources web --nested 2", "resources web -o wide"),
    "find": ("find 1f0c6f2e-…",),
    "outputs": ("outputs web -f json",),
    "events": ("events web", "events -f web"),
    "history": ("history web", "history web --limit 5 -f json"),
    "mark-unhealthy": ("mark-unhealthy web member_1 --reason 'disk errors'",),
    "mark-healthy": ("mark-healthy web member_1 --reason repaired",),
    "check": ("check web", "check web --every 10m"),
    "protect": ("protect web --reason production", "protect web database"),
    "unprotect": ("unprotect web database",),
    "lock": ("lock web --reason 'rack 7' --expires +2h", "lock web --level stacks"),
    "unlock": ("unlock web",),
    "lock-status": ("lock-status web", "lock-status web --replay 7"),
    "heal": ("heal web", "heal web group/2 --ignore window_closed"),
    "rotate-keys": ("rotate-keys web",),
    "validate": ("validate web.yaml", "validate web.yaml --strict --format sarif"),
    "test": ("test trial.yaml --junit report.xml",),
    "init": ("init", "init network"),
    "types": ("types", "types show OS::Nova::Server"),
    "schema": ("schema",),
    "migrate plan": ("migrate plan --from heat --all", "migrate plan web --from heat --values values.yaml -f json"),
    "migrate run": ("migrate run --from heat --all --values values.yaml --yes",),
    "migrate finish": ("migrate finish --from heat --all --yes",),
    "action list": ("action list --status RUNNING,SUSPENDED", "action list --target web"),
    "action show": ("action show 1a2b --history",),
    "action signal": ("action signal 1a2b CANCEL",),
    "action wait": ("action wait 1a2b --timeout 600",),
    "node list": ("node list web",),
    "node actions": ("node actions web --state PENDING_APPROVE",),
    "node run": ("node run web db service.restart --arg service=postgresql", "node run web db --script fix.sh"),
    "node approve": ("node approve 1a2b",),
    "node wait": ("node wait 1a2b",),
    "node token": ("node token web db",),
    "node agent": ("node agent heatlite-agent",),
    "node playbook put": ("node playbook put restart.yaml",),
    "node playbook run": ("node playbook run web restart --dry-run", "node playbook run web restart --granted --wait"),
    "serve": ("serve", "serve --port 8004 --cloud simulated"),
    "services": ("services",),
    "db": ("db status", "db backup heatlite-backup.db"),
    "keys": ("keys new",),
    "fsck": ("fsck",),
    "user add": ("user add mia --project web=member",),
    "user token": ("user token ci --expires +30d",),
    "env": ("env",),
    "clouds": ("clouds",),
    "config show": ("config show", "config show --context prod"),
    "config contexts": ("config contexts",),
    "completion": ("completion bash",),
}
"""Commands → their examples, without the name of the program."""


def epilog(program: str) -> str:
    """Return the examples of ``heatlite up``, or an empty text."""
    found = EXAMPLES.get(program.partition(" ")[2], ())
    return "\n".join(["examples:", *(f"  heatlite {one}" for one in found)]) if found else ""
