"""Serve the WSGI application of a service, in the service's environment.

Its words: module, port, the words of the application.
"""

import importlib
import sys
from wsgiref.simple_server import make_server

if __name__ == "__main__":
    module, port = sys.argv[1:3]
    sys.argv[1:3] = []
    make_server("127.0.0.1", int(port), importlib.import_module(module).application).serve_forever()
