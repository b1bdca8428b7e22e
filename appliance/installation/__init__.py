"""The installation on a machine: the user, the settings, the data directory, the units of systemd

`appliance install` makes them and `appliance uninstall` removes what is not data, on this machine
or in a folder that becomes one (`--root`). A package calls both.

paths           where everything is
settings_file   /etc/appliance/appliance.toml, from the table of settings
system_users    the users that broker and exports run as
units           the units of systemd, and in which order they are enabled
installation    the steps of an installation, and what each did
removal         the steps of its end
"""
