"""Pages of the dashboard: large ones in Chromium, and fifty open ones at rest.

Processor time stands beside the elapsed time: it hardly depends on what else the machine does.
"""

import os
import re
import sys
import time
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks.cases import Bench
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, Stack, Template, template
from benchmarks.ports import free_port
from benchmarks.processes import Server
from heatlite.core.ids import new_id
from heatlite.store.store import Store

MEMBERS = 1000
"""Resources of the large stack."""
DRAWN = 300
"""Resources of a stack whose graph is drawn whole."""
LISTED = 10_000
OPEN = 50
REST_SECONDS = 20.0
REFRESHES = 20
"""Refreshes of a page whose processor time is averaged."""
HOME = PROJECT.replace("/v1/", "/ui/p/")
CHROMIUM = Path("/usr/bin/chromium")
WINDOW = {"width": 1280, "height": 860}
PAINTED = """() => new Promise(done => {
    requestAnimationFrame(() => requestAnimationFrame(done));
    setTimeout(done, 10000);  // a browser without a display may stop to draw
})"""
LONG_TASKS = """
    window.tasks = [];
    new PerformanceObserver(list => window.tasks.push(...list.getEntries().map(one => one.duration)))
        .observe({type: "longtask", buffered: true});
"""
FRAMES = """() => new Promise(done => {
    const gaps = [], whole = document.documentElement.scrollHeight;
    let last = performance.now(), at = 0;
    const step = now => {
        gaps.push(now - last);
        last = now;
        at += 400;
        scrollTo(0, at);
        if (at < whole && gaps.length < 120) requestAnimationFrame(step);
        else done(gaps.sort((a, b) => a - b));
    };
    requestAnimationFrame(step);
    setTimeout(() => done(gaps.sort((a, b) => a - b)), 10000);
})"""
"""Scrolls through a page. Yields the milliseconds between its frames, sorted."""


