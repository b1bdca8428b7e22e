"""DuckDB with extensions that are installed as packages: nothing is fetched, and DuckDB checks who
signed them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import duckdb


def a_duck(*extensions: str) -> duckdb.DuckDBPyConnection:
    duck = duckdb.connect()
    for name in extensions:
        folder = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
        file = folder / f"extensions/v{duckdb.__version__}/{name}.duckdb_extension"
        duck.execute(f"load '{file}'")
    return duck
