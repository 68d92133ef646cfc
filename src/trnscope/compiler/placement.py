"""Which tensors of a graph live on the device, and moving a graph that was traced on the CPU there."""

import operator
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch.fx import GraphModule, Node


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the tensors of one graph live.

    Attributes:
        traced_on_cpu: the function was traced with CPU tensors, so the graph says `cpu` where it runs on the device.
        inputs: positions of the placeholders that are device tensors.
        constants: attributes of the graph module that are device tensors, in order of use.
    """

    traced_on_cpu: bool
    inputs: tuple[int, ...]
    constants: tuple[str, ...]

    @classmethod
    def of(cls, gm: GraphModule) -> "Placement":
        """Read it from the fake tensors in `meta["val"]` of an ATen-level graph."""
        values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
        types = {value.device.type for value in values if isinstance(value, torch.Tensor)}
        on_cpu = types == {"cpu"}
        return cls(
            traced_on_cpu=on_cpu,
            inputs=tuple(i for i, value in enumerate(values) if _on_device(value, on_cpu)),
            constants=tuple(
                dict.fromkeys(
                    str(node.target)
                    for node in gm.graph.find_nodes(op="get_attr")
                    if _on_device(attribute(gm, node), on_cpu)
                )
            ),
        )

    def on_device(self, value: object) -> TypeGuard[torch.Tensor]:
        """Whether a value of the graph is a device tensor; 0-dimensional CPU tensors beside device tensors are not:
        like Python numbers they travel in the launch."""
        return _on_device(value, self.traced_on_cpu)


def attribute(gm: GraphModule, node: Node) -> object:
    """The value of a `get_attr` node."""
    return operator.attrgetter(str(node.target))(gm)


def move_to_device(gm: GraphModule, device: torch.device) -> None:
    """Make a graph that was traced on the CPU hold and create its tensors on `device`; in place."""
    cpu = torch.device("cpu")
    for node in gm.graph.nodes:
        node.args = tuple(device if argument == cpu else argument for argument in node.args)
        node.kwargs = {key: device if value == cpu else value for key, value in node.kwargs.items()}
        if node.op == "get_attr" and isinstance(value := attribute(gm, node), torch.Tensor):
            owner, _, leaf = str(node.target).rpartition(".")
            setattr(gm.get_submodule(owner), leaf, value.to(device))
    gm.recompile()


def _on_device(value: object, on_cpu: bool) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and (on_cpu or value.device.type != "cpu" or value.dim() > 0)
