"""What a profiling session shows in torch.profiler: one row per execution, as columns that the extension reads."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from trnscope.schema.records import Kind
from trnscope.schema.vocabulary import ENGINES

if TYPE_CHECKING:
    from trnscope.kernels import Modelled
    from trnscope.runtime.windows import Placed, Window

EXECUTION_DTYPE: Final = np.dtype(
    [
        ("launch_start_ns", "<i8"),
        ("launch_end_ns", "<i8"),
        ("device_start_ns", "<i8"),
        ("device_end_ns", "<i8"),
        ("correlation", "<u8"),
        ("exec_id", "<i8"),
        ("bytes", "<i8"),
        ("thread", "<u4"),
        ("name", "<u4"),
        ("program", "<u4"),
        ("device", "<i2"),
        ("stream", "<i2"),
        ("category", "u1"),
        ("_pad", "V7"),
    ]
)
"""Mirrors `trnscope::PlacedExecution`; a test compares the two."""

LAUNCH_NAME: Final = "neuron_launch"
"""Name of the launch on the host track."""

COPY_NAMES: Final = {
    int(Kind.COPY_H2D): "memcpy HtoD",
    int(Kind.COPY_D2H): "memcpy DtoH",
    int(Kind.COPY_D2D): "memcpy DtoD",
}

Argument = tuple[str, str, bool]
"""Key, value and whether the value needs quotes in JSON."""


@dataclass(frozen=True, slots=True)
class Emission:
    """What the extension emits.

    Attributes:
        executions: (n,) of EXECUTION_DTYPE in order of launch.
        names: device rows' names; `executions["name"]` points into it.
        arguments: arguments of device rows per program; `executions["program"]` points into it.
        as_kernels: show executions as kernels and copies, which gives torch its device columns.
        as_driver: show them as `privateuse1_driver` rows.
    """

    executions: np.ndarray
    names: list[str]
    arguments: list[list[Argument]]
    as_kernels: bool
    as_driver: bool

    def as_tuple(self) -> tuple[npt.NDArray[np.uint8], list[str], list[list[Argument]], str, bool, bool]:
        raw = self.executions.view(np.uint8)
        return raw, self.names, self.arguments, LAUNCH_NAME, self.as_kernels, self.as_driver


def emission(window: "Window", placed: "Placed", *, as_kernels: bool, as_driver: bool) -> Emission:
    """The rows of a window's executions."""
    chosen = placed.exec_id >= 0
    log = window.log[chosen]
    program = placed.program[chosen]
    is_copy = np.isin(log["kind"], list(COPY_NAMES))

    # Copies have no program: one name and one set of arguments per direction follow those of the programs, and one
    # more for executions whose program was forgotten.
    names = [modelled.name for modelled in placed.programs]
    arguments = [program_arguments(modelled) for modelled in placed.programs]
    sizes = [modelled.hbm_read_bytes + modelled.hbm_write_bytes for modelled in placed.programs]
    row = program.copy()
    row[row < 0] = len(names)
    names.append("unknown")
    arguments.append([("modelled", "true", False)])
    sizes.append(0)
    for kind, name in COPY_NAMES.items():
        row[log["kind"] == kind] = len(names)
        names.append(name)
        arguments.append([("modelled", "true", False), ("bound", "memory", True)])
        sizes.append(0)

    executions = np.zeros(len(log), EXECUTION_DTYPE)
    executions["launch_start_ns"] = log["enter_ns"]
    executions["launch_end_ns"] = log["exit_ns"]
    executions["device_start_ns"] = placed.device_start_ns[chosen]
    executions["device_end_ns"] = placed.device_end_ns[chosen]
    executions["exec_id"] = placed.exec_id[chosen]
    executions["bytes"] = np.where(is_copy, log["aux"], np.asarray(sizes, np.int64)[row])
    executions["name"] = row
    executions["program"] = row
    executions["category"] = is_copy
    for field in ("correlation", "thread", "device", "stream"):
        executions[field] = log[field]
    return Emission(executions, names, arguments, as_kernels, as_driver)


def program_arguments(modelled: "Modelled") -> list[Argument]:
    """What a device row says about its program."""
    return [
        ("program", modelled.key, True),
        ("kernel", modelled.kernel, True),
        ("engine", busiest_engine(modelled), True),
        ("bound", modelled.bound, True),
        ("confidence", modelled.confidence, True),
        ("flops", str(modelled.flops), False),
        ("modelled", "true", False),
    ]


def busiest_engine(modelled: "Modelled") -> str:
    """The engine with the most busy time; `dma` for a program that only moves data."""
    busy = modelled.engine_busy_ns
    return ENGINES[busy.index(max(busy))] if any(busy) else "dma"
