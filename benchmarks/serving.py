"""`heatlite serve` of one or two checkouts, in turns, by HTTP and /proc alone.

``--against`` names the second one. Its samples have the same names behind `before `.
"""

import json
import resource
import socket
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.cases import CLIENTS, IDLE_SECONDS, LISTED, SHOWN, Bench
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, Stack, template
from benchmarks.load import Answer, Load, at_once, encode, load, percentile, rates
from benchmarks.processes import Checkout, Server, run

HELLO = Path(__file__).parents[1] / "templates" / "hello.yaml"
CREATES = 3
"""Creates of the large stack for each kind of load."""
MARKS = 300.0
"""Marks per second of the open loop."""
CONNECTIONS = 500
"""Connections of that loop: fewer than a process keeps, so that the client that creates has one."""
OVERLOAD = 2.0
"""Requests of an overload as a multiple of the best throughput."""
RECOVERY = 10.0
"""Seconds after an overload in which requests are watched."""
FEW = 8
"""Normal clients beside slow ones."""
SLOW = 1000
SILENT = 5000
STREAMS = 200
ONE_BY_ONE = 500
"""Requests of one client whose processor time is measured."""
LOADED = 20
"""Clients of a load whose processor time is measured."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of a kind that are sent in turn, and the status of their answers."""

    name: str
    lines: list[str]
    expect: int


def _requests(client: Client, bench: Bench) -> dict[str, Requests]:
    """Make a stack to show and mark, a locked one, and a list of a hundred."""
    for _ in range(LISTED - 2):
        Stack(client, bench.new_name()).create(template(1))
    shown, locked = (Stack(client, bench.new_name()) for _ in range(2))
    for stack in (shown, locked):
        stack.create(template(SHOWN))
    locked.lock()
    mark = json.dumps({"mark_unhealthy": True})
    kinds = (
        Requests("show", [encode("GET", shown.path)], 200),
        Requests("mark", [encode("PATCH", f"{shown.path}/resources/r{one}", mark) for one in range(SHOWN)], 200),
        Requests("locked", [encode("POST", f"{locked.path}/actions", '{"check": null}')], 409),
        Requests("list", [encode("GET", f"{PROJECT}/stacks")], 200),
    )
    return {kind.name: kind for kind in kinds}


def _note(bench: Bench, name: str, figures: dict[str, float]) -> None:
    for figure, value in figures.items():
        bench.add(f"{name}.{figure}", value)


def beside(bench: Bench) -> None:
    """Measure requests alone and beside creates of 10 000, and these creates."""
    with bench.bare() as hello:
        for _ in range(bench.repeat):
            answers = load(hello.port, [encode("GET", "/")], bench.seconds, clients=CLIENTS)
            _note(bench, "hello_alone", rates(answers, 200))
    for side in bench.turns():
        with bench.heatlite(side) as server:
            kinds = _requests(Client(server.port), bench)
            alone = statistics.median(_creates(bench, server.port, []))
            bench.add(f"{side.prefix}create_alone", alone)
            mark = kinds["mark"]
            paced = Requests("paced_mark", mark.lines, mark.expect)
            for kind, clients, rate in (
                (paced, 0, MARKS),
                *((kinds[name], CLIENTS, 0.0) for name in ("show", "mark", "locked")),
            ):
                bench.say(f"{side.prefix}{kind.name}, alone and beside creates of {bench.large}")
                _beside(bench, server.port, side, kind, clients, rate, alone)


def _beside(bench: Bench, port: int, side: Checkout, kind: Requests, clients: int, rate: float, alone: float) -> None:
    name = f"{side.prefix}{kind.name}"
    answers = load(port, kind.lines, bench.seconds, clients=clients, rate=rate)
    _note(bench, f"{name}_alone", rates(answers, kind.expect))
    times: list[tuple[float, float]] = []
    with Load(port, kind.lines, clients=clients, rate=rate, connections=CONNECTIONS) as running:
        time.sleep(1.0)
        took = statistics.median(_creates(bench, port, times))
        answers = running.stop()
    bench.add(f"{name}.create", took)
    bench.add(f"{name}.create_ratio", took / alone)
    within = [one for one in answers if any(began <= one.asked <= ended for began, ended in times)]
    _note(bench, f"{name}_beside", rates(within, kind.expect))


