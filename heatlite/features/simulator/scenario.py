"""Scenarios of simulated clouds, read from files."""

import difflib
import fnmatch
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from heatlite.core.config import BadSetting
from heatlite.features.simulator.services.registry import KINDS, VERBS
from heatlite.features.simulator.simulation import RAISED, Scenario, SimulatedFault

SERVICES = (
    "block-storage", "compute", "dns", "identity", "image", "key-manager", "load-balancer", "network", "object-store",
)  # fmt: skip
"""Services of a simulated cloud, by the types used in catalogs."""

_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "latency": {"type": "number", "minimum": 0},
        "build": {"type": "number", "minimum": 0},
        "seed": {"type": "integer"},
        "count_calls": {"type": "boolean"},
        "services": {"type": "array", "items": {"enum": list(SERVICES)}},
        "roles": {"type": "array", "items": {"type": "string"}},
        "quotas": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        "faults": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["verb"],
                "oneOf": [{"required": ["raises"]}, {"required": ["goes"]}],
                "properties": {
                    "verb": {"type": "string"},
                    "number": {"type": "integer", "minimum": 1},
                    "name": {"type": "string"},
                    "raises": {"enum": sorted(RAISED)},
                    "goes": {"type": "string"},
                    "message": {"type": "string"},
                },
            },
        },
    },
}

_VALIDATOR = Draft202012Validator(_SCHEMA)


def scenario(written: object, origin: str) -> Scenario:
    """Parse a scenario with the fields of `Scenario`.

    Raises BadSetting, which names `origin`.
    """
    error = best_match(_VALIDATOR.iter_errors(written))
    if error is not None:
        raise BadSetting(f"{origin}: {error.json_path}: {error.message}")
    given: dict[str, Any] = dict(written) if isinstance(written, dict) else {}
    for kind in given.get("quotas", ()):
        if kind not in KINDS:
            raise _unknown(f"{origin}: $.quotas", "kind", kind, KINDS)
    for at, fault in enumerate(given.get("faults", ())):
        if not fnmatch.filter(VERBS, fault["verb"]):
            raise _unknown(f"{origin}: $.faults[{at}].verb", "verb", fault["verb"], VERBS)
    given["faults"] = tuple(SimulatedFault(**one) for one in given.get("faults", ()))
    return Scenario(**given)


def _unknown(place: str, noun: str, name: str, known: Iterable[str]) -> BadSetting:
    close = difflib.get_close_matches(name, known, 1)
    return BadSetting(f"{place}: there is no {noun} {name}{f'; did you mean {close[0]}?' if close else ''}")


def read_scenario(path: Path) -> Scenario:
    """Read a scenario from a YAML file. Raises BadSetting."""
    try:
        return scenario(yaml.safe_load(path.read_text("utf-8")) or {}, str(path))
    except OSError as error:
        raise BadSetting(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path}: no valid YAML: {error}") from error
