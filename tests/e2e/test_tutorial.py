"""Every output that the tutorial shows is what its code prints."""

import importlib.util
import subprocess
import sys

import pytest

from .conftest import ROOT, Run

TOOL = ROOT / "tools" / "tutorial.py"
PAGES = sorted((ROOT / "docs").glob("part-*.md"))


@pytest.fixture
def tutorial():
    spec = importlib.util.spec_from_file_location("tutorial", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tutorial"] = module
    spec.loader.exec_module(module)
    return module


PAGE = """\
```python hello.py
print("run by _pid_4711 at 20261130_235959_123456789   ")
```
```sh
export WHO=you
python hello.py
```

```text
old
```

```sh no-run
exit 1
```
```sh
echo "hello, $WHO"
echo noise >&2
```
```text
```
"""


def test_outputs_are_refreshed(tutorial):
    page = tutorial.refreshed(PAGE)
    assert page == PAGE.replace("old\n", "run by _pid_<pid> at <time>\n").replace(
        "```text\n```\n", "```text\nhello, you\n```\n"
    )
    assert tutorial.refreshed(page) == page


def test_a_failing_block_is_named(tutorial):
    with pytest.raises(tutorial.TutorialError, match=r"status 3 from:\n(.|\n)*exit 3(.|\n)*why") as caught:
        tutorial.refreshed("```sh\necho fine\n```\n```sh\necho why >&2\nexit 3\n```\n")
    assert "echo fine" not in str(caught.value)


def test_a_stale_page_is_reported_and_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\necho new\n```\n```text\nold\n```\n")
    done = subprocess.run([sys.executable, TOOL, "--check", page], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "-old\n+new\n" in done.stdout
    assert page.read_text().endswith("old\n```\n")


@pytest.mark.device
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_is_true(run_script: Run, page):
    run_script(TOOL, "--check", page)
