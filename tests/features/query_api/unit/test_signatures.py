"""AWS signatures: published examples, and what a signature must not admit."""


import pytest
from msgspec.structs import replace

from heatlite.features.query_api.errors import Code, QueryError
from heatlite.features.query_api.signatures import Message, matches, read

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
DATE = "20150830T123600Z"
NOON = 1440938160.0


def version_4(
    signature: str, method: str = "GET", query: str = "", body: str = "", more: str = "", service: str = "service"
) -> Message:
    """A request of the published test suite for version 4."""
    signed = f"{'content-type;' if more else ''}host;x-amz-date"
    scope = f"AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request"
    headers = {
        "host": "iam.amazonaws.com" if service == "iam" else "example.amazonaws.com",
        "x-amz-date": DATE,
        "authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={signed}, Signature={signature}",
    }
    if more:
        headers["content-type"] = more
    pairs = [(one.partition("=")[0], one.partition("=")[2]) for one in query.split("&") if one]
    return Message(method, "/", pairs, [], headers, body.encode())


FORM = "application/x-www-form-urlencoded"
PUBLISHED = {
    "get-vanilla": version_4("5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    "get-vanilla-query-order-key-case": version_4(
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500", query="Param2=value2&Param1=value1"
    ),
    "post-vanilla": version_4("5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", "POST"),
    "post-x-www-form-urlencoded": version_4(
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a", "POST", body="Param1=value1", more=FORM
    ),
    "the example of the manual": version_4(
        "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        query="Action=ListUsers&Version=2010-05-08",
        more=f"{FORM}; charset=utf-8",
        service="iam",
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_examples_of_version_4(name: str) -> None:
    message = PUBLISHED[name]
    claim = read(message)
    assert (claim.access_key, claim.signed_at) == ("AKIDEXAMPLE", NOON)
    assert matches(message, claim, SECRET)
    assert not matches(message, claim, SECRET + "x")
    for other in (
        replace(message, method="PUT"),
        replace(message, path="/other"),
        replace(message, query=[*message.query, ("more", "1")]),
        replace(message, body=message.body + b"x"),
        replace(message, headers={**message.headers, "host": "other"}),
    ):
        assert not matches(other, claim, SECRET)


V2_QUERY = [
    ("AWSAccessKeyId", "AKIAIOSFODNN7EXAMPLE"),
    ("Action", "DescribeJobFlows"),
    ("SignatureMethod", "HmacSHA256"),
    ("SignatureVersion", "2"),
    ("Timestamp", "2011-10-03T15:19:30"),
    ("Version", "2009-03-31"),
    ("Signature", "i91nKc4PWAt0JJIdXwz9HxZCJDdiy6cf/Mj6vPxyYIs="),
]
V2 = Message("GET", "/", V2_QUERY, [], {"host": "elasticmapreduce.amazonaws.com"}, b"")
V2_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


def test_the_published_example_of_version_2() -> None:
    claim = read(V2)
    assert (claim.version, claim.access_key, claim.signed_at) == (2, "AKIAIOSFODNN7EXAMPLE", 1317655170.0)
    assert matches(V2, claim, V2_SECRET)
    assert matches(replace(V2, query=V2_QUERY[::-1]), claim, V2_SECRET)
    assert not matches(V2, claim, "other")
    assert not matches(replace(V2, query=[*V2_QUERY, ("more", "1")]), claim, V2_SECRET)
    assert not matches(replace(V2, form=[("more", "1")]), claim, V2_SECRET)


def presigned(valid: str) -> Message:
    query = [("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", "K/20150830/r/s/aws4_request")]
    query += [("X-Amz-Date", DATE), ("X-Amz-Expires", valid), ("X-Amz-SignedHeaders", "host"), ("X-Amz-Signature", "a")]
    return Message("GET", "/", query, [], {"host": "h"}, b"")


@pytest.mark.parametrize(
    ("message", "now", "good"),
    [
        (PUBLISHED["get-vanilla"], NOON + 899, True),
        (PUBLISHED["get-vanilla"], NOON + 901, False),
        (PUBLISHED["get-vanilla"], NOON - 899, True),
        (PUBLISHED["get-vanilla"], NOON - 901, False),
        (presigned("3600"), NOON + 3599, True),
        (presigned("3600"), NOON + 3601, False),
        (presigned("3600"), NOON - 901, False),
        (replace(V2, query=[one for one in V2_QUERY if one[0] != "Timestamp"]), 0.0, True),
        (replace(V2, query=[*V2_QUERY, ("Expires", "2011-10-03T16:00:00Z")]), 1317655170.0 + 1800, True),
        (replace(V2, query=[*V2_QUERY, ("Expires", "2011-10-03T16:00:00Z")]), 1317655170.0 + 3600, False),
    ],
)
def test_a_signature_holds_for_its_time(message: Message, now: float, good: bool) -> None:
    claim = read(message)
    if good:
        claim.check_time(now)
    else:
        with pytest.raises(QueryError) as raised:
            claim.check_time(now)
        assert raised.value.code is Code.RequestExpired


def with_authorization(text: str, date: str = DATE) -> Message:
    return Message("GET", "/", [], [], {"host": "h", "x-amz-date": date, "authorization": text}, b"")


CREDENTIAL = "AWS4-HMAC-SHA256 Credential=K/20150830/r/s/aws4_request"


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (Message("GET", "/", [], [], {}, b""), Code.MissingAuthenticationToken, "not signed"),
        (with_authorization("Basic abc"), Code.MissingAuthenticationToken, "not signed"),
        (with_authorization(CREDENTIAL), Code.IncompleteSignature, "SignedHeaders is missing"),
        (with_authorization(f"{CREDENTIAL}, SignedHeaders=host"), Code.IncompleteSignature, "Signature is missing"),
        (with_authorization(f"{CREDENTIAL}, SignedHeaders=a, Signature=b"), Code.IncompleteSignature, "lacks host"),
        (
            with_authorization(f"{CREDENTIAL[:-4]}, SignedHeaders=host, Signature=b"),
            Code.IncompleteSignature,
            "KEY/DATE/REGION/SERVICE",
        ),
        (
            with_authorization(f"{CREDENTIAL}, SignedHeaders=host, Signature=b", "yesterday"),
            Code.IncompleteSignature,
            "X-Amz-Date",
        ),
        (
            with_authorization(f"{CREDENTIAL}, SignedHeaders=host, Signature=b", "20150831T123600Z"),
            Code.IncompleteSignature,
            "differ",
        ),
        (
            with_authorization("AWS4-HMAC-SHA256 Credential=K/2/r/s/aws4_request, SignedHeaders=host, Signature=b"),
            Code.IncompleteSignature,
            "differ",
        ),
        (presigned("604801"), Code.IncompleteSignature, "X-Amz-Expires"),
        (presigned("1e9"), Code.IncompleteSignature, "X-Amz-Expires"),
        (replace(V2, query=[("Signature", "a")]), Code.IncompleteSignature, "SignatureVersion"),
        (replace(V2, query=[*V2_QUERY, ("SignatureMethod", "HmacSHA1")]), Code.IncompleteSignature, "SignatureMethod"),
        (replace(V2, query=[*V2_QUERY, ("AWSAccessKeyId", "")]), Code.IncompleteSignature, "AWSAccessKeyId"),
        (replace(V2, query=[*V2_QUERY, ("Timestamp", "x")]), Code.IncompleteSignature, "ISO 8601"),
    ],
)
def test_what_is_no_signature(message: Message, code: Code, text: str) -> None:
    with pytest.raises(QueryError, match=text) as raised:
        read(message)
    assert raised.value.code is code
