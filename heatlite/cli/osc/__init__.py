"""Commands for `openstack` that python-heatclient does not have."""
