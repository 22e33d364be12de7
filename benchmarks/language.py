"""The language against the C parser of YAML: load, validate, resolve, growth."""

import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import yaml

from benchmarks.cases import Bench
from heatlite.plugin.registry import Registry
from heatlite.resources import BUILTIN
from heatlite.template.checks.check import check_definition
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.expression import resolve
from heatlite.template.source.loader import load_template

SIZES = (1000, 5000)
Given = TypeVar("Given")
Made = TypeVar("Made")


def template(count: int) -> str:
    """`count` resources with parameters, references and texts with names."""
    head = """\
heat_template_version: 2021-04-16
description: a template of the benchmark
parameters:
  size: {type: number, default: 3, constraints: [{range: {min: 1, max: 10}}]}
  names: {type: comma_delimited_list, default: "a,b,c"}
conditions:
  large: {not: {equals: [{get_param: size}, 1]}}
resources:
"""
    resources = [
        f"""\
  server_{number}:
    type: OS::Heat::Value
    properties:
      type: json
      value:
        name: {{list_join: ['-', [server, {{get_param: 'OS::stack_name'}}, '{number}']]}}
        size: {{get_param: size}}
        network: {{get_resource: server_{number - 1}}}
        script:
          str_replace:
            template: |
              #!/bin/sh
              echo $name on $size
            params: {{$name: {{get_param: [names, 1]}}, $size: {{get_param: size}}}}
        tags: [one, two, {{if: [large, three, four]}}]
"""
        for number in range(1, count + 1)
    ]
    return head + "  server_0: {type: OS::Heat::Value, properties: {value: first}}\n" + "".join(resources)


class _Stack:
    """A stack in which every resource is there."""

    def reference(self, name: str) -> object:
        return name

    def attribute(self, name: str, _attribute: str | None, _path: Sequence[object]) -> object:
        return name


def _validated(text: str, types: Registry) -> Definition:
    source = load_template(text)
    definition = Template(source.data).definition(Environment(), {"OS::stack_name": "s"})
    problems = check_definition(definition, types)
    if problems:
        raise AssertionError(problems[0])
    return definition


def _resolved(definition: Definition) -> list[object]:
    stack = _Stack()
    return [resolve(resource.properties, stack) for resource in definition.resources.values()]


def _timed(work: Callable[[Given], Made], given: Given) -> tuple[float, Made]:
    gc.collect()
    began = time.process_time()
    made = work(given)
    return time.process_time() - began, made


def language(bench: Bench) -> None:
    """Load and validate templates of 1000 and 5000 resources; resolve properties."""
    types = Registry(BUILTIN)
    _validated(template(1), types)  # the first one imports the type
    for turn in range(bench.repeat * 3):
        bench.say(f"language, {turn + 1} of {bench.repeat * 3}")
        for count in SIZES:
            text = template(count)
            bench.add(f"yaml.{count}", _timed(lambda text: yaml.load(text, yaml.CSafeLoader), text)[0])
            seconds, definition = _timed(lambda text: _validated(text, types), text)
            bench.add(f"validate.{count}", seconds)
            bench.add(f"resolve.{count}", _timed(_resolved, definition)[0])


if __name__ == "__main__":
    from pathlib import Path

    only = Bench(Path(), None, int(sys.argv[1]) if len(sys.argv) > 1 else 5, 0)
    language(only)
    for name, samples in only.samples.items():
        print(f"{name:14} {sorted(samples)[len(samples) // 2] * 1000:8.1f} ms   least {min(samples) * 1000:8.1f} ms")
