"""One file per command: pure rendering."""
