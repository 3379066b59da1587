"""What cells of a column hold, and what texts stand for: dates, numbers with signs, codes,
lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

NUMBER = "number"
FLAG = "flag"
TEXT = "text"
KINDS = {  # by what pandas infers
    "integer": NUMBER,
    "floating": NUMBER,
    "mixed-integer-float": NUMBER,
    "decimal": NUMBER,
    "boolean": FLAG,
    "string": TEXT,
}
DATES = "dates"
TIMES = "times of day"
LISTS = "lists"
CODES = "numbers that begin with 0, as codes do"
SIGNS = "numbers with signs or units"
PLAIN = "numbers as texts"
LOOKED_AT = 1000  # different texts that say what all stand for
MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:[ap]\.?m\.?)?"
# 2020-1-31, 31.1.2020, 1/31/20, 1/2020; 31 Jan 2020, January 31, 2020; with a time or without
DATE = (
    r"(?:\d{4}[-/. ]\d{1,2}(?:[-/. ]\d{1,2})?"
    r"|\d{1,2}[-/. ]\d{1,2}[-/. ](?:\d{4}|\d\d)|\d{1,2}[-/]\d{4}"
    rf"|(?:\d{{1,2}}[-/. ]*)?{MONTH}[-/., ]*(?:\d{{1,2}}(?:st|nd|rd|th)?[, ]+)?\d{{2,4}})"
    rf"(?:[T, ]+{CLOCK}.*)?"
)
COMPACT = {4 + 2: "%Y%m", 4 + 4: "%Y%m%d", 4 + 4 + 6: "%Y%m%d%H%M%S"}  # by the number of digits
LEADING_ZERO = r"\s*[+-]?0(?:[0-9]|[xX][0-9a-fA-F])"
CURRENCIES = r"EUR|USD|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|BRL|Rs\.?|kr\.?"
CURRENCY = f"[A-Z]{{0,2}}[$€£¥₹₩₽฿₺₪₫₱]|(?:{CURRENCIES})"
THOUSANDS = "[,.'’\u00a0\u202f ]"
FIGURES = rf"\d{{1,3}}(?:{THOUSANDS}\d{{3}})+(?:[.,]\d+)?|\d+(?:[.,]\d*)?|[.,]\d+"
SIGN = rf"%|‰|{CURRENCY}"
UNIT = "[A-Za-zµμ°²³/%]{1,8}"
SIGNED = rf"(?P<minus>[+-]?)(?P<before>{CURRENCY})?\s*(?P<number>{FIGURES})\s*"
DECIMAL_COMMA = r",\d{1,2}$|,\d{4,}$|\.\d{3},|\.\d{3}\."  # else a comma is between thousands
FEWEST_WITH_UNIT = 20  # numbers before the same unit; fewer are names, such as 2wd and 4wd


def kind_of(column: pd.Series[Any]) -> str:
    """Return whether a column holds numbers, truth values or texts; an empty text for anything
    else.
    """
    import pandas as pd

    return KINDS.get(pd.api.types.infer_dtype(column, skipna=True), "")


def meaning(texts: pd.Series[Any]) -> str:
    """Return what the texts of a column stand for if they are no plain texts; else an empty text.

    >>> import pandas as pd
    >>> [meaning(pd.Series(texts)) for texts in (["01/24/2020", None], ["6%", "7 %"], ["m", "f"])]
    ['dates', 'numbers with signs or units', '']
    """
    every = distinct(texts)
    levels = every.head(LOOKED_AT)
    if len(levels) == 0:
        return ""
    for pattern, kind in ((DATE, DATES), (CLOCK, TIMES)):
        alike = levels.str.fullmatch(pattern, case=False)
        if alike.mean() > 0.5 and _parsed(levels[alike]):
            return kind
    if levels.str.fullmatch(r"\[.*\]", flags=16).all():  # re.DOTALL
        return LISTS
    numeric = plain(levels) | levels.str.match(LEADING_ZERO)
    if every.str.match(LEADING_ZERO).any() and numeric.all():
        return DATES if _compact(levels) else CODES
    if plain(levels).all():
        return DATES if _compact(levels) else PLAIN
    return SIGNS if number_like(levels).all() else ""


def example(texts: pd.Series[Any], meaning: str) -> int:
    """Return the place of the first text that shows the `meaning` of a column."""
    if meaning == CODES:
        return int((texts.str.match(LEADING_ZERO) == True).idxmax())  # noqa: E712
    shows = texts.notna() & ~plain(texts) if meaning == SIGNS else texts.notna()
    return int(shows.idxmax())


def is_compact_dates(column: pd.Series[Any]) -> bool:
    """Return whether whole numbers are dates without signs between their parts, such as
    20200131.
    """
    values = column.dropna().drop_duplicates()
    in_range = values.between(1900_01, 2100_00_00_00_00_00) & (values % 1 == 0)
    return bool(len(values)) and bool(in_range.all()) and _compact(values.map("{:.0f}".format))


def distinct(texts: pd.Series[Any]) -> pd.Series[str]:
    """Return the different texts of a column, without spaces around them."""
    return texts.dropna().astype(str).str.strip().drop_duplicates()


def plain(texts: pd.Series[Any]) -> pd.Series[bool]:
    """Return which texts are numbers without any sign, [n]."""
    import pandas as pd

    return pd.to_numeric(texts.astype(object), errors="coerce").notna()


def number_like(texts: pd.Series[Any]) -> pd.Series[bool]:
    """Return which texts are numbers, [n]: plain ones, or with a percent or currency sign,
    thousands or a unit.
    """
    marked = texts.astype(object).str.strip().str.fullmatch(f"{SIGNED}(?:{SIGN})?")
    likely = plain(texts) | (marked == True)  # noqa: E712 - what is missing is no number
    with_unit = numbers(texts).notna()
    few = distinct(texts[with_unit & ~likely]).size <= FEWEST_WITH_UNIT
    return likely if few else likely | with_unit


def numbers(texts: pd.Series[Any], decimal_comma: bool = False) -> pd.Series[float]:
    """Return the numbers that texts stand for, without their sign or unit, the same in all of them.

    A comma, point, apostrophe or space between thousands is left out. NaN: it is no such number.

    >>> import pandas as pd
    >>> numbers(pd.Series(["$36,289", "$950.5"])).tolist()
    [36289.0, 950.5]
    >>> numbers(pd.Series(["1,5 kg", "2 kg", "?"])).tolist()
    [1.5, 2.0, nan]
    """
    import pandas as pd

    parts = texts.astype(object).str.strip().str.extract(f"^{SIGNED}(?P<after>{SIGN}|{UNIT})?$")
    signs = parts["before"].fillna("") + parts["after"].fillna("")
    commonest = signs[parts["number"].notna()].mode().get(0, "")
    number = parts["number"].where(signs == commonest)
    comma = decimal_comma or bool((number.str.contains(DECIMAL_COMMA) == True).any())  # noqa: E712
    decimal, between = (",", "[.'’\u00a0\u202f ]") if comma else (r"\.", "[,'’\u00a0\u202f ]")
    pattern = rf"(?:\d{{1,3}}(?:{between}\d{{3}})+|\d*)(?:{decimal}\d*)?"
    number = number.where(number.str.fullmatch(pattern) == True)  # noqa: E712
    bare = number.str.replace(between, "", regex=True).str.replace(",", ".")
    read = pd.to_numeric(parts["minus"] + bare, errors="coerce").astype(float).rename(texts.name)
    if comma or commonest:
        return read
    others = pd.to_numeric(texts.astype(object), errors="coerce")  # such as 1e5
    return read.fillna(others.astype(float))


def _parsed(texts: pd.Series[str]) -> bool:
    """Whether pandas reads most of the texts as dates, the day before the month or behind it."""
    import pandas as pd

    def share(day_first: bool) -> float:
        read = pd.to_datetime(texts, errors="coerce", format="mixed", dayfirst=day_first, utc=True)
        return float(read.notna().mean())

    return max(share(False), share(True)) > 0.5


def _compact(texts: pd.Series[str]) -> bool:
    import pandas as pd

    lengths = set(texts.str.len())
    digits = lengths.pop() if len(lengths) == 1 else 0
    formats = [COMPACT.get(digits, ""), *(("%d%m%Y", "%m%d%Y") if digits == 8 else ())]
    read = [pd.to_datetime(texts, errors="coerce", format=one) for one in formats if one]
    return any(dates.dt.year.between(1900, 2100).all() for dates in read)
