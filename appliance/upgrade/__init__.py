"""What an upgrade would do to a data directory, told before it does it

`appliance upgrade check` reads a directory that another build may have open, and changes nothing.
The upgrade itself is the start of a newer build: each file's room migrates it.

catalog_dry_run  the migration of the catalog, run on a copy
settings_check   settings that are no more, or have another name
plan             all of it: formats, what would be migrated, what is refused, the way back
"""
