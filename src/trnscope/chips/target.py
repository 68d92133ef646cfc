"""What is modelled: a chip, how its cores are grouped, and the instance it sits in."""

from dataclasses import dataclass
from functools import cached_property

from trnscope.chips.figures import Chip, load_chip
from trnscope.errors import TrnscopeError


@dataclass(frozen=True, slots=True)
class HostCosts:
    """Host side of a launch, all from the chip file (kinds and sources there). Integer nanoseconds.

    Attributes:
        eager_dispatch_ns: host time of one eager op.
        compiled_launch_ns: host time of launching one compiled graph.
        launch_latency_ns: submission to start on the device.
        sync_overhead_ns: completion on the device to return on the host.
        copy_overhead_ns: host time of issuing a copy, its transfer excluded.
        host_link_bytes_per_ns: bandwidth of such a copy.
        core_link_bytes_per_ns: bandwidth of a copy between two logical cores.
        transfer_latency_ns: fixed part of a transfer, that of one DMA.
    """

    eager_dispatch_ns: int
    compiled_launch_ns: int
    launch_latency_ns: int
    sync_overhead_ns: int
    copy_overhead_ns: int
    host_link_bytes_per_ns: float
    core_link_bytes_per_ns: float
    transfer_latency_ns: int

    def host_copy_ns(self, size_bytes: int) -> int:
        """Modelled time of a copy between host and device: one DMA's latency and the host link's bandwidth."""
        return self.transfer_latency_ns + round(size_bytes / self.host_link_bytes_per_ns)

    def core_copy_ns(self, size_bytes: int) -> int:
        """Modelled time of a copy between two logical cores: one DMA's latency and the link's bandwidth."""
        return self.transfer_latency_ns + round(size_bytes / self.core_link_bytes_per_ns)


@dataclass(frozen=True)
class Target:
    """One logical NeuronCore of one chip.

    `lnc` and `instance` left at None take the chip's defaults.

    Raises:
        TrnscopeError: unknown chip or instance, or an LNC the chip does not have.
    """

    chip: str = "trn2"
    lnc: int | None = None
    instance: str | None = None

    def __post_init__(self) -> None:
        spec = load_chip(self.chip)
        if self.lnc is None:
            object.__setattr__(self, "lnc", spec.default_lnc)
        elif self.lnc not in spec.allowed_lnc:
            allowed = ", ".join(str(n) for n in spec.allowed_lnc)
            raise TrnscopeError(f"LNC {self.lnc} is not possible on {self.chip}", f"allowed: {allowed}")
        if self.instance is None:
            object.__setattr__(self, "instance", spec.default_instance)
        elif self.instance not in spec.instances:
            raise TrnscopeError(
                f"{self.instance!r} is not an instance of {self.chip}", f"instances: {', '.join(spec.instances)}"
            )

    @cached_property
    def spec(self) -> Chip:
        return load_chip(self.chip)

    @property
    def physical_cores(self) -> int:
        """Physical cores of one logical core."""
        assert self.lnc is not None
        return self.lnc

    @property
    def logical_cores(self) -> int:
        """Logical cores of the whole instance."""
        assert self.instance is not None
        return self.spec.instances[self.instance] * self.spec.cores_per_chip // self.physical_cores

    @property
    def hbm_bytes(self) -> int:
        """HBM of one logical core."""
        return int(self.spec.value("hbm_bytes")) * self.physical_cores // self.spec.cores_per_chip

    @property
    def calibration(self) -> str:
        """Id of the fitted constants."""
        return self.spec.calibration

    @cached_property
    def host(self) -> HostCosts:
        value = self.spec.value
        return HostCosts(
            eager_dispatch_ns=round(value("eager_dispatch")),
            compiled_launch_ns=round(value("compiled_launch")),
            launch_latency_ns=round(value("launch_latency")),
            sync_overhead_ns=round(value("sync_overhead")),
            copy_overhead_ns=round(value("copy_overhead")),
            host_link_bytes_per_ns=value("host_link_bandwidth"),
            core_link_bytes_per_ns=value("core_link_bandwidth"),
            transfer_latency_ns=round(value("dma_latency")),
        )