def _creates(bench: Bench, port: int, times: list[tuple[float, float]]) -> list[float]:
    """Create the large stack some times. Adds begin and end of each to `times`."""
    found = []
    for _ in range(CREATES):
        stack = Stack(Client(port), bench.new_name())  # a server closes connections that are not used
        began = time.perf_counter()
        found.append(stack.create(template(bench.large)))
        times.append((began, time.perf_counter()))
    return found


def overload(bench: Bench) -> None:
    """Offer twice the best throughput of a mix of requests for half a minute."""
    for side in bench.turns():
        with bench.heatlite(side) as server:
            kinds = _requests(Client(server.port), bench)
            mix = [kinds[name].lines[0] for name in ("show", "list", "show", "locked", "show", "show", "show")]
            mix = [line for mark in kinds["mark"].lines for line in (mark, *mix, mark)]
            best = len(load(server.port, mix, bench.seconds, clients=CLIENTS)) / bench.seconds
            show = kinds["show"].lines
            usual = percentile(load(server.port, show, bench.seconds, rate=20.0), 0.99)
            before = server.memory()
            bench.say(f"{side.prefix}overload: {OVERLOAD * best:.0f} requests/s")
            with Load(server.port, mix, rate=OVERLOAD * best) as running:
                most = _most_memory(server, bench.overload_seconds)
                probes = Load(server.port, show, rate=20.0)
                ended = time.perf_counter()
                answers = running.stop()
            with probes:
                time.sleep(max(0.0, ended + RECOVERY - time.perf_counter()))
                after = sorted(probes.stop())
            accepted = [one for one in answers if one.status in (200, 409)]
            name = f"{side.prefix}overload"
            bench.add(f"{name}.best", best)
            served = sum(one.asked + one.seconds <= ended for one in accepted) / bench.overload_seconds
            bench.add(f"{name}.ratio", served / best)
            bench.add(f"{name}.p50_ms", percentile(accepted, 0.5))
            bench.add(f"{name}.p99_ms", percentile(accepted, 0.99))
            sent = [one._replace(seconds=one.seconds - one.late) for one in accepted]
            bench.add(f"{name}.p99_from_sent_ms", percentile(sent, 0.99))
            refused = [one for one in answers if one.status == 503]
            bench.add(f"{name}.refused_percent", 100 * len(refused) / len(answers))
            if refused:
                bench.add(f"{name}.refused_p99_ms", percentile(refused, 0.99))
            bench.add(f"{name}.lost", len(answers) - len(accepted) - len(refused))
            bench.add(f"{name}.more_mb", most - before)
            bench.add(f"{name}.recovery", _recovery(after, ended, 2 * max(usual, 5.0)))


def _most_memory(server: Server, seconds: float) -> float:
    ends = time.perf_counter() + seconds
    most = 0.0
    while (left := ends - time.perf_counter()) > 0:
        time.sleep(min(1.0, left))
        most = max(most, server.memory())
    return most


def _recovery(probes: Sequence[Answer], ended: float, bound_ms: float) -> float:
    """Return the seconds until the first of ten answers that are as before."""
    good = [one.status == 200 and one.seconds * 1000 <= bound_ms for one in probes]
    starts = (number for number in range(len(good) - 9) if all(good[number : number + 10]))
    first = next(starts, None)
    return RECOVERY if first is None else max(0.0, probes[first].asked - ended)


