"""Models that nobody here wrote train on the device as on the CPU, under the profiler."""

import json

import pytest

from .conftest import ROOT, Run

pytest.importorskip("transformers")
pytestmark = pytest.mark.device

GRADIENTS = {"llama": 21, "bert": 42}
"""Parameters with a gradient, from the architectures: 9 per Llama layer + embedding, norm and head; 16 per BERT layer
+ 5 of the embeddings and 5 of the head (its decoder weight is the word embedding)."""


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("model", ["llama", "bert"])
def test_training_equals_the_cpu(run_script: Run, tmp_path, model, compiled):
    options = ["--compile"] if compiled else []
    script = ROOT / "examples" / "train_transformers.py"
    result = json.loads(run_script(script, "--model", model, "--json", "--out", tmp_path, *options).stdout)

    assert result["within_tolerance"] is True
    assert len(result["losses"]) == 3
    assert result["loss_difference"] <= 1e-5
    assert result["gradient_difference"] <= 1e-4
    assert result["gradients_compared"] == 3 * GRADIENTS[model]
    assert result["executions"] > 0
    assert result["device_us"] > 0
    assert len(list(tmp_path.glob("*_pid_*/*/capture.json"))) == 1
