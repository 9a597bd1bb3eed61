"""Who may do what over HTTP: every route for every role."""

import base64
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.frontends.http.browser import Answer, Place, place

from penstock.frontends.http.call import Route
from penstock.frontends.http.pages.openapi import EXAMPLES
from penstock.frontends.http.routes import ROUTES
from penstock.frontends.security.needs import NEEDS
from penstock.model.access import Grant, Role
from penstock.model.schemas import NewSchema, SchemaSettings

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])  # Who may do what is not for the loop to say.

ROLES: tuple[Role, ...] = ("admin", "producer", "consumer", "reader")

# Which roles may use which routes: written by hand, so that it is not the table it checks.
MATRIX = {
    "anybody admin producer consumer reader": "health livez readyz version openapi_document docs_page",
    "admin producer consumer reader": """
        list_topics topic_exists describe_topic list_partitions list_lanes find_offsets list_groups
        describe_group overview history stats metrics list_subjects look_up list_versions get_version
        get_version_text get_referencing list_schemas list_schema_types get_schema get_schema_text
        get_schema_subjects get_schema_versions list_contexts check_version check_versions
        get_level get_level_of_subject get_mode get_mode_of_subject
        run_sql list_sql_tables list_sql_columns
    """,
    "admin consumer reader": """
        browse trace list_errors list_dead_letters show_dead_letter list_schedules list_pipelines
    """,
    "admin producer": """
        publish publish_batch add_schedule cancel_schedule reschedule register
        begin_transaction publish_in_transaction commit_transaction abort_transaction
    """,
    "admin consumer": """
        receive ack nack reject extend stream ask_for_socket set_group delete_group seek_group
        ack_in_transaction
    """,
    "admin": """
        create_topic alter_topic delete_topic redrive list_keys create_key revoke_key list_users set_user
        delete_user cluster_info drain_node remove_node move_partition balance_partitions
        delete_subject delete_version set_level set_level_of_subject reset_level reset_level_of_subject
        set_mode set_mode_of_subject reset_mode reset_mode_of_subject
    """,
}
ALLOWED = {name: roles.split() for roles, names in MATRIX.items() for name in names.split()}


pytestmark = pytest.mark.usefixtures("quick_hashes")


@pytest.fixture
async def secured() -> AsyncIterator[Place]:
    async with place(authentication=True) as made:
        yield made


async def bearer(http: Place, role: Any, *topics: str) -> dict[str, str]:
    made = await http.broker.create_key(role, [Grant(role=role, topics=topics or ("*",))])
    return {"authorization": f"Bearer {made.key}"}