def together(bench: Bench) -> None:
    """Measure a list of 100 for 50 clients that keep on, and for 50 new ones."""
    for side in bench.turns():
        with bench.heatlite(side) as server:
            bench.say(f"{side.prefix}{CLIENTS} clients at once")
            wanted = _requests(Client(server.port), bench)["list"]
            steady = load(server.port, wanted.lines, bench.seconds, clients=CLIENTS)
            _note(bench, f"{side.prefix}list_alone", rates(steady, wanted.expect))
            arrived: list[Answer] = []
            for _ in range(20):
                arrived += at_once(server.port, wanted.lines[0], CLIENTS)
                time.sleep(0.1)
            figures = rates(arrived, wanted.expect)
            bench.add(f"{side.prefix}together.p99_ms", figures["p99_ms"])
            bench.add(f"{side.prefix}together.longest_ms", percentile(arrived, 1.0))
            bench.add(f"{side.prefix}together.ratio", figures["p99_ms"] / percentile(steady, 0.5))


def slow(bench: Bench) -> None:
    """Measure a few clients alone, beside 1000 slow ones, beside 5000 silent ones."""
    for side in bench.turns():
        with bench.heatlite(side) as server, ExitStack() as sockets:
            show = _requests(Client(server.port), bench)["show"].lines
            bench.say(f"{side.prefix}slow clients")
            alone = load(server.port, show, bench.seconds, clients=FEW)
            dripping = [_connection(server.port, sockets) for _ in range(SLOW)]
            with Load(server.port, show, clients=FEW) as running:
                _drip(dripping, 3 * bench.seconds)
                beside = running.stop()
            sockets.close()
            before = server.memory()
            silent = [_connection(server.port, sockets) for _ in range(SILENT)]
            for one in silent[::2]:
                _send(one, b"GET / HTTP/1.1\r\nHost: 127")
            time.sleep(1.0)
            kept = sum(map(_is_open, silent))
            name = f"{side.prefix}slow"
            if kept:
                bench.add(f"{name}.kb_each", (server.memory() - before) * 1000 / kept)
            bench.add(f"{name}.kept", kept)
            last = load(server.port, show, bench.seconds, clients=FEW)
            for what, answers in (("alone", alone), ("dripping", beside), ("silent", last)):
                bench.add(f"{name}.{what}_p99_ms", percentile([one for one in answers if one.status == 200], 0.99))
                bench.add(f"{name}.{what}_failed", sum(one.status != 200 for one in answers))
                if what != "alone":
                    bench.add(f"{name}.{what}_ratio", percentile(answers, 0.99) / percentile(alone, 0.99))


def _connection(port: int, sockets: ExitStack) -> socket.socket:
    return sockets.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))


def _drip(connections: Sequence[socket.socket], seconds: float) -> None:
    """Send a byte on each connection every second, of heads and of bodies."""
    head = b"GET /healthcheck HTTP/1.1\r\nX-Slow: " + b"a" * 1000
    body = f"POST {PROJECT}/stacks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n".encode()
    for one in connections[::2]:
        _send(one, body)
    ends = time.perf_counter() + seconds
    sent = 0
    while time.perf_counter() < ends:
        for number, one in enumerate(connections):
            _send(one, head[sent : sent + 1] if number % 2 else b" ")
            if number % 50 == 0:
                time.sleep(50 / len(connections))
        sent += 1


