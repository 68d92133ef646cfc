"""One entry of PyTorch's operator database on the device, beside the CPU."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

UNDEFINED_VALUES = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
"""Ops whose results have no defined values: only their shape, strides and dtype are compared."""

TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


@dataclass
class Outcome:
    """What happened to one entry.

    Attributes:
        name: op with its variant.
        forward, backward: `pass`, `fail`, or `none` where there was nothing to run.
        samples: how many were compared.
        reason: the first failure, in one line.
    """

    name: str
    forward: str = "none"
    backward: str = "none"
    samples: int = 0
    reason: str = field(default="")


def full_name(op: OpInfo) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def dtype_for(op: OpInfo) -> torch.dtype | None:
    """The dtype to test with: float32 where the CPU has it, else one that it has, None without any."""
    known = op.supported_dtypes("cpu")
    for dtype in (torch.float32, torch.int64, torch.complex64, torch.bool):
        if dtype in known:
            return dtype
    return next(iter(sorted(known, key=str)), None)


def check(op: OpInfo, limit: int) -> Outcome:
    """Runs up to `limit` samples of an entry on both devices and compares values and gradients."""
    outcome = Outcome(full_name(op))
    dtype = dtype_for(op)
    if dtype is None:
        return outcome
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    try:
        torch.manual_seed(0)
        samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), limit))
    except Exception as error:
        outcome.reason = f"samples: {_line(error)}"
        return outcome
    for sample in samples:
        expected = _run(op, sample, "cpu")
        if isinstance(expected, Exception):
            continue  # the CPU itself refuses this sample
        actual = _run(op, sample, "neuron")
        outcome.samples += 1
        problem = _difference(op, actual, expected)
        if problem:
            outcome.forward, outcome.reason = "fail", problem
            return outcome
        outcome.forward = "pass"
        if differentiable and outcome.backward != "fail":
            problem = _gradient_difference(op, sample, actual, expected)
            if problem is not None:
                outcome.backward = "fail" if problem else "pass"
                outcome.reason = problem or outcome.reason
    return outcome


@dataclass
class Run:
    leaves: list[torch.Tensor]
    outputs: list[Any]


def _run(op: OpInfo, sample: SampleInput, device: str) -> Run | Exception:
    leaves: list[torch.Tensor] = []

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            moved = value.detach().to(device) if device != "cpu" else value.detach().clone()
            moved.requires_grad_(value.requires_grad)
            if moved.requires_grad:
                leaves.append(moved)
            return moved
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(device)
        return value if callable(value) else copy.copy(value)

    arguments = tree_map(move, (sample.input, sample.args, sample.kwargs))
    torch.manual_seed(1)
    try:
        result = op(arguments[0], *arguments[1], **arguments[2])
        if isinstance(sample.output_process_fn_grad, Callable):
            result = sample.output_process_fn_grad(result)
    except Exception as error:
        return error
    return Run(leaves, tree_flatten(result)[0])


def _difference(op: OpInfo, actual: Run | Exception, expected: Run) -> str:
    if isinstance(actual, Exception):
        return f"forward: {_line(actual)}"
    if len(actual.outputs) != len(expected.outputs):
        return f"forward: {len(actual.outputs)} results, expected {len(expected.outputs)}"
    try:
        for got, wanted in zip(actual.outputs, expected.outputs, strict=True):
            if not isinstance(wanted, torch.Tensor):
                if not isinstance(wanted, torch.Generator | torch.device) and got != wanted and got == got:
                    return f"forward: {got!r}, expected {wanted!r}"
                continue
            if got.device.type != "neuron":
                return f"forward: result is on {got.device}"
            if op.name in UNDEFINED_VALUES:
                if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
                    return f"forward: {got.shape} {got.dtype}, expected {wanted.shape} {wanted.dtype}"
            else:
                torch.testing.assert_close(got.cpu(), wanted, equal_nan=True, **TOLERANCE)
    except Exception as error:
        return f"forward: {_line(error)}"
    return ""


def _gradient_difference(op: OpInfo, sample: SampleInput, actual: Run, expected: Run) -> str | None:
    """A description of what differs, an empty string when nothing does, None when there is no gradient."""
    if op.name in UNDEFINED_VALUES or not expected.leaves:
        return None
    gradients = []
    for run in (expected, actual):
        roots = [
            out
            for out in run.outputs
            if isinstance(out, torch.Tensor) and out.requires_grad and out.dtype.is_floating_point
        ]
        if not roots:
            return None
        try:
            torch.manual_seed(2)
            gradients.append(torch.autograd.grad([r.sum() for r in roots], run.leaves, allow_unused=True))
        except Exception as error:
            if run is expected:
                return None
            return f"backward: {_line(error)}"
    for got, wanted in zip(gradients[1], gradients[0], strict=True):
        if (got is None) != (wanted is None):
            return "backward: one side has no gradient"
        if wanted is None:
            continue
        try:
            torch.testing.assert_close(got.cpu(), wanted, equal_nan=True, **TOLERANCE)
        except Exception as error:
            return f"backward: {_line(error)}"
    return ""


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def entries() -> Iterator[OpInfo]:
    """All entries of the database, in a stable order."""
    from torch.testing._internal.common_methods_invocations import op_db

    return iter(sorted(op_db, key=full_name))
