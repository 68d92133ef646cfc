"""Running a compiled graph: the values of its ops, one launch on the record."""

import operator
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C._profiler import _RecordFunctionFast
from torch.fx import GraphModule

from trnscope.compiler.placement import Placement
from trnscope.errors import TrnscopeError
from trnscope.graph import GraphSpec
from trnscope.runtime.signatures import register_graph

NO_AUTOCOPY = "TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY"
"""Environment variable: refuse CPU inputs instead of copying them to the device."""
RETAIN_DEVICE = "TORCH_NEURONX_RETAIN_DEVICE_MODE"
"""Environment variable: give results back on the CPU when the inputs were there."""


class Executable:
    """One compiled graph, called the way AOTAutograd calls compiled code: with a list, which is emptied."""

    def __init__(self, gm: GraphModule, spec: GraphSpec, placement: Placement) -> None:
        self.spec = spec
        self._boxed_call = True  # AOTAutograd's sign for the convention; of the instance, since wrappers copy its dict
        self._gm = gm
        self._placement = placement
        self._constants = [operator.attrgetter(name)(gm) for name in placement.constants]
        self._mutated = frozenset(placement.inputs[i] for i in spec.mutated if i < len(placement.inputs))
        self._signature = register_graph(spec)
        self._launching = _device_module().GraphLaunch

    def __call__(self, boxed: list[object]) -> Sequence[object]:
        arguments = list(boxed)
        boxed.clear()
        originals = self._copy_to_device(arguments)
        tensors = [arguments[i] for i in self._placement.inputs] + self._constants
        outputs = self._launch(arguments, tensors)
        for i in self._mutated & originals.keys():
            originals[i].copy_(arguments[i])
        if self._placement.traced_on_cpu and self._returns_to_cpu():
            return [value.cpu() if isinstance(value, torch.Tensor) else value for value in outputs]
        return outputs

    def _launch(self, arguments: Sequence[object], tensors: Sequence[torch.Tensor]) -> Sequence[object]:
        """Compute the values of the graph as one row of the profile and one record of the log."""
        device = tensors[0].device if tensors else torch.device("neuron", torch.neuron.current_device())
        stream = torch.accelerator.current_stream(device)
        with _RecordFunctionFast(self.spec.name), self._launching(self._signature, list(tensors)) as launch:
            with _without_op_rows():
                outputs: Sequence[object] = self._gm(*arguments)
            results = [value for value in outputs if isinstance(value, torch.Tensor) and value.device == device]
            launch.commit(device.index, stream.stream_id, results)
        return outputs

    def _copy_to_device(self, arguments: list[object]) -> dict[int, torch.Tensor]:
        """Replace CPU tensors where the graph wants device tensors; the replaced ones by position."""
        originals = {}
        for i in self._placement.inputs:
            tensor = arguments[i]
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
                if os.environ.get(NO_AUTOCOPY, "0") == "1":
                    raise TrnscopeError(
                        f"Input tensor at index {i} is on cpu device, expected neuron (graph {self.spec.name})",
                        f"Move it with .to('neuron'), or unset {NO_AUTOCOPY} to have it copied at each launch.",
                    )
                originals[i] = tensor
                arguments[i] = tensor.to("neuron")
        return originals

    def _returns_to_cpu(self) -> bool:
        # autograd refuses gradients on another device than their tensors
        return self.spec.kind == "backward" or os.environ.get(RETAIN_DEVICE, "0") == "1"


def _device_module() -> Any:
    """The extension, loaded only when something runs: graphs can be lowered without it."""
    if not hasattr(torch, "neuron"):
        raise TrnscopeError(
            "torch.compile(backend='neuron') needs the neuron device, which is not loaded in this process",
            "Run `trnscope doctor` to see why.",
        )
    from trnscope.device import _C

    return _C


@contextmanager
def _without_op_rows() -> Iterator[None]:
    """Keep ops off the profile: on the device they are one program, so they have no rows of their own."""
    torch._C._autograd._enable_record_function(False)  # noqa: FBT003
    try:
        yield
    finally:
        torch._C._autograd._enable_record_function(True)  # noqa: FBT003
