"""The OpenAPI document of the REST API, from its table of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypedDict

from appliance import __version__
from appliance.admin.body_schema import schema
from appliance.admin.route import Route


class ErrorFacts(TypedDict):
    code: str
    message: str


class Error(TypedDict):
    error: ErrorFacts


def document(routes: Iterable[Route]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.url, {})[route.method.lower()] = operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "appliance", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Error": schema(Error)}},
    }


def operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": route.text,
        "x-role": route.role,
        "x-reads-messages": route.reads_messages,
        "x-rights": None if route.rights is None else route.rights_in_words,
        "parameters": [*path_parameters(route.path), *query_parameters(route)],
        "responses": {
            str(route.status): answer(route),
            "default": {
                "description": "The error in words.",
                "content": json_of({"$ref": "#/components/schemas/Error"}),
            },
        },
    }
    if route.redirects:
        told = {"description": "The URL at the bulk port, good once.", "schema": {"type": "string"}}
        found["responses"]["307"] = {"description": "At the admin port: it is at the bulk port.",
                                     "headers": {"Location": told}}  # fmt: skip
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": json_of(schema(route.body))}
    return found


def answer(route: Route) -> dict[str, Any]:
    if route.answer is None and route.media == "application/json":
        return {"description": "Done."}
    shape = schema(route.answer) if route.answer is not None else {"type": "string"}
    return {"description": route.text, "content": {route.media: {"schema": shape}}}


def operation_id(route: Route) -> str:
    words = re.findall(r"[a-z]+", route.path)
    if route.redirects:  # a path of the same words is a route of this port
        words.insert(0, "export")
    return "_".join([route.method.lower(), *words])


def path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def query_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "in": "query",
            "required": False,
            "description": each.text,
            "schema": each.schema(),
        }
        for each in route.params
    ]


def json_of(shape: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": shape}}
