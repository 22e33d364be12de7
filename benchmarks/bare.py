"""Falcon alone, the peer of GET show: ``gunicorn benchmarks.bare:app``."""

import falcon


class Hello:
    """Says hello."""

    def on_get(self, _: falcon.Request, resp: falcon.Response) -> None:
        """The smallest answer."""
        resp.text = '{"hello": "world"}'


app = falcon.App()
app.add_route("/", Hello())
