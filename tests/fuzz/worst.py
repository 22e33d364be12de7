"""Generators of hostile templates of a given size."""

# ruff: noqa: E501

import json
from collections.abc import Callable
from typing import Final

Maker = Callable[[int], str]
HEAD: Final = "heat_template_version: 2021-04-16\n"


def _many(size: int, line: str, head: str = "", tail: str = "") -> str:
    """Lines in which ``@`` is a number, as many as fit."""
    lines: list[str] = []
    left = size - len(HEAD) - len(head) - len(tail)
    number = 0
    while left > 0:
        lines.append(line.replace("@", str(number)))
        left -= len(lines[-1].encode())
        number += 1
    return HEAD + head + "".join(lines[:-1]) + tail


def _around(size: int, before: str, inner: str, after: str) -> str:
    """One line with `inner` as often as it fits."""
    return HEAD + before + inner * ((size - len(HEAD) - len(before) - len(after)) // len(inner.encode())) + after


def _output(value: str) -> str:
    return f"outputs: {{o: {{value: {value}}}}}\n"


def _bomb(size: int) -> str:
    levels = [f"a@: &a@ [{', '.join(['*a#'] * 9)}]\n"]
    text = "x: &a0 [x]\n" + "".join(
        levels[0].replace("@", str(n)).replace("#", str(n - 1)) for n in range(1, size // 70)
    )
    return HEAD + text


def _wide_aliases(size: int) -> str:
    """As much as aliases may add, over and over in properties."""
    return _many(size, "  r@: {type: T, properties: *p}\n", "x: &p {" + "a: {get_param: b}, " * 4 + "}\nresources:\n")


def _pattern(pattern: str, value: str) -> Maker:
    quoted = pattern.replace("'", "''")
    line = f"  p@: {{type: string, default: '{value}', constraints: [{{allowed_pattern: '{quoted}'}}]}}\n"
    return lambda size: _many(size, line, "parameters:\n")


def _one_pattern(piece: str, value: str) -> Maker:
    def make(size: int) -> str:
        half = size // 2 - 200
        pattern = piece * (half // len(piece.encode()))
        text = value * (half // len(value.encode()))
        return (
            f"{HEAD}parameters: {{p: {{type: string, default: '{text}', constraints: [allowed_pattern: '{pattern}']}}}}"
        )

    return make


def _chain(size: int) -> str:
    return _many(size, "  c@: {not: c@x}\n", "conditions:\n").replace("x}", "}")


def _condition_chain(size: int) -> str:
    count = size // 22
    lines = [f"  c{number}: {{not: c{number + 1}}}\n" for number in range(count)]
    return HEAD + "conditions:\n" + "".join(lines)[: size - 60].rpartition("\n")[0] + "\n"


def _resource_chain(size: int) -> str:
    lines = [f"  r{number}: {{type: OS::Heat::Value, depends_on: r{number + 1}}}\n" for number in range(size // 48)]
    return HEAD + "resources:\n" + "".join(lines)[: size - 60].rpartition("\n")[0] + "\n"


def _dependencies(size: int) -> str:
    """Some hundred resources, each of which depends on every other one."""
    count = int((size / 8) ** 0.5)
    names = ",".join(f"r{number}" for number in range(count))
    return (
        HEAD + "resources:\n" + "".join(f"  r{number}: {{type: T, depends_on: [{names}]}}\n" for number in range(count))
    )


def _deep(opening: str, closing: str, levels: int = 90) -> Maker:
    return lambda size: _many(size, f"- {opening * levels}x{closing * levels}\n", "outputs: {o: {value: &v\n", "}}")


def _json(size: int) -> str:
    data = {"heat_template_version": "2021-04-16", "resources": {}}
    resources: dict[str, object] = {}
    for number in range(size // 60):
        resources[f"r{number}"] = {"type": "T", "properties": {"a": {"get_resource": f"r{number}"}}}
    return json.dumps({**data, "resources": resources})[: size - 1]


WORST: Final[dict[str, Maker]] = {
    # the loader
    "alias bomb": _bomb,
    "many aliases": lambda size: _around(size, "a: &a [x, y]\nb: [", "*a,", "]"),
    "aliases of a long text": lambda size: _around(size, "a: &a " + "x" * 1000 + "\nb: [", "*a,", "]"),
    "merge keys": lambda size: _many(size, "  m@: {<<: *b}\n", "b: &b {" + "a: 1, " * 20 + "}\nm:\n"),
    "merge lists": lambda size: _around(size, "b: &b {a: 1, b: 2}\nm: {<<: [", "*b,", "]}"),
    "many merges in one map": lambda size: _around(size, "b: &b {a: 1, b: 2}\nm: {", "<<: *b,", "}"),
    "duplicate keys": lambda size: _around(size, "a: {", "a: 1,", "}"),
    "duplicate keys, deep": lambda size: _around(size, "a: " + "[{a: " * 40 + "{", "a: 1,", "}" + "}]" * 40),
    "anchors": lambda size: _many(size, "a@: &a@ x\n"),
    "one anchor, often": lambda size: _many(size, "a@: &a [x]\n"),
    "one list": lambda size: _around(size, "a: [", "1,", "]"),
    "one map": lambda size: _many(size, "k@: v\n"),
    "maps": lambda size: _around(size, "a: [", "{},", "]"),
    "lists": lambda size: _around(size, "a: [", "[],", "]"),
    "dashes": lambda size: _around(size, "a:\n", "- \n", ""),
    "nested dashes": lambda size: _around(size, "a:\n", "- - - - - - - - -\n", ""),
    "one text": lambda size: _around(size, "a: ", "x", ""),
    "one quoted text": lambda size: _around(size, 'a: "', "\\x41", '"'),
    "one folded text": lambda size: _around(size, "a: >\n", "  x\n\n", ""),
    "one number": lambda size: _around(size, "a: ", "9", ""),
    "one sexagesimal": lambda size: _around(size, "a: 1", ":59", ""),
    "sexagesimals": lambda size: _around(size, "a: [", "1:1:1:1:1:1.5,", "]"),
    "one hexadecimal": lambda size: _around(size, "a: 0x", "f", ""),
    "one binary": lambda size: _around(size, "a: 0b", "1", ""),
    "one octal": lambda size: _around(size, "a: 0", "7", ""),
    "hexadecimals": lambda size: _many(size, "k@: 0x" + "f" * 500 + "\n"),
    "numbers that are none": lambda size: _around(size, "a: [", "1_" * 500 + "x,", "]"),
    "one float": lambda size: _around(size, "a: 1.", "1", ""),
    "numbers": lambda size: _around(size, "a: [", "1.5e+3,", "]"),
    "number as key": lambda size: _around(size, "0x", "f", ": 1"),
    "deep lists": lambda size: _around(size, "a: ", "[", ""),
    "deep maps": lambda size: _around(size, "a: ", "{a: ", ""),
    "deep JSON": lambda size: '{"a":' * (size // 5),
    "JSON that breaks off": _json,
    "JSON numbers": lambda size: '{"a": [' + "1," * (size // 2 - 10) + "1]}",
    "one JSON number": lambda size: '{"heat_template_version": "2021-04-16", "a": ' + "9" * (size - 60) + "}",
    "comments": lambda size: _around(size, "", "#\n", ""),
    "empty documents": lambda size: _around(size, "", "---\n", ""),
    "directives": lambda size: "%A b\n" * (size // 5) + "---\na: b\n",
    "tags": lambda size: _around(size, "a: [", "!!str a,", "]"),
    "simple keys": lambda size: _around(size, "a: {", "? ", "}"),
    "flow colons": lambda size: _around(size, "a: {", "a,", "}"),
    "emoji": lambda size: _around(size, "a: ", "🙂", ""),
    "combining marks": lambda size: _around(size, "a: e", "\u0301", ""),
    # sections
    "wrong sections": lambda size: _many(size, "resourcez@: {}\n"),
    "groups": lambda size: _many(size, "- {parameters: [parametr@]}\n", "parameters: {a: {type: string}}\nparameter_groups:\n"),
    "one large group": lambda size: _many(
        size, "p@, ", "parameters: {a: {type: string}}\nparameter_groups: [{parameters: [", "a]}]\n"
    ),
    "parameters": lambda size: _many(size, "  p@: {type: string}\n", "parameters:\n"),
    "parameters of no type": lambda size: _many(size, "  p@: {type: strimg}\n", "parameters:\n"),
    "parameters with a wrong key": lambda size: _many(size, "  p@: {typo: string}\n", "parameters:\n"),
    "constraints": lambda size: _around(
        size, "parameters: {p: {type: string, default: abc, constraints: [", "{length: {min: 1}},", "]}}"
    ),
    "wrong constraints": lambda size: _many(size, "  p@: {type: string, constraints: [{lenght: 1}]}\n", "parameters:\n"),
    "allowed values": lambda size: _many(
        size, "v@,", "parameters: {p: {type: comma_delimited_list, default: '" + "x," * 5000 + "', constraints: [allowed_values: [", "]]}}"
    ),
    "allowed values, hit": lambda size: _many(
        size // 2, "v@,", "parameters: {p: {type: comma_delimited_list, default: '" + "v9999," * (size // 12) + "', constraints: [allowed_values: [", "]]}}"
    ),
    "custom constraints": lambda size: _around(
        size, "parameters: {p: {type: comma_delimited_list, constraints: [custom_constraint: timezone], default: '", "a,", "'}}"
    ),
    "ip addresses": lambda size: _around(
        size, "parameters: {p: {type: comma_delimited_list, constraints: [custom_constraint: ip_or_cidr], default: '", "::,", "'}}"
    ),
    "cron": lambda size: _around(
        size, "parameters: {p: {type: string, constraints: [custom_constraint: cron_expression], default: '* * * * ", "1,", "'}}"
    ),
    "long domain": lambda size: _around(
        size, "parameters: {p: {type: string, constraints: [custom_constraint: dns_name], default: '", "a-", "'}}"
    ),
    "deep JSON parameter": lambda size: _around(size, "parameters: {p: {type: json, default: '", "[", "'}}"),
    "JSON parameter": lambda size: _around(size, "parameters: {p: {type: json, default: '[", "1,", "1]'}}"),
    "number parameter": lambda size: _around(size, "parameters: {p: {type: number, default: '", "9", "'}}"),
    "float parameter": lambda size: _around(size, "parameters: {p: {type: number, default: '0.", "9", "'}}"),
    "modulo": lambda size: _around(
        size, "parameters: {p: {type: number, constraints: [modulo: {step: 3, offset: 1}], default: 0x", "9", "}}"
    ),
    "range": lambda size: _around(size, "parameters: {p: {type: number, default: 1, constraints: [range: {min: 0x", "9", "}]}}"),
    "hidden": lambda size: _around(
        size, "parameters: {p: {type: string, hidden: true, default: a, constraints: [length: {min: 2, max: 0x", "9", "}]}}"
    ),
    # patterns
    "patterns": _pattern("(a+)+$", "a" * 60 + "!"),
    "patterns with many ways": _pattern("(a|aa|b)*(a|b|ab)+c", "ab" * 40),
    "patterns, just in bounds": _pattern("(?:[a-z]+[0-9]?)+x?", "abc0" * 20),
    "patterns with look-ahead": _pattern("(?:(?=.*a.*b)[ab])*", "ab" * 20),
    "patterns with many states": _pattern("(.*a.{300}|.*b.{200}b)", "abbabaabaabbabbabab" * 5),
    "patterns to prepare": _pattern("(?i)[a-z][b-y][c-x]", "a"),
    "patterns with wide sets": _pattern("[一-鿿]*[ぁ-龠]+", "a"),
    "one pattern": _one_pattern("a*", "a"),
    "one pattern with groups": _one_pattern("(?:a|b)*", "a"),
    "one pattern with sets": _one_pattern("[Ā-￿]", "a"),
    "one pattern without case": _one_pattern("(?i:[s-é])?", "a"),
    "one long literal pattern": _one_pattern("a", "a"),
    "one pattern with names": _one_pattern("(?:[a-z]b)?", "ab"),
    # conditions
    "conditions": lambda size: _many(size, "  c@: {equals: [a, b]}\n", "conditions:\n"),
    "chain of conditions": _condition_chain,
    "conditions of themselves": _chain,
    "conditions of all": lambda size: _around(size, "conditions: {a: true, b: {and: [", "a,", "a]}}"),
    "conditions that do not exist": lambda size: _many(
        size, "  r@: {type: T, condition: conditiom@}\n", "conditions: {condition1: true}\nresources:\n"
    ),
    "conditions within conditions": lambda size: _many(
        size, "  c@: " + "{not: " * 90 + "true" + "}" * 90 + "\n", "conditions:\n"
    ),
    "conditions twice as often": lambda size: HEAD
    + "conditions:\n  c0: true\n"
    + "".join(f"  c{n}: {{and: [c{n - 1}, c{n - 1}]}}\n" for n in range(1, size // 34)),
    "equal things": lambda size: _around(size, "x: &x [", "a,", "]\nconditions: {c: {equals: [*x, *x]}}"),
    # resources
    "resources": lambda size: _many(size, "  r@: {type: OS::Heat::Value}\n", "resources:\n"),
    "types that do not exist": lambda size: _many(size, "  r@: {type: OS::Heat::Valu@}\n", "resources:\n"),
    "long types that do not exist": lambda size: _many(size, "  r@: {type: 'OS::Heat::" + "a" * 5000 + "@'}\n", "resources:\n"),
    "wrong keys": lambda size: _many(size, "  r@: {typ: a}\n", "resources:\n"),
    "one resource with wrong keys": lambda size: _many(size, "    typ@: a\n", "resources:\n  r:\n    type: T\n"),
    "wrong properties": lambda size: _many(size, "  r@: {type: OS::Heat::Value, properties: {valu: 1}}\n", "resources:\n"),
    "one with wrong properties": lambda size: _many(
        size, "      valu@: a\n", "resources:\n  r:\n    type: OS::Heat::Value\n    properties:\n"
    ),
    "wrong references": lambda size: _many(
        size, "  r@: {type: OS::Heat::Value, properties: {value: {get_resource: s@}}}\n", "resources:\n"
    ),
    "wrong references in one": lambda size: _many(
        size, "{get_resource: s@},", "resources: {r: {type: OS::Heat::Value, properties: {value: [", "]}}}\n"
    ),
    "wrong attributes": lambda size: _many(
        size, "  r@: {type: OS::Heat::Value, properties: {value: {get_attr: [r0, valu]}}}\n", "resources:\n"
    ),
    "references": lambda size: _around(
        size, "resources: {s: {type: T}, r: {type: OS::Heat::Value, properties: {value: [", "{get_resource: s},", "]}}}\n"
    ),
    "wrong dependencies": lambda size: _many(size, "  r@: {type: OS::Heat::Value, depends_on: s@}\n", "resources:\n"),
    "chain": _resource_chain,
    "all on all": _dependencies,
    "circle": lambda size: _resource_chain(size) + "  z: {type: T, depends_on: z}\n",
    "parameters that do not exist": lambda size: _many(
        size, "  r@: {type: OS::Heat::Value, properties: {value: {get_param: p@}}}\n", "parameters: {p: {type: string}}\nresources:\n"
    ),
    "same names": lambda size: _many(size // 2, "  n@: {type: string}\n", "parameters:\n")
    + _many(size // 2, "  n@: {type: T}\n", "resources:\n").removeprefix(HEAD),
    "random strings": lambda size: _many(
        size, "{class: lettrs},", "resources: {r: {type: OS::Heat::RandomString, properties: {character_classes: [", "]}}}\n"
    ),
    # functions
    "deep functions": _deep("{list_join: ['', [", "]]}", 30),
    "deep function": lambda size: _many(size, "- " + "{get_file: " * 80 + "a" + "}" * 80 + "\n", "outputs: {o: {value: [\n", "]}}"),
    "deep ifs": lambda size: _many(
        size, "  o@: {value: " + "{if: [true, " * 45 + "x" + ", y]}" * 45 + "}\n", "outputs:\n"
    ),
    "repeat": lambda size: _around(
        size, "outputs: {o: {value: {repeat: {template: A-B-C-D, for_each: {A: &a [", "x,", "], B: *a, C: *a, D: *a}}}}}"
    ),
    "repeat of a large template": lambda size: _around(
        size, "outputs: {o: {value: {repeat: {for_each: {A: &a [" + "x, " * 300 + "], B: *a}, template: [", "A,", "]}}}}"
    ),
    "repeat of a long text": lambda size: _around(
        size, "outputs: {o: {value: {repeat: {for_each: {A: &a [" + "x, " * 300 + "], B: *a}, template: '", "AB", "'}}}}"
    ),
    "repeat of texts that grow": lambda size: _around(
        size // 2,
        f"outputs: {{o: {{value: {{repeat: {{for_each: {{A: [{'B' * 2000}], B: [{'C' * 2000}], C: [{'d' * 2000}]}}, template: '",
        "A",
        "'}}}}",
    ),
    "repeat within repeat": lambda size: HEAD
    + _output("{repeat: {for_each: {A: &a [" + "x, " * 100 + "]}, template: " * 1
              + "{repeat: {for_each: {B: *a}, template: {repeat: {for_each: {C: *a}, template: [A, B, C]}}}}" + "}}"),
    "many repeats": lambda size: _many(
        size, "  o@: {value: {repeat: {for_each: {A: *a, B: *a}, template: AB}}}\n", "x: &a [" + "x, " * 300 + "]\noutputs:\n"
    ),
    "repeat with many names": lambda size: _many(
        size, "N@: [x],", "outputs: {o: {value: {repeat: {template: '" + "N1 " * 1000 + "', for_each: {", "}}}}}"
    ),
    "str_replace": lambda size: _many(
        size // 2,
        "k@: v,",
        "outputs: {o: {value: {str_replace: {template: '" + "k1 " * (size // 6) + "', params: {",
        "}}}}}",
    ),
    "str_replace that grows": lambda size: _around(
        size // 2, "outputs: {o: {value: {str_replace: {params: {a: " + "x" * (size // 4) + "}, template: '", "a", "'}}}}"
    ),
    "str_replace with overlaps": lambda size: HEAD
    + "outputs: {o: {value: {str_replace: {params: {"
    + ", ".join(f"{'a' * n}: b" for n in range(1, 700))
    + "}, template: '" + "a" * (size - 260_000 if size > 300_000 else size // 2) + "'}}}}",
    "str_replace of pieces": lambda size: HEAD
    + "outputs: {o: {value: {str_replace: {params: {"
    + ", ".join(f"{chr(97 + n % 26)}{n}: b" for n in range(size // 40))
    + "}, template: '" + "".join(f"{chr(97 + n % 26)}{n}" for n in range(size // 8)) + "'}}}}",
    "many that grow": lambda size: _many(
        size, "  o@: {value: {str_replace: {template: *t, params: {a: *v}}}}\n",
        "x: &t " + "a" * 1000 + "\ny: &v " + "x" * 8000 + "\noutputs:\n",
    ),
    "list_join": lambda size: _around(size, "outputs: {o: {value: {list_join: [" + "x" * 1000 + ", [", "a,", "]]}}}"),
    "list_joins that double": lambda size: HEAD
    + _output("&a " + "{list_join: [x, [" * 1 + "a" + "]]}")
    + "y: &b0 [a, a]\n" + "".join(f"y{n}: &b{n} {{list_join: ['', [*b{n - 1}, *b{n - 1}]]}}\n" for n in range(1, 30)),
    "list_join of maps": lambda size: _around(size, "outputs: {o: {value: {list_join: ['', [", "{a: 1},", "]]}}}"),
    "map_merge": lambda size: _many(size, "{a@: 1},", "outputs: {o: {value: {map_merge: [", "]}}}"),
    "map_merges": lambda size: _many(
        size, "  o@: {value: {map_merge: [*m, *m]}}\n", "x: &m {" + ", ".join(f"a{n}: 1" for n in range(300)) + "}\noutputs:\n"
    ),
    "chain of map_merges": lambda size: _many(
        size, "  o@: {value: " + "{map_merge: [{a: 1}, " * 45 + "{b: 2}" + "]}" * 45 + "}\n", "outputs:\n"
    ),
    "map_replace": lambda size: _many(size, "k@: v,", "outputs: {o: {value: {map_replace: [{", "}, {values: {v: w}}]}}}"),
    "filter": lambda size: _many(
        size, "a@,", "outputs: {o: {value: {filter: [&x [", "], *x]}}}"
    ),
    "contains": lambda size: _many(
        size, "{contains: [z, *x]},", "x: &x [" + "a, " * 1000 + "]\noutputs: {o: {value: [", "]}}"
    ),
    "list_concat": lambda size: _around(size, "x: &x [" + "a, " * 400 + "]\noutputs: {o: {value: {list_concat: [", "*x,", "]}}}"),
    "list_concat_unique": lambda size: _many(size, "a@,", "outputs: {o: {value: {list_concat_unique: [[", "]]}}}"),
    "list_concat_unique of deep things": lambda size: _around(
        size, "outputs: {o: {value: {list_concat_unique: [[", "[" * 50 + "]" * 50 + ",", "]]}}}"
    ),
    "digest": lambda size: _around(size, "outputs: {o: {value: {digest: [sha512, '", "a", "']}}}"),
    "digests": lambda size: _around(size, "x: &x " + "a" * 10_000 + "\noutputs: {o: {value: [", "{digest: [sha512, *x]},", "]}}"),
    "slow digests": lambda size: _around(size, "x: &x " + "a" * 10_000 + "\noutputs: {o: {value: [", "{digest: [md4, *x]},", "]}}"),
    "make_url": lambda size: _many(size, "k@: é,", "outputs: {o: {value: {make_url: {host: h, query: {", "}}}}}"),
    "long make_url": lambda size: _around(size, "outputs: {o: {value: {make_url: {host: '", ":", "'}}}}"),
    "make_url with a path": lambda size: _around(size, "outputs: {o: {value: {make_url: {path: '", "é", "'}}}}"),
    "port": lambda size: _around(size, "outputs: {o: {value: {make_url: {host: h, port: '", "9", "'}}}}"),
    "path": lambda size: _around(
        size, "parameters: {p: {type: json, default: []}}\noutputs: {o: {value: {get_param: [p, ", "0,", "0]}}}"
    ),
    "index": lambda size: _around(size, "outputs: {o: {value: {str_split: [',', 'a,b', '", "9", "']}}}"),
    "str_split": lambda size: _around(size, "outputs: {o: {value: {str_split: [',', '", ",", "']}}}"),
    "select": lambda size: _around(size, "outputs: {o: {value: {Fn::Select: [0, '", "[", "']}}}").replace(
        "2021-04-16", "2013-05-23"
    ),
    "get_file": lambda size: _many(size, "{get_file: f@},", "outputs: {o: {value: [", "]}}"),
    "removed functions": lambda size: _around(size, "outputs: {o: {value: [", "{Ref: a},", "]}}"),
    "wrong functions": lambda size: _around(size, "outputs: {o: {value: [", "{repeat: 1},", "]}}"),
    "outputs": lambda size: _many(size, "  o@: {value: {get_resource: r@}}\n", "outputs:\n"),
    "get_attrs": lambda size: _many(
        size, "{get_attr: [r, @]},", "resources: {r: {type: OS::Heat::Value}}\noutputs: {o: {value: [", "]}}\n"
    ),
    # yaql
    "yaql searches": lambda size: _many(
        size, "  o@: {value: {yaql: {expression: 'regex(\".*.*b\").search($.data)', data: *t}}}\n",
        "x: &t " + "a" * 200 + "\noutputs:\n",
    ),
    "yaql matches": lambda size: _many(
        size, "  o@: {value: {yaql: {expression: '$.data =~ \"(a+)+(b|c)*d$\"', data: *t}}}\n",
        "x: &t " + "a" * 2000 + "\noutputs:\n",
    ),
    "yaql matches in a loop": lambda size: _many(
        size, "  o@: {value: {yaql: {expression: '$.data.select($ =~ \"(a+)+(b|c)*d$\")', data: *t}}}\n",
        "x: &t [" + "aaaaaaaaaaaaaaaaaaaaaaaaa, " * 150 + "]\noutputs:\n",
    ),
    "yaql expressions": lambda size: _many(
        size, "  o@: {value: {yaql: {expression: '$.data + @ + 1 - 2 * $.data'}}}\n", "outputs:\n"
    ),
    # functions that fail
    "functions that fail": lambda size: _around(size, "outputs: {o: {value: [", "{digest: [zz, a]},", "]}}"),
    "functions that fail within others": lambda size: _many(
        size, "  o@: {value: " + "{list_join: ['', [a, {digest: [zz, a]}, " * 24 + "a" + "]]}" * 24 + "}\n", "outputs:\n"
    ),
    "functions that fail in properties": lambda size: _many(
        size, "  r@: {type: OS::Heat::Value, properties: {value: [{digest: [zz, a]}, {get_param: zz}]}}\n", "resources:\n"
    ),
    "conditions that fail": lambda size: _around(
        size, "conditions: {c: {and: [", "{equals: [{get_param: z}, 1]},", "true]}}"
    ),
    "rules that are broken": lambda size: _around(
        size, "parameters: {p: {type: string, default: " + "a" * 50 + ", constraints: [", "{length: {max: 1}},", "]}}"
    ),
    "rules that are wrong": lambda size: _around(
        size, "parameters: {p: {type: number, constraints: [allowed_values: [", "a,", "]]}}"
    ),
}  # fmt: skip
