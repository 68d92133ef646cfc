"""What the README shows and links to is there and current."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_picture_shows_what_summary_says_of_the_golden_captures() -> None:
    command = [sys.executable, "tools/readme_picture.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_make_targets_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert [
        t for t in re.findall(r"^make (\w+)", README, re.MULTILINE) if not re.search(rf"^{t}:", makefile, re.M)
    ] == []
