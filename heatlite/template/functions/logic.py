"""Condition functions of HOT, `if`, and functions of earlier versions."""

from typing import ClassVar

from heatlite.core.errors import StackValidationFailed
from heatlite.template.expression import OMIT, UNKNOWN, Function, FunctionCall, ListOf, Unknown, raise_together
from heatlite.template.functions.arguments import Items, sequence


class If(Function):
    summary = "One of two values, as a condition says; the other one is not even looked at."
    short: ClassVar[bool] = False
    __slots__ = ()

    @classmethod
    def build(cls, call: FunctionCall) -> object:
        given = call.arguments
        if not isinstance(given, list) or not (2 if cls.short else 3) <= len(given) <= 3:
            form = "[condition_name, value_if_true, value_if_false]"
            raise call.fault(f'Arguments to "{call.name}" must be of the form: {form}')
        holds = call.bindings.decide(given[0], (*call.path, 0))
        chosen = 2 if holds is False else 1
        if chosen == len(given):
            return OMIT
        value = call.parser.parse_part(given[chosen], (*call.path, chosen))
        return cls(call, ListOf([UNKNOWN, value])) if isinstance(holds, Unknown) and value is not OMIT else value


class IfShort(If):
    summary = "One of two values, as a condition says; without the second one, the item itself vanishes."
    short = True
    __slots__ = ()


class Removed(Function):
    """A function of earlier versions."""

    summary = ""
    __slots__ = ()

    @classmethod
    def build(cls, call: FunctionCall) -> object:
        raise call.fault(f'The function "{call.name}" is not supported in this version of HOT.')


class Equals(Function):
    summary = "True if two values are equal."
    takes = Items('Arguments to "%s" must be of the form: [value_1, value_2]', 2, 2)
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        one, other = sequence(arguments)
        return one == other


def opposite(value: bool | Unknown) -> bool | Unknown:
    """Return the opposite of a condition; that of an unknown one is unknown."""
    return value if isinstance(value, Unknown) else not value


class Not(Function):
    summary = "The opposite of a condition."
    __slots__ = ()

    @classmethod
    def build(cls, call: FunctionCall) -> object:
        return opposite(call.bindings.decide(call.arguments, call.path))


class And(Function):
    summary = "True if all conditions hold."
    __slots__ = ()

    @classmethod
    def build(cls, call: FunctionCall) -> object:
        return cls.decided(call, False)

    @classmethod
    def decided(cls, call: FunctionCall, decisive: bool) -> bool | Unknown:
        """Return `decisive` if an operand has that value."""
        operands = cls.operands(call)
        if decisive in operands:
            return decisive
        return UNKNOWN if UNKNOWN in operands else not decisive

    @classmethod
    def operands(cls, call: FunctionCall) -> list[bool | Unknown]:
        given = call.arguments
        if not isinstance(given, list) or len(given) < 2:
            raise call.fault(f'The minimum number of condition arguments to "{call.name}" is 2.')
        decided: list[bool | Unknown] = []
        errors: list[StackValidationFailed] = []
        for i, item in enumerate(given):
            try:
                decided.append(call.bindings.decide(item, (*call.path, i)))
            except StackValidationFailed as error:
                errors.append(error.with_traceback(None))
        raise_together(errors)
        return decided


class Or(And):
    summary = "True if at least one condition holds."
    __slots__ = ()

    @classmethod
    def build(cls, call: FunctionCall) -> object:
        return cls.decided(call, True)
