"""What needs a process of its own: forks, start-up, settings, shape-only runs."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.device


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_forked_child_of_a_used_device_is_told_to_spawn() -> None:
    done = run(
        "import os, torch\n"
        "x = torch.ones(2, device='neuron')\n"
        "if os.fork() == 0:\n"
        "    for use in (lambda: torch.ones(1, device='neuron'), lambda: x.add_(1), lambda: x.cpu()):\n"
        "        try: use()\n"
        "        except RuntimeError as error: print(error)\n"
        "    print(torch.neuron._is_in_bad_fork(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); print((x + 1).tolist())\n"
    )
    lines = done.stdout.splitlines()
    assert len([line for line in lines if "you must use the 'spawn' start method" in line]) == 3
    assert lines[-2:] == ["True", "[2.0, 2.0]"]


def test_data_loader_workers_that_never_touch_the_device_work() -> None:
    done = run(
        "import torch\n"
        "x = torch.ones(2, device='neuron')\n"
        "data = torch.utils.data.TensorDataset(torch.arange(8.0))\n"
        "loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)\n"
        "print([batch.to('neuron').sum().item() for (batch,) in loader])\n"
    )
    assert done.stdout.strip() == "[6.0, 22.0]", done.stderr


def test_switched_off_device_is_not_registered() -> None:
    done = run("import torch; print(hasattr(torch, 'neuron'), torch.ones(1).item())", TRNSCOPE_OFF="1")
    assert (done.stdout.strip(), done.returncode) == ("False 1.0", 0)


def test_a_bad_setting_is_one_line_and_torch_still_imports() -> None:
    done = run("import torch; print(torch.ones(1).item())", TRNSCOPE_CHIP="trn9")
    assert done.stdout.strip() == "1.0"
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1
    assert "TRNSCOPE_CHIP=trn9 is not known" in lines[0]
    assert "trn1, inf2, trn2, trn3" in lines[0]


def test_another_torch_is_refused_before_the_extension_loads() -> None:
    done = run(
        "import torch.version; torch.version.__version__ = '9.9.9'\n"
        "import torch; torch.__version__ = '9.9.9'\n"
        "from trnscope.device import autoload\n"
        "autoload._autoload()\n"
        "import sys; print('trnscope.device._C' in sys.modules)\n",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert done.stdout.strip() == "False"
    assert "was built against torch 2.13.0" in done.stderr
    assert "but torch 9.9.9 is running" in done.stderr


def test_device_count_follows_the_instance() -> None:
    done = run("import torch; print(torch.neuron.device_count())", NEURON_LOGICAL_NC_CONFIG="1")
    assert done.stdout.strip() == "8", done.stderr


def test_every_stream_is_the_default_one_unless_switched_on() -> None:
    script = (
        "import torch\n"
        "a, b = torch.neuron.Stream(), torch.neuron.Stream()\n"
        "print(a == b, a == torch.neuron.default_stream(), a.stream_id == 0)\n"
        "with torch.neuron.stream(a): print(torch.neuron.current_stream() == a)\n"
        "print(torch.neuron.current_stream() == torch.neuron.default_stream())\n"
    )
    assert run(script).stdout.split() == ["True"] * 5
    done = run(script, NEURON_RT_ENABLE_HOST_CC="1")
    assert done.stdout.split() == ["False", "False", "False", "True", "True"], done.stderr


def test_shapes_are_recorded_without_values() -> None:
    done = run(
        "import torch\n"
        "F = torch.nn.functional\n"
        "model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 30 * 30, 10))\n"
        "model = model.to('neuron')\n"
        "x = torch.empty(4, 3, 32, 32, device='neuron')\n"
        "loss = F.cross_entropy(model(x), torch.zeros(4, dtype=torch.long, device='neuron'))\n"
        "loss.backward()\n"
        "print(model[0].weight.grad.shape == model[0].weight.shape, model[2].weight.grad.stride())\n"
        "big = torch.empty(20, 1 << 29, dtype=torch.bfloat16, device='neuron')\n"
        "print(big.t().shape, torch.isnan(loss.cpu()).item())\n"
        "q = torch.empty(1, 8, 64, 16, device='neuron')\n"
        "print(F.scaled_dot_product_attention(q, q, q, is_causal=True).shape, F.rms_norm(q, (16,)).stride())\n"
        "for ask in (loss.item, q.nonzero, lambda: q[q > 0]):\n"
        "    try: ask()\n"
        "    except NotImplementedError as error:\n"
        "        print(next(op for op in ('_local_scalar_dense', 'nonzero') if op in str(error)))\n",
        TRNSCOPE_COMPUTE="shapes",
    )
    assert done.stdout.splitlines() == [
        "True (7200, 1)",
        "torch.Size([536870912, 20]) True",
        "torch.Size([1, 8, 64, 16]) (8192, 1024, 16, 1)",
        "_local_scalar_dense",
        "nonzero",
        "nonzero",
    ], done.stderr
