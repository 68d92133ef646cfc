"""Rules that turn analyses into findings."""
