"""The built-in resource types, one module per service. A module is imported when one of its types is first used."""

BUILTIN = {
    "AWS::CloudFormation::WaitCondition": "heatlite.resources.wait_conditions:CfnWaitCondition",
    "AWS::CloudFormation::WaitConditionHandle": "heatlite.resources.wait_conditions:CfnHandle",
    "OS::Heat::Delay": "heatlite.resources.waiting:Delay",
    "OS::Heat::None": "heatlite.resources.values:NoneResource",
    "OS::Heat::RandomString": "heatlite.resources.values:RandomString",
    "OS::Heat::TestResource": "heatlite.resources.testing:TestResource",
    "OS::Heat::UpdateWaitConditionHandle": "heatlite.resources.wait_conditions:UpdateHandle",
    "OS::Heat::Value": "heatlite.resources.values:Value",
    "OS::Heat::WaitCondition": "heatlite.resources.wait_conditions:WaitCondition",
    "OS::Heat::WaitConditionHandle": "heatlite.resources.wait_conditions:WaitConditionHandle",
}
"""Type name → ``module:Class``."""
