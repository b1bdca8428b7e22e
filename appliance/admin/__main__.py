"""Prints the table of routes in docs/admin-api.md."""

from appliance.admin.api import as_markdown

print(as_markdown(), end="")
