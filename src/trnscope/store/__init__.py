"""Writing and reading captures."""
