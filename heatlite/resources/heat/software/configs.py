"""Software configs and configs for cloud-init."""

from collections.abc import Sequence
from email import message_from_string
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import PurePath
from typing import Final, TypeVar, cast
from uuid import UUID, uuid5

import yaml

from heatlite.core.errors import (
    NotFound,
)
from heatlite.core.json import Json, JsonMap, dump
from heatlite.plugin import (
    Facts,
    Resource,
    Schema,
    SupportStatus,
    prop,
)
from heatlite.plugin.ports import UNGROUPED, SoftwareConfig

KINDS = ("String", "Number", "CommaDelimitedList", "Json", "Boolean")
COMPONENT = "component"
"""The group of a config that has separate configs for different actions."""

SPACE: Final = UUID("6d3a3c4e-0f6b-4f5c-8a0e-6f1f6d0c7b51")


def own_id(facts: Facts) -> str:
    """Return the id of the object that a resource stores outside its row.

    It is derived from the resource, so that a retry after a crash uses the same id and creates nothing twice.
    """
    return str(uuid5(SPACE, f"{facts.project}/{facts.stack_id}/{facts.physical_name}"))


# -- base of the configs -----------------------------------------------------------------------------


class Item(Schema):
    name: str = prop(doc="The name.")
    description: str | None = prop(doc="Its description.")
    kind: str = prop("String", alias="type", one_of=KINDS, doc="The type of the value.")

    def described(self) -> JsonMap:
        """Return the item as the tool on the server reads it."""
        description: JsonMap = {} if self.description is None else {"description": self.description}
        return {"name": self.name, "type": self.kind, **description}


class Input(Item):
    default: Json = prop(None, doc="The value if a deployment gives none.")
    replace_on_change: bool = prop(False, doc="True if another value replaces the deployment.")

    def described(self) -> JsonMap:
        default: JsonMap = {} if self.default is None else {"default": self.default}
        replacing: JsonMap = {"replace_on_change": True} if self.replace_on_change else {}
        return {**super().described(), **replacing, **default}


class Output(Item):
    error_output: bool = prop(False, doc="True if this output in a server's answer means failure.")

    def described(self) -> JsonMap:
        return {**super().described(), "error_output": self.error_output}


class InterfaceProps(Schema):
    inputs: list[Input] | None = prop(doc="The inputs that a deployment may set.")
    outputs: list[Output] | None = prop(
        doc="The outputs in the server's answer; each is an attribute of the deployment."
    )
    options: dict[str, Json] | None = prop(doc="Options for the tool.")


ConfigSchema = TypeVar("ConfigSchema", bound=Schema, covariant=True)


class Config(Resource[ConfigSchema]):
    """Base of the configs.

    A stored config is immutable, so a change creates another one.
    """

    stored_only = True

    def content(self) -> SoftwareConfig:
        """Return the config to be stored."""
        raise NotImplementedError

    def handle_create(self) -> None:
        config_id = own_id(self.facts)
        self.facts.services.software.put_config(self.facts.project, config_id, self.content())
        self.physical_id = config_id

    def handle_adopt(self) -> None:
        """Store the config with its recorded id, unless it is there.

        Deployments refer to it by that id.
        """
        assert self.physical_id is not None
        self.facts.services.software.put_config(self.facts.project, self.physical_id, self.content())

    def handle_delete(self) -> None:
        if self.physical_id is not None:
            try:
                self.facts.services.software.delete_config(self.facts.project, self.physical_id)
            except NotFound:
                return  # a client has deleted it already

    def attr_config(self) -> str:
        """The configuration for the tool on the server."""
        assert self.physical_id is not None
        kept = self.facts.services.software.config(self.facts.project, self.physical_id)
        return cast(str, kept.config)  # some types have a map here, though Heat documents text for all

    def _with_interface(self, props: InterfaceProps, group: str, config: Json) -> SoftwareConfig:
        return SoftwareConfig(
            name=self.physical_name,
            group=group,
            config=config,
            inputs=[one.described() for one in props.inputs or ()],
            outputs=[one.described() for one in props.outputs or ()],
            options=props.options or {},
        )


# -- OS::Heat::SoftwareConfig and similar types ------------------------------------------------------


class SoftwareConfigProps(InterfaceProps):
    group: str = prop(UNGROUPED, doc="The tool that applies it: script, ansible, puppet and so on.")
    config: str | None = prop(doc="The content for the tool.")


