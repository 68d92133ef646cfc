"""Runs the code of the tutorial pages and keeps the shown outputs true.

    python tools/tutorial.py            refresh the outputs in docs/part-*.md
    python tools/tutorial.py --check    say what is stale, change nothing; status 1 when something is

Rules of a page:

* a ```` ```python name.py ```` block is saved as that file;
* a ```` ```sh ```` block runs in bash, all blocks of a page in one session, in an empty directory;
* a ```` ```text ```` block right after it holds what the block printed on standard output, with what differs from run
  to run replaced by `<...>` (`VARYING`);
* a ```` ```sh no-run ```` block is for the reader only.
"""

import argparse
import difflib
import os
import re
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = (
    (re.compile(r"_pid_\d+"), "_pid_<pid>"),
    (re.compile(r"\b\d{8}_\d{6}_\d{9}\b"), "<time>"),
)
"""What no two runs share, and what the page shows instead."""
SECONDS = 240


class TutorialError(Exception):
    """A block failed; the message has its code and what it wrote on standard error."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string, body and place in the page."""

    info: str
    body: str
    start: int
    end: int


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page in order."""
    return [Block(m["info"].strip(), m["body"], m.start("body"), m.end("body")) for m in FENCE.finditer(page)]


def normalised(output: str) -> str:
    """The output with varying parts replaced and without trailing blanks."""
    for pattern, replacement in VARYING:
        output = pattern.sub(replacement, output)
    return "".join(line.rstrip() + "\n" for line in output.splitlines())


def run(found: list[Block]) -> list[str]:
    """What each `sh` block prints on standard output.

    Raises:
        TutorialError: a block exits with an error, or the page takes too long.
    """
    mark = f"=={secrets.token_hex(8)}=="
    script = ["set -e"]
    for block in found:
        language, _, name = block.info.partition(" ")
        if language == "python" and name:
            script.append(f"cat > {name} <<'{mark}'\n{block.body}{mark}")
        elif block.info == "sh":
            script.append(f"{block.body}\necho; echo {mark}")
    with tempfile.TemporaryDirectory() as directory:
        try:
            done = subprocess.run(
                ["bash", "-c", "\n".join(script)],
                cwd=directory,
                env=_environment(Path(directory)),
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TutorialError(f"the page took longer than {SECONDS} s") from error
    outputs = done.stdout.split(f"\n{mark}\n")
    if done.returncode != 0:
        failed = [block for block in found if block.info == "sh"][len(outputs) - 1]
        raise TutorialError(f"status {done.returncode} from:\n{failed.body}\n{outputs[-1]}{done.stderr}")
    return outputs[:-1]


def refreshed(page: str) -> str:
    """The page with the outputs of this run."""
    found = blocks(page)
    outputs = iter(run(found))
    edits = []
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.info == "sh":
            output = normalised(next(outputs))
            if following and following.info == "text" and not page[block.end + 3 : following.start - 8].strip():
                edits.append((following.start, following.end, output))
    for start, end, output in reversed(edits):
        page = page[:start] + output + page[end:]
    return page


def _environment(directory: Path) -> dict[str, str]:
    """This interpreter's commands come first; the console script is supplied when the package is not installed."""
    commands = directory / ".commands"
    commands.mkdir()
    script = commands / "trnscope"
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom trnscope.commands.main import main\nsys.exit(main())\n")
    script.chmod(0o755)
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}


def main() -> int:
    """Refresh or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, default=sorted((ROOT / "docs").glob("part-*.md")))
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 when a page is stale")
    given = parser.parse_args()
    stale = False
    for path in given.pages:
        page = path.read_text()
        try:
            new = refreshed(page)
        except TutorialError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
        if new == page:
            continue
        stale = True
        if given.check:
            sys.stdout.writelines(
                difflib.unified_diff(
                    page.splitlines(keepends=True), new.splitlines(keepends=True), str(path), "what its code prints now"
                )
            )
        else:
            path.write_text(new)
            print(f"{path}: outputs refreshed")
    return int(stale and given.check)


if __name__ == "__main__":
    sys.exit(main())
