"""Real monitoring: Debian's Prometheus and Alertmanager, and an exporter.

The exporter reports simulated servers.
"""

import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
import yaml

from heatlite.cli.files import load_file
from tests.acceptance.processes import START_SECONDS, TEMPLATES, Server
from tests.waiting import eventually

SHIPPED = TEMPLATES / "healing"
JSON = {"Content-Type": "application/json"}


def program(name: str) -> str:
    """The path of a program. Skips the test where it is absent."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (apt install prometheus prometheus-alertmanager)")
    return found


def shipped(name: str) -> Any:
    """The content of a file as `heatlite` reads it: dates are texts."""
    return load_file(SHIPPED / name, name).data


class Exporter:
    """The exporters of all servers, and their service discovery."""

    def __init__(self, servers: Callable[[], list[str]]) -> None:
        self.servers = servers
        """List the ids of the servers."""
        self.stopped: set[str] = set()
        """Ids of servers that do not answer."""
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = exporter.answer(self.path)
                self.send_response(503 if found is None else 200)
                self.send_header("Content-Type", "text/plain" if self.path != "/targets" else "application/json")
                self.end_headers()
                self.wfile.write((found or "").encode())

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._http.server_port}"
        Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str) -> str | None:
        """The body of an answer; None: the server is down."""
        if path == "/targets":
            return json.dumps([self._target(one) for one in self.servers()])
        server = path.removeprefix("/metrics/")
        return None if server in self.stopped else "node_load1 0\n"

    def _target(self, server: str) -> object:
        labels = {
            "__meta_openstack_instance_id": server,
            "__meta_openstack_instance_name": f"server-{server[:8]}",
            "__metrics_path__": f"/metrics/{server}",
        }
        return {"targets": [self.address], "labels": labels}

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def simulated_servers(cloud: Path) -> list[str]:
    """The ids of the servers in the file of a simulated cloud."""
    with closing(sqlite3.connect(f"file:{cloud}?mode=ro", uri=True)) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM object WHERE kind = 'compute.server'")]


class Daemon:
    """A process of the monitoring that listens on a port of its own choice."""

    name: ClassVar[str]

    def __init__(self, folder: Path, config: object, *words: str) -> None:
        self._folder = folder
        self._log = folder / f"{self.name}.log"
        path = folder / f"{self.name}.yml"
        path.write_text(yaml.safe_dump(config))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program(self.name), f"--config.file={path}", "--web.listen-address=127.0.0.1:0", *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.port = 0
        eventually(self._listens, f"{self.name} listens")

    def _listens(self) -> bool:
        text = self._log.read_text()
        assert self._process.poll() is None, text
        found = re.search(r'"Listening on" address=127\.0\.0\.1:(\d+)', text)
        self.port = int(found[1]) if found else 0
        return found is not None

    def get(self, path: str) -> Any:
        """The data of an answer of its API."""
        status, body = self.ask("GET", path)
        return json.loads(body) if status == 200 else None

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        with closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), JSON)
            response = connection.getresponse()
            return response.status, response.read()

    def said(self, words: str) -> bool:
        """True if its log has these words."""
        return words in self._log.read_text()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Alertmanager(Daemon):
    """Alertmanager with the shipped configuration, with shorter intervals."""

    name = "prometheus-alertmanager"

    def __init__(
        self,
        folder: Path,
        server: Server,
        token: str,
        peer: str | None = None,
        max_alerts: int | None = None,
        **route: str,
    ) -> None:
        """Start it in the cluster of a `peer`.

        An empty peer: it is the first. `route` are intervals.
        """
        self.token = folder / "heatlite.token"
        self.token.write_text(token)
        config = shipped("alertmanager.yml")
        (shipped_route,) = (one for one in config["route"]["routes"] if one["receiver"] == "heatlite")
        shipped_route.update({"group_wait": "2s", "group_interval": "1s", "repeat_interval": "2s", **route})
        (receiver,) = (one for one in config["receivers"] if one["name"] == "heatlite")
        (webhook,) = receiver["webhook_configs"]
        webhook["max_alerts"] = max_alerts or webhook["max_alerts"]
        webhook["url"] = webhook["url"].replace("http://127.0.0.1:8004/v1/default", f"{server.url}/v1/demo")
        listen = "" if peer is None else "127.0.0.1:0"
        words = [f"--cluster.listen-address={listen}", f"--storage.path={folder / 'alertmanager'}"]
        if peer is not None:
            words += ["--cluster.settle-timeout=5s", "--cluster.peer-timeout=1s"]
        super().__init__(folder, config, *words, *([f"--cluster.peer={peer}"] if peer else []))

    def fire(self, number: int = 1, **labels: str) -> None:
        """Take alerts, as from Prometheus."""
        given = {"alertname": "ServerDown", "repair": "heatlite", **labels}
        body = [{"labels": {**given, "number": str(n)}} for n in range(number)]
        assert self.ask("POST", "/api/v2/alerts", body)[0] == 200

    def peers(self) -> Mapping[str, str]:
        """The addresses of its cluster, by name; its own has none."""
        cluster = self.get("/api/v2/status")["cluster"]
        return {one["name"].replace(cluster["name"], ""): one["address"] for one in cluster.get("peers", [])}

    @property
    def address(self) -> str:
        """Its own address in the cluster."""
        return self.peers()[""]


class Prometheus(Daemon):
    """Run Prometheus with the shipped configuration, short intervals, our exporters."""

    name = "prometheus"

    def __init__(self, folder: Path, server: Server, exporter: Exporter, *alertmanagers: Alertmanager) -> None:
        config = shipped("prometheus.yml")
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [
            f"127.0.0.1:{one.port}" for one in alertmanagers
        ]
        jobs = {job["job_name"]: job for job in config["scrape_configs"]}
        del jobs["servers"]["openstack_sd_configs"]
        jobs["servers"]["http_sd_configs"] = [{"url": f"http://{exporter.address}/targets", "refresh_interval": "1s"}]
        jobs["heatlite"]["static_configs"] = [{"targets": [f"127.0.0.1:{server.port}"]}]
        for name in config["rule_files"]:
            rules = shipped(name)
            for rule in rules["groups"][0]["rules"]:
                rule.pop("for", None)
            (folder / name).write_text(yaml.safe_dump(rules))
        super().__init__(folder, config, f"--storage.tsdb.path={folder / 'prometheus'}")

    def up(self) -> Mapping[str, str]:
        """Return by server id 1 if the server answers, else 0."""
        query = quote('up{job="servers"}')
        found = self.get(f"/api/v1/query?query={query}")
        series = found["data"]["result"] if found else []
        return {one["metric"]["instance_id"]: one["value"][1] for one in series}

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        found = self.get("/api/v1/alerts")
        return {one["labels"]["alertname"] for one in found["data"]["alerts"] if one["state"] == "firing"}
