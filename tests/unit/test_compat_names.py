"""Scripts that import from torch_neuronx find the names they know, in a plain interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trnscope

pytestmark = pytest.mark.device

SOURCE = Path(trnscope.__file__).parents[1]
HOOK = f"exec({(SOURCE / 'trnscope_compat.pth').read_text()!r})\n"


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **env}
    return subprocess.run(
        [sys.executable, "-c", HOOK + code], env=environment, capture_output=True, text=True, check=False
    )


def printed(code: str, **env: str) -> str:
    result = run(code, **env)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_names_of_the_real_package_are_the_objects_of_trnscope() -> None:
    code = """
import torch, torch_neuronx, trnscope.profiling
from torch_neuronx.profiling import NeuronConfig, NeuronProfiler, ProfileMode
from torch_neuronx.neuron_dynamo_backend.backend import neuron_backend
assert torch_neuronx.NeuronProfiler is NeuronProfiler is trnscope.profiling.NeuronProfiler
assert torch_neuronx.neuron.synchronize is torch.neuron.synchronize is torch_neuronx.synchronize
assert torch_neuronx.memory.memory_stats is torch.neuron.memory_stats
missing = [n for n in (*torch_neuronx.OF_NEURON, *torch_neuronx.SUBMODULES) if not hasattr(torch_neuronx, n)]
print(missing, torch_neuronx.device_count() == torch.neuron.device_count())
"""
    assert printed(code) == "[] True\n"


def test_a_script_for_the_real_backend_computes() -> None:
    code = """
import torch
import torch_neuronx
if hasattr(torch, "neuron") and hasattr(torch.neuron, "synchronize"):
    x = torch.arange(4.0, device="neuron")
    y = (x * 2).sum()
    torch.neuron.synchronize()
    print(y.item(), torch_neuronx.get_fallback_ops())
"""
    assert printed(code) == "12.0 []\n"


def test_names_that_do_not_exist_are_no() -> None:
    code = """
import torch_neuronx
print(hasattr(torch_neuronx, "nki_op"))
try:
    torch_neuronx.nki_op
except AttributeError as error:
    print(error)
"""
    assert printed(code) == "False\ntrnscope's stand-in for torch_neuronx has no 'nki_op'\n"


def test_it_registers_the_device_where_torch_was_told_not_to() -> None:
    code = "import torch_neuronx, torch; print(torch.ones(2, device='neuron').sum().item())"
    assert printed(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "2.0\n"


def test_switched_off_is_an_import_error() -> None:
    result = run("import torch_neuronx", TRNSCOPE_OFF="1")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'torch_neuronx'"
