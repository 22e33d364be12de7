"""The built-in resource types, one module per service. A module is imported when one of its types is first used."""

BUILTIN = {
    "OS::Heat::Delay": "heatlite.resources.waiting:Delay",
    "OS::Heat::None": "heatlite.resources.values:NoneResource",
    "OS::Heat::RandomString": "heatlite.resources.values:RandomString",
    "OS::Heat::TestResource": "heatlite.resources.testing:TestResource",
    "OS::Heat::Value": "heatlite.resources.values:Value",
}
"""Type name → ``module:Class``."""
