"""The cumulative sum to the bit, as docs/design/numerics.md defines it, in NumPy."""

import numpy as np

GROUP, BLOCK_GROUPS, SUPERBLOCK_BLOCKS = 8, 32, 256


def cumsum(dtype, stored, axis=0, exclusive=False, reverse=False):
    """The stored result for a stored array of that Dtype."""
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
            result = dtype.store(_float_lines(dtype.load(flat), exclusive))
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


def _float_lines(lines, exclusive):
    """E(0..n) of docs/design/numerics.md; E(k) for exclusive, E(k+1) for inclusive."""
    count, length = lines.shape
    groups = _pad(lines, length // GROUP * GROUP + GROUP).reshape(count, -1, GROUP)
    inside = groups
    for stride in (1, 2, 4):
        shifted = inside.copy()
        shifted[..., stride:] = inside[..., :-stride] + inside[..., stride:]
        inside = shifted
    c, blocks = _starts(inside[..., -1], BLOCK_GROUPS)
    b, superblocks = _starts(blocks, SUPERBLOCK_BLOCKS)
    init = np.full((count, 1), 0.0 if exclusive else -0.0, lines.dtype)
    s = np.cumsum(np.concatenate([init, superblocks[:, :-1]], axis=1), axis=1)
    base = (s[:, :, None] + b).reshape(count, -1)[:, : c.shape[1]]
    starts = (base[:, :, None] + c).reshape(count, -1)[:, : groups.shape[1]]
    sums = np.empty(groups.shape, lines.dtype)
    sums[..., 0] = starts
    sums[..., 1:] = starts[..., None] + inside[..., :-1]
    sums = sums.reshape(count, -1)
    return sums[:, :length] if exclusive else sums[:, 1 : length + 1]


def _starts(totals, size):
    """Cut a row of totals in units of `size`: the running sums before each, and unit totals."""
    count = totals.shape[0]
    size = min(size, totals.shape[1])  # a short row is one unit: no need to fill it up
    rounded = -(-totals.shape[1] // size) * size
    units = _pad(totals, rounded).reshape(count, -1, size)
    running = np.cumsum(units, axis=2)
    before = np.concatenate(
        [np.full((count, units.shape[1], 1), -0.0, totals.dtype), running[:, :, :-1]], axis=2
    )
    return before, running[:, :, -1]


def _pad(rows, length):
    padded = np.full((rows.shape[0], length), -0.0, rows.dtype)
    padded[:, : rows.shape[1]] = rows
    return padded


def same_bits(dtype, left, right):
    """Equal shape and bits; NaNs are equal to each other."""
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
