import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor.domain.assets import LakeTable, ProjectNames, quoted, read_asset, resolved
from reactor.domain.diagnostics import Malformed

NAMES = ProjectNames(lakes=("main", "sales"), clusters=("eu",), stores=("land",))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("ducklake://main/orders", "ducklake://main/orders"),
        ("ducklake://Main/Main.Orders", "ducklake://main/orders"),
        ("ducklake://main/CRM.Orders/{partition}", "ducklake://main/crm.orders"),
        ("datatable://Shop/main.t", "datatable://shop/t"),
        ("s3://land/In/{partition}/x?.json", "s3://land/In/{partition}/x?.json"),
        ("s3:///in/**/*.csv", "s3:///in/**/*.csv"),
        ("file:///data/x.csv", "file:///data/x.csv"),
        ("kafka://eu/Orders.v1", "kafka://eu/Orders.v1"),
        ("kafka://orders", "kafka://orders"),
    ],
)
def test_one_spelling_for_each_asset(written: str, canonical: str) -> None:
    assert read_asset(written).uri == canonical
    assert read_asset(canonical).uri == canonical


@pytest.mark.parametrize(
    ("written", "suggestion"),
    [
        ("orders", "ducklake://lake/orders"),
        ("ducklake", "ducklake://lake/table"),
        ("ducklake://main", "ducklake://main/table"),
        ("DuckLake://main/t", "ducklake://"),
        ("kafak://orders", "kafka://"),
        ("kafka:/orders", "kafka://orders"),
        ("gs://bucket/key", "s3://"),
        ("res://x", "file://"),
        ("$res:f/x", "file://"),
        ("volume://x", "file://"),
        ("dbt://x", "ducklake://"),
        ("s3://land/{date}/x", "{partition}"),
        ("ducklake:///t", None),
        ("ducklake://main/a.b.c", None),
        ("ducklake://main/a/b", None),
        ("ducklake://main/a,b", None),
        ("s3://land", None),
        ("s3://{partition}/x", None),
        ("s3://land/{partition}/{partition}", None),
        ("file://../x", None),
        ("kafka://", None),
        ("kafka://a/b/c", None),
        ("kafka://ord ers", None),
    ],
)
def test_what_is_no_asset_is_answered(written: str, suggestion: str | None) -> None:
    with pytest.raises(Malformed) as wrong:
        read_asset(written)
    assert wrong.value.suggestion == suggestion


@pytest.mark.parametrize("written", ["res://x", "volume://x", "dbt://x", "s3://{partition}/x", "s3://land/{partition}/{partition}"])
def test_what_is_never_served_refuses_the_script(written: str) -> None:
    with pytest.raises(Malformed) as wrong:
        read_asset(written)
    assert wrong.value.refuses


def test_the_place_of_a_second_token_is_told() -> None:
    with pytest.raises(Malformed) as wrong:
        read_asset("s3://land/in/{partition}/x-{partition}.json")
    assert (wrong.value.offset, wrong.value.length) == (27, 11)


def test_a_topic_without_a_cluster_is_of_the_only_one() -> None:
    assert resolved(read_asset("kafka://orders"), NAMES).uri == "kafka://eu/orders"
    assert resolved(read_asset("s3:///x"), NAMES).uri == "s3:///x"


@pytest.mark.parametrize(
    ("written", "names", "suggestion"),
    [
        ("ducklake://mian/t", NAMES, "ducklake://main/t"),
        ("ducklake://other/t", NAMES, None),
        ("s3://lamd/x", NAMES, "s3://land/x"),
        ("s3:///x", ProjectNames(), None),
        ("kafka://ue/orders", NAMES, "kafka://eu/orders"),
        ("kafka://orders", ProjectNames(), None),
        ("kafka://orders", ProjectNames(clusters=("a", "b")), "kafka://a/orders"),
    ],
)
def test_a_name_that_is_not_configured_refuses(written: str, names: ProjectNames, suggestion: str | None) -> None:
    with pytest.raises(Malformed) as wrong:
        resolved(read_asset(written), names)
    assert (wrong.value.refuses, wrong.value.suggestion) == (True, suggestion)


def test_a_table_names_itself_in_full() -> None:
    table = LakeTable.parse("ducklake://main/Order-Items")
    assert (table.catalog, table.sql, table.uri) == ("lake_main", '"lake_main"."main"."order-items"', "ducklake://main/order-items")
    assert LakeTable.parse("ducklake://sales/crm.t") == LakeTable("sales", "crm", "t")
    with pytest.raises(Malformed):
        LakeTable.parse("kafka://orders")


@given(st.text(max_size=40))
def test_any_text_is_an_asset_or_is_answered(text: str) -> None:
    for written in (text, f"ducklake://{text}", f"s3://{text}", f"kafka://{text}", f"file://{text}"):
        try:
            asset = read_asset(written)
        except Malformed as wrong:
            start, end = wrong.offset, wrong.offset + (wrong.length or 0)
        else:
            assert read_asset(asset.uri) == asset
            continue
        assert 0 <= start <= end <= len(written)


@given(st.text(min_size=1))
def test_quoted_names_have_their_quotes_doubled(name: str) -> None:
    assert quoted(name)[1:-1].replace('""', '"') == name
