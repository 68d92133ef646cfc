"""Chip data files: loading, checking, looking up.

One TOML file per generation in `data/`. `common.toml` holds what all generations share, a chip file may name another
one as its `base`, and `fitted.toml` holds constants fitted to measurements, apart from documented figures. Every
figure is a table `{ value, unit, kind, source }` with an optional `sigma` (relative standard deviation; a default per
kind otherwise) and an optional `note` (where sources disagree, and why this value was chosen).
"""

import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from trnscope.errors import TrnscopeError
from trnscope.schema.vocabulary import CHIPS, FIGURE_KINDS

DEFAULT_SIGMA: Final[Mapping[str, float]] = MappingProxyType(
    {"spec": 0.05, "measured": 0.10, "fitted": 0.10, "assumed": 0.40}
)
"""Relative standard deviation of a figure whose file gives none, by kind."""

_FIELDS: Final = frozenset({"value", "unit", "kind", "source", "sigma", "note"})


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with where it comes from.

    Attributes:
        name: as in the data file.
        value: the number, or a list of them.
        unit: `1` for a pure number.
        kind: spec, measured, fitted or assumed.
        source: document or measurement, in words.
        sigma: relative standard deviation.
        note: conflicts between sources, empty when there are none.
    """

    name: str
    value: float | tuple[float, ...]
    unit: str
    kind: str
    source: str
    sigma: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chip:
    """One generation with all its figures.

    Attributes:
        name: trn1, inf2, trn2 or trn3.
        neuroncore: version of its NeuronCore, e.g. `v3`.
        cores_per_chip: physical cores.
        instances: instance type -> chips.
        validation: what its predictions have been compared with.
        calibration: id of the fitted constants.
    """

    name: str
    title: str
    neuroncore: str
    cores_per_chip: int
    default_lnc: int
    allowed_lnc: tuple[int, ...]
    default_instance: str
    instances: Mapping[str, int]
    validation: str
    calibration: str
    figures: Mapping[str, Figure]

    def __hash__(self) -> int:
        return hash((self.name, self.calibration))

    def figure(self, name: str) -> Figure:
        """The figure called `name`.

        Raises:
            TrnscopeError: there is none.
        """
        try:
            return self.figures[name]
        except KeyError:
            raise TrnscopeError(
                f"chip {self.name} has no figure called {name!r}", f"it has: {', '.join(sorted(self.figures))}"
            ) from None

    def value(self, name: str) -> float:
        """The value of a figure that is one number."""
        value = self.figure(name).value
        if isinstance(value, tuple):
            raise TrnscopeError(f"figure {name!r} of chip {self.name} is a list, not one number")
        return value

    def values(self, name: str) -> tuple[float, ...]:
        """The values of a figure that is a list (one number counts as a list of one)."""
        value = self.figure(name).value
        return value if isinstance(value, tuple) else (value,)


def load_chip(name: str) -> Chip:
    """The chip called `name`, read once per process.

    Raises:
        TrnscopeError: unknown chip, or a data file that does not hold what it should.
    """
    if name not in CHIPS:
        raise TrnscopeError(f"unknown chip {name!r}", f"chips: {', '.join(CHIPS)}")
    return _load(name)


@functools.cache
def _load(name: str) -> Chip:
    documents = {stem: _read(stem) for stem in ("common", "fitted", *_bases(name))}
    return build_chip(name, documents)


def _bases(name: str) -> tuple[str, ...]:
    """`name` and the chips it is based on."""
    chain: list[str] = [name]
    while base := _read(chain[-1]).get("base"):
        chain.append(base)
    return tuple(chain)


def _read(stem: str) -> dict[str, Any]:
    path = files(__package__).joinpath("data", f"{stem}.toml")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise TrnscopeError(f"chip file {stem}.toml cannot be read: {error}", "reinstall trnscope") from error


def build_chip(name: str, documents: Mapping[str, Mapping[str, Any]]) -> Chip:
    """A chip from parsed files: `common`, `fitted`, the chip's own and the ones it is based on.

    Raises:
        TrnscopeError: names the file and the entry, what is wrong and what is allowed.
    """
    own = documents[name]
    figures: dict[str, Figure] = dict(_figures("common.toml", documents["common"].get("figures", {})))
    chain: list[str] = [name]
    while base := documents[chain[-1]].get("base"):
        if base in chain or base not in documents:
            raise TrnscopeError(f"chip file {chain[-1]}.toml: base {base!r} is unknown or refers back to it")
        chain.append(base)
    for stem in reversed(chain):
        figures.update(_figures(f"{stem}.toml", documents[stem].get("figures", {})))
    fitted = documents["fitted"]
    figures.update(_fitted(name, fitted))
    header = own.get("chip", {})
    missing = [key for key in _HEADER if key not in header]
    if missing:
        raise TrnscopeError(f"chip file {name}.toml: [chip] lacks {', '.join(missing)}")
    if header["default_lnc"] not in header["allowed_lnc"]:
        raise TrnscopeError(f"chip file {name}.toml: default_lnc is not among allowed_lnc {header['allowed_lnc']}")
    if header["default_instance"] not in header["instances"]:
        raise TrnscopeError(f"chip file {name}.toml: default_instance is not among [chip.instances]")
    return Chip(
        name=header["name"],
        title=header["title"],
        neuroncore=header["neuroncore"],
        cores_per_chip=header["cores_per_chip"],
        default_lnc=header["default_lnc"],
        allowed_lnc=tuple(header["allowed_lnc"]),
        default_instance=header["default_instance"],
        instances=MappingProxyType(dict(header["instances"])),
        validation=header["validation"],
        calibration=str(fitted.get("calibration", "none")),
        figures=MappingProxyType(figures),
    )


_HEADER: Final = (
    "name",
    "title",
    "neuroncore",
    "cores_per_chip",
    "default_lnc",
    "allowed_lnc",
    "default_instance",
    "instances",
    "validation",
)


def _fitted(name: str, document: Mapping[str, Any]) -> dict[str, Figure]:
    """Fitted figures of a chip. What it inherits from another chip is only assumed to hold for it."""
    section = dict(document.get(name, {}))
    parent = section.pop("inherit", None)
    figures: dict[str, Figure] = {}
    if parent is not None:
        for key, figure in _fitted(parent, document).items():
            figures[key] = replace(
                figure,
                kind="assumed",
                source=f"as on {parent} ({figure.source})",
                sigma=max(figure.sigma, DEFAULT_SIGMA["assumed"] if figure.kind == "assumed" else 2 * figure.sigma),
            )
    figures.update(_figures(f"fitted.toml [{name}]", section))
    return figures


def _figures(where: str, section: Mapping[str, Any]) -> dict[str, Figure]:
    return {key: _figure(where, key, entry) for key, entry in section.items()}


def _figure(where: str, name: str, entry: object) -> Figure:
    if not isinstance(entry, Mapping):
        raise TrnscopeError(f"{where}: {name} must be a table with value, unit, kind and source")
    lacking = [key for key in ("value", "unit", "kind", "source") if not entry.get(key) and entry.get(key) != 0]
    if lacking or not set(entry) <= _FIELDS:
        unknown = sorted(set(entry) - _FIELDS)
        raise TrnscopeError(
            f"{where}: {name} lacks {', '.join(lacking)}" if lacking else f"{where}: {name} has unknown {unknown}",
            f"a figure has {', '.join(sorted(_FIELDS))}",
        )
    kind = entry["kind"]
    if kind not in FIGURE_KINDS:
        raise TrnscopeError(f"{where}: {name} has kind {kind!r}", f"kinds: {', '.join(FIGURE_KINDS)}")
    raw = entry["value"]
    numbers = raw if isinstance(raw, list) else [raw]
    if not numbers or not all(_is_number(n) for n in numbers):
        raise TrnscopeError(f"{where}: {name} has value {raw!r}", "a finite number >= 0, or a list of them")
    sigma = entry.get("sigma", DEFAULT_SIGMA[kind])
    if not _is_number(sigma):
        raise TrnscopeError(f"{where}: {name} has sigma {sigma!r}", "a relative standard deviation, e.g. 0.1")
    return Figure(
        name=name,
        value=tuple(float(n) for n in numbers) if isinstance(raw, list) else float(raw),
        unit=entry["unit"],
        kind=kind,
        source=entry["source"],
        sigma=float(sigma),
        note=entry.get("note", ""),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
