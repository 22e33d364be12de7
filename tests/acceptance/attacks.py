"""Requests that a proxy and a server may read differently (RFC 9112, section 11).

Each is followed by another request on its connection.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from tests.acceptance.raw_http import chunked, request

SMUGGLED = request("GET /v1/demo/stacks/smuggled HTTP/1.1")
"""A body, or a part of one, that looks like a request."""
CHUNKED = "Transfer-Encoding: chunked"


class Outcome(Enum):
    """Required end of a request, and of its connection."""

    REFUSED = auto()
    """Answered with an error, or not at all. The connection closes, so that nothing after it is a request."""
    UNENDING = auto()
    """Refused, or taken for a request whose end has not come yet. Nothing after it is a request."""
    ANSWERED = auto()
    """Understood; the next request is answered, too."""
    EITHER = auto()
    """Refused, or understood as ANSWERED says."""


REFUSED, UNENDING, ANSWERED, EITHER = Outcome


@dataclass(frozen=True)
class Frame:
    """A way to send a request."""

    first: str
    headers: tuple[str, ...] = ()
    body: bytes = b""


def own_body(mark: str) -> bytes:
    """Return a body whose error names `mark`, if it is read as it is."""
    return json.dumps({"stack_name": "own", "template": {"heat_template_version": "2018-08-31", mark: 1}}).encode()


def post(*headers: str) -> Frame:
    return Frame("POST /v1/demo/stacks HTTP/1.1", ("Content-Type: application/json", *headers))


def frames(mark: str) -> dict[str, Frame]:
    """Return ways to send a request whose answer names `mark`."""
    body = own_body(mark)
    small = chunked(*(body[at : at + 1] for at in range(len(body))))
    lines = f"Content-Length: {len(body)}"
    return {
        "no body": Frame(f"GET /v1/demo/stacks/{mark} HTTP/1.1"),
        "a length": Frame(*_of(post(lines)), body),
        "chunks": Frame(*_of(post(CHUNKED)), chunked(body[:10], body[10:])),
        "chunks of a byte": Frame(*_of(post(CHUNKED)), small),
    }


def _of(frame: Frame) -> tuple[str, tuple[str, ...]]:
    return frame.first, frame.headers


def whole(frame: Frame, *more: str) -> bytes:
    """Return the request of a frame, with more headers."""
    return request(frame.first, *more, *frame.headers, body=frame.body)


Change = Callable[[Frame], bytes]


def with_line(line: bytes) -> Change:
    """Return a change that puts bytes among the headers."""
    return lambda frame: whole(frame, "X-Place: here").replace(b"X-Place: here\r\n", line, 1)


def with_target(change: Callable[[str], str]) -> Change:
    def changed(frame: Frame) -> bytes:
        method, target, version = frame.first.split()
        return whole(Frame(f"{method} {change(target)} {version}", frame.headers, frame.body))

    return changed


def with_first(change: Callable[[str], str]) -> Change:
    """Return a change of the first line."""
    return lambda frame: whole(Frame(change(frame.first), frame.headers, frame.body))


HEADS: dict[str, tuple[Outcome, Change]] = {
    "as usual": (ANSWERED, whole),
    # Ends of lines.
    "a header that ends with LF": (REFUSED, with_line(b"X: y\n")),
    "LF hides a length": (REFUSED, with_line(b"X: y\nContent-Length: 3\r\n")),
    "an empty line of LF": (REFUSED, with_line(b"\n")),
    "only LF": (REFUSED, lambda frame: whole(Frame(frame.first, frame.headers)).replace(b"\r\n", b"\n") + frame.body),
    "CR in a value": (REFUSED, with_line(b"X: y\rZ: b\r\n")),
    "CR before the end": (REFUSED, with_line(b"X: y\r\r\n")),
    "only CR": (UNENDING, lambda frame: whole(Frame(frame.first, frame.headers)).replace(b"\r\n", b"\r") + frame.body),
    "a folded header": (REFUSED, with_line(b"X: a\r\n b\r\n")),
    "a header folded by a tab": (REFUSED, with_line(b"X: a\r\n\tb\r\n")),
    "a first header that is folded": (
        REFUSED,
        lambda frame: whole(frame).replace(b"Host: localhost", b" X: a\r\nHost: localhost", 1),
    ),
    # Names and values.
    "NUL in a value": (REFUSED, with_line(b"X: a\0b\r\n")),
    "NUL in a name": (REFUSED, with_line(b"X\0: ab\r\n")),
    "a control character in a value": (REFUSED, with_line(b"X: a\x01b\r\n")),
    "DEL in a value": (EITHER, with_line(b"X: a\x7fb\r\n")),
    "Latin-1 in a value": (EITHER, with_line(b"X: a\xe9b\r\n")),
    "a space in a name": (REFUSED, with_line(b"X Y: a\r\n")),
    "a space before the colon": (REFUSED, with_line(b"X : a\r\n")),
    "a header without a name": (REFUSED, with_line(b": a\r\n")),
    "a header without a colon": (REFUSED, with_line(b"foo\r\n")),
    "parentheses in a name": (REFUSED, with_line(b"X(y): a\r\n")),
    "a second Host": (EITHER, with_line(b"Host: evil.example\r\n")),
    "an underscore for a hyphen": (EITHER, with_line(b"Content_Length: 3\r\nTransfer_Encoding: chunked\r\n")),
    # Sizes.
    "a header of 64 KiB": (REFUSED, with_line(b"X: %b\r\n" % (b"a" * 65_536))),
    "a name of 64 KiB": (REFUSED, with_line(b"%b: a\r\n" % (b"X" * 65_536))),
    "a thousand headers": (REFUSED, with_line(b"".join(b"X-%d: 1\r\n" % number for number in range(1000)))),
    "a target of 64 KiB": (REFUSED, with_target(lambda target: f"{target}?{'a' * 65_536}")),
    # First lines.
    "NUL in the target": (REFUSED, with_target(lambda target: target + "\0")),
    "a raw character in the target": (EITHER, with_target(lambda target: target + "?\xe9")),
    "a space in the target": (REFUSED, with_target(lambda target: target + "? b")),
    "a tab for a space": (REFUSED, with_first(lambda first: first.replace(" ", "\t"))),
    "a target without a slash": (REFUSED, with_target(lambda target: target.removeprefix("/"))),
    "no target": (REFUSED, with_target(lambda _: "")),
    "HTTP/9.9": (REFUSED, with_first(lambda first: first.replace("1.1", "9.9"))),
    "HTTP/2.0": (REFUSED, with_first(lambda first: first.replace("1.1", "2.0"))),
    "HTTP/1.10": (REFUSED, with_first(lambda first: first.replace("1.1", "1.10"))),
    "another protocol": (REFUSED, with_first(lambda first: first.replace("HTTP", "XTTP"))),
    "a word after the version": (REFUSED, with_first(lambda first: first + " x")),
    "HTTP/0.9": (REFUSED, with_first(lambda first: first.removesuffix(" HTTP/1.1"))),
    "a method with @": (REFUSED, with_first(lambda first: f"G@{first}")),
    "a method of 64 KiB": (REFUSED, with_first(lambda first: "A" * 65_536 + first)),
    "a line for a proxy": (REFUSED, lambda frame: b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + whole(frame)),
    "an absolute target": (ANSWERED, with_target(lambda target: f"http://localhost{target}")),
    "an absolute target elsewhere": (ANSWERED, with_target(lambda target: f"https://evil.example:81{target}")),
    "what only proxies say": (ANSWERED, with_line(b"Forwarded: for=1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\n")),
    "a wish for HTTP/2": (
        EITHER,
        with_line(
            b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
        ),
    ),
}
"""Changes of heads, for requests with any body."""


def sized(*headers: str, body: bytes = SMUGGLED) -> Callable[[str], bytes]:
    """Return a POST with headers and a body that are ambiguous."""
    return lambda _: whole(Frame(*_of(post(*headers)), body))


def holding(*headers: str, of: Callable[[bytes], bytes]) -> Callable[[str], bytes]:
    """Return a POST of a body that names its mark.

    `of` changes the body. @ in a header stands for its length.
    """

    def made(mark: str) -> bytes:
        body = of(own_body(mark))
        return whole(Frame(*_of(post(*(line.replace("@", str(len(body))) for line in headers))), body))

    return made


LENGTH = f"Content-Length: {len(SMUGGLED)}"
EMPTY_CHUNKS = b"0\r\n\r\n" + SMUGGLED
ALL = f"Content-Length: {len(EMPTY_CHUNKS)}"
CODINGS = [
    *("chunked, identity", "chunked, gzip", "chunked, chunked", "chunked;q=1", "xchunked", '"chunked"', "identity"),
    *("zip", "", "\x0bchunked", "chunked\0", "chunked\r\n x", "\r\n chunked", "chunked\r\nTransfer-Encoding: chunked"),
    "chunked\r\nTransfer-Encoding: identity",
]
BODIES: dict[str, tuple[Outcome, Callable[[str], bytes]]] = {
    # Two lengths.
    "a length, then chunks": (REFUSED, sized(ALL, CHUNKED, body=EMPTY_CHUNKS)),
    "chunks, then a length": (REFUSED, sized(CHUNKED, ALL, body=EMPTY_CHUNKS)),
    "two lengths": (REFUSED, sized("Content-Length: 0", LENGTH)),
    "two equal lengths": (EITHER, holding("Content-Length: @", "Content-Length: @", of=bytes)),
    "lengths in a list": (REFUSED, sized(f"{LENGTH}, 0")),
    "a length with a sign": (REFUSED, sized("Content-Length: +0")),
    "a negative length": (REFUSED, sized("Content-Length: -1")),
    "a hexadecimal length": (REFUSED, sized("Content-Length: 0x0")),
    "a length with an underscore": (REFUSED, sized("Content-Length: 0_0")),
    "a length with a point": (REFUSED, sized("Content-Length: 0.0")),
    "a length that is none": (REFUSED, sized("Content-Length: many")),
    "an empty length": (REFUSED, sized("Content-Length: ")),
    "a length in superscript": (REFUSED, sized("Content-Length: \xb2")),
    "a length beyond 64 bits": (UNENDING, sized(f"Content-Length: {2**64 + len(SMUGGLED)}")),
    "a length of 400 digits": (UNENDING, sized(f"Content-Length: {'9' * 400}")),
    "a length of 5000 digits": (UNENDING, sized(f"Content-Length: {'9' * 5000}")),
    "a length with a space before its colon": (REFUSED, sized(f"Content-Length : {len(SMUGGLED)}")),
    "a folded length": (REFUSED, sized(f"Content-Length:\r\n {len(SMUGGLED)}")),
    "a length with zeros": (EITHER, holding("Content-Length: 000@", of=bytes)),
    "a length with spaces": (EITHER, holding("Content-Length:  \t@ ", of=bytes)),
    # Codings.
    **{f"coding {one!r}": (REFUSED, sized(f"Transfer-Encoding: {one}", body=EMPTY_CHUNKS)) for one in CODINGS},
    **{
        f"coding {one!r} and a length": (REFUSED, sized(f"Transfer-Encoding: {one}", ALL, body=EMPTY_CHUNKS))
        for one in CODINGS
    },
    "a coding with a space before its colon": (REFUSED, sized("Transfer-Encoding : chunked", body=EMPTY_CHUNKS)),
    "a coding in capitals": (EITHER, holding("Transfer-Encoding: CHUNKED", of=chunked)),
    "a coding after a tab": (EITHER, holding("Transfer-Encoding:\tchunked ", of=chunked)),
    "an identity that is chunked": (EITHER, holding("Transfer-Encoding: identity, chunked", of=chunked)),
    "chunks in HTTP/1.0": (
        REFUSED,
        lambda _: whole(Frame("POST /v1/demo/stacks HTTP/1.0", (CHUNKED, "Connection: keep-alive"), EMPTY_CHUNKS)),
    ),
    # A body of what takes none.
    "a body of a GET": (EITHER, lambda mark: request(f"GET /v1/demo/stacks/{mark} HTTP/1.1", LENGTH, body=SMUGGLED)),
    "chunks of a GET": (
        EITHER,
        lambda mark: request(f"GET /v1/demo/stacks/{mark} HTTP/1.1", CHUNKED, body=chunked(SMUGGLED)),
    ),
}
"""Requests whose body ends in two places, or holds another request."""


def chunk(of: Callable[[bytes], bytes]) -> Callable[[str], bytes]:
    return holding(CHUNKED, of=of)


def in_chunk(size: str, end: bytes = b"\r\n0\r\n\r\n") -> Callable[[str], bytes]:
    """Return a POST of one chunk. `size` is its line, with {} for the digits."""
    return chunk(lambda body: size.replace("{}", f"{len(body):x}").encode() + b"\r\n" + body + end)


SIZES = ["+{}", "-{}", "0x{}", " {}", "{} ", "{}\t", "{}_0", "zz", "", "-", "{},{}", "\N{FULLWIDTH DIGIT FIVE}", "{}\0"]
CHUNKS: dict[str, tuple[Outcome, Callable[[str], bytes]]] = {
    "a chunk": (ANSWERED, in_chunk("{}")),
    "an extension": (ANSWERED, in_chunk("{};a=b")),
    "capitals and zeros": (ANSWERED, chunk(lambda body: b"000%X\r\n%b\r\n0\r\n\r\n" % (len(body), body))),
    "a trailer": (ANSWERED, in_chunk("{}", b"\r\n0\r\nX-Trailer: y\r\n\r\n")),
    **{f"a size of {one!r}": (REFUSED, in_chunk(one)) for one in SIZES},
    "a size beyond 64 bits": (UNENDING, chunk(lambda body: b"1%016x\r\n%b\r\n0\r\n\r\n" % (len(body), body))),
    "a size of 16 F": (UNENDING, chunk(lambda body: b"F" * 16 + b"\r\n%b\r\n0\r\n\r\n" % body)),
    "a size of 2000 digits": (UNENDING, chunk(lambda body: b"1" * 2000 + b"\r\n%b\r\n0\r\n\r\n" % body)),
    "40 zeros before a size": (EITHER, chunk(lambda body: b"0" * 40 + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))),
    "LF after a size": (REFUSED, chunk(lambda body: b"%x\n%b\r\n0\r\n\r\n" % (len(body), body))),
    "CR after a size": (REFUSED, chunk(lambda body: b"%x\r%b\r\n0\r\n\r\n" % (len(body), body))),
    "LF after a chunk": (REFUSED, chunk(lambda body: b"%x\r\n%b\n0\r\n\r\n" % (len(body), body))),
    "nothing after a chunk": (REFUSED, chunk(lambda body: b"%x\r\n%b0\r\n\r\n" % (len(body), body))),
    "two bytes after a chunk": (REFUSED, chunk(lambda body: b"%x\r\n%bXY0\r\n\r\n" % (len(body), body))),
    "a byte after a chunk": (REFUSED, chunk(lambda body: b"%x\r\n%bX\r\n0\r\n\r\n" % (len(body), body))),
    "LF in an extension": (REFUSED, in_chunk("{};a\nb")),
    "CR in an extension": (REFUSED, in_chunk("{};a\rb")),
    "NUL in an extension": (EITHER, in_chunk("{};a\0b")),
    "a line break in quotes": (EITHER, in_chunk('{};a="\r\n"')),
    "an extension of 10 kB": (EITHER, in_chunk("{};a=" + "x" * 10_000)),
    "an extension of a megabyte": (REFUSED, in_chunk("{};a=" + "x" * 1_000_000)),
    "LF after the last chunk": (REFUSED, in_chunk("{}", b"\r\n0\r\n\n")),
    "a trailer with LF": (REFUSED, in_chunk("{}", b"\r\n0\r\nX: y\n\r\n")),
    "a trailer without a colon": (EITHER, in_chunk("{}", b"\r\n0\r\nfoo\r\n\r\n")),
    "a trailer that is a request": (REFUSED, in_chunk("{}", b"\r\n0\r\n" + SMUGGLED)),
    "a trailer with a Host": (REFUSED, in_chunk("{}", b"\r\n0\r\nHost: evil.example\r\n\r\n")),
    "a trailer with a length": (REFUSED, in_chunk("{}", b"\r\n0\r\nContent-Length: 5\r\n\r\n")),
    "a trailer of a megabyte": (REFUSED, in_chunk("{}", b"\r\n0\r\nX: %b\r\n\r\n" % (b"y" * 1_000_000))),
    "100 000 trailers": (REFUSED, in_chunk("{}", b"\r\n0\r\n%b\r\n" % (b"X: y\r\n" * 100_000))),
}
"""Requests with chunks."""
