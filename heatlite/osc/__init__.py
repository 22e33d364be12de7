"""Commands for `openstack`.

They stand in for nothing of heatclient's; they add what it does not know.
"""
