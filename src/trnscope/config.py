"""The settings of a process, resolved without torch.

Precedence: call argument > command line > `TRNSCOPE_*` > the real backend's variables > default. The command line
hands its options down as `TRNSCOPE_*`, so resolution looks at an environment mapping and at explicit overrides.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trnscope.chips import Target, load_chip
from trnscope.errors import TrnscopeError
from trnscope.schema.vocabulary import CHIPS, COMPUTE_MODES

DEFAULT_CHIP: Final = "trn2"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the device of this process models.

    Attributes:
        chip: generation, one of `vocabulary.CHIPS`.
        instance: instance type.
        lnc: physical NeuronCores per logical one.
        device_count: logical NeuronCores that this process sees.
        hbm_bytes: per logical NeuronCore.
        compute: `values`, or `shapes` to compute none.
        host_mode: how host time enters the virtual clock, `measured` or `modelled`.
        launch_blocking: the host waits for every execution.
        multiple_streams: `Stream()` makes a stream of its own.
        off: the device is not registered.
    """

    chip: str
    instance: str
    lnc: int
    device_count: int
    hbm_bytes: int
    compute: str
    host_mode: str
    launch_blocking: bool
    multiple_streams: bool
    off: bool


def resolve(
    environment: Mapping[str, str] | None = None,
    *,
    chip: str | None = None,
    instance: str | None = None,
    lnc: int | None = None,
    compute: str | None = None,
    host_mode: str | None = None,
) -> Settings:
    """The settings of this process.

    Args:
        environment: variables to read; `os.environ` when left out.
        chip, instance, lnc, compute, host_mode: call arguments, stronger than any variable.

    Raises:
        TrnscopeError: a value that is not allowed; the message names the variable, the value and what is allowed.
    """
    env = os.environ if environment is None else environment
    chip, instance = _chip_and_instance(
        env, chip if chip is not None else env.get("TRNSCOPE_CHIP"), instance or env.get("TRNSCOPE_INSTANCE")
    )
    target = Target(chip, _lnc(env, lnc, chip), instance)
    return Settings(
        chip=chip,
        instance=instance,
        lnc=target.physical_cores,
        device_count=len(_visible_cores(env, target.logical_cores)),
        hbm_bytes=target.hbm_bytes,
        compute=_choice("TRNSCOPE_COMPUTE", compute or env.get("TRNSCOPE_COMPUTE") or "values", COMPUTE_MODES),
        host_mode=_choice(
            "TRNSCOPE_HOST", host_mode or env.get("TRNSCOPE_HOST") or "measured", ("measured", "modelled")
        ),
        launch_blocking=_switch(env, "NEURON_LAUNCH_BLOCKING"),
        multiple_streams=_switch(env, "NEURON_RT_ENABLE_HOST_CC"),
        off=_switch(env, "TRNSCOPE_OFF"),
    )


def _chip_and_instance(env: Mapping[str, str], chip: str | None, instance: str | None) -> tuple[str, str]:
    override = env.get("NEURON_PLATFORM_TARGET_OVERRIDE")
    if not chip and not instance and override:
        # the real backend's variable names a generation, sometimes with the rest of an instance type
        chip = override.partition(".")[0].lower()
    if chip:
        _choice("TRNSCOPE_CHIP", chip, CHIPS)
    if instance:
        holders = {name: each for each in CHIPS for name in load_chip(each).instances}
        _choice("TRNSCOPE_INSTANCE", instance, tuple(holders))
        if chip and holders[instance] != chip:
            raise TrnscopeError(
                f"TRNSCOPE_CHIP={chip} does not fit TRNSCOPE_INSTANCE={instance}, which has {holders[instance]} chips",
                "Leave one of them out.",
            )
        return holders[instance], instance
    chip = chip or DEFAULT_CHIP
    return chip, load_chip(chip).default_instance


def _lnc(env: Mapping[str, str], lnc: int | None, chip: str) -> int:
    name, text = "lnc", None if lnc is None else str(lnc)
    for variable in ("TRNSCOPE_LNC", "NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"):
        if text is None and env.get(variable):
            name, text = variable, env[variable]
    spec = load_chip(chip)
    if text is None:
        return spec.default_lnc
    if text.strip() not in {str(value) for value in spec.allowed_lnc}:
        allowed = " or ".join(str(value) for value in spec.allowed_lnc)
        raise TrnscopeError(f"{name}={text} is not a logical NeuronCore size of {chip}", f"Allowed: {allowed}.")
    return int(text)


def _visible_cores(env: Mapping[str, str], logical: int) -> tuple[int, ...]:
    visible = env.get("NEURON_RT_VISIBLE_CORES")
    if visible:
        return parse_cores("NEURON_RT_VISIBLE_CORES", visible, logical)
    count = env.get("NEURON_RT_NUM_CORES")
    if not count:
        return tuple(range(logical))
    if not count.strip().isdecimal() or not 1 <= int(count) <= logical:
        raise TrnscopeError(f"NEURON_RT_NUM_CORES={count} is not a number of cores", f"Allowed: 1 to {logical}.")
    return tuple(range(int(count)))


def parse_cores(name: str, text: str, limit: int) -> tuple[int, ...]:
    """Core numbers of a list such as `0,2-4`, in order and without repeats.

    Raises:
        TrnscopeError: not a list of numbers and ranges below `limit`.
    """
    cores: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < limit):
            raise TrnscopeError(
                f"{name}={text}: {part.strip()!r} is not a core or a range of cores",
                f"Allowed: numbers from 0 to {limit - 1} and ranges such as 0-1, separated by commas.",
            )
        cores.update(range(int(first), int(last) + 1))
    return tuple(sorted(cores))


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise TrnscopeError(f"{name}={value} is not known", f"Allowed: {', '.join(allowed)}.")
    return value


def _switch(env: Mapping[str, str], name: str) -> bool:
    value = env.get(name, "").strip().lower()
    if value in ("", "0", "false"):
        return False
    if value in ("1", "true"):
        return True
    raise TrnscopeError(f"{name}={env[name]} is not a switch", "Allowed: 0 or 1.")
