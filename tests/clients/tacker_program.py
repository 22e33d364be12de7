"""Calls of the client that Tacker's VNF manager has for Heat.

Arguments: JSON with the address of Keystone and the user; JSON with the calls, each a method and its arguments. The
results go to the file that the last argument names, as JSON.
"""

import json
import sys
from pathlib import Path

from tacker.sol_refactored.common.config import CONF
from tacker.sol_refactored.common.exceptions import SolException
from tacker.sol_refactored.infra_drivers.openstack.heat_utils import HeatClient
from tacker.sol_refactored.objects.common.vim_connection_info import VimConnectionInfo

given = json.loads(sys.argv[1])
CONF([], project="tacker")
CONF.set_override("enable_rollback_stack", True, group="v2_vnfm")
access = {"username": given["name"], "password": given["password"], "project": given["name"]}
access |= {"userDomain": "Default", "projectDomain": "Default"}
interface = {"endpoint": given["auth_url"]}
client = HeatClient(VimConnectionInfo(vimId="vim", vimType="v3", interfaceInfo=interface, accessInfo=access))
results = []
for method, words in json.loads(sys.argv[2]):
    try:
        results.append(getattr(client, method)(*words))
    except SolException as error:
        results.append({"error": error.detail})
Path(sys.argv[3]).write_text(json.dumps(results))
