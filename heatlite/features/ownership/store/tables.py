"""Models of ownership."""

import peewee


class UnnamedResource(peewee.Model):
    """A resource whose definition the server has written.

    No template of a client has named it since.
    """

    resource_id = peewee.CharField(max_length=36, primary_key=True)
    stack_id = peewee.CharField(max_length=36, index=True)
    name = peewee.CharField()

    class Meta:
        table_name = "unnamed_resource"


MODELS: tuple[type[peewee.Model], ...] = (UnnamedResource,)
