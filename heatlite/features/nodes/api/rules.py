"""Rules of the routes, and the roles of which one suffices."""

from typing import Final

from heatlite.api.access.policy import MEMBERS, READERS

RULES: Final = {
    "node_actions:approve": MEMBERS,
    "node_actions:cancel": MEMBERS,
    "node_actions:create": MEMBERS,
    "node_actions:list": READERS,
    "node_actions:reject": MEMBERS,
    "node_actions:show": READERS,
    "node_playbooks:approve": MEMBERS,
    "node_playbooks:delete": MEMBERS,
    "node_playbooks:list": READERS,
    "node_playbooks:put": MEMBERS,
    "node_playbooks:reject": MEMBERS,
    "node_playbooks:run": MEMBERS,
    "node_playbooks:show": READERS,
    "nodes:index": READERS,
    "nodes:orchestrate": MEMBERS,
}
