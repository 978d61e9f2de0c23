import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.protocol.strategies import few

from trunkline.model.calls import Operation
from trunkline.model.errors import (
    Case,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseFailed,
    TaskNotFound,
    TrunklineError,
    VersionNotSupported,
)
from trunkline.model.profile import Profile
from trunkline.protocol import jsonrpc
from trunkline.protocol.dialects import dialects_for
from trunkline.protocol.jsonrpc import ErrorStyle, Names, Rejected, Request
from trunkline.protocol.operations import METHODS
from trunkline.protocol.versions import Version


def request(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask"} | members).encode()


def rejected(body: bytes, stated: Version | None = None) -> Rejected:
    with pytest.raises(Rejected) as refusal:
        jsonrpc.decode(body, stated=stated, names=Names(default=Version.V1_0))
    return refusal.value


def test_a_request_keeps_id_and_params_as_they_came() -> None:
    body = b'{ "jsonrpc" : "2.0", "id" : "a\\u0062" , "method":"GetTask", "params" : {"id": "t"} }'
    assert jsonrpc.decode(body, stated=None, names=Names(default=Version.V0_3)) == Request(
        b'"a\\u0062"', "GetTask", b'{"id": "t"}', Version.V1_0, Operation.GET_TASK
    )


@pytest.mark.parametrize("params", [b"", b',"params":null', b',"params":{}'])
def test_params_may_be_absent(params: bytes) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ListTasks"%b}' % params
    assert jsonrpc.decode(body, stated=None, names=Names(default=Version.V1_0)).params == b"{}"


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("is_stated", [True, False])
def test_every_method_is_known_with_and_without_a_stated_version(
    version: Version, is_stated: bool
) -> None:
    (other,) = set(Version) - {version}
    for method, operation in METHODS[version].items():
        decoded = jsonrpc.decode(
            request(method=method),
            stated=version if is_stated else None,
            names=Names(default=other),
        )
        assert (decoded.version, decoded.operation) == (version, operation)


@pytest.mark.parametrize(
    "id", [b'"x"', b'""', '"ü"'.encode(), b"0", b"-7", b"123456789012345678901234567890", b"null"]
)
def test_ids_go_back_byte_for_byte(id: bytes) -> None:
    body = b'{"jsonrpc":"2.0","id":%b,"method":"GetTask"}' % id
    assert jsonrpc.decode(body, stated=None, names=Names(default=Version.V1_0)).id == id
    assert jsonrpc.RESULT % id + b"{}}" == b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id
    assert b'"id":%b,' % id in jsonrpc.error(id, TaskNotFound("t"), Version.V1_0)


@pytest.mark.parametrize("id", [b"1.5", b"1e3", b"true", b"[]", b"{}", b'"\xff"', b"1e400"])
def test_other_ids_are_refused_and_answered_with_null(id: bytes) -> None:
    refusal = rejected(b'{"jsonrpc":"2.0","id":%b,"method":"GetTask"}' % id)
    assert refusal.id == b"null"
    assert isinstance(refusal.error, InvalidRequest)
    assert refusal.error.message == "id must be a string, an integer or null"


def test_a_request_without_an_id_says_so_and_is_read_as_far_as_it_goes() -> None:
    body = b'{"jsonrpc":"2.0","method":"SendMessage","params":{}}'
    decoded = jsonrpc.decode(body, stated=None, names=Names(default=Version.V1_0))
    assert (decoded.id, decoded.lacks_id) == (b"null", True)
    assert "notifications" in jsonrpc.missing_id().message
    for wrong, error in ((b"Other", MethodNotFound), (b"SendMessage", InvalidParams)):
        body = b'{"jsonrpc":"2.0","method":"%b","params":[]}' % wrong
        assert isinstance(rejected(body).error, error)


def test_a_request_with_an_id_does_not_lack_one() -> None:
    body = b'{"jsonrpc":"2.0","id":null,"method":"SendMessage","params":{}}'
    assert not jsonrpc.decode(body, stated=None, names=Names(default=Version.V1_0)).lacks_id


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (b"", ParseFailed, "empty"),
        (b"  \n", ParseFailed, "empty"),
        (b"{", ParseFailed, "ends too early"),
        (b'{"jsonrpc":"2.0",}', ParseFailed, "at byte"),
        (b'{"jsonrpc":"2.0"} x', ParseFailed, "at byte"),
        (b"{'a':1}", ParseFailed, "at byte"),
        (b'{"a":NaN}', ParseFailed, "at byte"),
        (b'{"a":"\x01"}', ParseFailed, "at byte"),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0"}', ParseFailed, "byte order mark"),
        (b'{"method":"\xff"}', ParseFailed, "UTF-8"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', ParseFailed, "surrogate"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\\udc00 x"}', ParseFailed, "surrogate"),
        (b"[" * 100_000, InvalidRequest, "nested too deeply"),
        (b"[]", InvalidRequest, "batches"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]', InvalidRequest, "batches"),
        (b"1", InvalidRequest, "must be a JSON object"),
        (b"null", InvalidRequest, "must be a JSON object"),
        (b'"x"', InvalidRequest, "must be a JSON object"),
        (b"1e400", InvalidRequest, "out of range"),
        (b"{}", InvalidRequest, "id is missing"),
    ],
)
def test_what_is_no_request_is_answered_with_id_null(
    body: bytes, error: type[TrunklineError], text: str
) -> None:
    refusal = rejected(body)
    assert refusal.id == b"null"
    assert type(refusal.error) is error
    assert text in refusal.error.message


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (request(jsonrpc="1.0"), InvalidRequest, 'jsonrpc must be "2.0"'),
        (request(jsonrpc=2.0), InvalidRequest, 'jsonrpc must be "2.0"'),
        (b'{"id":1,"method":"GetTask"}', InvalidRequest, 'jsonrpc must be "2.0"'),
        (request(method=5), InvalidRequest, "method must be a string"),
        (b'{"jsonrpc":"2.0","id":1}', InvalidRequest, "method is missing"),
        (request(params=[]), InvalidParams, "params: must be an object, got an array"),
        (request(params="x"), InvalidParams, "params: must be an object, got a single value"),
        (request(method=""), MethodNotFound, 'unknown method ""'),
        (request(method="Foo"), MethodNotFound, 'unknown method "Foo"; A2A 1.0 has SendMessage'),
        (request(method="foo/bar"), MethodNotFound, "A2A 0.3 has message/send"),
        (request(method="getTask"), MethodNotFound, 'unknown method "getTask"'),
    ],
)
def test_a_bad_member_is_named_and_the_id_kept(
    body: bytes, error: type[TrunklineError], text: str
) -> None:
    refusal = rejected(body)
    assert refusal.id == b"1"
    assert type(refusal.error) is error
    assert text in refusal.error.message


