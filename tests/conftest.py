"""The plugin as others have it by installing the package, here also without."""

pytest_plugins = ["appliance.testing"]
