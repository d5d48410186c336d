"""Colours as Textual writes them to a terminal, worked out without loading it."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

Rgb = tuple[int, int, int]
"""Red, green and blue, each 0 to 255."""

_LIGHT, _HALF, _FULL, _BROWN = 85, 170, 255, 85
_GRAY_BELOW_SATURATION = 0.15
_GRAYS = 25
_CUBE, _FIRST_GRAY, _WHITE_IN_CUBE = 16, 232, 231


class ColorSystem(Enum):
    """How many colours a terminal has, by Textual's names."""

    STANDARD = "standard"
    EIGHT_BIT = "256"
    TRUECOLOR = "truecolor"


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a terminal can show."""

    system: ColorSystem
    monochrome: bool = False
    """Whether every colour becomes the grey of its luminance."""

    def style(self, color: Rgb, background: Rgb, *, bold: bool = False) -> str:
        """The escape sequence that sets these colours and nothing else."""
        codes = ["0", *(["1"] if bold else [])]
        codes += [self._code(color, 30, 38), self._code(background, 40, 48)]
        return f"\x1b[{';'.join(codes)}m"

    def _code(self, color: Rgb, first: int, extended: int) -> str:
        if self.monochrome:
            color = (luminance(color),) * 3
        if self.system is ColorSystem.TRUECOLOR:
            return f"{extended};2;{color[0]};{color[1]};{color[2]}"
        if self.system is ColorSystem.EIGHT_BIT:
            return f"{extended};5;{eight_bit(color)}"
        number = standard(color)
        return str(first + number if number < 8 else first + 60 + number - 8)


def terminal_of(env: Mapping[str, str]) -> Terminal | None:
    """What Textual takes the terminal for; `None` where it is not known or shows no colours."""
    kind = env.get("TERM", "").strip().lower()
    asked = env.get("TEXTUAL_COLOR_SYSTEM", "auto")
    names = [system.value for system in ColorSystem]
    if kind in {"", "dumb", "unknown"} or asked not in {"auto", *names}:
        return None
    if asked != "auto":
        system = ColorSystem(asked)
    elif env.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        system = ColorSystem.TRUECOLOR
    elif kind.rpartition("-")[2] in {"256color", "kitty"}:
        system = ColorSystem.EIGHT_BIT
    else:
        system = ColorSystem.STANDARD
    return Terminal(system, "NO_COLOR" in env)


def rgb(color: str) -> Rgb:
    """A colour written as `#RRGGBB`."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def blend(below: Rgb, above: Rgb, opacity: float) -> Rgb:
    """`above` with an opacity of 0 to 1 over `below`."""
    red, green, blue = (
        int(low + (high - low) * opacity) for low, high in zip(below, above, strict=True)
    )
    return red, green, blue


def luminance(color: Rgb) -> int:
    """The grey of a colour, 0 to 255, with the weights of ITU-R BT.709."""
    red, green, blue = color
    return round(red * 0.2126 + green * 0.7152 + blue * 0.0722)


def eight_bit(color: Rgb) -> int:
    """The number of a colour among xterm's 256: of its cube of 6³, or a grey for a pale one."""
    _, lightness, saturation = colorsys.rgb_to_hls(*(part / 255.0 for part in color))
    if saturation < _GRAY_BELOW_SATURATION:
        gray = round(lightness * _GRAYS)
        if gray in (0, _GRAYS):
            return _WHITE_IN_CUBE if gray else _CUBE
        return _FIRST_GRAY + gray - 1
    # The cube's steps are 0, 95, 135, 175, 215 and 255.
    red, green, blue = (round(part / 95 if part < 95 else 1 + (part - 95) / 40) for part in color)
    return _CUBE + 36 * red + 6 * green + blue


def standard(color: Rgb) -> int:
    """The number of the nearest of the 16 colours of a CGA, by a distance weighted by red."""
    return min(range(16), key=lambda number: _distance(color, _cga(number)))


def _cga(number: int) -> Rgb:
    """Bits 0 to 2 are red, green and blue, bit 3 is light; dark yellow is brown."""
    if number == 3:
        return _HALF, _BROWN, 0
    low, high = (_LIGHT, _FULL) if number & 8 else (0, _HALF)
    red, green, blue = (high if number & bit else low for bit in (1, 2, 4))
    return red, green, blue


def _distance(one: Rgb, other: Rgb) -> int:
    """The square of the distance known as redmean."""
    mean = (one[0] + other[0]) // 2
    red, green, blue = (a - b for a, b in zip(one, other, strict=True))
    return ((512 + mean) * red * red >> 8) + 4 * green * green + ((767 - mean) * blue * blue >> 8)