@pytest.mark.parametrize(
    ("method", "stated", "name", "other"),
    [
        ("GetTask", Version.V0_3, "tasks/get", "1.0"),
        ("message/send", Version.V1_0, "SendMessage", "0.3"),
    ],
)
def test_a_method_of_the_other_version_is_not_found_and_the_remedy_told(
    method: str, stated: Version, name: str, other: str
) -> None:
    refusal = rejected(request(method=method), stated)
    assert refusal.version is stated
    assert isinstance(refusal.error, MethodNotFound)
    for part in (f'"{method}"', f'"{name}"', f"A2A-Version: {other}"):
        assert part in refusal.error.message


def test_the_last_of_two_members_of_one_name_counts() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask","method":"ListTasks"}'
    decoded = jsonrpc.decode(body, stated=None, names=Names(default=Version.V1_0))
    assert (decoded.id, decoded.method) == (b"2", "ListTasks")


def test_an_unknown_method_is_cut_in_the_answer() -> None:
    assert len(rejected(request(method="x" * 100_000)).error.message) < 1000


def test_a_refusal_reads_as_its_error() -> None:
    assert str(rejected(b"[]")) == rejected(b"[]").error.message


@few
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_request_or_rejected(body: bytes) -> None:
    try:
        jsonrpc.decode(body, stated=None, names=Names(default=Version.V1_0))
    except Rejected as refusal:
        msgspec.json.decode(jsonrpc.error(refusal.id, refusal.error, refusal.version))


LENIENT = Names(
    default=Version.V0_3, errors=ErrorStyle(takes_notifications=True, checks_params=True)
)


