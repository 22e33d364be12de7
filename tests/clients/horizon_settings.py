# ruff: noqa: F403, F405, E402 - settings of Django
"""Settings of a Horizon with heat-dashboard. The OS_* variables name its Keystone."""

import os
from pathlib import Path

import heat_dashboard
from heat_dashboard import enabled as panels
from openstack_dashboard.local import enabled

enabled.__path__.extend(panels.__path__)  # an operator copies the files
from openstack_dashboard.settings import *

ALLOWED_HOSTS = ["127.0.0.1"]
OPENSTACK_KEYSTONE_URL = os.environ["OS_AUTH_URL"]
SECRET_KEY = "not secret: of a test"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
COMPRESS_ENABLED = False
COMPRESS_PRECOMPILERS = ()
CONF = Path(heat_dashboard.__path__[0]) / "conf"
POLICY_FILES = {**POLICY_FILES, "orchestration": str(CONF / "heat_policy.yaml")}
DEFAULT_POLICY_FILES = {**DEFAULT_POLICY_FILES, "orchestration": str(CONF / "default_policies" / "heat.yaml")}
OPENSTACK_HEAT_STACK = {"enable_user_pass": True}
