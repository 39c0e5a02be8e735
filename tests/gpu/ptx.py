"""An interpreter of PTX, for kernels that no GPU here can run: simulate.py drives it.

    machine = Machine(memory, seed, weak=True)
    machine.launch(kernels(text)["gpu_scan"], groups=3, lanes=256, args=[...], ranges=[...])

A kernel becomes Python functions, one for each piece of straight code, which compute all lanes of a work-group
with NumPy. Lanes that part are computed one path after the other, the lowest address first, and meet again.
Work-groups run interleaved at random, some of them in memory at a time, in any order, and some stand still for long.

Memory is weaker than that of any GPU known. A group has a cache that keeps every line that was read. Its stores, and
atomic exchanges whose result is not used, reach the memory at any later time and in any order, but those of one
address in program order. A fence for the device (membar.gl, fence.*.gpu) performs the stores of its lanes, and those
of the group before the last barrier, and empties the cache. Volatile and atomic accesses pass the cache. Loads are
performed in program order; lookback.pml has those that are not.

Launches raise Fault for an access outside the given ranges or of an address that is not aligned; for a barrier that
some lanes of a group do not reach; for two lanes that access the same local memory without a barrier between
them, one of them writing; for a launch that does not end; and for an instruction that is not known here.
"""

import collections
import random
import re

import numpy

U8, U16, U32, U64 = numpy.uint8, numpy.uint16, numpy.uint32, numpy.uint64
UNSIGNED = {8: U8, 16: U16, 32: U32, 64: U64}
SIGNED = {8: numpy.int8, 16: numpy.int16, 32: numpy.int32, 64: numpy.int64}
FLOATS = {32: numpy.float32, 64: numpy.float64}
GLOBAL = 1 << 44  # the address of the first byte of memory
STACK = 1 << 40  # generic addresses of a lane's stack
LINE = 128  # bytes of a cache line
SECTOR = 32  # bytes that the memory moves at least
WARP = 32  # lanes
STEPS_MAX = 3_000_000  # pieces of code that a launch runs
NOBODY, SEVERAL = -1, -2  # instead of a lane


class Fault(Exception):
    pass


# ---- the text ----

ENTRY = re.compile(r"\.entry (\w+)\(([^{]*?)\)([^{]*)\{\n(.*?)^\}", re.M | re.S)
VARIABLE = r"\.{}\s+\.align\s+(\d+)\s+\.\w(\d+)\s+([\w$]+)(?:\[(\d+)\])?;"
DROP = r"\{{ \.reg \.b\d+ tmp; mov\.b(\d+) \{{{}\}}, (%\w+); \}}"  # of one half of a register