def _send(connection: socket.socket, data: bytes) -> None:
    with suppress(OSError):  # the server may close it
        connection.send(data)


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def idle(bench: Bench) -> None:
    """Measure start, memory and processor; with event streams and large stacks."""
    settings = {"HEATLITE_MAX_EVENT_STREAMS": str(STREAMS)}
    for side in bench.turns():
        for number in range(4):
            began = time.perf_counter()
            with bench.heatlite(side):
                if number:  # the first one compiles
                    bench.add(f"{side.prefix}start", time.perf_counter() - began)
        with bench.heatlite(side, settings) as server, ExitStack() as streams:
            bench.say(f"{side.prefix}at rest")
            time.sleep(2.0)
            bench.add(f"{side.prefix}idle_mb", server.memory())
            bench.add(f"{side.prefix}idle_processor_percent", _percent(server, 2 * IDLE_SECONDS))
            client = Client(server.port)
            paths = []
            for _ in range(10):
                stack = Stack(client, bench.new_name())
                stack.create(template(10))
                paths.append(stack.path)
            for number in range(STREAMS):
                connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
                streams.callback(connection.close)
                connection.request("GET", f"{paths[number % len(paths)]}/events?stream=true")
                answer = connection.getresponse()
                if answer.status != 200:
                    raise RuntimeError(f"stream {number}: {answer.status}: {answer.read(500)!r}")
            time.sleep(2.0)
            bench.add(f"{side.prefix}streams_processor_percent", _percent(server, IDLE_SECONDS))
            streams.close()
            for name, count in (("1000", 1000), ("large", bench.large)):
                Stack(Client(server.port), bench.new_name()).create(template(count))
                time.sleep(1.0)
                bench.add(f"{side.prefix}mb_with_{name}", server.memory())
            bench.add(f"{side.prefix}peak_mb", server.peak())


def _percent(server: Server, seconds: float) -> float:
    """Return the processor time of the next seconds, in percent of one."""
    began, before = time.perf_counter(), server.processor_time()
    time.sleep(seconds)
    return 100 * (server.processor_time() - before) / (time.perf_counter() - began)


def requests(bench: Bench) -> None:
    """Measure the processor time of each show and mark, of one client and under load."""
    with ExitStack() as stack:
        servers = {}
        for side in bench.sides:
            server = stack.enter_context(bench.heatlite(side))
            servers[side] = (server, _requests(Client(server.port), bench))
        for side in bench.turns():
            server, kinds = servers[side]
            bench.say(f"{side.prefix}processor time of requests")
            for name in ("show", "mark"):
                kind = kinds[name]
                client = Client(server.port)
                before = server.processor_time()
                for number in range(ONE_BY_ONE):
                    method, path, _ = kind.lines[number % len(kind.lines)].split(" ", 2)
                    client.json(method, path, None if method == "GET" else {"mark_unhealthy": True}, kind.expect)
                used = server.processor_time() - before
                bench.add(f"{side.prefix}{name}_us", 1e6 * used / ONE_BY_ONE)
                with Load(server.port, kind.lines, clients=LOADED) as running:
                    before = server.processor_time()
                    time.sleep(bench.seconds)
                    answers = running.stop()
                used = server.processor_time() - before
                bench.add(f"{side.prefix}{name}_loaded_us", 1e6 * used / len(answers))


def command_line(bench: Bench) -> None:
    """Measure `heatlite up` of 10 resources: alone, and as a client of a server."""
    for side in bench.turns():
        bench.say(f"{side.prefix}heatlite up")
        folder = bench.new_folder()
        file = folder / "ten.json"
        file.write_text(json.dumps(template(10)))
        _command(side, folder, "ls")  # compiles what is not compiled yet
        up = ("up", "--yes", str(file), "-n", "ten")
        for _ in range(3):
            for name, words, place in (
                ("up", up, bench.new_folder()),
                ("hello_first", ("up", "--yes", str(HELLO)), bench.new_folder()),
                ("hello", ("up", "--yes", str(HELLO)), folder),
            ):
                took, used = _command(side, place, *words)
                bench.add(f"{side.prefix}{name}.seconds", took)
                bench.add(f"{side.prefix}{name}.cpu", used)
        with bench.heatlite(side) as server:
            endpoint = ("--endpoint", f"http://127.0.0.1:{server.port}")
            bench.add(f"{side.prefix}up_with_server.seconds", _command(side, folder, *up, *endpoint)[0])
            bench.add(f"{side.prefix}ls.cpu", _command(side, folder, "ls", *endpoint)[1])


def _command(side: Checkout, folder: Path, *words: str) -> tuple[float, float]:
    """Return the elapsed and the processor time of a command in seconds."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run(side.command(*words), folder, side.variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return time.perf_counter() - began, used