class SoftwareConfigResource(Config[SoftwareConfigProps], type="OS::Heat::SoftwareConfig"):
    """A software config: a text for a configuration tool on the server.

    get_resource returns the id by which deployments refer to it.
    """

    support_status = SupportStatus(version="2014.1")

    def content(self) -> SoftwareConfig:
        return self._with_interface(self.props, self.props.group, self.props.config or "")


class StructuredConfigProps(InterfaceProps):
    group: str = prop(UNGROUPED, doc="The tool that applies it.")
    config: dict[str, Json] | None = prop(doc="The content for the tool; deployments insert the values of inputs.")


class StructuredConfig(Config[StructuredConfigProps], type="OS::Heat::StructuredConfig"):
    """A software config whose content is a map instead of a text."""

    support_status = SupportStatus(version="2014.1")

    def content(self) -> SoftwareConfig:
        return self._with_interface(self.props, self.props.group, self.props.config or {})


class ComponentConfig(Schema):
    actions: list[str] = prop(["CREATE", "UPDATE"], length=(1, None), doc="The actions that this config is for.")
    config: str | None = prop(doc="The content for the tool.")
    tool: str = prop(doc="The tool that applies it.")


class SoftwareComponentProps(InterfaceProps):
    configs: list[ComponentConfig] = prop(length=(1, None), doc="The configs, at most one for each action.")

    def fault(self) -> str | None:
        actions = [action for config in self.configs for action in config.actions]
        twice = sorted({action for action in actions if actions.count(action) > 1})
        return f"More than one of the configs is for {', '.join(twice)}" if twice else None


class SoftwareComponent(Config[SoftwareComponentProps], type="OS::Heat::SoftwareComponent"):
    """Several configs for one piece of software: to install it and to update it."""

    support_status = SupportStatus(version="2014.2")

    def content(self) -> SoftwareConfig:
        configs: list[Json] = [
            {"actions": config.actions, "config": config.config, "tool": config.tool} for config in self.props.configs
        ]
        return self._with_interface(self.props, COMPONENT, {"configs": configs})


# -- configs for cloud-init --------------------------------------------------------------------------


class CloudConfigProps(Schema):
    cloud_config: dict[str, Json] | None = prop(doc="The configuration for cloud-init.")


class CloudConfig(Config[CloudConfigProps], type="OS::Heat::CloudConfig"):
    """Instructions for cloud-init at the first boot of a server."""

    support_status = SupportStatus(version="2014.1")

    def content(self) -> SoftwareConfig:
        text = yaml.safe_dump(self.props.cloud_config or {}, allow_unicode=True)
        return SoftwareConfig(self.physical_name, UNGROUPED, f"#cloud-config\n{text}")


class MimePart(Schema):
    config: str = prop(doc="A text, or the id of a config.")
    filename: str | None = prop(doc="The file name of the part.")
    subtype: str | None = prop(doc="The subtype of the text; default: the filename without its extension.")
    kind: str = prop(
        "text", alias="type", one_of=("text", "multipart"), doc="multipart: the part has parts of its own."
    )


class MultipartMimeProps(Schema):
    group: str = prop(UNGROUPED, doc="The tool that applies it.")
    parts: list[MimePart] = prop([], doc="The parts in their order.")


class MultipartMime(Config[MultipartMimeProps], type="OS::Heat::MultipartMime"):
    """Several configs in one multipart text, for the user_data of a server."""

    support_status = SupportStatus(version="2014.1")

    def content(self) -> SoftwareConfig:
        parts = [one for part in self.props.parts for one in messages(part, text_of(self.facts, part.config))]
        text = MIMEMultipart(_subparts=parts).as_string()
        return SoftwareConfig(self.physical_name, self.props.group, text)


def text_of(facts: Facts, text_or_id: str) -> str:
    """Return a text unchanged, and the content of a software config for its id."""
    if len(text_or_id) != len(str(SPACE)):
        return text_or_id
    try:
        config = facts.services.software.config(facts.project, text_or_id).config
    except NotFound:
        return text_or_id
    return config if isinstance(config, str) else dump(config)


def messages(part: MimePart, text: str) -> Sequence[Message]:
    """Return the messages of a part: the part itself, or those of a multipart text.

    Empty if the type is multipart and the text is not.
    """
    if part.kind == "multipart":
        message = message_from_string(text)
        return cast(Sequence[Message], message.get_payload()) if message.is_multipart() else ()
    subtype = part.subtype or (PurePath(part.filename).stem if part.filename else "plain")
    made = MIMEText(text, subtype, "us-ascii" if text.isascii() else "utf-8")
    if part.filename:
        made.add_header("Content-Disposition", "attachment", filename=part.filename)
    return (made,)
