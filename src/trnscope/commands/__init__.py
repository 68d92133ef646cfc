"""One file per command: arguments and checks."""
