"""The command `trnscope` itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from example_capture import write_example
from trnscope import __version__
from trnscope.commands.main import COMMANDS, main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"trnscope {__version__}\n")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    text = capsys.readouterr().out
    assert all(f"    {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_describes_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: trnscope {name}" in capsys.readouterr().out


def test_an_unknown_command_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["sumary"])
    assert caught.value.code == 2
    assert "invalid choice: 'sumary'" in capsys.readouterr().err


def test_a_reader_that_went_away_is_no_traceback(tmp_path: Path) -> None:
    directory = write_example(tmp_path / "a")
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "trnscope", "summary", str(directory)]
    result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (141, "")


def test_the_viewer_does_not_import_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import trnscope.commands.summary; "
        "print(sorted(m for m in sys.modules if m.startswith('torch')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("['torch']\n", "")
