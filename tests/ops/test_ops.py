"""A fast subset of the operator sweep: one entry per kind of dispatch. `make test-ops` runs all of them."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
import checks

pytestmark = pytest.mark.device

ENTRIES = {
    "add": True,  # elementwise, without boxing
    "rsqrt": True,
    "where": True,
    "sum": True,
    "cumsum": True,
    "matmul": True,
    "addmm": True,
    "linalg.inv": True,
    "nn.functional.conv2d": True,
    "nn.functional.layer_norm": True,
    "nn.functional.rms_norm": True,
    "nn.functional.scaled_dot_product_attention": True,
    "nn.functional.cross_entropy": True,
    "nn.functional.embedding": True,
    "as_strided": True,
    "unfold": True,
    "index_put": True,
    "cat": True,
    "split": True,
    "sort": True,
    "fft.hfft": True,
    "polar": False,  # a complex result
    "sgn": True,
    "nonzero": False,
    "unique": False,
    "argmax": False,
    "bernoulli": True,
    "empty_like": False,
}
"""Entry -> whether it has a gradient to compare."""


@pytest.fixture(scope="module")
def database() -> dict[str, object]:
    return {checks.full_name(op): op for op in checks.entries()}


@pytest.mark.parametrize("name", ENTRIES)
def test_equals_the_cpu(database: dict[str, object], name: str) -> None:
    outcome = checks.check(database[name], limit=2)
    assert (outcome.forward, outcome.backward, outcome.reason) == ("pass", "pass" if ENTRIES[name] else "none", "")
