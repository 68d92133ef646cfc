"""Mending JSON text that is almost valid.

Only called for the rare piece that strict reading refused. Each function takes and gives text; nothing is guessed
beyond what is written here:

* control characters inside strings are escaped,
* a backslash before anything but a JSON escape is doubled,
* a quote inside a string is escaped when what follows cannot follow a string's end,
* `NaN`, `inf` and their relatives become null (the name stays readable in DataQuality),
* trailing commas go, missing closing brackets at the end are not invented.
"""

import json
import re
from typing import Final

_ESCAPES: Final = frozenset('"\\/bfnrtu')
_HEX: Final = re.compile(r"[0-9a-fA-F]{4}")
_AFTER_STRING: Final = re.compile(
    r"\s*(?:[:}\]]|\Z|,\s*(?:[\"{\[\-0-9]|true\b|false\b|null\b|nan\b|inf))", re.IGNORECASE
)
_AFTER_KEY: Final = re.compile(r"\s*:")
_AFTER_VALUE_IN_OBJECT: Final = re.compile(r"\s*(?:\}|\Z|,\s*\"(?:[^\"\\]|\\.)*\"\s*:)")
_NON_FINITE: Final = re.compile(
    r"(?P<before>[:,\[]\s*)(?:[+-]?(?:nan(?:\([^)]*\))?|inf(?:inity)?|1\.#(?:inf|ind|qnan))|none|undefined)(?=\s*[,}\]])",
    re.IGNORECASE,
)
_PLUS: Final = re.compile(r"(?P<before>[:,\[]\s*)\+(?=[0-9.])")
_BARE_POINT: Final = re.compile(r"(?P<before>[:,\[]\s*-?)\.(?=[0-9])")
_ZEROS: Final = re.compile(r"(?P<before>[:,\[]\s*-?)0+(?=[1-9])")
_POINT_END: Final = re.compile(r"(?P<before>[:,\[]\s*-?[0-9]+)\.(?=\s*[,}\]])")
_COMMA: Final = re.compile(r",(?=\s*[}\]])")
_COMMAS: Final = re.compile(r",(?:\s*,)+")


def repair(text: str) -> str | None:
    """Valid JSON that says what `text` says, or None."""
    mended = _outside_strings(_mend_strings(text))
    try:
        json.loads(mended)
    except (ValueError, RecursionError):
        return None
    return mended


def _mend_strings(text: str) -> str:
    """Escape what is unescaped inside string literals."""
    out: list[str] = []
    containers: list[str] = []
    expect_key = False
    i, n = 0, len(text)
    while i < n:
        c = text[i]
        if c != '"':
            if c in "{[":
                containers.append(c)
                expect_key = c == "{"
            elif c in "}]":
                if containers:
                    containers.pop()
                expect_key = False
            elif c == ",":
                expect_key = bool(containers) and containers[-1] == "{"
            elif c == ":":
                expect_key = False
            out.append(c)
            i += 1
            continue
        out.append('"')
        i += 1
        in_object = bool(containers) and containers[-1] == "{"
        after = _AFTER_KEY if expect_key else _AFTER_VALUE_IN_OBJECT if in_object else _AFTER_STRING
        while i < n:
            c = text[i]
            if c == '"':
                if after.match(text, i + 1):
                    out.append('"')
                    i += 1
                    break
                out.append('\\"')
            elif c == "\\":
                following = text[i + 1] if i + 1 < n else ""
                if following == '"' and after.match(text, i + 2) and not _closes_later(text, i + 2, after):
                    # a Windows path that ends in a backslash: the quote is the string's end
                    out.append('\\\\"')
                    i += 2
                    break
                if following in _ESCAPES and following and (following != "u" or _HEX.match(text, i + 2)):
                    out.append(c + following)
                    i += 1
                else:
                    out.append("\\\\")
            elif c < " ":
                out.append(f"\\u{ord(c):04x}")
            else:
                out.append(c)
            i += 1
    return "".join(out)


def _closes_later(text: str, start: int, after: re.Pattern[str]) -> bool:
    """Whether a quote on the same line could still end the string."""
    stop = text.find("\n", start)
    stop = len(text) if stop < 0 else stop
    quote = text.find('"', start, min(stop, start + 4096))
    while quote >= 0:
        if text[quote - 1] not in ",:{[ " and after.match(text, quote + 1):
            return True
        quote = text.find('"', quote + 1, min(stop, start + 4096))
    return False


_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def _outside_strings(text: str) -> str:
    """Mend numbers, words and commas, leaving string literals alone."""
    strings: list[str] = []

    def hide(match: re.Match[str]) -> str:
        strings.append(match.group())
        return '""'

    bare = _STRING.sub(hide, text)
    # twice: neighbours in an array share a separator
    for _ in range(2):
        bare = _NON_FINITE.sub(r"\g<before>null", bare)
    bare = _PLUS.sub(r"\g<before>", bare)
    bare = _BARE_POINT.sub(r"\g<before>0.", bare)
    bare = _ZEROS.sub(r"\g<before>", bare)
    bare = _POINT_END.sub(r"\g<before>.0", bare)
    bare = _COMMAS.sub(",", bare)
    bare = _COMMA.sub("", bare)
    pieces = iter(strings)
    return re.sub('""', lambda _match: next(pieces), bare)


_KEYS: Final = rb"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"
_NEXT_EVENT: Final = re.compile(rb"\}(?=\s*,?\s*\{\s*\"" + _KEYS + rb"\"\s*:)")
_ARRAY_END: Final = re.compile(rb"\}(?=\s*,?\s*\]\s*(?:,\s*\"[A-Za-z]|\}\s*\Z))")


def find_event_end(data: bytes, start: int) -> int:
    """Behind the closing brace of the malformed event at `start`, or -1 when the data ends first.

    An event ends where the next one begins with one of the usual keys, or where the array ends.
    """
    following = _NEXT_EVENT.search(data, start + 1)
    closing = _ARRAY_END.search(data, start + 1, following.end() if following else len(data))
    ends = [match.end() for match in (following, closing) if match]
    return min(ends) if ends else -1
