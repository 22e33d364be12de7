"""Plugin of mypy: checks the fields that `msgspec.structs.replace` changes."""

from collections.abc import Callable

from mypy.nodes import ARG_NAMED_OPT, ARG_POS
from mypy.plugin import FunctionSigContext, Plugin
from mypy.typeops import bind_self
from mypy.types import CallableType, FunctionLike, Instance, get_proper_type


class StructPlugin(Plugin):
    """Checks the keywords of `replace` as those of the constructor."""

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        return _replace if fullname == "msgspec.structs.replace" else None


def _replace(context: FunctionSigContext) -> FunctionLike:
    if not context.args or len(context.args[0]) != 1:
        return context.default_signature
    kind = get_proper_type(context.api.get_expression_type(context.args[0][0]))
    made = kind.type.get_method("__init__") if isinstance(kind, Instance) else None
    if made is None or not isinstance(made.type, CallableType):
        return context.default_signature
    fields = bind_self(made.type, kind)
    return fields.copy_modified(
        arg_types=[kind, *fields.arg_types],
        arg_kinds=[ARG_POS, *(ARG_NAMED_OPT for _ in fields.arg_types)],
        arg_names=[None, *fields.arg_names],
        ret_type=kind,
        name="replace",
    )


def plugin(_version: str) -> type[Plugin]:
    """Return the plugin."""
    return StructPlugin
