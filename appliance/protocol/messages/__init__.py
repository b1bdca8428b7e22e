"""One module per API with its messages as field tables. Imported by key, at its first use."""
