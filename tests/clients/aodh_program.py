"""Have Aodh notify that a member fails, as its notifier service does.

Arguments: aodh.conf; then JSON with the address of Keystone, the user who makes the alarm, and the alarm's reason data.
"""

import json
import sys

from aodh import keystone_client, notifier, service
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from stevedore.extension import ExtensionManager

conf = service.prepare_service([], config_files=[sys.argv[1]])
given = json.loads(sys.argv[2])
user = v3.Password(
    auth_url=given["auth_url"], username=given["name"], password=given["password"], project_name=given["name"],
    user_domain_id="default", project_domain_id="default",
)  # fmt: skip
session = Session(auth=user)
# Aodh's API does the same when the user makes the alarm.
roles = ["member", "heat_stack_owner"]
trust = keystone_client.create_trust_id(conf, session.get_user_id(), session.get_project_id(), roles, user)
notifiers = ExtensionManager(
    notifier.AlarmNotifierService.NOTIFIER_EXTENSIONS_NAMESPACE, invoke_on_load=True, invoke_args=(conf,)
)
alarm = {
    "actions": [f"trust+heat://{trust}:delete@"], "alarm_id": "alarm", "alarm_name": "members", "severity": "low",
    "previous": "ok", "current": "alarm", "reason": "a member fails", "reason_data": given["reason_data"],
}  # fmt: skip
notifier.AlarmEndpoint(notifiers).sample([{"payload": alarm}])
