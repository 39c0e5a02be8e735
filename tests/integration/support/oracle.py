"""The exact expected cumulative sum: sums of floats are exact and rounded once, sums of integers
wrap.

An exact sum is an integer of limbs of 38 bits, with one NumPy array of running sums per limb, so
that 2^25 limbs of either sign stay below 2^63."""

import numpy as np

LIMB = 38
MASK = (1 << LIMB) - 1
PIECE = 1 << 21  # limbs per piece of lines
FORMATS = {  # bits of the significand, exponent of the smallest number, largest number
    "float16": (11, -24, 65504.0),
    "bfloat16": (8, -133, float.fromhex("0x1.FEp127")),
    "float32": (24, -149, float.fromhex("0x1.FFFFFEp127")),
    "float64": (53, -1074, float.fromhex("0x1.FFFFFFFFFFFFFp1023")),
}


def cumsum(dtype, stored, axis=0, exclusive=False, reverse=False):
    """The expected result, as stored, for a stored array of the Dtype."""
    stored = np.asarray(stored)
    lines = np.moveaxis(stored, axis, -1)
    if reverse:
        lines = lines[..., ::-1]
    shape = lines.shape
    if stored.size == 0:
        return stored.copy()
    flat = np.ascontiguousarray(lines).reshape(-1, shape[-1])
    if dtype.is_float:
        with np.errstate(all="ignore"):
            result = dtype.store(_float_lines(dtype.name, dtype.load(flat), exclusive))
    else:
        result = _integer_lines(flat, exclusive)
    result = result.reshape(shape)
    if reverse:
        result = result[..., ::-1]
    return np.ascontiguousarray(np.moveaxis(result, -1, axis))


def _integer_lines(lines, exclusive):
    sums = np.cumsum(lines, axis=1, dtype=lines.dtype)
    if not exclusive:
        return sums
    first = np.zeros((len(lines), 1), lines.dtype)
    return np.concatenate([first, sums[:, :-1]], axis=1)


