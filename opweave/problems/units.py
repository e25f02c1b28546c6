"""Numbers in the form in which people read and write them."""

from __future__ import annotations

import math
import re

from opweave.problems.errors import InvalidInputError
from opweave.problems.limits import MAX_BYTES

_PREFIXES: dict[str, int] = {"": 1, "K": 1000} | {letter: 1000 ** (power + 1) for power, letter in enumerate("kMGTPE")}
_PREFIXES |= {f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")}
TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
"""Seconds per unit of time, the largest unit first."""

BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
"""Each unit is 1,024 times the previous one."""

_BITS = r"([KMGTP]i?)b|([kKMGTPmgtp]?i?)(?:[bB][iI][tT][sS]?)"
"""A unit of bits, with its prefix."""

_SIZES = {"": 1} | {f"{prefix}b".lower(): factor for prefix, factor in _PREFIXES.items()}


def readable_bytes(size: float) -> str:
    """Write bytes with three or four digits and a binary unit.

    Examples
    --------
    >>> readable_bytes(6_520_832), readable_bytes(900), readable_bytes(2048)
    ('6.22 MiB', '900 B', '2 KiB')
    """
    scale, unit = unit_of(abs(size), "bytes")
    value = size / scale
    digits = 0 if unit == "B" or abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{_short(value, digits)} {unit}"


def exact_bytes(size: float) -> str:
    """Write bytes with a unit and, from 1 KiB, all digits.

    Examples
    --------
    >>> exact_bytes(900), exact_bytes(2048)
    ('900 B', '2 KiB (2,048 bytes)')
    """
    return f"{readable_bytes(size)} ({size:,} bytes)" if size >= 1024 else readable_bytes(size)


def readable_seconds(seconds: float) -> str:
    """Write a duration with two or three digits.

    Examples
    --------
    >>> readable_seconds(0.0123), readable_seconds(4.5), readable_seconds(3700)
    ('12 ms', '4.5 s', '61.7 min')
    """
    if seconds < 1.0:
        return f"{seconds * 1000:.2g} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 60:.1f} min"


def readable_share(share: float | None) -> str:
    """Write a fraction as a percentage; a dash if it is unknown.

    Examples
    --------
    >>> readable_share(0.0), readable_share(0.1234), readable_share(0.00017), readable_share(None)
    ('0 %', '12.3 %', '0.017 %', '-')
    """
    if share is None:
        return "-"
    percent = 100 * share
    digits = 1 if percent >= 1 else 3
    return f"{percent:.{digits}f}".rstrip("0").rstrip(".") + " %"


def readable(value: float | None, unit: str) -> str:
    """Write an objective or bound in its problem's unit; a dash if it is unknown."""
    if value is None:
        return "-"
    if unit in ("bytes", "seconds"):
        return readable_bytes(value) if unit == "bytes" else precise_seconds(value)
    return f"{value:,.4g} {unit}"


def unit_of(value: float, unit: str) -> tuple[float, str]:
    """Find the unit in which a value is easiest to read: its size in bytes or seconds, and its name.

    A value in any other unit keeps its unit.

    Examples
    --------
    >>> unit_of(6_520_832, "bytes"), unit_of(0.0123, "seconds")
    ((1048576.0, 'MiB'), (0.001, 'ms'))
    """
    if unit == "bytes":
        power = max((power for power in range(len(BYTE_UNITS)) if value >= 1024**power), default=0)
        return 1024.0**power, BYTE_UNITS[power]
    if unit != "seconds":
        return 1.0, unit
    if value <= 0:
        return TIME_UNITS[0]
    return next((pair for pair in TIME_UNITS if value >= pair[0]), TIME_UNITS[-1])


def readable_rate(rate: float) -> str:
    """Write a rate per second with four digits, or with all digits of a whole number.

    Examples
    --------
    >>> readable_rate(129.17), readable_rate(11_012.6), readable_rate(0.012345)
    ('129.2', '11,013', '0.01235')
    """
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"


def parse_bytes(text: str) -> int:
    """Read a number of bytes with or without a unit: KiB, MiB, GiB (1024) or kB, MB, GB (1000).

    Capitals do not matter, except that a small "b" after a capital means bits: "gb" are gigabytes, "Gb" gigabits.

    Raises
    ------
    InvalidInputError
        If the text is no such number or means bits, or the number is outside 0 to 2**53.

    Examples
    --------
    >>> parse_bytes("6MiB"), parse_bytes("1.5 GB"), parse_bytes("4096")
    (6291456, 1500000000, 4096)
    """
    found = re.fullmatch(r"\s*(\d{1,20}(?:\.\d{1,9})?)\s*([A-Za-z]*)\s*", text, re.ASCII)
    in_bits = re.fullmatch(_BITS, found[2]) if found else None
    if found is not None and in_bits is not None:
        unit = f"{in_bits[1] or in_bits[2]}B"
        raise InvalidInputError(
            f"{text!r:.60} could mean bits or bytes; write '{float(found[1]) / 8:g} {unit}' for the bits, or "
            f"'{found[1]} {unit}' for the bytes"
        )
    factor = _SIZES.get(found[2].lower()) if found else None
    if found is None or factor is None or (factor == 1 and "." in found[1]):
        raise InvalidInputError(f"{text!r:.60} is not a size; write 8_000_000_000, '8 GB' or '8 GiB', for example")
    # Decimal digits times the factor, as integers, so that rounding loses no byte.
    whole, _, fraction = found[1].partition(".")
    size: int = int(whole + fraction) * factor // 10 ** len(fraction)
    if size > MAX_BYTES:
        raise InvalidInputError(f"{text!r:.60} is more than 2**53 bytes; write a smaller limit")
    return size


def read_size(text: str) -> int:
    """Read a number of bytes with its unit, as :func:`parse_bytes` does; a number without a unit is refused.

    Raises
    ------
    InvalidInputError
        If the text is no such number.

    Examples
    --------
    >>> read_size("8GB"), read_size("512 MiB")
    (8000000000, 536870912)
    """
    if not text.strip()[-1:].isalpha():
        raise InvalidInputError(f"{text!r:.60} has no unit; write a number of bytes, or a text such as '8 GB'")
    return parse_bytes(text)


_NUMBER = r"\s*(\d{1,20}(?:\.\d{1,9})?(?:[eE][+-]?\d{1,2})?)\s*"
_OPERATIONS = _NUMBER + r"([kKMGTPE]i?|)(?i:FLOPS?|OPS?)(?i:/s|ps)?\s*"
_BYTES_OR_BITS = _NUMBER + r"([kKMGTPE]i?|)(B|Bytes?|bytes?|bits?|b)(/s|ps)\s*"


def _read(text: str, pattern: str, instead: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text, re.ASCII)
    if found is None:
        raise InvalidInputError(f"{text!r:.60} is {instead}")
    return found


def read_operations(text: str) -> float:
    """Read a number of floating-point operations, or of those per second, with its unit.

    Raises
    ------
    InvalidInputError
        If the text is no such number.

    Examples
    --------
    >>> read_operations("40 GFLOP/s"), read_operations("1.5 TFLOPS")
    (40000000000.0, 1500000000000.0)
    """
    found = _read(text, _OPERATIONS, "not a number of operations; write it as '40 GFLOP/s' or 40e9")
    return float(found[1]) * _PREFIXES[found[2]]


def read_rate(text: str) -> float:
    """Read a number of bytes per second from a text in bytes or bits per second.

    Raises
    ------
    InvalidInputError
        If the text is no such number, or may mean bits as well as bytes.

    Examples
    --------
    >>> read_rate("10 Gbit/s"), read_rate("5 GB/s"), read_rate("100 Mbps")
    (1250000000.0, 5000000000.0, 12500000.0)
    """
    found = _read(text, _BYTES_OR_BITS, "not a rate; write it as '10 Gbit/s', '5 GB/s' or 5e9")
    if found[3] == "b" and found[4] == "/s":
        bits, size = (text.replace("b/s", unit).strip() for unit in ("bit/s", "B/s"))
        raise InvalidInputError(f"{text!r:.60} may mean bits or bytes; write {bits!r} or {size!r}")
    return float(found[1]) * _PREFIXES[found[2]] / (8.0 if found[3] in ("b", "bit", "bits") else 1.0)


_TIME = {unit: scale for scale, unit in TIME_UNITS} | {"us": 1e-6, "min": 60.0, "h": 3600.0}


def read_time(text: str) -> float:
    """Read a time with its unit: s, ms, us, ns, min or h.

    Raises
    ------
    InvalidInputError
        If the text is no such time.

    Examples
    --------
    >>> read_time("3 ms"), read_time("10 us"), read_time("2 min")
    (0.003, 1e-05, 120.0)
    """
    found = _read(text, rf"{_NUMBER}({'|'.join(_TIME)})\s*", "not a time; write it as '3 ms', '10 us' or 0.003")
    number, scale = float(found[1]), _TIME[found[2]]
    return number * scale if scale >= 1.0 else number / round(1.0 / scale)  # exactly what the decimals say


def precise_seconds(seconds: float) -> str:
    """Write a duration with four digits, so that plans can be told apart.

    Examples
    --------
    >>> precise_seconds(0.0012787), precise_seconds(23.745), precise_seconds(4e-7), precise_seconds(0.0)
    ('1.279 ms', '23.75 s', '400 ns', '0 s')
    """
    if seconds == 0.0:
        return "0 s"
    scale, unit = unit_of(seconds, "seconds")
    value = seconds / scale
    return f"{_short(value, max(0, 3 - math.floor(math.log10(value))) if value >= 0.001 else 6)} {unit}"


def _short(value: float, digits: int) -> str:
    """A number with so many digits behind the point, without zeros at the end."""
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