def split_operands(text):
    return [part.strip() for part in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", text)]


class Kernel:
    """Its code as functions; self.pieces[i] is (function, kind, target), by address."""

    def __init__(self, name, parameters, body, shared):
        self.name = name
        self.parameters = re.findall(r"(\w+)(?:\[\d+\])?\s*(?:,|$)", parameters.strip())
        self.shared, self.shared_bytes = {}, 0
        for align, bits, variable, count in shared + re.findall(VARIABLE.format("shared"), body):
            at = -(-self.shared_bytes // int(align)) * int(align)
            self.shared[variable] = at
            self.shared_bytes = at + int(bits) // 8 * int(count or 1)
        stack = re.findall(VARIABLE.format("local"), body)
        assert len(stack) <= 1, f"{name} has several stacks"
        self.stack_bytes = sum(int(count) for *_, count in stack)
        self.symbols = {**self.shared, **{variable: 0 for *_, variable, _ in stack}}
        self.widths = {"CC": 1}
        for kind, prefix in re.findall(r"\.reg \.(\w+)\s+%([A-Za-z]+)", body):
            self.widths[prefix] = 1 if kind == "pred" else int(kind[1:])
        self.statements, labels = self._read(body)
        self._translate(labels)

    def _read(self, body):
        body = re.sub(DROP.format(r"tmp, (%\w+)"), r"mov.b\1 {_, \2}, \3;", body)
        body = re.sub(DROP.format(r"(%\w+), tmp"), r"mov.b\1 {\2, _}, \3;", body)
        statements, labels = [], {}
        for line in body.splitlines():
            line = line.strip()
            label = re.fullmatch(r"([$\w]+):", line)
            if label:
                labels[label[1]] = len(statements)
            elif line and line[0] not in ".{}":
                statements += [part.strip() for part in line.split(";") if part.strip()]
        return statements, labels

    def _translate(self, labels):
        pieces, current = [], []
        starts = set(labels.values())
        for at, statement in enumerate(self.statements):
            if at in starts and current:
                pieces.append(current)
                current = []
            current.append(at)
            if re.match(
                r"(@|bra|ret|exit|bar|membar|fence|(ld|st|atom|red)\.(?!param))", statement
            ):
                pieces.append(current)
                current = []
        assert not current, f"{self.name} does not end"
        piece_at = {piece[0]: number for number, piece in enumerate(pieces)}
        self.read, self.slots = set(), {}
        seen = {}  # register: the only piece so far that uses it
        for number, piece in enumerate(pieces):
            written_here = set()
            for at in piece:
                written, read = operands(self.statements[at])
                self.read.update(read)
                for register in read:
                    # Read before it is written: a value of another piece, or of the last turn of a loop.
                    if register not in written_here or seen.get(register, number) != number:
                        self.slots.setdefault(register, len(self.slots))
                for register in written:
                    if seen.setdefault(register, number) != number:
                        self.slots.setdefault(register, len(self.slots))
                    written_here.add(register)
        source = "".join(self._function(number, piece) for number, piece in enumerate(pieces))
        names = {**HELPERS}
        exec(compile(source, self.name, "exec"), names)  # pylint: disable=exec-used
        self.pieces = []
        self.slots_of = [sum(map(issue_slots, (self.statements[at] for at in p))) for p in pieces]
        for number, piece in enumerate(pieces):
            last = self.statements[piece[-1]]
            kind, target = "next", None
            branch = re.fullmatch(r"(?:@(!?)%\w+\s+)?bra(?:\.uni)?\s+([$\w]+)", last)
            if branch:
                kind = "jump" if last[0] != "@" else "unless" if branch[1] else "if"
                target = piece_at[labels[branch[2]]]
            elif re.match(r"(ret|exit)", last):
                kind = "end"
            elif re.match(r"bar(rier)?\.", last):
                kind = "barrier"
            self.pieces.append((names[f"piece{number}"], kind, target))
        self.piece_ends = [piece[-1] for piece in pieces]

    # ---- one piece of code ----

    def _function(self, number, piece):
        self.known, self.lines = set(), []
        for at in piece:
            self._statement(at, self.statements[at])
        body = "".join(f"    {line}\n" for line in self.lines) or "    pass\n"
        return f"def piece{number}(g, R, m):\n{body}\n"

    def _width(self, register):
        return self.widths[re.match(r"%([A-Za-z]+)", register)[1]]

    def _value(self, operand, width):
        """An expression: the operand as an unsigned number of so many bits."""
        if operand.startswith("%"):
            if "." in operand or operand.startswith("%envreg"):
                return f"g.special[{operand!r}]"
            name = operand[1:].replace("$", "_")
            if operand in self.slots and operand not in self.known:
                self.lines.append(f"v{name} = R[{self.slots[operand]}]")
                self.known.add(operand)
            have = self._width(operand)
            return f"v{name}" if have == width else f"v{name}.astype(U{width})"
        if operand in self.symbols:
            return f"U64({self.symbols[operand]})"
        if width == 1:
            return f"TRUTH[{int(operand, 0) & 1}]"
        if operand[:2] in ("0f", "0d"):  # the bits of a float
            return f"U{width}(0x{operand[2:]})"
        return f"U{width}({int(operand.rstrip('U'), 0) & ((1 << width) - 1)})"

    def _typed(self, operand, kind):
        """The same as a number of a type: s32, u16, b64, f32."""
        width = int(kind[1:])
        value = self._value(operand, width)
        if kind == "f32":
            return f"g.flush({value}.view(F32))"
        return f"{value}.view({VIEWS[kind[0]]}{width})" if kind[0] in "sf" else value

    def _float(self, register, value, width):
        """Assign a float that is the result of arithmetic."""
        value = f"g.flush({value})" if width == 32 else value
        self._assign(register, f"({value}).view(U{width})", width)

    def _assign(self, register, value, width, signed=False):
        """A result narrower than its register is extended as its type says."""
        have = self._width(register)
        if have != width:
            value = (
                f"({value}).view(I{width}).astype(I{have}).view(U{have})"
                if signed
                else f"({value}).astype(U{have})"
            )
        name = register[1:].replace("$", "_")
        self.lines.append(f"v{name} = {value}")
        self.known.add(register)
        if register in self.slots:
            slot = f"R[{self.slots[register]}]"
            self.lines.append(f"{slot} = v{name} if m is None else where(m, v{name}, {slot})")

    def _address(self, operand):
        base, _, offset = operand.strip("[]").partition("+")
        value = self._value(base, 64)
        offset = int(offset or "0", 0)
        return f"{value} + U64({offset & (2**64 - 1)})" if offset else value

    def _statement(self, at, statement):
        guard = re.match(r"@!?(%\w+)\s+bra", statement)
        if guard:
            self.lines.append(f"return {self._value(guard[1], 1)}")
            return
        if statement[0] == "@":
            raise Fault(f"no {statement}")
        word, *rest = re.split(r"\s+", statement, maxsplit=1)
        parts, args = word.split("."), split_operands(rest[0]) if rest else []
        method = getattr(self, f"_{parts[0]}", None)
        if parts[0] in ("bra", "ret", "exit", "bar", "barrier"):
            return
        if parts[0] in ("membar", "fence"):
            if "gl" in parts or "sys" in parts or "gpu" in parts:
                self.lines.append("g.fence(m)")
        elif method:
            method(at, parts, args)
        else:
            self._compute(statement, parts, args)

    def _ld(self, at, parts, args):
        kind = parts[-1]
        width = int(kind[1:])
        if parts[1] == "param":
            index = self.parameters.index(re.match(r"\[([\w$]+)\]", args[1])[1])
            self._assign(args[0], f"U{width}(g.args[{index}] & {(1 << width) - 1})", width)
            return
        registers = [r.strip() for r in args[0].strip("{}").split(",")]
        space = next((p for p in parts if p in ("global", "shared", "local")), "generic")
        strong = any(p in ("volatile", "relaxed", "acquire") for p in parts)
        self.lines.append(
            f"t = g.load_{space}({self._address(args[1])}, m, U{width}, {len(registers)}, {strong}, {at})"
        )
        for number, register in enumerate(registers):
            self._assign(register, f"t[{number}]", width, signed=kind[0] == "s")

    def _st(self, at, parts, args):
        width = int(parts[-1][1:])
        values = ", ".join(self._value(v.strip(), width) for v in args[1].strip("{}").split(","))
        space = next((p for p in parts if p in ("global", "shared", "local")), "generic")
        self.lines.append(
            f"g.store_{space}({self._address(args[0])}, m, U{width}, ({values},), {at})"
        )

    def _atom(self, at, parts, args):
        kind = parts[-1]
        width = int(kind[1:])
        operation = next(p for p in parts if p in ATOMICS)
        space = "shared" if "shared" in parts else "global"
        address, values = self._address(args[1]), [self._value(a, width) for a in args[2:]]
        wanted = args[0] in self.read
        self.lines.append(
            f"t = g.atomic_{space}({address}, m, U{width}, {operation!r}, "
            f"({', '.join(values)},), {wanted}, {at})"
        )
        if wanted:
            self._assign(args[0], "t", width)

    def _red(self, at, parts, args):
        self._atom(at, parts, ["_", *args])

    def _mov(self, _, parts, args):
        kind = parts[-1]
        width = 1 if kind == "pred" else int(kind[1:])
        if args[0].startswith("{"):
            halves = [h.strip() for h in args[0].strip("{}").split(",")]
            small = width // len(halves)
            for number, half in enumerate(halves):
                if half != "_":
                    value = self._value(args[1], width)
                    self._assign(
                        half, f"({value} >> U{width}({number * small})).astype(U{small})", small
                    )
        elif args[1].startswith("{"):
            halves = [h.strip() for h in args[1].strip("{}").split(",")]
            small = width // len(halves)
            terms = (
                f"({self._value(half, small)}.astype(U{width}) << U{width}({number * small}))"
                for number, half in enumerate(halves)
            )
            self._assign(args[0], " | ".join(terms), width)
        else:
            self._assign(args[0], self._value(args[1], width), width)

    def _cvta(self, _, parts, args):
        value = self._value(args[1], 64)
        if "global" not in parts:
            assert "local" in parts, "generic addresses of local memory are not known"
            value = f"{value} {'-' if 'to' in parts else '+'} U64({STACK})"
        self._assign(args[0], value, 64)

    def _cvt(self, _, parts, args):
        to, source = parts[-2:]
        width = int(to[1:])
        form = CONVERSIONS.get((*parts[1:-2], to[0], source[0]))
        if form:
            value = form.format(self._typed(args[1], source), W=width)
            if to[0] == "f":
                self._float(args[0], value, width)
            else:
                self._assign(args[0], f"({value}).view(U{width})", width)
            return
        if len(parts) != 3 or "f" in to + source:
            raise Fault(f"no {'.'.join(parts)}")
        target = f"I{width}" if source[0] == "s" else f"U{width}"
        self._assign(
            args[0],
            f"{self._typed(args[1], source)}.astype({target}).view(U{width})",
            width,
            signed=to[0] == "s",
        )

    def _setp(self, _, parts, args):
        signs = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
        signs |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
        if parts[2][0] == "f":
            signs = {"eq": "==", "neu": "!="}  # of a NaN as NumPy compares
        if len(parts) != 3 or parts[1] not in signs:
            raise Fault(f"no {'.'.join(parts)}")
        first, second = (self._typed(a, parts[2]) for a in args[1:3])
        self._assign(args[0], f"{first} {signs[parts[1]]} {second}", 1)

    def _selp(self, _, parts, args):
        width = int(parts[-1][1:])
        first, second = (self._value(a, width) for a in args[1:3])
        self._assign(args[0], f"select({self._value(args[3], 1)}, {first}, {second})", width)

    def _carry(self, parts, args):
        width = int(parts[-1][1:])
        names = [self._value(a, width) for a in args[1:]]
        carry = f"{self._value('%CC', 1)}.astype(U{width})" if parts[0][-1] == "c" else ""
        result, after = CARRIES[parts[0]]
        self.lines.append(f"r = {result.format(*names, c=carry)}")
        if "cc" in parts:
            self.lines.append(f"c = {after.format(*names, c=carry, r='r')}")
        self._assign(args[0], "r", width)
        if "cc" in parts:
            self._assign("%CC", "c", 1)

    def _compute(self, statement, parts, args):
        """An instruction of FORMS, CARRIES or COUNTS: it only computes."""
        kind = parts[-1]
        width = 1 if kind == "pred" else int(kind[1:])
        if parts[0] in CARRIES and ("cc" in parts or parts[0][-1] == "c"):
            self._carry(parts, args)
            return
        if parts[0] in COUNTS:
            value = COUNTS[parts[0]].format(self._value(args[1], width), W=width)
            self._assign(args[0], value, 32)
            return
        if kind[0] == "f":
            if ".".join(parts[:-1]) not in FLOAT_FORMS:
                raise Fault(f"no {statement}")
            form = FLOAT_FORMS[".".join(parts[:-1])]
            self._float(args[0], form.format(*(self._typed(a, kind) for a in args[1:])), width)
            return
        name = ".".join(p for p in parts[:-1] if p not in ("rn", "lo"))
        if f"{name}.{kind[0]}" not in FORMS and name not in FORMS:
            raise Fault(f"no {statement}")
        form, types, wide = FORMS.get(f"{name}.{kind[0]}") or FORMS[name]
        types = (types * len(args))[: len(args) - 1] if len(types) == 1 else types
        values = []
        for operand, letter in zip(args[1:], types):
            # t: of the type; u: unsigned; n: a count of 32 bits; w: twice as wide
            wanted = {"t": kind, "u": f"u{width}", "n": "u32", "w": f"u{2 * width}"}[letter]
            values.append(self._value(operand, 1) if width == 1 else self._typed(operand, wanted))
        result = form.format(*values, W=width, D=2 * width)
        if kind[0] == "s" and "t" in types:
            result = f"({result}).view(U{width * wide})"
        self._assign(args[0], result, width * wide)


def issue_slots(statement):
    """The instructions of sm_90 for a statement, about: a number of 64 bits is two of 32. Moves and parameters
    mostly vanish; ptxas merges some pairs, which is not counted."""
    parts = re.sub(r"^@!?%\w+\s+", "", statement).split()[0].split(".")
    name, kind = parts[0], parts[-1]
    if name in ("mov", "cvta", "ret", "exit") or "param" in parts:
        return 0
    if name in ("ld", "st", "atom", "red", "bra", "bar", "barrier", "membar", "fence"):
        return 1
    if "f32" in parts or "f64" in parts:
        return 1
    if name in ("div", "rem"):
        return 20 if kind[1:] == "32" else 80
    if kind in ("pred", "b64", "u64", "s64") and kind != "pred" and "wide" not in parts:
        return {"mul": 4, "mad": 4, "shl": 3, "shr": 3, "clz": 4, "min": 4, "max": 4, "cvt": 1}.get(
            name, 2
        )
    return 1


def operands(statement):
    """The registers that a statement writes, and those that it reads."""
    guard = re.match(r"@!?(%\w+)\s+(.*)", statement)
    if guard:
        return [], [guard[1]]
    word, *rest = re.split(r"\s+", statement, maxsplit=1)
    args = split_operands(rest[0]) if rest else []
    registers = [re.findall(r"%(?!envreg)[A-Za-z]+\d*(?![\w.])", a) for a in args]
    if not args or word.startswith(("st.", "red.", "bra")):
        return [], sum(registers, [])
    carry = ["%CC"] if re.search(r"\.cc\.|^(addc|subc)\.", word) else []
    return registers[0] + carry, sum(registers[1:], []) + carry


def kernels(text):
    """Map the names of the kernels in PTX to kernels."""
    text = re.sub(r"//.*", "", text)
    if re.search(r"\bcall(\.uni)?\b", text):
        raise Fault("calls of functions are not known")
    outside = ENTRY.sub("", text)
    shared = re.findall(VARIABLE.format("shared"), outside)
    return {
        name: Kernel(name, parameters, body, shared)
        for name, parameters, _, body in ENTRY.findall(text)
    }


# ---- arithmetic ----


def select(condition, first, second):
    if condition.ndim == 0:
        return first if condition else second
    return numpy.where(condition, first, second)


def shift_left(x, n, width):
    kept = (n & U32(width - 1)).astype(UNSIGNED[width])
    return select(n >= U32(width), UNSIGNED[width](0), x << kept)


def shift_right(x, n, width):
    kept = numpy.minimum(n, U32(width - 1)).astype(x.dtype)
    moved = x >> kept
    return moved if x.dtype.kind == "i" else select(n >= U32(width), x.dtype.type(0), moved)


def funnel(low, high, n, left, clamp):
    n = numpy.minimum(n, U32(32)) if clamp else n & U32(31)
    both = high.astype(U64) << U64(32) | low.astype(U64)
    shift = n.astype(U64)
    return ((both << shift) >> U64(32) if left else both >> shift).astype(U32)


def multiply_high(x, y, width):
    half = U64(width // 2)
    mask = U64((1 << (width // 2)) - 1)
    x, y = x.astype(U64), y.astype(U64)
    low = (x & mask) * (y & mask)
    first = (x >> half) * (y & mask) + (low >> half)
    second = (x & mask) * (y >> half) + (first & mask)
    return ((x >> half) * (y >> half) + (first >> half) + (second >> half)).astype(UNSIGNED[width])


def multiply_high_signed(x, y, width):
    unsigned = UNSIGNED[width]
    high = multiply_high(x.view(unsigned), y.view(unsigned), width)
    high = high - select(x < 0, y.view(unsigned), unsigned(0))
    return high - select(y < 0, x.view(unsigned), unsigned(0))


def leading_zeros(x, width):
    unsigned = UNSIGNED[width]
    count, rest, step = U32(0), x, width // 2
    while step:
        empty = rest >> unsigned(width - step) == 0
        count = count + empty.astype(U32) * U32(step)
        rest = select(empty, rest << unsigned(step), rest)
        step //= 2
    return count + (x == 0).astype(U32)


def field_mask(count, width):
    """So many low bits set."""
    unsigned = UNSIGNED[width]
    few = numpy.minimum(count, U32(width - 1)).astype(unsigned)
    return select(count >= U32(width), ~unsigned(0), (unsigned(1) << few) - unsigned(1))


def extract_field(x, begin, count, width):
    """A signed field is extended by its highest bit, or by that of the number if it reaches beyond."""
    begin, count = begin & U32(255), count & U32(255)
    unsigned = x.view(UNSIGNED[width])
    inside = numpy.minimum(count, U32(width) - numpy.minimum(begin, U32(width)))
    value = shift_right(unsigned, begin, width) & field_mask(inside, width)
    if x.dtype.kind == "u":
        return value
    top = numpy.minimum(begin + count - U32(1), U32(width - 1))
    sign = unsigned >> top.astype(UNSIGNED[width]) & UNSIGNED[width](1)
    negative = (sign != 0) & (count != 0)
    return select(negative, value | ~field_mask(inside, width), value).view(x.dtype)


def insert_field(x, y, begin, count, width):
    begin, count = begin & U32(255), count & U32(255)
    mask = shift_left(field_mask(count, width), begin, width)
    return (y & ~mask) | (shift_left(x, begin, width) & mask)


def permute(low, high, chosen):
    both = high.astype(U64) << U64(32) | low.astype(U64)
    result = U64(0)
    for number in range(4):
        choice = (chosen >> U32(4 * number)).astype(U64)
        byte = both >> ((choice & U64(7)) * U64(8)) & U64(255)
        sign = select(byte >= U64(128), U64(255), U64(0))
        result = result | select((choice & U64(8)) != 0, sign, byte) << U64(8 * number)
    return result.astype(U32)


def divide(x, y, remainder):
    """Towards zero, as PTX does."""
    y = select(y == 0, y.dtype.type(1), y)
    if x.dtype.kind == "u":
        return x % y if remainder else x // y
    rest = numpy.fmod(x, y)
    return rest if remainder else (x - rest) // y


def truncate(x, kind):
    """To an integer, towards zero; a number out of range becomes the nearest one in range, a NaN 0."""
    limits = numpy.iinfo(kind)
    least = x.dtype.type(limits.min)
    inside = (x >= least) & (x < -least)
    over = select(x > 0, kind(limits.max), select(x < 0, kind(limits.min), kind(0)))
    return select(inside, select(inside, x, x.dtype.type(0)).astype(kind), over)


HELPERS = {
    "where": numpy.where,
    "minimum": numpy.minimum,
    "maximum": numpy.maximum,
    "TRUTH": (numpy.bool_(False), numpy.bool_(True)),
    **{f"U{width}": kind for width, kind in UNSIGNED.items()},
    **{f"I{width}": kind for width, kind in SIGNED.items()},
    **{f"F{width}": kind for width, kind in FLOATS.items()},
    **{
        function.__name__: function
        for function in (
            select,
            shift_left,
            shift_right,
            funnel,
            multiply_high,
            multiply_high_signed,
        )
        + (
            truncate,
            leading_zeros,
            numpy.bitwise_count,
            extract_field,
            insert_field,
            permute,
            divide,
        )
    },
}
# Instruction: (expression, types of the operands, width of the result in that of the type).
FORMS = {
    "add": ("{0} + {1}", "u", 1),
    "sub": ("{0} - {1}", "u", 1),
    "mul": ("{0} * {1}", "u", 1),
    "mad": ("{0} * {1} + {2}", "u", 1),
    "mul.wide.u": ("{0}.astype(U{D}) * {1}.astype(U{D})", "u", 2),
    "mul.wide.s": ("({0}.astype(I{D}) * {1}.astype(I{D})).view(U{D})", "t", 2),
    "mad.wide.u": ("{0}.astype(U{D}) * {1}.astype(U{D}) + {2}", "uuw", 2),
    "mad.wide.s": ("({0}.astype(I{D}) * {1}.astype(I{D})).view(U{D}) + {2}", "ttw", 2),
    "mul.hi.u": ("multiply_high({0}, {1}, {W})", "u", 1),
    "mul.hi.s": ("multiply_high_signed({0}, {1}, {W})", "t", 1),
    "mad.hi.u": ("multiply_high({0}, {1}, {W}) + {2}", "u", 1),
    "div": ("divide({0}, {1}, False)", "t", 1),
    "rem": ("divide({0}, {1}, True)", "t", 1),
    "and": ("{0} & {1}", "u", 1),
    "or": ("{0} | {1}", "u", 1),
    "xor": ("{0} ^ {1}", "u", 1),
    "not": ("~{0}", "u", 1),
    "neg": ("U{W}(0) - {0}", "u", 1),
    "abs": ("abs({0})", "t", 1),
    "min": ("minimum({0}, {1})", "t", 1),
    "max": ("maximum({0}, {1})", "t", 1),
    "shl": ("shift_left({0}, {1}, {W})", "un", 1),
    "shr": ("shift_right({0}, {1}, {W})", "tn", 1),
    "shf.l.wrap": ("funnel({0}, {1}, {2}, True, False)", "u", 1),
    "shf.r.wrap": ("funnel({0}, {1}, {2}, False, False)", "u", 1),
    "shf.l.clamp": ("funnel({0}, {1}, {2}, True, True)", "u", 1),
    "shf.r.clamp": ("funnel({0}, {1}, {2}, False, True)", "u", 1),
    "bfe": ("extract_field({0}, {1}, {2}, {W})", "tnn", 1),
    "bfi": ("insert_field({0}, {1}, {2}, {3}, {W})", "uunn", 1),
    "prmt": ("permute({0}, {1}, {2})", "u", 1),
}
# Floats, each result rounded to nearest even.
FLOAT_FORMS = {"add.rn": "{0} + {1}", "sub.rn": "{0} - {1}", "mul.rn": "{0} * {1}"}
# Rounding, type of the result, type of the operand.
CONVERSIONS = {
    ("rn", "f", "s"): "{0}.astype(F{W})",
    ("rn", "f", "u"): "{0}.astype(F{W})",
    ("rzi", "s", "f"): "truncate({0}, I{W})",
}
VIEWS = {"s": "I", "f": "F"}
# The same of instructions whose result has 32 bits, whatever their type.
COUNTS = {"clz": "leading_zeros({0}, {W})", "popc": "bitwise_count({0}).astype(U32)"}
# With a carry: (the result, the carry after it).
CARRIES = {
    "add": ("{0} + {1}", "{r} < {0}"),
    "addc": ("{0} + {1} + {c}", "({r} < {0}) | (({r} == {0}) & ({c} != 0))"),
    "sub": ("{0} - {1}", "{0} < {1}"),
    "subc": ("{0} - {1} - {c}", "({0} < {1}) | (({0} == {1}) & ({c} != 0))"),
}
ATOMICS = ("add", "exch", "cas", "or", "and", "xor", "min", "max")


# ---- a work-group ----


class Stores:
    """Stores of one instruction that are not performed yet."""

    def __init__(self, at, data, lanes, epoch, held):
        self.at, self.data, self.lanes, self.epoch, self.held = at, data, lanes, epoch, held
        self.first, self.last = int(at.min()), int(at.max()) + data.shape[1]

    def cells(self):
        return self.at[:, None] + numpy.arange(self.data.shape[1])

    def overlaps(self, first, last):
        return self.first < last and first < self.last


class Group:
    """A work-group: its lanes, registers and local memory, its cache, and its stores on their way."""

    def __init__(self, machine, kernel, number, groups, lanes, args):
        self.machine, self.kernel, self.number, self.lanes, self.args = (
            machine,
            kernel,
            number,
            lanes,
            args,
        )
        self.every = numpy.arange(lanes)
        zero = U32(0)
        self.special = {
            "%tid.x": self.every.astype(U32),
            "%ctaid.x": U32(number),
            "%ntid.x": U32(lanes),
            "%nctaid.x": U32(groups),
            **{f"%{name}.{axis}": zero for name in ("tid", "ctaid") for axis in "yz"},
            **{f"%{name}.{axis}": U32(1) for name in ("ntid", "nctaid") for axis in "yz"},
        }
        self.special |= {f"%envreg{i}": zero for i in range(32)}
        self.registers = [
            (numpy.bool_ if width == 1 else UNSIGNED[width])(0)
            for width in (kernel._width(register) for register in kernel.slots)
        ]
        fresh = machine.fresh
        self.shared = fresh.integers(0, 256, -(-kernel.shared_bytes // 16) * 16, U8)
        self.stack = fresh.integers(0, 256, (lanes, -(-kernel.stack_bytes // 16) * 16), U8)
        self.writer = numpy.full(len(self.shared), NOBODY)
        self.reader = numpy.full(len(self.shared), NOBODY)
        self.at = {0: (None, lanes)}  # piece: (lanes there; None: all, how many)
        self.waiting = {}
        self.ended = 0
        self.epoch = 0  # barriers so far
        self.stores = []
        if machine.weak:
            self.cache = numpy.empty(machine.top, U8)
            self.cached = numpy.zeros(machine.top // LINE, bool)
            self.owed = numpy.zeros(machine.top, U16)  # stores of a byte that are not performed

    def active(self, mask):
        return self.every if mask is None else numpy.flatnonzero(mask)

    def _spread(self, mask, lanes, values):
        """The values of some lanes as those of all."""
        if mask is None:
            return values
        whole = numpy.zeros(self.lanes, values.dtype)
        whole[lanes] = values
        return whole

    def _lane_addresses(self, address, mask):
        lanes = self.active(mask)
        if address.ndim == 0:
            return lanes, numpy.full(len(lanes), address, U64)
        return lanes, address if mask is None else address[lanes]

    def fault(self, what, at, lane=0):
        statement = self.kernel.statements[at]
        raise Fault(f"{self.kernel.name}, group {self.number}, lane {lane}: {what}: {statement}")

    def flush(self, x):
        """A float32 as the device reads or writes it: a GPU may replace subnormal numbers by zeros."""
        if not self.machine.flushes:
            return x
        return select(abs(x) < numpy.finfo(x.dtype).tiny, numpy.copysign(x.dtype.type(0), x), x)

    # ---- running ----

    def step(self):
        """Run one piece of code; returns False if the group has ended."""
        if not self.at:
            return self._pass_barrier()
        piece = min(self.at)
        mask, count = self.at.pop(piece)
        function, kind, target = self.kernel.pieces[piece]
        if self.machine.meter:
            self.machine.meter.run(self.kernel, piece, mask, self.lanes)
        taken = function(self, self.registers, mask)
        if kind == "next":
            self._go(piece + 1, mask, count)
        elif kind == "jump":
            self._go(target, mask, count)
        elif kind == "end":
            self.ended += count
        elif kind == "barrier":
            self._meet(self.waiting, piece, mask, count)
        else:
            if kind == "unless":
                taken = ~taken
            self._part(piece + 1, target, mask, count, taken)
        return True

    def _part(self, straight, target, mask, count, taken):
        if taken.ndim == 0:
            self._go(target if taken else straight, mask, count)
            return
        there = taken if mask is None else taken & mask
        some = int(numpy.count_nonzero(there))
        if some in (0, count):
            self._go(target if some else straight, mask, count)
            return
        self._go(target, there, some)
        self._go(straight, ~there if mask is None else mask & ~there, count - some)

    def _go(self, piece, mask, count):
        self._meet(self.at, piece, mask, count)

    def _meet(self, places, piece, mask, count):
        met = places.get(piece)
        if met:
            count += met[1]
            mask = None if count == self.lanes else mask | met[0]
        places[piece] = (mask, count)

    def _pass_barrier(self):
        if not self.waiting:
            return False
        if len(self.waiting) > 1 or self.ended:
            piece, (mask, _) = next(iter(self.waiting.items()))
            self.fault(
                "not every lane comes to this barrier",
                self.kernel.piece_ends[piece],
                int(self.active(mask)[0]),
            )
        piece, (mask, count) = self.waiting.popitem()
        assert count == self.lanes
        self.at = {piece + 1: (mask, count)}
        self.epoch += 1
        self.writer[:] = NOBODY
        self.reader[:] = NOBODY
        return True

    # ---- local memory and the stack ----

    def _shared_cells(self, address, mask, size, at):
        lanes, address = self._lane_addresses(address, mask)
        wrong = (address + U64(size) > U64(self.kernel.shared_bytes)) | (address % U64(size) != 0)
        if wrong.any():
            self.fault("out of bounds in local memory", at, int(lanes[wrong][0]))
        return lanes, address.astype(numpy.int64)

    def _share(self, lanes, cells, writes, at):
        """Find accesses that no barrier orders."""
        own = lanes[:, None]
        writer = self.writer[cells]
        wrong = (writer != NOBODY) & (writer != own)
        if writes:
            reader = self.reader[cells]
            wrong |= (reader != NOBODY) & (reader != own)
            self.writer[cells] = own
            wrong |= self.writer[cells] != own  # two lanes now
        else:
            reader = self.reader[cells]
            self.reader[cells] = own
            several = (self.reader[cells] != own) | ((reader != NOBODY) & (reader != own))
            self.reader[cells[several]] = SEVERAL
        if wrong.any():
            lane = int(lanes[wrong.any(axis=1)][0])
            self.fault("lanes race for local memory", at, lane)

    def load_shared(self, address, mask, kind, count, _, at):
        size = kind().itemsize
        lanes, first = self._shared_cells(address, mask, size * count, at)
        self._share(lanes, first[:, None] + numpy.arange(size * count), False, at)
        words = self.shared.view(kind)
        return [self._spread(mask, lanes, words[first // size + i]) for i in range(count)]

    def store_shared(self, address, mask, kind, values, at):
        size = kind().itemsize
        lanes, first = self._shared_cells(address, mask, size * len(values), at)
        self._share(lanes, first[:, None] + numpy.arange(size * len(values)), True, at)
        words = self.shared.view(kind)
        for i, value in enumerate(values):
            words[first // size + i] = value if value.ndim == 0 else value[lanes]

    def atomic_shared(self, address, mask, kind, operation, values, _, at):
        lanes, first = self._shared_cells(address, mask, kind().itemsize, at)
        words, where = self.shared.view(kind), first // kind().itemsize
        return self._spread(mask, lanes, update(words, where, operation, values, lanes))

    def load_local(self, address, mask, kind, count, _, at):
        lanes, first = self._stack_words(address, mask, kind, count, at)
        words = self.stack.view(kind)
        return [self._spread(mask, lanes, words[lanes, first + i]) for i in range(count)]

    def store_local(self, address, mask, kind, values, at):
        lanes, first = self._stack_words(address, mask, kind, len(values), at)
        words = self.stack.view(kind)
        for i, value in enumerate(values):
            words[lanes, first + i] = value if value.ndim == 0 else value[lanes]

    def _stack_words(self, address, mask, kind, count, at):
        lanes, address = self._lane_addresses(address, mask)
        size = kind().itemsize
        wrong = (address + U64(size * count) > U64(self.kernel.stack_bytes)) | (
            address % U64(size) != 0
        )
        if wrong.any():
            self.fault("out of bounds on the stack", at, int(lanes[wrong][0]))
        return lanes, (address // U64(size)).astype(numpy.int64)

    # A generic address is one of the stack or of the memory.

    def _by_space(self, address, mask):
        on_stack = numpy.broadcast_to(address < U64(GLOBAL), self.lanes)
        everyone = numpy.ones(self.lanes, bool) if mask is None else mask
        return everyone & on_stack, everyone & ~on_stack

    def load_generic(self, address, mask, kind, count, strong, at):
        stack, memory = self._by_space(address, mask)
        values = [numpy.zeros(self.lanes, kind) for _ in range(count)]
        for part, load, base in ((stack, self.load_local, STACK), (memory, self.load_global, 0)):
            if part.any():
                found = load(address - U64(base), part, kind, count, strong, at)
                values = [numpy.where(part, new, old) for new, old in zip(found, values)]
        return values

    def store_generic(self, address, mask, kind, values, at):
        stack, memory = self._by_space(address, mask)
        for part, store, base in ((stack, self.store_local, STACK), (memory, self.store_global, 0)):
            if part.any():
                store(address - U64(base), part, kind, values, at)

    # ---- the memory ----

    def _memory_cells(self, address, size, alignment, lanes, at):
        """Offsets of addresses, all of them in the ranges of the launch."""
        first = (address - U64(GLOBAL)).astype(numpy.int64)
        starts, ends = self.machine.starts, self.machine.ends
        found = numpy.searchsorted(starts, first, "right") - 1
        wrong = (found < 0) | (first + size > ends[numpy.maximum(found, 0)])
        what = "out of bounds"
        if not wrong.any():
            wrong, what = first % alignment != 0, "not aligned"
        if numpy.any(wrong):
            lane = (
                int(numpy.broadcast_to(lanes, wrong.shape)[wrong][0])
                if wrong.ndim
                else int(lanes[0])
            )
            self.fault(what, at, lane)
        return first

    def load_global(self, address, mask, kind, count, strong, at):
        lanes = self.active(mask)
        uniform = address.ndim == 0
        if not uniform and mask is not None:
            address = address[lanes]
        size = kind().itemsize
        first = numpy.atleast_1d(self._memory_cells(address, size * count, size * count, lanes, at))
        if self.machine.meter:
            self.machine.meter.access(self.kernel, first, size * count, lanes)
        if not self.machine.weak or (strong and not self.stores):
            source = self.machine.memory
        else:
            source = self.cache
            self._fill_cache(first, size * count, strong)
        words, where = source.view(kind), first // size
        if uniform:
            return [words[where[0] + i] for i in range(count)]
        return [self._spread(mask, lanes, words[where + i]) for i in range(count)]

    def _fill_cache(self, first, size, strong):
        """Read the lines that are not in the cache; of strong accesses the very bytes."""
        memory = self.machine.memory
        if strong:
            cells = (first[:, None] + numpy.arange(size)).ravel()
            cells = cells[self.owed[cells] == 0]
            self.cache[cells] = memory[cells]
            return
        lines = first // LINE
        missing = lines[~self.cached[lines]]
        if len(missing):
            missing = numpy.unique(missing)
            shape = (-1, LINE)
            fresh = memory[: self.machine.top].reshape(shape)[missing]
            own = self.owed.reshape(shape)[missing] > 0
            cache = self.cache.reshape(shape)
            cache[missing] = numpy.where(own, cache[missing], fresh)
            self.cached[missing] = True

    def store_global(self, address, mask, kind, values, at):
        lanes, address = self._lane_addresses(address, mask)
        size = kind().itemsize
        first = self._memory_cells(address, size * len(values), size * len(values), lanes, at)
        if self.machine.meter:
            self.machine.meter.access(self.kernel, first, size * len(values), lanes)
        data = numpy.empty((len(lanes), len(values)), kind)
        for i, value in enumerate(values):
            data[:, i] = value if value.ndim == 0 else value[lanes]
        self._store(first, data.view(U8), lanes, at)

    def _store(self, first, data, lanes, at):
        if len(numpy.unique(first)) < len(first):
            self.fault("two lanes store to one address", at, int(lanes[0]))
        machine = self.machine
        stores = Stores(first, data, lanes, self.epoch, machine.random.random() < 0.3)
        if not machine.weak:
            machine.memory[stores.cells()] = data
            return
        cells = stores.cells()
        self.cache[cells] = data
        self.owed[cells] += U16(1)
        self.stores.append(stores)

    def atomic_global(self, address, mask, kind, operation, values, wanted, at):
        lanes, address = self._lane_addresses(address, mask)
        size = kind().itemsize
        first = self._memory_cells(address, size, size, lanes, at)
        if operation == "exch" and not wanted and len(numpy.unique(first)) == len(first):
            data = numpy.empty((len(lanes), 1), kind)
            data[:, 0] = values[0] if values[0].ndim == 0 else values[0][lanes]
            self._store(first, data.view(U8), lanes, at)
            return None
        if self.machine.weak:
            self.perform_overlapping(int(first.min()), int(first.max()) + size)
        old = update(self.machine.memory.view(kind), first // size, operation, values, lanes)
        if self.machine.weak:
            cells = (first[:, None] + numpy.arange(size)).ravel()
            self.cache[cells] = self.machine.memory[cells]
        return self._spread(mask, lanes, old)

    # ---- stores on their way ----

    def _perform(self, stores):
        cells = stores.cells()
        self.machine.memory[cells] = stores.data
        self.owed[cells] -= U16(1)

    def perform_some(self, random_):
        """Perform some stores, those of an address in order."""
        kept = []
        for stores in self.stores:
            likely = 0.02 if stores.held else 0.4
            if random_.random() < likely and not any(
                earlier.overlaps(stores.first, stores.last) for earlier in kept
            ):
                self._perform(stores)
            else:
                kept.append(stores)
        self.stores = kept

    def perform_overlapping(self, first, last):
        """Perform the stores up to the last one to the range."""
        while any(stores.overlaps(first, last) for stores in self.stores):
            self._perform(self.stores.pop(0))

    def perform_all(self):
        for stores in self.stores:
            self._perform(stores)
        self.stores = []

    def fence(self, mask):
        """Perform the stores that come before the fence, for its lanes; then read everything anew."""
        if not self.machine.weak:
            return
        fencing = numpy.ones(self.lanes, bool) if mask is None else mask
        kept = []
        for stores in self.stores:
            ordered = fencing[stores.lanes] | (stores.epoch < self.epoch)
            if ordered.any():
                rest = ~ordered
                if rest.any():
                    kept.append(
                        Stores(
                            stores.at[rest],
                            stores.data[rest],
                            stores.lanes[rest],
                            stores.epoch,
                            stores.held,
                        )
                    )
                    stores = Stores(
                        stores.at[ordered],
                        stores.data[ordered],
                        stores.lanes[ordered],
                        stores.epoch,
                        False,
                    )
                self._perform(stores)
            else:
                kept.append(stores)
        self.stores = kept
        self.cached[:] = False


def update(words, where, operation, values, lanes):
    """Perform atomic operations of some lanes one after the other; return the values before them."""
    values = [numpy.broadcast_to(v if v.ndim == 0 else v[lanes], len(lanes)) for v in values]
    old = numpy.empty(len(lanes), words.dtype)
    for i, place in enumerate(where):
        now = old[i] = words[place]
        value = values[0][i]
        if operation == "cas":
            words[place] = values[1][i] if now == value else now
        else:
            words[place] = {
                "add": lambda now, value: now + value,
                "exch": lambda now, value: value,
                "or": lambda now, value: now | value,
                "and": lambda now, value: now & value,
                "xor": lambda now, value: now ^ value,
                "min": min,
                "max": max,
            }[operation](now, value)
    return old


# ---- launches ----


class Meter:
    """Counts what the warps of launches issue, and the sectors of some ranges of memory that they access."""

    def __init__(self):
        self.ranges = []
        self.slots, self.sectors = collections.Counter(), collections.Counter()

    def run(self, kernel, piece, mask, lanes):
        warps = -(-lanes // WARP)
        if mask is not None:
            warps = len(numpy.unique(numpy.flatnonzero(mask) // WARP))
        self.slots[kernel.name] += kernel.slots_of[piece] * warps

    def access(self, kernel, first, size, lanes):
        """Each warp accesses each sector once with an instruction."""
        lanes = lanes[: len(first)]
        for begin, end in self.ranges:
            own = (first >= begin) & (first < end)
            low, high = first[own] // SECTOR, (first[own] + size - 1) // SECTOR
            warp = lanes[own] // WARP
            pairs = numpy.unique(numpy.stack([[*warp, *warp], [*low, *high]]), axis=1)
            self.sectors[kernel.name] += pairs.shape[1]


class Machine:
    """A GPU. memory: an array of bytes, shared with the host. All random choices follow from the seed."""

    def __init__(self, memory, seed, weak=True, steps_max=STEPS_MAX):
        self.memory, self.weak, self.steps_max = memory, weak, steps_max
        self.random = random.Random(seed)
        self.fresh = numpy.random.default_rng(seed)
        self.flushes = self.random.random() < 0.5
        self.steps = 0
        self.meter = None

    def launch(self, kernel, groups, lanes, args, ranges, top):
        """Run all groups. args: numbers; ranges: (begin, end) of the buffers; top: bytes of memory in use."""
        ranges = sorted(ranges)
        self.starts = numpy.array([begin for begin, _ in ranges] or [0])
        self.ends = numpy.array([end for _, end in ranges] or [0])
        self.top = -(-top // LINE) * LINE
        order = list(range(groups))
        draw = self.random
        if draw.random() < 0.3:
            draw.shuffle(order)
        order.reverse()
        most = draw.choice((1, 2, 3, 4, 6))
        turn = draw.choice((1, 8, 60, 500))
        resident, gone, steps = [], [], 0
        frozen = None
        with numpy.errstate(all="ignore"):
            while order or resident:
                while order and len(resident) < most:
                    resident.append(Group(self, kernel, order.pop(), groups, lanes, args))
                    if draw.random() < 0.3:
                        frozen = resident[-1]
                running = [g for g in resident if g is not frozen] or resident
                group = draw.choice(running)
                for _ in range(draw.randint(1, turn)):
                    steps += 1
                    if not group.step():
                        resident.remove(group)
                        gone += [group] if group.stores else []
                        break
                if frozen not in resident or draw.random() < 0.001 * turn:
                    frozen = None
                for some in resident + gone:
                    if some.stores:
                        some.perform_some(draw)
                gone = [g for g in gone if g.stores]
                if steps > self.steps_max:
                    raise Fault(f"{kernel.name} does not end")
        for group in gone:
            group.perform_all()
        self.steps += steps
