"""Hints for types that could not be found."""


from heatlite.template.checks.type_hints import hint_for_type
from tests.tables import table

KNOWN = ("OS::Heat::RandomString", "OS::Nova::Quota", "OS::Neutron::Port", "AWS::EC2::Instance", "Custom")


@table(
    ("name", "mapped_to", "hint"),
    [
        ("OS::Heat::RandomSring", "", 'did you mean "OS::Heat::RandomString"?'),
        ("OS::Haet::RandomString", "", 'did you mean "OS::Heat::RandomString"?'),
        ("Custm", "", 'did you mean "Custom"?'),
        ("OS::Nova::Vmx", "", ""),
        ("OS::Neutron::Pool", "", ""),
        ("AWS::RDS::DBInstance", "", "no environment maps it to a known type"),
        ("My::LB", "OS::No::Such", 'the registry maps it to "OS::No::Such", which could not be found'),
        ("zz", "", ""),
    ],
)
def test_hints(name: str, mapped_to: str, hint: str) -> None:
    assert hint_for_type(name, KNOWN, mapped_to) == hint
