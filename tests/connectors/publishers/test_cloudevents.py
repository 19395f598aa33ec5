import json

from hypothesis import given
from hypothesis import strategies as st

from connectors.publishers.cloudevents import binary

EVENT = {
    "specversion": "1.0",
    "type": "reactor.asset.updated.v1",
    "source": "reactor://local/prod/main",
    "id": "0" * 32,
    "subject": "ducklake://main/orders_daily",
    "partitionkey": "ducklake://main/orders_daily",
    "time": "2026-06-20T00:00:07.481Z",
    "datacontenttype": "application/json",
    "sequence": "00000000000000000042",
    "data": {"asset": "ducklake://main/orders_daily", "partition": None, "rows_inserted": 120},
}


def test_attributes_are_headers_and_the_value_is_the_data() -> None:
    message = binary(EVENT)
    headers = dict(message.headers)
    assert message.key == b"ducklake://main/orders_daily"
    assert json.loads(message.value) == EVENT["data"]
    assert headers["content-type"] == b"application/json"
    assert headers["ce_id"] == b"0" * 32
    assert headers["ce_sequence"] == b"00000000000000000042"
    assert headers.keys() == {"content-type", *(f"ce_{name}" for name in EVENT if name not in {"data", "datacontenttype"})}


def test_the_value_is_never_empty_and_an_absent_attribute_has_no_header() -> None:
    message = binary({"id": "1", "assetpartition": None})
    assert message.value == b"{}"
    assert message.key is None
    assert "ce_assetpartition" not in dict(message.headers)


@given(st.dictionaries(st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True), st.one_of(st.text(), st.booleans(), st.integers())))
def test_attributes_are_utf8_in_their_canonical_form(attributes: dict[str, str | bool | int]) -> None:
    wanted = {name: value for name, value in attributes.items() if name not in {"data", "datacontenttype"}}
    headers = dict(binary(wanted).headers)
    for name, value in wanted.items():
        assert headers[f"ce_{name}"].decode() == (str(value).lower() if isinstance(value, bool) else str(value))
