"""A full disk: 503, nothing half-written, reads go on, and recovery after."""

import resource
from collections.abc import Callable

import pytest

from tests.acceptance.processes import Server
from tests.acceptance.trouble import check_unavailable, check_well, picture, under_way, writes


@pytest.mark.full
def test_the_disk_is_full(serve: Callable[[], Server]) -> None:
    """No file of the server may grow, which SQLite cannot tell from a full disk."""
    server = serve()
    path, slow = under_way(server)
    before = picture(server, path)
    worker = server.worker()
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (32 * 1024, resource.RLIM_INFINITY))
    for method, target, body in writes(path):
        check_unavailable(server.request(method, target, body))
    assert picture(server, path) == before
    assert server.healthy()
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    check_well(server, path, slow)
