"""A script run by trnscope behaves as under plain `python`: each case is run both ways and compared."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trnscope

SOURCE = Path(trnscope.__file__).parents[1]
RUN_SCRIPT = "import sys; from trnscope.commands.as_main import {0}; sys.exit({0}({1}(sys.argv[1]), sys.argv[2:]))"


def run(command: list[str], cwd: Path) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return result.returncode, result.stdout, result.stderr


def both(cwd: Path, *script: str) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
    """What plain Python gives, and what trnscope gives."""
    code = "from pathlib import Path; " + RUN_SCRIPT.format("run_script", "Path")
    return run(list(script), cwd), run(["-c", code, *script], cwd)


CASES = {
    "arguments": "import sys; print(sys.argv, __name__, __file__)",
    "import path": "import beside, sys; print(beside.VALUE, sys.path[0])",
    "exit code": "import sys; sys.exit(7)",
    "exit without code": "raise SystemExit",
    "exit with a message": "import sys; sys.exit('went wrong')",
    "exception": "def f():\n    return 1 / 0\n\nprint('before', flush=True)\nf()",
    "chained exception": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e",
    "syntax error": "print('no')\nx = = 1",
    "excepthook": "import sys; sys.excepthook = lambda *e: print('hook', e[0].__name__); raise ValueError",
    "atexit": "import atexit; V = 3; atexit.register(lambda: print(V)); print('end')",
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__qualname__)",
    "spawn": "import multiprocessing as m\ndef f(x): return x * 2\n"
    "if __name__ == '__main__':\n    with m.get_context('spawn').Pool(1) as p:\n        print(p.map(f, [1, 2]))",
    "thread": "import threading, time\nN = 5\ndef f():\n    time.sleep(0.2); print(N)\n"
    "threading.Thread(target=f).start()",
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_python(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "beside.py").write_text("VALUE = 42\n")
    (folder / "script.py").write_text(CASES[name] + "\n")
    plain, ours = both(tmp_path, "sub/script.py", "--flag", "a b")
    assert ours == plain


def test_a_module_is_found_in_the_current_directory(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tool.py").write_text(
        "import sys; print(__name__, sys.argv[1:], sys.argv[0] == __file__); sys.exit(4)\n"
    )
    code = RUN_SCRIPT.format("run_module", "str")
    plain = run(["-m", "package.tool", "-x"], tmp_path)
    assert run(["-c", code, "package.tool", "-x"], tmp_path) == plain == (4, "__main__ ['-x'] True\n", "")


def test_an_interrupt_is_exit_code_130(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("raise KeyboardInterrupt\n")
    _, ours = both(tmp_path, "script.py")
    assert ours[0] == 130
    assert ours[2].splitlines()[-1] == "KeyboardInterrupt"
