"""Sources that are recognised but, but for their headers, not decoded: NTFF, NEFF and trnscope's own containers."""

from trnscope.store.byte_source import open_bytes
from trnscope.store.neuron_binary import read_neff_header, read_ntff_header
from trnscope.store.source import SourceContext, SourceFacts

_HEAD = 64 << 10


def import_ntff(context: SourceContext) -> SourceFacts:
    """Header of a device trace, and the decoded profile that lies beside it, if one does."""
    header = read_ntff_header(_head(context))
    facts = SourceFacts("ntff", framework="neuron")
    facts.extra = {
        "ntff_version": header.version,
        "program_path": header.program_path,
        "program_uuid": header.program_uuid,
        "paired_with": _partner(context, (".json", ".json.gz", ".json.zst")),
    }
    context.quality.add("partial-decode", "header only: import the JSON or Parquet that Neuron Explorer makes of it")
    if facts.extra["paired_with"] is None:
        context.quality.add("missing-pair", f"{context.path.stem}.json or .json.gz")
    return facts


def import_neff(context: SourceContext) -> SourceFacts:
    """Header of a compiled program."""
    header = read_neff_header(_head(context))
    facts = SourceFacts("neff", framework="neuron")
    facts.extra = {
        "package_version": header.package_version,
        "header_bytes": header.header_bytes,
        "data_bytes": header.data_bytes,
        "paired_with": _partner(context, (".ntff",)),
    }
    context.quality.add("partial-decode", "header only")
    return facts


def import_own_container(context: SourceContext) -> SourceFacts:
    """A file of a trnscope capture, given on its own."""
    context.quality.add("partial-decode", "a part of a capture: open the capture's directory instead")
    return SourceFacts("trnscope-container", framework="trnscope")


def _head(context: SourceContext) -> bytes:
    with open_bytes(context.path) as reader:
        return reader.read(_HEAD)


def _partner(context: SourceContext, suffixes: tuple[str, ...]) -> str | None:
    """The file of the same stem beside this one."""
    for suffix in suffixes:
        candidate = context.path.parent / f"{context.path.stem}{suffix}"
        if candidate.exists():
            return candidate.name
    return None