def _float_lines(name, lines, exclusive):
    """Sums of lines of float64 numbers, rounded to the named type, as float64. The lines are summed
    in pieces that fit in memory."""
    limbs, low = _limbs_needed(lines)
    count, length = lines.shape
    rows = max(1, PIECE // (limbs * min(length, 1024)))
    columns = max(1, PIECE // (limbs * min(count, rows)))
    result = np.empty(lines.shape)
    for first in range(0, count, rows):
        some = slice(first, first + rows)
        sums = _Sums(name, low, limbs, len(lines[some]))
        for begin in range(0, length, columns):
            piece = slice(begin, begin + columns)
            result[some, piece] = sums.add(lines[some, piece], exclusive)
    return result


def _limbs_needed(lines):
    """(number of limbs for sums of the finite numbers in units of 2^low, low)."""
    used = lines[np.isfinite(lines) & (lines != 0)]
    if used.size == 0:
        return 3, 0
    exponents = np.frexp(used)[1]
    low = int(exponents.min()) - 53
    return (int(exponents.max()) - low) // LIMB + 3, low


class _Sums:
    """The sums of some lines so far: limbs[i] has the weight 2^(LIMB * i + low)."""

    def __init__(self, name, low, limbs, count):
        self.format = FORMATS[name]
        self.low = low
        self.limbs = [np.zeros((count, 1), np.int64) for _ in range(limbs)]
        none = np.zeros((count, 1), bool)
        self.seen = [
            none,
            none,
            none,
            none,
        ]  # flags: NaN, +Infinity, -Infinity, any element other than -0.0

    def add(self, x, exclusive):
        """Add further elements; returns their rounded sums."""
        finite = np.isfinite(x)
        inputs = _split(np.where(finite, x, 0.0), self.low, len(self.limbs))
        running = []
        for index, limb in enumerate(inputs):
            limb[:, :1] += self.limbs[index]
            np.cumsum(limb, axis=1, out=limb)
            running.append(_before(limb, self.limbs[index]) if exclusive else limb)
            self.limbs[index] = limb[:, -1:].copy()
        self._normalize()
        found = [np.isnan(x), x == np.inf, x == -np.inf, ~((x == 0) & np.signbit(x))]
        seen = []
        for index, some in enumerate(found):
            some[:, :1] |= self.seen[index]
            some = np.logical_or.accumulate(some, axis=1)
            seen.append(_before(some, self.seen[index]) if exclusive else some)
            self.seen[index] = some[:, -1:].copy()
        value = _rounded(running, self.low, self.format)
        nan, plus, minus, more = seen
        value = np.where((value == 0) & ~more & (not exclusive), -0.0, value)
        value = np.where(plus, np.inf, np.where(minus, -np.inf, value))
        return np.where(nan | (plus & minus), np.nan, value)

    def _normalize(self):
        """Carry the excess of each limb over LIMB bits into the next limb, so that the next
        sums stay below 2^63. The highest limb keeps its excess and the sign."""
        for index in range(len(self.limbs) - 1):
            self.limbs[index + 1] += self.limbs[index] >> LIMB
            self.limbs[index] &= MASK


def _before(running, first):
    return np.concatenate([first, running[:, :-1]], axis=1)


def _split(x, low, count):
    """Split float64 numbers into limbs; each limb has the sign of its number."""
    mantissa, exponent = np.frexp(x)
    whole = (mantissa * 2.0**53).astype(np.int64)
    shift = np.where(whole == 0, 0, exponent.astype(np.int64) - 53 - low)
    sign, magnitude = np.sign(whole), np.abs(whole)
    for index in range(count):
        move = shift - index * LIMB  # position of the 53 bits in this limb
        up, down = np.clip(move, 0, LIMB), np.clip(-move, 0, 62)
        yield sign * np.where(
            move >= 0, (magnitude & (MASK >> up)) << up, (magnitude >> down) & MASK
        )


def _rounded(running, low, form):
    """Sums of limbs as float64 numbers, rounded once to nearest even; a sum of 0 is +0.0."""
    precision, least, largest = form
    limbs, negative = _magnitudes(running)
    used = limbs != 0
    top = len(limbs) - 1 - np.argmax(used[::-1], axis=0)
    lowest = np.argmax(used, axis=0)
    none = ~used.any(axis=0)

    def limb(at):
        found = np.take_along_axis(limbs, np.maximum(at, 0)[None], axis=0)[0]
        return np.where(at >= 0, found, 0)

    # q: the 62 highest bits of the sum, from its three highest limbs. A limb that does not
    # exist is 0: the size of its shift does not matter, but NumPy requires less than 64.
    high, middle, last = limb(top), limb(top - 1), limb(top - 2)
    bits = np.where(none, 1, np.frexp(high.astype(np.float64))[1]).astype(np.int64)
    room = 62 - bits
    wide = room >= LIMB
    up, down = np.maximum(room - LIMB, 0), np.maximum(LIMB - room, 0)
    of_last = np.where(wide, 2 * LIMB - room, LIMB)  # bits of the last limb that are not in q
    q = (high << room) | np.where(wide, middle << up, middle >> down)
    q |= np.where(wide, last >> np.minimum(of_last, 62), 0)
    more = (middle & ((1 << down) - 1)) | (last & ((1 << of_last) - 1))
    sticky = (more != 0) | (lowest < top - 2)
    exponent = LIMB * top + bits - 62 + low

    drop = np.minimum(np.maximum(62 - precision, least - exponent), 62)
    kept, rest, half = q >> drop, q & ((1 << drop) - 1), 1 << (drop - 1)
    kept += (rest > half) | ((rest == half) & (sticky | (kept % 2 == 1)))
    value = np.ldexp(kept.astype(np.float64), exponent + drop)
    value = np.where(none, 0.0, np.where(value > largest, np.inf, value))
    return np.where(negative, -value, value)


def _magnitudes(running):
    """The magnitudes as limbs of LIMB bits, and which sums are negative."""
    carry, limbs = 0, []
    for limb in running:
        total = limb + carry
        limbs.append(total & MASK)
        carry = total >> LIMB
    negative = carry < 0
    carry = negative.astype(np.int64)
    for index, limb in enumerate(limbs):
        total = np.where(negative, MASK - limb, limb) + carry
        limbs[index] = total & MASK
        carry = total >> LIMB
    return np.array(limbs), negative


def same_bits(dtype, left, right):
    """Whether shapes and bits are equal; any two NaNs are equal."""
    if left.shape != right.shape:
        return False
    if not dtype.is_float:
        return bool(np.array_equal(left, right))
    integer = np.dtype(f"u{dtype.bytes}")
    equal = np.ascontiguousarray(left).view(integer) == np.ascontiguousarray(right).view(integer)
    nans = np.isnan(dtype.load(left)) & np.isnan(dtype.load(right))
    return bool(np.all(equal | nans))


def ulp_distance(dtype, left, right):
    """Largest distance in units in the last place between two stored arrays of finite floats."""
    signed = np.dtype(f"i{dtype.bytes}")

    def order(stored):
        bits = np.ascontiguousarray(stored).view(signed).astype(object)
        return np.where(bits < 0, -(bits & ((1 << (8 * dtype.bytes - 1)) - 1)), bits)

    if left.size == 0:
        return 0
    return int(np.max(np.abs(order(left) - order(right))))