def basic(text: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


async def test_only_admins_see_where_the_server_keeps_its_files(secured: Place) -> None:
    told = {
        role: (await secured.ask("GET", "/v1/stats", headers=await bearer(secured, role))).json
        for role in ROLES
    }
    of_one_topic = await secured.ask("GET", "/v1/stats", headers=await bearer(secured, "admin", "orders"))
    glance = await secured.ask("GET", "/v1/overview", headers=await bearer(secured, "reader"))

    assert {role for role in ROLES if told[role]["directory"]} == {"admin"}
    assert (of_one_topic.json["directory"], glance.json["broker"]["directory"]) == ("", "")


async def test_whoever_may_read_may_look_for_a_key(secured: Place) -> None:
    await secured.broker.publish("orders", b"x", key="anna")

    found = [
        await secured.ask("GET", "/v1/topics/orders/messages?key=anna", headers=await bearer(secured, role))
        for role in ("reader", "consumer", "admin", "producer")
    ]

    assert [len(answer.json.get("messages", [])) for answer in found] == [1, 1, 1, 0]
    assert found[-1].code == "FORBIDDEN"


async def furnish(http: Place) -> dict[str, str]:
    """All that the examples name; what stands in paths, by path parameter."""
    await http.broker.publish("orders", b"x", partition=0)
    async with await http.broker.consumer("orders", group="billing") as consumer:
        await (await consumer.receive())[0].reject("no price")
    await http.broker.publish("orders", b"x", partition=0)
    await http.broker.publish("orders", b"x", partition=0, delay="1h")
    await http.broker.register_schema("orders-value", NewSchema(schema='{"type": "string"}'))
    settings = SchemaSettings(compatibility="FULL", mode="READWRITE")
    await http.broker.alter_schema_settings("orders-value", settings)
    await http.broker.set_user("anna", "correct horse battery", [Grant(role="reader")])
    begun = await http.ask("POST", "/v1/transactions", {}, await bearer(http, "admin"))
    key = await http.broker.create_key("old", [Grant(role="reader")])
    return {**EXAMPLES, "keys": key.id, "transaction": begun.json["transaction"]}


def path_of(route: Route, names: dict[str, str]) -> str:
    def name(found: re.Match[str]) -> str:
        return f"{found[1]}/{names[found[1] if found[2] == 'id' else found[2]]}"

    return re.sub(r"([\w-]+)/{(\w+)}", name, route.path)


def body_of(route: Route) -> Any:
    return {**route.example, "wait": 0} if route.name == "receive" else route.example


def of_all(route: Route) -> str:
    return f"{route.method} {route.path}"


def refusal(route: Route, answer: Answer) -> tuple[int, str]:
    """The status and the code of a problem; the answer to a HEAD has no body, so no code either."""
    codes = {401: "UNAUTHENTICATED", 403: "FORBIDDEN"}
    if route.registry:
        assert answer.json["error_code"] == answer.status
        return answer.status, codes[answer.status]
    return answer.status, codes[answer.status] if route.method == "HEAD" else answer.code


async def test_who_may_is_said_of_every_route() -> None:
    assert set(ALLOWED) == {route.name for route in ROUTES}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("route", ROUTES, ids=of_all)
async def test_a_route_does_what_the_role_allows(secured: Place, route: Route, role: Role) -> None:
    names, headers = await furnish(secured), await bearer(secured, role)
    if role in ALLOWED["begin_transaction"]:  # A transaction is for whoever began it.
        begun = await secured.ask("POST", "/v1/transactions", {}, headers)
        names["transaction"] = begun.json["transaction"]

    answer = await secured.ask(route.method, path_of(route, names), body_of(route), headers)

    if role in ALLOWED[route.name]:
        asked = 426 if route.socket else route.status  # It was no WebSocket that was asked for.
        if route.tag == "cluster":
            asked = 404  # NOT_A_CLUSTER.
        if route.tag == "sql":
            asked = 503  # SQL_UNAVAILABLE: what a query may read is up to the broker that Spark asks.
        if route.name == "ack_in_transaction":
            asked = 404  # RECEIPT_UNKNOWN: the example's receipt is nobody's.
        assert answer.status == asked, answer.body
    else:
        assert refusal(route, answer) == (403, "FORBIDDEN")


@pytest.mark.parametrize("route", ROUTES, ids=of_all)
async def test_a_route_does_nothing_without_a_login_unless_anybody_may(secured: Place, route: Route) -> None:
    path = path_of(route, await furnish(secured))

    answer = await secured.ask(route.method, path, body_of(route))

    if "anybody" in ALLOWED[route.name]:
        assert answer.status == route.status
    else:
        assert refusal(route, answer) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.operation and NEEDS[route.operation].topic is not None],
    ids=of_all,
)
async def test_the_admin_of_other_topics_may_do_nothing_with_this_one(secured: Place, route: Route) -> None:
    path = path_of(route, await furnish(secured))
    other = await bearer(secured, "admin", "order", "orders.dlq", "invoices*")

    answer = await secured.ask(route.method, path, body_of(route), other)

    if route.name == "list_errors":  # A list has what one may see: here nothing.
        assert answer.json == {"errors": []}
    elif route.name in ("get_level", "get_mode"):  # Those of the registry, without a topic.
        assert answer.status == 200
    else:
        assert refusal(route, answer) == (403, "FORBIDDEN")


async def test_a_stranger_is_told_how_to_log_in(secured: Place) -> None:
    answer = await secured.ask("GET", "/v1/topics")

    assert answer.code == "UNAUTHENTICATED"
    assert answer.headers["www-authenticate"] == 'Bearer realm="penstock"'


async def test_a_user_logs_in_with_name_and_password(secured: Place) -> None:
    await secured.broker.set_user("ada", "correct horse battery", [Grant(role="reader")])

    right = await secured.ask("GET", "/v1/topics", headers=basic("ada:correct horse battery"))
    wrong = await secured.ask("GET", "/v1/topics", headers=basic("ada:something else"))

    assert right.json == {"topics": ["orders"]}
    assert wrong.code == "UNAUTHENTICATED"


@pytest.mark.parametrize("shown", ["Bearer", "Bearer pk_x_y", "Basic !", "Basic //8=", "Digest x", ""])
async def test_what_is_no_login_is_refused(secured: Place, shown: str) -> None:
    answer = await secured.ask("GET", "/v1/topics", headers={"authorization": shown})

    assert (answer.status, answer.code) == (401, "UNAUTHENTICATED")


async def test_topics_of_others_are_neither_listed_nor_described(secured: Place) -> None:
    await secured.broker.create_topic("secret")
    mine = await bearer(secured, "reader", "orders")

    assert (await secured.ask("GET", "/v1/topics", headers=mine)).json == {"topics": ["orders"]}
    assert (await secured.ask("GET", "/v1/topics/secret", headers=mine)).code == "FORBIDDEN"


async def test_a_revoked_key_opens_nothing_on_a_connection_that_is_still_there(secured: Place) -> None:
    made = await secured.broker.create_key("mine", [Grant(role="reader")])
    header = {"authorization": f"Bearer {made.key}"}
    browser = await secured.browser()
    assert (await browser.ask("GET", "/v1/topics", headers=header)).status == 200

    await secured.broker.revoke_key(made.id)

    assert (await browser.ask("GET", "/v1/topics", headers=header)).code == "UNAUTHENTICATED"
