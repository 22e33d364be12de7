"""A program that uses boto3: one stack from create to delete, with waiters.

Its input: the endpoint, an access key and its secret.
"""

import json

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

endpoint, key, secret = json.loads(input())


def connect(version: str, secret: str = secret):  # type: ignore[no-untyped-def]
    return boto3.client(
        "cloudformation",
        endpoint_url=f"{endpoint}/v1/",
        region_name="RegionOne",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(
            signature_version=version, retries={"max_attempts": 0}, connect_timeout=240, read_timeout=240
        ),
    )


template = {
    "HeatTemplateFormatVersion": "2012-12-12",
    "Parameters": {"p": {"Type": "String", "Default": "a"}},
    "Resources": {
        "v": {"Type": "OS::Heat::Value", "Properties": {"value": {"Ref": "p"}}},
        "handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
        "wait": {
            "Type": "AWS::CloudFormation::WaitCondition",
            "Properties": {"Handle": {"Ref": "handle"}, "Timeout": 3600, "Count": 1},
        },
    },
    "Outputs": {"o": {"Value": {"Fn::GetAtt": ["v", "value"]}}},
}
body = json.dumps(template)
quick = {"Delay": 0.05, "MaxAttempts": 5000}  # type: ignore[var-annotated]
cfn, old = connect("v4"), connect("v2")

assert cfn.validate_template(TemplateBody=body)["Parameters"][0]["DefaultValue"] == "a"
assert cfn.estimate_template_cost(TemplateBody=body)["Url"]
given = [{"ParameterKey": "p", "ParameterValue": "ä ~*"}]
stack_id = cfn.create_stack(StackName="boto", TemplateBody=body, Parameters=given, TimeoutInMinutes=5)["StackId"]
while True:
    try:
        cfn.signal_resource(StackName="boto", LogicalResourceId="handle", UniqueId="1", Status="SUCCESS")
        break
    except ClientError as error:
        assert error.response["Error"]["Code"] == "InvalidParameterValue", error
cfn.get_waiter("stack_create_complete").wait(StackName="boto", WaiterConfig=quick)
(stack,) = old.describe_stacks(StackName=stack_id)["Stacks"]
assert stack["Outputs"] == [{"OutputKey": "o", "OutputValue": "ä ~*", "Description": "No description given"}], stack
assert stack["DisableRollback"] is True
assert stack["Parameters"][-1]["ParameterValue"] == "ä ~*"
assert stack["CreationTime"].year > 2000
pages = [*cfn.get_paginator("describe_stacks").paginate()]
assert "boto" in [one["StackName"] for page in pages for one in page["Stacks"]]
assert stack_id in [one["StackId"] for one in cfn.list_stacks()["StackSummaries"]]
assert cfn.get_template(StackName="boto")["TemplateBody"]["Outputs"] == template["Outputs"]
pages = [*cfn.get_paginator("describe_stack_events").paginate(StackName="boto")]
assert pages[0]["StackEvents"][0]["ResourceStatus"] == "CREATE_COMPLETE"
resources = old.describe_stack_resources(StackName="boto")["StackResources"]
assert {one["LogicalResourceId"] for one in resources} == {"v", "handle", "wait"}
assert len(cfn.list_stack_resources(StackName="boto")["StackResourceSummaries"]) == 3
detail = cfn.describe_stack_resource(StackName="boto", LogicalResourceId="handle")["StackResourceDetail"]
assert json.loads(detail["Metadata"])["1"]["Status"] == "SUCCESS"
cfn.update_stack(StackName="boto", UsePreviousTemplate=True, Parameters=[{"ParameterKey": "p", "ParameterValue": "b"}])
cfn.get_waiter("stack_update_complete").wait(StackName="boto", WaiterConfig=quick)
assert cfn.describe_stacks(StackName="boto")["Stacks"][0]["Outputs"][0]["OutputValue"] == "b"
for client, name, code in (
    (connect("v4", "wrong"), "boto", "SignatureDoesNotMatch"),
    (connect("v2", "wrong"), "boto", "SignatureDoesNotMatch"),
    (cfn, "none", "InvalidParameterValue"),
):
    try:
        client.describe_stacks(StackName=name)
        raise AssertionError(code)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error
        assert error.response["ResponseMetadata"]["RequestId"].startswith("req-"), error.response
old.delete_stack(StackName="boto")
cfn.get_waiter("stack_delete_complete").wait(StackName=stack_id, WaiterConfig=quick)
print("done")
