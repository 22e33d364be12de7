"""A TCP relay before a server: the network of one process, which can be cut."""

import asyncio
import threading
from contextlib import suppress

CHUNK = 1 << 16


class Relay:
    """Forwards connections to a port of this machine, in a thread of its own."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._writers: dict[asyncio.StreamWriter, int] = {}
        """Both ends of each connection; the local port of the end at the server, else 0."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="relay", daemon=True)
        self._thread.start()
        ready.wait()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=CHUNK))
        self.port: int = self._server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()

    def cut(self) -> None:
        """Forward nothing any more. Both sides keep their connections and hear nothing."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def restore(self) -> None:
        """Forward again, what was sent meanwhile too."""
        self._loop.call_soon_threadsafe(self._open.set)

    def reset(self) -> None:
        """Break every connection."""
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    @property
    def ports(self) -> set[int]:
        """The local ports of the connections to the server."""
        return {port for port in list(self._writers.values()) if port}

    def close(self) -> None:
        """End the thread."""
        self.reset()
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join()
        self._loop.close()

    def _end(self) -> None:
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_later(0.1, self._loop.stop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = 0
        try:
            await self._open.wait()
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=CHUNK)
        except (OSError, asyncio.CancelledError):
            self._writers.pop(writer, None)
            writer.transport.abort()
            return
        self._writers[up_writer] = up_writer.get_extra_info("sockname")[1]
        with suppress(asyncio.CancelledError):
            await asyncio.gather(self._pump(reader, up_writer), self._pump(up_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        self._writers.pop(writer, None)
        writer.close()
