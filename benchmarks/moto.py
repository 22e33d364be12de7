"""The peer: moto's CloudFormation, in memory, within the request.

It writes nothing to disk, so it is a bound from the other side: a Python engine without any durability.
"""

import json
import os
import shutil
import time
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree

from benchmarks.client import Client, Pause
from benchmarks.processes import Server

HEADERS = {
    "Content-Type": "application/x-www-form-urlencoded",
    "Authorization": "AWS4-HMAC-SHA256 Credential=none/20260101/us-east-1/cloudformation/aws4_request,"
    " SignedHeaders=host, Signature=none",
}


def find(given: str | None) -> str | None:
    """The server's command: as given, of MOTO_SERVER, or on PATH; else None."""
    return shutil.which(given or os.environ.get("MOTO_SERVER") or "moto_server")


def server(command: str, port: int, folder: Path) -> Server:
    """moto's server, not started yet."""
    return Server([command, "-H", "127.0.0.1", "-p", str(port)], port, folder, "/moto-api/data.json")


class Moto:
    """CloudFormation's requests, over one connection."""

    def __init__(self, port: int) -> None:
        self._client = Client(port)

    def create(self, name: str, count: int, chain: bool = False) -> float:
        """Seconds until a stack of `count` SSM parameters is CREATE_COMPLETE."""
        body = json.dumps({"Resources": {f"P{number}": _parameter(number, chain) for number in range(count)}})
        began = time.perf_counter()
        self._call("CreateStack", StackName=name, TemplateBody=body)
        pause = Pause()
        while (status := self._status(name)) != "CREATE_COMPLETE":
            if status != "CREATE_IN_PROGRESS":
                raise RuntimeError(f"moto: {name} is {status}")
            pause.sleep()
        return time.perf_counter() - began

    def delete(self, name: str) -> None:
        """Take a stack away."""
        self._call("DeleteStack", StackName=name)

    def _status(self, name: str) -> str:
        answer = self._call("DescribeStacks", StackName=name)
        return answer.findtext(".//{*}StackStatus") or "unknown"

    def _call(self, action: str, **parameters: str) -> ElementTree.Element:
        body = urlencode({"Action": action, "Version": "2010-05-15", **parameters}).encode()
        status, answer = self._client.send("POST", "/", body, HEADERS)
        if status != 200:
            raise RuntimeError(f"moto: {action}: {status}: {answer[:500]!r}")
        return ElementTree.fromstring(answer)


def _parameter(number: int, chain: bool) -> dict[str, object]:
    made: dict[str, object] = {
        "Type": "AWS::SSM::Parameter",
        "Properties": {"Name": f"/p/{number}", "Type": "String", "Value": f"v{number}"},
    }
    if chain and number:
        made["DependsOn"] = f"P{number - 1}"
    return made