def dashboard(bench: Bench) -> None:
    """Measure a large stack, a list of 10 000 stacks, and fifty open pages."""
    port = free_port()
    command = [sys.executable, "-m", "heatlite", "serve", "--port", str(port)]
    folder = bench.new_folder()
    with Server(command, port, folder, "/healthcheck", {"HEATLITE_UI": "true"}) as server:
        client = Client(port)
        large, drawn, small = (Stack(client, bench.new_name()) for _ in range(3))
        large.create(tangled(MEMBERS))
        drawn.create(tangled(DRAWN))
        small.create(template(10))
        for number in range(0, MEMBERS, MEMBERS // 10):
            client.json("PATCH", f"{large.path}/resources/r{number}", {"mark_unhealthy": True})
        bench.say(f"{LISTED} stacks")
        fill(next(folder.rglob("heatlite.db")), small)
        pages = {
            f"stack of {MEMBERS}": f"{HOME}{large.path.removeprefix(PROJECT)}",
            f"stack of {DRAWN}, drawn whole": f"{HOME}{drawn.path.removeprefix(PROJECT)}",
            f"list of {LISTED} stacks": HOME,
            "stack of 10": f"{HOME}{small.path.removeprefix(PROJECT)}",
            "approvals": f"{HOME}/approvals",
        }
        for name, path in pages.items():
            bench.say(f"dashboard: {name}, without a browser")
            _refresh(bench, server, client, name, path)
        if CHROMIUM.exists():
            _in_chromium(bench, server, large, dict(list(pages.items())[:3]))
        else:
            bench.say(f"  not measured: pages in a browser, for want of {CHROMIUM}")
        for name, path in pages.items():
            bench.say(f"dashboard: {OPEN} open pages at rest: {name}")
            _rest(bench, server, client, name, path)


def tangled(count: int) -> Template:
    """A template whose resources depend on others."""
    made = template(count)
    for number in range(1, count):
        made["resources"][f"r{number}"]["depends_on"] = f"r{number // 3}"
    return made


def fill(database: Path, model: Stack) -> None:
    """Put copies of a stack into the database, up to a list of 10 000."""
    store = Store.open(f"sqlite:///{database}")
    stack = store.stacks.get(model.path.rpartition("/")[2])
    assert stack is not None
    resource = store.resources.of(stack.id)[0]
    copies = [replace(stack, id=new_id(), name=f"copy{number}") for number in range(LISTED)]
    with store.transaction():
        store.stacks.insert_many(copies)
        store.resources.insert_many([replace(resource, id=new_id(), stack_id=copy.id) for copy in copies])
    store.close()


def _refresh(bench: Bench, server: Server, client: Client, name: str, path: str) -> None:
    """Measure what the server does for a page."""
    client.send("GET", path)
    before = server.processor_time()
    for _ in range(REFRESHES):
        began = time.perf_counter()
        status, body = client.send("GET", path)
        bench.add(f"dashboard_answer.{name}", (time.perf_counter() - began) * 1000)
        assert status == 200, body[:500]
    bench.add(f"dashboard_cpu.{name}", (server.processor_time() - before) / REFRESHES * 1000)
    bench.add(f"dashboard_kb.{name}", len(body) / 1000)


def _rest(bench: Bench, server: Server, client: Client, name: str, path: str) -> None:
    """Measure streams and refreshes of fifty open pages while nothing happens."""
    _, body = client.send("GET", path)
    (calm,), (tag,) = (re.findall(rb'data-%b="([^"]+)"' % one, body) for one in (b"calm", b"tag"))
    headers = {"If-None-Match": tag.decode()}
    began = time.perf_counter()
    client.send("GET", path, headers=headers)
    pace = max(int(calm), 1000 * (time.perf_counter() - began)) / OPEN  # as app.js
    with ExitStack() as streams:
        for _ in range(OPEN):
            connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
            streams.callback(connection.close)
            connection.request("GET", f"{HOME}/events", headers={"Accept": "text/event-stream"})
            assert connection.getresponse().status == 200
        time.sleep(1.0)
        began, before, sent = time.perf_counter(), server.processor_time(), 0
        while (passed := time.perf_counter() - began) < REST_SECONDS:
            if passed >= (sent + 0.5) * pace:
                sent += 1
                client.send("GET", path, headers=headers)
            time.sleep(0.02)
        used = server.processor_time() - before
    bench.add(f"dashboard_rest_percent.{name}", used / passed * 100)


def _in_chromium(bench: Bench, server: Server, large: Stack, pages: dict[str, str]) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        for turn in range(bench.repeat + 1):
            for name, path in pages.items():
                bench.say(f"dashboard: {name} in Chromium, {turn} of {bench.repeat}")
                found = _opened(browser, f"http://127.0.0.1:{server.port}{path}")
                if turn:  # the first opening starts processes of the browser
                    for figure, value in found.items():
                        bench.add(f"dashboard_{figure}.{name}", value)
        bench.add("dashboard_live", _live(browser, server, large, pages))
        browser.close()


def _opened(browser: Any, url: str) -> dict[str, float]:
    """Open a page with an empty cache. Returns milliseconds."""
    context = browser.new_context(viewport=WINDOW)
    page = context.new_page()
    page.add_init_script(LONG_TASKS)
    began, before = time.perf_counter(), _browser_processor()
    page.goto(url)
    page.evaluate(PAINTED)
    found = {"open": (time.perf_counter() - began) * 1000}
    found["browser_cpu"] = (_browser_processor() - before) * 1000
    page.wait_for_timeout(500)  # the first refresh, which follows the begin of the stream
    frames = page.evaluate(FRAMES)
    if frames:
        found["frame"] = frames[len(frames) * 95 // 100]
    found["task"] = max(page.evaluate("window.tasks"), default=0.0)
    context.close()
    return found


def _browser_processor() -> float:
    """Processor seconds of the live threads of Chromium's processes below this one."""
    pids, out = [os.getpid()], 0
    for pid in pids:
        with suppress(FileNotFoundError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
                if b"chromium" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    out += int((task / "schedstat").read_text().split()[0])
    return out / 1e9


def _live(browser: Any, server: Server, large: Stack, pages: dict[str, str]) -> float:
    """Return the milliseconds from a mark to its row on the page of the large stack."""
    page = browser.new_page(viewport=WINDOW)
    page.goto(f"http://127.0.0.1:{server.port}{next(iter(pages.values()))}")
    page.locator("#live", has_text="live").wait_for()
    page.wait_for_timeout(3000)
    bad = page.locator("tr.bad").count()
    began = time.perf_counter()
    Client(server.port).json("PATCH", f"{large.path}/resources/r7", {"mark_unhealthy": True})
    page.locator("tr.bad").nth(bad).wait_for()
    took = (time.perf_counter() - began) * 1000
    page.close()
    return took
