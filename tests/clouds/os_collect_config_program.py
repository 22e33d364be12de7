"""The first poll of an unmodified os-collect-config: Keystone, then heatlite.

Its input: `os-collect-config` of a server's metadata. Its output: what it has collected.
"""

import json

from os_collect_config import collect, heat
from oslo_config import cfg

collect.setup_conf()
settings = [f"--heat-{name.replace('_', '-')}={value}" for name, value in json.loads(input())["heat"].items()]
cfg.CONF(settings, project="os-collect-config", default_config_files=[])
print(json.dumps(heat.Collector().collect()))
