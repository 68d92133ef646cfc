"""docs/schema.md is what the code says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_schema_page_is_current() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "schema_page.py"))
    assert (ROOT / "docs" / "schema.md").read_text() == tool["page"](), "stale: run `make docs`"
