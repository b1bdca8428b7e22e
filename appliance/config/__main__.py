"""`python -m appliance.config` prints the table of docs/operations.md."""

from appliance.config import as_markdown

print(as_markdown(), end="")
