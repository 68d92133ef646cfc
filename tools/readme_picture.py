"""Draws the README's picture: what `trnscope summary` says of the golden captures of the RMSNorm walk-through.

python tools/readme_picture.py            write docs/images/rmsnorm.svg
python tools/readme_picture.py --check    change nothing; status 1 when the picture is stale
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "rmsnorm.svg"
WIDTH = 128
SECTIONS = ("Device time by op", "Host against device", "Windows side by side")
"""What of the output is shown: of the six ops, and of the comparison."""

FRAME = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own frame fetches fonts from the network; a picture in a README must not."""


def shown() -> list[str]:
    """The lines of the output that make the picture."""
    command = [sys.executable, "-m", "trnscope", "summary", "tests/golden/rmsnorm", "--all-windows"]
    environment = {**os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    paragraphs = re.split(r"\n(?=\S)(?<=\n\n)", done.stdout)
    chosen = [next(p for p in paragraphs if p.startswith(section)) for section in SECTIONS]
    command_line = "$ trnscope summary output --all-windows\n\n"
    return [*command_line.splitlines(), *"\n\n".join(p.rstrip() for p in chosen).splitlines(), ""]


def draw() -> str:
    """The picture as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), legacy_windows=False)
    for line in shown():
        heading = line.startswith((*SECTIONS, "$"))
        console.print(Text(line, style="bold #f5c26b" if heading else "", no_wrap=True))
    return console.export_svg(title="trnscope", theme=DIMMED_MONOKAI, code_format=FRAME, unique_id="trnscope")


def main() -> int:
    """Write or check."""
    picture = draw()
    if "--check" in sys.argv[1:]:
        if PICTURE.exists() and PICTURE.read_text() == picture:
            return 0
        print(f"{PICTURE.relative_to(ROOT)} is stale: python tools/readme_picture.py")
        return 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
