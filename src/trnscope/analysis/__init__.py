"""Questions asked of a capture, each answered by documented SQL."""
