"""Values of parameters: from the environment, defaults and pseudo parameters."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from heatlite.core.errors import Problem, UnknownUserParameter, UserParameterMissing
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, Unknown
from heatlite.template.parameters.parameters import Parameters, ParameterSchema
from heatlite.template.source.loader import Path
from heatlite.template.source.problems import Findings, ValidationPhase


class Binding(Struct, frozen=True):
    """Gives parameters their values and adds the faults to `findings`."""

    environment: Environment
    findings: Findings
    section: str
    """The name of the template's section of parameters."""
    strict: bool
    """False: missing and invalid values are no faults."""
    stored: bool
    """True: the values met the constraints when they were stored."""

    def bind(
        self, schemas: Mapping[str, ParameterSchema], declared: Collection[str], values: dict[str, object]
    ) -> Parameters:
        """Add the declared parameters to `values`.

        UNKNOWN stands for those without a value or with a faulty one.
        """
        for name in self.environment.parameters:
            if name not in declared:
                text = UnknownUserParameter(key=name).message
                hint = self.findings.nearest(name, declared)
                problem = Problem(("parameters", name), text, hint, "UnknownUserParameter", "environment")
                self.findings.add(ValidationPhase.UNKNOWN_PARAMETERS, problem)
        for name in declared:
            schema = schemas.get(name)
            values[name] = UNKNOWN if schema is None else self._value(schema)
        return Parameters(schemas, values)

    def _value(self, schema: ParameterSchema) -> object:
        name, environment = schema.name, self.environment
        path: Path = (self.section, name, "default" if self.section == "parameters" else "Default")
        value = schema.default
        source = "template"
        if environment.parameter_defaults.get(name) is not None:
            value, path, source = environment.parameter_defaults[name], ("parameter_defaults", name), "environment"
        if environment.parameters.get(name) is not None:
            value, path, source = environment.parameters[name], ("parameters", name), "environment"
        if value is None:
            if self.strict:
                text = UserParameterMissing(key=name).message
                about = f"{schema.description.strip()}: " if schema.description else ""
                problem = Problem((self.section, name), text, f"{about}-P {name}=…", error="UserParameterMissing")
                self.findings.add(ValidationPhase.MISSING_PARAMETERS, problem)
            return UNKNOWN
        if isinstance(value, Unknown):  # of a nested template: what the resource gives is yet to come
            return UNKNOWN
        typed, faults = schema.examine(value, constrained=not self.stored)
        for fault in faults if self.strict else ():
            text = schema.masked(f"Parameter '{name}' is invalid: {fault}", value)
            self.findings.add(ValidationPhase.PARAMETER_VALUES, Problem(path, text, source=source))
        return UNKNOWN if faults else typed
