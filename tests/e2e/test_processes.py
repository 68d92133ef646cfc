"""Forks, and the worker processes of data loaders."""

from pathlib import Path

import pytest

from .conftest import Run

pytestmark = pytest.mark.device


def script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "script.py"
    path.write_text(text)
    return path


def test_fork_after_use_of_the_device_is_refused(run_script: Run, tmp_path):
    text = """
import os, torch
torch.ones(2, device="neuron")
pid = os.fork()
if pid == 0:
    try:
        torch.ones(2, device="neuron")
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(7)
    os._exit(0)
print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = run_script(script(tmp_path, text))
    assert "'spawn'" in done.stdout
    assert done.stdout.splitlines()[-1] == "child 7"


def test_fork_before_use_of_the_device_works(run_script: Run, tmp_path):
    text = """
import os, torch
pid = os.fork()
if pid == 0:
    print((torch.ones(2, device="neuron") * 3).sum().item(), flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    assert run_script(script(tmp_path, text)).stdout == "6.0\n"


def test_data_loader_workers_that_never_touch_the_device(run_script: Run, tmp_path):
    text = """
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    weight = torch.ones(3, device="neuron")  # in use before the workers fork
    loader = DataLoader(TensorDataset(torch.arange(12.0).reshape(4, 3)), batch_size=2, num_workers=2)
    print([(batch.to("neuron") * weight).sum().item() for (batch,) in loader])
"""
    assert run_script(script(tmp_path, text)).stdout == "[15.0, 51.0]\n"
