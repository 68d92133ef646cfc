"""Chip data files: values, provenance, inheritance, and what is said about broken ones."""

import copy
from typing import Any

import pytest

from trnscope.chips import Target, load_chip
from trnscope.chips.figures import DEFAULT_SIGMA, _read, build_chip
from trnscope.errors import TrnscopeError
from trnscope.schema.vocabulary import CHIPS, FIGURE_KINDS


@pytest.fixture
def documents() -> dict[str, Any]:
    return {stem: copy.deepcopy(_read(stem)) for stem in ("common", "fitted", "trn2")}


def test_documented_values() -> None:
    trn2 = load_chip("trn2")
    assert trn2.value("tensor_clock") == 2.4
    assert trn2.value("sbuf_bytes") == 128 * 224 * 1024
    assert trn2.value("hbm_bytes") == 96 * 2**30
    assert load_chip("trn1").value("sbuf_bytes") == 128 * 192 * 1024
    assert load_chip("trn3").validation == "spec-scaled, not validated"


@pytest.mark.parametrize("name", CHIPS)
def test_every_figure_has_provenance_and_all_chips_have_the_same_figures(name: str) -> None:
    chip = load_chip(name)
    assert set(chip.figures) == set(load_chip("trn2").figures)
    for figure in chip.figures.values():
        assert figure.kind in FIGURE_KINDS
        assert figure.source
        assert 0 < figure.sigma < 2


def test_inherited_fits_are_assumptions() -> None:
    measured_there = load_chip("trn2").figure("execution_epilogue")
    taken_over = load_chip("trn3").figure("execution_epilogue")
    assert measured_there.kind == "measured"
    assert taken_over.kind == "assumed"
    assert taken_over.value == measured_there.value
    assert taken_over.sigma > measured_there.sigma
    assert load_chip("inf2").value("tensor_clock") == 2.8, "by way of its base"


def test_default_sigma_by_kind(documents: dict[str, Any]) -> None:
    chip = build_chip("trn2", documents)
    assert chip.figure("tensor_clock").sigma == DEFAULT_SIGMA["spec"]
    assert chip.figure("dma_transpose_factor").sigma == 0.1


def test_targets() -> None:
    target = Target()
    assert (target.chip, target.lnc, target.instance) == ("trn2", 2, "trn2.3xlarge")
    assert (target.physical_cores, target.logical_cores, target.hbm_bytes) == (2, 4, 24 * 2**30)
    assert Target("trn2", lnc=1).logical_cores == 8
    assert Target("trn1", instance="trn1.32xlarge").logical_cores == 32
    assert target.host.eager_dispatch_ns == 60_000
    # one DMA's latency of 1 us, and 12 GB/s (between cores 100 GB/s)
    assert target.host.host_copy_ns(0) == 1_000
    assert target.host.host_copy_ns(12_000) == 2_000
    assert target.host.core_copy_ns(100_000) == 2_000
    assert hash(Target()) == hash(Target("trn2", 2, "trn2.3xlarge"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chip": "trn9"}, "unknown chip 'trn9'"),
        ({"chip": "trn1", "lnc": 2}, "LNC 2 is not possible on trn1"),
        ({"instance": "p5.48xlarge"}, "'p5.48xlarge' is not an instance of trn2"),
    ],
)
def test_impossible_targets(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TrnscopeError, match=message):
        Target(**arguments)


def test_unknown_figure_names_what_exists() -> None:
    with pytest.raises(TrnscopeError, match=r"no figure called 'warp_size'\s.*hbm_bandwidth"):
        load_chip("trn2").figure("warp_size")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "folklore"}, "kind 'folklore'"),
        ({"value": -1}, "value -1"),
        ({"value": float("nan")}, "value nan"),
        ({"value": "fast"}, "value 'fast'"),
        ({"sigma": "high"}, "sigma 'high'"),
        ({"source": ""}, "lacks source"),
        ({"colour": "red"}, r"unknown \['colour'\]"),
    ],
)
def test_broken_figures(documents: dict[str, Any], change: dict[str, Any], message: str) -> None:
    documents["trn2"]["figures"]["tensor_clock"].update(change)
    with pytest.raises(TrnscopeError, match=message) as caught:
        build_chip("trn2", documents)
    assert "trn2.toml: tensor_clock" in caught.value.what


def test_broken_headers(documents: dict[str, Any]) -> None:
    del documents["trn2"]["chip"]["neuroncore"]
    with pytest.raises(TrnscopeError, match=r"\[chip\] lacks neuroncore"):
        build_chip("trn2", documents)
    documents["trn2"]["base"] = "trn2"
    with pytest.raises(TrnscopeError, match="refers back"):
        build_chip("trn2", documents)
