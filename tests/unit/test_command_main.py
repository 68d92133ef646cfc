"""The command `trnscope` itself."""

import subprocess
import sys

import pytest

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


def test_a_closed_pipe_is_no_traceback() -> None:
    code = "import sys; sys.stdout.close = None; from trnscope.commands.main import main; sys.exit(main(['--help']))"
    shell = f'{sys.executable} -c "{code}" | true'
    result = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr


def test_the_viewer_does_not_import_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import trnscope.commands.summary; "
        "print(sorted(m for m in sys.modules if m.startswith('torch')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("['torch']\n", "")
