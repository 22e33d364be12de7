"""Run the engine and the API of a Heat in one process, which needs no broker.

Its words: port, then those of Heat.
"""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)  # before the imports of Heat, which choose by it


class Threaded(ThreadingMixIn, WSGIServer):
    """Answers requests of the engine while others wait for it."""

    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    port = int(sys.argv.pop(1))
    from heat.engine.service import EngineService
    from heat.rpc.api import ENGINE_TOPIC
    from heat.wsgi.api import application  # reads the settings

    EngineService("one", ENGINE_TOPIC).start()  # it listens from here on
    make_server("127.0.0.1", port, application, Threaded).serve_forever()