def test_a_notification_may_have_the_id_null() -> None:
    body = b'{"jsonrpc":"2.0","method":"tasks/get","params":{"id":"t"}}'
    decoded = jsonrpc.decode(body, stated=None, names=LENIENT)
    assert (decoded.id, decoded.lacks_id) == (b"null", False)
    with pytest.raises(Rejected) as refusal:
        jsonrpc.decode(b'{"jsonrpc":"2.0"}', stated=None, names=LENIENT)
    assert (refusal.value.id, refusal.value.error.case) == (b"null", Case.NOT_JSONRPC)


@pytest.mark.parametrize("params", [b"", b',"params":null', b',"params":[]', b',"params":{"":1}'])
def test_params_may_have_to_be_there(params: bytes) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tasks/get"%b}' % params
    with pytest.raises(Rejected) as refusal:
        jsonrpc.decode(body, stated=None, names=LENIENT)
    assert refusal.value.error.case is Case.PARAMS


def test_a_name_that_is_no_text_is_left_to_who_reads_it() -> None:
    params = b'{"\xff":1}'
    body = b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":%b}' % params
    assert jsonrpc.decode(body, stated=None, names=LENIENT).params == params


def test_an_agent_of_0_3_alone_knows_the_names_of_that_one() -> None:
    names = dialects_for(Profile(dialect="v0.3", default_version="0.3"))
    for method in METHODS[Version.V1_0]:
        with pytest.raises(Rejected) as refusal:
            jsonrpc.decode(request(method=method), stated=None, names=names)
        assert refusal.value.version is Version.V0_3
        assert refusal.value.error.message.startswith(f"Method not found: {method}; ")


@pytest.mark.parametrize("stated", [None, Version.V1_0])
def test_an_agent_of_1_0_alone_does_not_support_0_3(stated: Version | None) -> None:
    """A2A 1.0, 3.6.2: a request that states no version is of 0.3."""
    names = dialects_for(Profile(dialect="v1.0"))
    for method, operation in METHODS[Version.V0_3].items():
        with pytest.raises(Rejected) as refusal:
            jsonrpc.decode(request(method=method), stated=stated, names=names)
        error = refusal.value.error
        assert refusal.value.version is Version.V1_0
        if stated is None:
            assert isinstance(error, VersionNotSupported)
            assert error.message.endswith(f'send "A2A-Version: 1.0" and call "{operation}"')
            assert refusal.value.operation is operation
        else:
            assert isinstance(error, MethodNotFound)
            assert f'where it is "{operation}"' in error.message


def test_a_method_that_nobody_knows_has_the_form_of_a_version_too() -> None:
    names = dialects_for(Profile(dialect="v1.0"))
    for method, error in (("tasks/other", VersionNotSupported), ("Other", MethodNotFound)):
        with pytest.raises(Rejected) as refusal:
            jsonrpc.decode(request(method=method), stated=None, names=names)
        assert isinstance(refusal.value.error, error)


def test_the_form_of_a_method_may_not_count() -> None:
    names = dialects_for(Profile(default_version="0.3"))
    with pytest.raises(Rejected, match=r"has no A2A-Version, which means 0\.3") as refusal:
        jsonrpc.decode(request(method="GetTask"), stated=None, names=names)
    assert isinstance(refusal.value.error, MethodNotFound)
    decoded = jsonrpc.decode(request(method="GetTask"), stated=Version.V1_0, names=names)
    assert decoded.operation is Operation.GET_TASK
    strict = dialects_for(Profile(dialect="v1.0", default_version="0.3"))
    with pytest.raises(Rejected) as refusal:
        jsonrpc.decode(request(method="GetTask"), stated=None, names=strict)
    assert isinstance(refusal.value.error, VersionNotSupported)


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        (b'{"jsonrpc":"2.0","method":"SendMessage","params":{"anything":1}}', True),
        (b'{"jsonrpc":"2.0"', False),
        (b"[]", False),
        (b'"text"', False),
        (b'{"method":"\xff"}', False),
    ],
)
def test_an_envelope_of_a_request_is_told_apart(body: bytes, is_one: bool) -> None:
    assert jsonrpc.is_request(body) is is_one
