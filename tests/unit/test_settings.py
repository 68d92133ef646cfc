"""Settings: precedence, defaults per chip, and one clear error per mistake."""

import pytest

from trnscope import TrnscopeError, config

GIB = 1 << 30


def test_default_is_one_trn2_chip_with_four_logical_cores() -> None:
    settings = config.resolve({})
    assert (settings.chip, settings.instance, settings.lnc) == ("trn2", "trn2.3xlarge", 2)
    assert settings.device_count == 4
    assert settings.hbm_bytes == 24 * GIB
    assert (settings.compute, settings.host_mode) == ("values", "measured")
    assert not settings.launch_blocking
    assert not settings.multiple_streams
    assert not settings.off


@pytest.mark.parametrize(
    ("environment", "instance", "count", "hbm_gib"),
    [
        ({"TRNSCOPE_CHIP": "trn1"}, "trn1.2xlarge", 2, 16),
        ({"TRNSCOPE_CHIP": "inf2"}, "inf2.xlarge", 2, 16),
        ({"TRNSCOPE_INSTANCE": "trn2.48xlarge"}, "trn2.48xlarge", 64, 24),
        ({"NEURON_LOGICAL_NC_CONFIG": "1"}, "trn2.3xlarge", 8, 12),
        ({"NEURON_RT_VIRTUAL_CORE_SIZE": "1"}, "trn2.3xlarge", 8, 12),
        ({"NEURON_RT_VISIBLE_CORES": "0,2-3"}, "trn2.3xlarge", 3, 24),
        ({"NEURON_RT_NUM_CORES": "2"}, "trn2.3xlarge", 2, 24),
    ],
)
def test_devices_of_an_instance(environment: dict[str, str], instance: str, count: int, hbm_gib: int) -> None:
    settings = config.resolve(environment)
    assert (settings.instance, settings.device_count, settings.hbm_bytes) == (instance, count, hbm_gib * GIB)


def test_call_argument_beats_own_variable_beats_real_variable() -> None:
    environment = {"TRNSCOPE_LNC": "2", "NEURON_LOGICAL_NC_CONFIG": "1"}
    assert config.resolve(environment).lnc == 2
    assert config.resolve(environment, lnc=1).lnc == 1
    assert config.resolve({"TRNSCOPE_CHIP": "trn1"}, chip="trn2").chip == "trn2"


@pytest.mark.parametrize(
    ("environment", "what", "hint"),
    [
        ({"TRNSCOPE_CHIP": "trn9"}, "TRNSCOPE_CHIP=trn9", "trn1, inf2, trn2, trn3"),
        ({"TRNSCOPE_INSTANCE": "p5.48xlarge"}, "TRNSCOPE_INSTANCE=p5.48xlarge", "trn2.3xlarge"),
        ({"TRNSCOPE_CHIP": "trn1", "TRNSCOPE_INSTANCE": "trn2.3xlarge"}, "does not fit", "Leave one"),
        ({"NEURON_LOGICAL_NC_CONFIG": "3"}, "NEURON_LOGICAL_NC_CONFIG=3", "1 or 2"),
        ({"TRNSCOPE_CHIP": "trn1", "TRNSCOPE_LNC": "2"}, "TRNSCOPE_LNC=2", "Allowed: 1."),
        ({"NEURON_RT_VISIBLE_CORES": "0,4"}, "'4' is not a core", "0 to 3"),
        ({"NEURON_RT_VISIBLE_CORES": "3-1"}, "'3-1' is not a core", "0 to 3"),
        ({"NEURON_RT_NUM_CORES": "0"}, "NEURON_RT_NUM_CORES=0", "1 to 4"),
        ({"TRNSCOPE_COMPUTE": "fast"}, "TRNSCOPE_COMPUTE=fast", "values, shapes"),
        ({"TRNSCOPE_HOST": "paced"}, "TRNSCOPE_HOST=paced", "measured, modelled"),
        ({"NEURON_LAUNCH_BLOCKING": "yes"}, "NEURON_LAUNCH_BLOCKING=yes", "0 or 1"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(environment: dict[str, str], what: str, hint: str) -> None:
    with pytest.raises(TrnscopeError) as error:
        config.resolve(environment)
    assert what in error.value.what
    assert hint in error.value.hint
