"""The routes of the hub and their OpenAPI document, as a gateway with default settings has them."""

from collections.abc import Sequence

from trunkline.api.api import Route
from trunkline.api.openapi import Json, document
from trunkline.app.gateway import build
from trunkline.settings import Settings, StoreSettings
from trunkline.settings.hub import HubSettings


def routes() -> Sequence[Route]:
    settings = Settings(hub=HubSettings(), store=StoreSettings(kind="memory"))
    gateway = build(settings, base_url="https://gateway.example")
    assert gateway.hub is not None
    return gateway.hub.api.routes


def openapi() -> Json:
    return document(routes(), cookie="tl_session", bearer_format="tl_sess_<32hex>")
