"""The built-in resource types, one module per service. A module is imported when one of its types is first used."""

BUILTIN = {
    "AWS::CloudFormation::WaitCondition": "heatlite.resources.wait_conditions:CfnWaitCondition",
    "AWS::CloudFormation::WaitConditionHandle": "heatlite.resources.wait_conditions:CfnHandle",
    "OS::Heat::CloudConfig": "heatlite.resources.software:CloudConfig",
    "OS::Heat::Delay": "heatlite.resources.waiting:Delay",
    "OS::Heat::DeployedServer": "heatlite.resources.software:DeployedServer",
    "OS::Heat::MultipartMime": "heatlite.resources.software:MultipartMime",
    "OS::Heat::None": "heatlite.resources.values:NoneResource",
    "OS::Heat::RandomString": "heatlite.resources.values:RandomString",
    "OS::Heat::SoftwareComponent": "heatlite.resources.software:SoftwareComponent",
    "OS::Heat::SoftwareConfig": "heatlite.resources.software:SoftwareConfigResource",
    "OS::Heat::SoftwareDeployment": "heatlite.resources.software:SoftwareDeploymentResource",
    "OS::Heat::SoftwareDeploymentGroup": "heatlite.resources.software:SoftwareDeploymentGroup",
    "OS::Heat::SoftwareDeployments": "heatlite.resources.software:SoftwareDeployments",
    "OS::Heat::StructuredConfig": "heatlite.resources.software:StructuredConfig",
    "OS::Heat::StructuredDeployment": "heatlite.resources.software:StructuredDeployment",
    "OS::Heat::StructuredDeploymentGroup": "heatlite.resources.software:StructuredDeploymentGroup",
    "OS::Heat::StructuredDeployments": "heatlite.resources.software:StructuredDeployments",
    "OS::Heat::TestResource": "heatlite.resources.testing:TestResource",
    "OS::Heat::UpdateWaitConditionHandle": "heatlite.resources.wait_conditions:UpdateHandle",
    "OS::Heat::Value": "heatlite.resources.values:Value",
    "OS::Heat::WaitCondition": "heatlite.resources.wait_conditions:WaitCondition",
    "OS::Heat::WaitConditionHandle": "heatlite.resources.wait_conditions:WaitConditionHandle",
}
"""Type name → ``module:Class``."""
