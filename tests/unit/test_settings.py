"""Parameters of a profiling session: what is refused and how, and that every value survives the trip through torch."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnscope.errors import TrnscopeError
from trnscope.profiling.settings import ConfigError, ProfileMode, Settings

DEFAULTS = {
    "modes": [ProfileMode.DEVICE, ProfileMode.RUNTIME],
    "max_events_per_nc": 1_000_000,
    "capture_enabled_for_nc": None,
    "profile_output_dir": "./output",
    "neff_cache_dir": None,
    "precache_node_info": True,
    "correlate_device_time": False,
}


def checked(**changes: object) -> Settings:
    return Settings.checked(**{**DEFAULTS, **changes})


@pytest.mark.parametrize(
    ("parameter", "value", "allowed"),
    [
        ("modes", [], "at least one of them"),
        ("modes", ["DEVICE"], "ProfileMode.DEVICE, ProfileMode.RUNTIME, ProfileMode.CPU_UTIL, ProfileMode.HOST_MEMORY"),
        ("modes", "DEVICE", "a list of ProfileMode"),
        ("modes", ProfileMode.DEVICE, "a list of ProfileMode"),
        ("max_events_per_nc", 0, "a whole number from 1 to 2147483647"),
        ("max_events_per_nc", -5, "a whole number from 1"),
        ("max_events_per_nc", 2**31, "a whole number from 1"),
        ("max_events_per_nc", True, "a whole number from 1"),
        ("max_events_per_nc", 1000.0, "a whole number from 1"),
        ("max_events_per_nc", "1000", "a whole number from 1"),
        ("capture_enabled_for_nc", "", '"0,1,2-5"'),
        ("capture_enabled_for_nc", [], '"0,1,2-5"'),
        ("capture_enabled_for_nc", "0,", '"0,1,2-5"'),
        ("capture_enabled_for_nc", "0-", '"0,1,2-5"'),
        ("capture_enabled_for_nc", "-1", '"0,1,2-5"'),
        ("capture_enabled_for_nc", "a", '"0,1,2-5"'),
        ("capture_enabled_for_nc", "²", '"0,1,2-5"'),
        ("capture_enabled_for_nc", "5-2", "ranges go upwards"),
        ("capture_enabled_for_nc", "0-99999999999", "ranges go upwards"),
        ("capture_enabled_for_nc", [-1], '"0,1,2-5"'),
        ("capture_enabled_for_nc", [True], '"0,1,2-5"'),
        ("capture_enabled_for_nc", 0, '"0,1,2-5"'),
        ("profile_output_dir", "", "the path of a directory"),
        ("profile_output_dir", None, "the path of a directory"),
        ("profile_output_dir", b"out", "the path of a directory"),
        ("profile_output_dir", "a\0b", "the path of a directory"),
        ("neff_cache_dir", 7, "the path of a directory"),
        ("precache_node_info", 1, "True or False"),
        ("correlate_device_time", "yes", "True or False"),
    ],
)
def test_bad_values_name_the_parameter_what_was_given_and_what_is_allowed(
    parameter: str, value: object, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(**{parameter: value})
    assert caught.value.what == f"NeuronConfig({parameter}={value!r}) is not possible"
    assert caught.value.hint.startswith(f"{parameter} must be ")
    assert allowed in caught.value.hint
    assert isinstance(caught.value, TrnscopeError)
    assert isinstance(caught.value, ValueError)


def test_a_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(ConfigError) as caught:
        checked(max_events_per_nc="9" * 5000)
    assert len(caught.value.what) < 200


@pytest.mark.parametrize(
    ("given_value", "cores"),
    [("0", (0,)), ("0,1,2-5", (0, 1, 2, 3, 4, 5)), (" 3 , 1-2", (1, 2, 3)), ([4, 0], (0, 4)), ((1, 1), (1,))],
)
def test_cores(given_value: object, cores: tuple[int, ...]) -> None:
    assert checked(capture_enabled_for_nc=given_value).capture_enabled_for_nc == cores


def test_modes_are_kept_once_and_in_order() -> None:
    modes = [ProfileMode.CPU_UTIL, ProfileMode.DEVICE, ProfileMode.CPU_UTIL]
    assert checked(modes=modes).modes == (ProfileMode.DEVICE, ProfileMode.CPU_UTIL)
    assert checked(profile_output_dir=Path("a/b")).profile_output_dir == "a/b"


def test_text_form() -> None:
    text = checked(profile_output_dir="./a b=c", capture_enabled_for_nc="0-2,5", correlate_device_time=True).to_string()
    assert text == (
        "modes:device,runtime;max_events_per_nc:1000000;capture_enabled_for_nc:0-2,5;profile_output_dir:./a%20b%3Dc;"
        "precache_node_info:true;correlate_device_time:true"
    )


paths = st.text(st.characters(codec=None, exclude_characters="\0"), min_size=1)


@given(
    st.sets(st.sampled_from(ProfileMode), min_size=1),
    st.integers(1, 2**31 - 1),
    st.none() | st.sets(st.integers(0, 4095), min_size=1),
    paths.filter(lambda path: not re.search("[\ud800-\udfff]", path)),
    st.none() | st.binary(min_size=1).filter(lambda raw: b"\0" not in raw),
    st.booleans(),
    st.booleans(),
)
def test_every_value_survives_and_no_character_can_harm(
    modes: set[ProfileMode],
    count: int,
    cores: set[int] | None,
    out: str,
    cache: bytes | None,
    precache: bool,
    correlate: bool,
) -> None:
    cache_dir = None if cache is None else cache.decode("utf-8", "surrogateescape")  # any file name of the system
    settings = Settings.checked(
        modes, count, None if cores is None else sorted(cores), out, cache_dir, precache, correlate
    )
    text = settings.to_string()
    assert re.fullmatch(r"[A-Za-z0-9_,./~%;:-]+", text)
    assert Settings.from_string(text) == (settings, [])


def test_strings_written_by_hand() -> None:
    settings, complaints = Settings.from_string(
        " max_events_per_nc : 2000 ; capture_enabled_for_nc:0,1,2-3; host_memory:TRUE ;profile_output_dir:/tmp/x"
    )
    assert complaints == []
    assert settings == Settings(
        modes=(ProfileMode.DEVICE, ProfileMode.RUNTIME, ProfileMode.HOST_MEMORY),
        max_events_per_nc=2000,
        capture_enabled_for_nc=(0, 1, 2, 3),
        profile_output_dir="/tmp/x",
    )


def test_parts_that_cannot_be_read_are_ignored_and_named() -> None:
    settings, complaints = Settings.from_string(
        "max_events_per_nc:many;colour:red;profile_output_dir:s3://bucket;alone;capture_enabled_for_nc:5-2"
    )
    assert settings == Settings()
    assert complaints == [
        "NeuronConfig(max_events_per_nc='many') is not possible",
        "unknown parameter 'colour'",
        "'profile_output_dir:s3://bucket' is not a key:value pair",
        "'alone' is not a key:value pair",
        "NeuronConfig(capture_enabled_for_nc='5-2') is not possible",
    ]
