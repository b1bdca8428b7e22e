"""One module per API: its messages as field tables. Imported by key, when somebody asks for it."""
