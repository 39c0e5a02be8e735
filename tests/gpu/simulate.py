"""Run the kernels for GPUs as an interpreter of PTX does, and compare every bit with an oracle.

    build/venv/bin/python tests/gpu/simulate.py [--seed N] [--rounds N] [--seconds N] [--only WORDS]

clang makes the PTX (programs.py), ptx.py interprets it in a memory that is weaker than that of any GPU, and
tests/gpu/launches.c makes the launches: the very code of the service that chooses kernels and fills tables. The
oracle adds up integers of any length. A round has random layouts of each element type, with offsets of 32 and of
64 bits, for the tiles, the look-back and the kernels that run a line in each lane: inclusive and exclusive, forwards
and in reverse, in place and apart, alone and several together, whole lines and lines cut in two by a carry. The
bytes around the outputs must keep their values.

First, faults that are planted in PTX must be found: among them a look-back without its fences, which gives wrong
sums. The check fails if one is not, if a kernel of tests/gpu/programs.txt never ran, and if a case is wrong; it
prints the arguments that run that case alone. After --seconds (270) no round begins but the first three.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import itertools
import mmap
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import numpy

import programs
import ptx

TOP = programs.TOP
LAUNCHES = "build/release/tests/gpu/launches"
ARENA_BYTES = 64 << 20
CUT = 256  # SCAN_CUT (kernels/split.h)
# Bytes; of a float also the bits of its fraction.
TYPES = {
    "int8": (1, 0),
    "int16": (2, 0),
    "int32": (4, 0),
    "int64": (8, 0),
    "float16": (2, 10),
    "bfloat16": (2, 7),
    "float32": (4, 23),
    "float64": (8, 52),
}
ROUNDS_LEAST = 3  # by then every kernel has run
FAMILIES = ("tiles", "look-back", "lines")


# ---- the oracle ----


def round_sum(total, width, fraction):
    """The bits of a whole number of units, the least positive numbers of the type, as a float."""
    sign = 1 << (width - 1) if total < 0 else 0
    size = abs(total)
    shift = max(size.bit_length() - fraction - 1, 0)
    kept, rest = size >> shift, size & ((1 << shift) - 1)
    if shift and (2 * rest > 1 << shift or 2 * rest == 1 << shift and kept & 1):
        kept += 1
    infinity = ((1 << (width - 1 - fraction)) - 1) << fraction
    return sign | min((shift << fraction) + kept, infinity)


def float_sums(line, width, fraction, exclusive):
    """docs/design/numerics.md, "Special values", of the bits of a line."""
    infinity = ((1 << (width - 1 - fraction)) - 1) << fraction
    nan = infinity | 1 << (fraction - 1)
    total, specials = 0, set()
    zero = (
        0 if exclusive else 1 << (width - 1)
    )  # the sum as long as it has no other element than -0.0
    sums = [0]
    for bits in line:
        sign, size = bits >> (width - 1), bits & ((1 << (width - 1)) - 1)
        if size >= infinity:
            specials.add("nan" if size > infinity else "-" if sign else "+")
        else:
            field, number = size >> fraction, size & ((1 << fraction) - 1)
            number = (number | 1 << fraction) << (field - 1) if field else number
            total += -number if sign else number
        zero = zero if bits == 1 << (width - 1) else 0
        if specials:
            one = specials in ({"+"}, {"-"})
            sums.append((infinity | (1 << (width - 1) if "-" in specials else 0)) if one else nan)
        else:
            sums.append(round_sum(total, width, fraction) if total else zero)
    return sums[:-1] if exclusive else sums[1:]


def integer_sums(line, width, exclusive):
    sums = itertools.accumulate(line, lambda a, b: (a + b) & ((1 << width) - 1), initial=0)
    sums = list(sums)
    return sums[:-1] if exclusive else sums[1:]


def places(sizes, strides, axis, first):
    """Offsets of elements, a row for each line."""
    offsets = numpy.array([first])
    for number, (size, stride) in enumerate(zip(sizes, strides)):
        if number != axis:
            offsets = (offsets[:, None] + numpy.arange(size) * stride).ravel()
    return offsets[:, None] + numpy.arange(sizes[axis]) * strides[axis]


class Piece:
    """A scan of a case: geometry, and places in the buffers."""

    def __init__(self, sizes, axis, strides, output_strides, flags):
        self.sizes, self.axis, self.strides, self.output_strides = (
            sizes,
            axis,
            strides,
            output_strides,
        )
        self.exclusive, self.reverse = flags
        self.first = self.output_first = 0

    def span(self, output):
        strides = self.output_strides if output else self.strides
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, strides))

    def fill(self, dtype, before, expected):
        """Write the sums of the elements in `before` into `expected`."""
        size, fraction = TYPES[dtype]
        inputs = places(self.sizes, self.strides, self.axis, self.first)
        outputs = places(self.sizes, self.output_strides, self.axis, self.output_first)
        for line, there in zip(inputs, outputs):
            if self.reverse:
                line, there = line[::-1], there[::-1]
            bits = before[line].tolist()
            if fraction:
                expected[there] = float_sums(bits, 8 * size, fraction, self.exclusive)
            else:
                expected[there] = integer_sums(bits, 8 * size, self.exclusive)

    def command(self, dtype, cut=None, carries=(0, 0)):
        """A line for launches.c. cut: (elements to skip along the axis, elements), in memory."""
        skip, length = cut or (0, self.sizes[self.axis])
        sizes = [*self.sizes]
        sizes[self.axis] = length
        first = self.first + skip * self.strides[self.axis]
        output_first = self.output_first + skip * self.output_strides[self.axis]
        numbers = [
            len(sizes),
            self.axis,
            int(self.exclusive),
            int(self.reverse),
            first,
            output_first,
            0,
        ]
        numbers += [*carries, *sizes, *self.strides, *self.output_strides]
        return f"piece {dtype} {' '.join(map(str, numbers))}"


# ---- cases ----


def words_of(family, dtype, wide):
    return f"{family} {dtype} {64 if wide else 32}"


class Case:
    """Scans that run together, all of it drawn by the seed."""

    def __init__(self, family, dtype, wide, seed, few_tiles=False):
        self.family, self.dtype, self.wide, self.seed = family, dtype, wide, seed
        draw = self.draw = random.Random(f"{family} {dtype} {wide} {seed}")
        self.size, self.fraction = TYPES[dtype]
        self.in_place = draw.random() < 0.5
        # Bits of LOOKBACK_TEST but for the delay: groups stand still here anyway.
        self.test = draw.choice((0, 1, 4, 5)) if family == "look-back" else 0
        self.partition = draw.choice((0, 1, 5000))  # bytes of a partition of a line, if it is cut
        if few_tiles:
            # A line in place: work-groups sum blocks from input that other work-groups may have
            # overwritten, so the sums are right only if the fences work.
            self.in_place, self.test = True, 1
        # Some GPUs have no float64: compilers then do not define the macro of the extension.
        self.options = "-Xclang -cl-ext=-cl_khr_fp64" if draw.random() < 0.3 else ""
        self.pieces, self.cut, self.few_tiles = [], None, few_tiles
        alone = few_tiles or draw.random() < (
            0.3 if self.fraction or family != "look-back" else 0.7
        )
        if family == "tiles" and seed % 3 == 0:
            self._cut_in_two()
        else:
            for _ in range(1 if alone else draw.randint(2, 5)):
                self.pieces.append(self._piece())
        self._place()

    def _piece(self):
        draw = self.draw
        if self.family == "look-back":
            least, most = 2049, {1: 300_000, 2: 200_000, 4: 70_000, 8: 40_000}[self.size]
            if self.fraction:
                least, most = 100, 3000
            if self.few_tiles:
                most = 16_000
            length = int(least * (most / least) ** draw.random())
            lines = draw.randint(1, 3) if length < most // 4 else 1
            return self._of([lines, length], 1)
        budget = 1500 if self.fraction else 20_000
        length = max(1, int(budget ** draw.random()) + draw.randint(-1, 1))
        others = max(1, int((budget // length) ** draw.random()))
        outer = draw.randint(1, others)
        layout = draw.choice(("rows", "columns", "middle"))
        if layout == "rows":
            return self._of([others, length], 1)
        if layout == "columns":
            return self._of([length, others], 0)
        return self._of([outer, length, max(1, others // outer)], 1)

    def _of(self, sizes, axis):
        draw = self.draw
        dense = self.family == "look-back"
        strides = self._strides(sizes, axis, dense)
        output_strides = strides if self.in_place else self._strides(sizes, axis, dense)
        if not self.in_place and not dense and draw.random() < 0.2:
            strides[draw.randrange(len(sizes))] = 0  # one element repeated
        flags = (draw.random() < 0.5, draw.random() < 0.5)
        return Piece(sizes, axis, strides, output_strides, flags)

    def _strides(self, sizes, axis, dense):
        """Dimensions in any order, some with gaps; dense: the axis has neither."""
        draw = self.draw
        order = list(range(len(sizes)))
        if draw.random() < 0.3 and not dense:
            draw.shuffle(order)
        strides, reach = [0] * len(sizes), 1 if dense or draw.random() < 0.7 else draw.randint(2, 3)
        for number in reversed(order):
            strides[number] = reach
            reach = reach * sizes[number] + (draw.randint(0, 5) if draw.random() < 0.3 else 0)
        if dense:
            assert strides[axis] == 1
        return strides

    def _cut_in_two(self):
        draw = self.draw
        if self.fraction:
            length = draw.randint(2, 200)
            at = draw.randint(1, length - 1)
        else:
            at = CUT * draw.randint(1, 20)
            length = at + draw.randint(1, 5000)
        inner = draw.choice((1, 1, 3, 17))
        sizes, axis = draw.choice((([inner, length], 1), ([length, inner], 0)))
        self.pieces.append(self._of(sizes, axis))
        first, rest = (0, at), (at, length - at)
        if self.pieces[0].reverse:
            first, rest = (length - at, at), (0, length - at)
        self.cut = (first, rest)

    def _place(self):
        """One behind the other, with gaps of some elements."""
        spans = [0, 0]
        for piece in self.pieces:
            gap = self.draw.choice((0, 0, 16, 1, 7))
            piece.first = spans[0] + gap
            piece.output_first = (
                piece.first if self.in_place else spans[1] + self.draw.choice((0, 0, 16, 3))
            )
            spans = [piece.first + piece.span(False), piece.output_first + piece.span(True)]
        self.in_elements, self.out_elements = spans

    def content(self, count):
        """Random elements: of floats some with exponents apart, some special, some that cancel."""
        draw = self.draw
        width = 8 * self.size
        bits = numpy.frombuffer(draw.randbytes(count * self.size), f"u{self.size}").copy()
        if not self.fraction or draw.random() < 0.2:
            return bits
        exponents = (1 << (width - 1 - self.fraction)) - 1
        middle, reach = draw.randint(1, exponents - 1), draw.choice((1, 4, 30, exponents))
        fields = [
            min(max(middle + draw.randint(-reach, reach), 0), exponents - 1) for _ in range(count)
        ]
        mask = (1 << (width - 1)) | ((1 << self.fraction) - 1)
        bits &= bits.dtype.type(mask)
        bits |= numpy.array(fields).astype(bits.dtype) << bits.dtype.type(self.fraction)
        if draw.random() < 0.3 and count > 1:
            half = count // 2
            bits[half : 2 * half] = bits[:half] ^ bits.dtype.type(1 << (width - 1))
        for _ in range(draw.choice((0, 0, 1, 3))):
            special = draw.choice(
                (exponents << self.fraction, mask ^ 1 << (width - 1), (1 << (width - 1)), 1)
            )
            bits[draw.randrange(count)] = special | draw.getrandbits(1) << (width - 1)
        return bits


def compile_text(text, options, folder):
    """Return the PTX of a program; it is kept in the folder."""
    name = hashlib.sha256(f"{options}\n{text}".encode()).hexdigest()[:24]
    made = folder / f"{name}.ptx"
    if not made.exists():
        source, part = (folder / f"{name}-{os.getpid()}.{kind}" for kind in ("cl", "part"))
        source.write_text(text)
        flags = [*programs.FLAGS, *programs.TARGETS["ptx"], *options.split()]
        programs.run(programs.CLANG, *flags, "-o", str(part), str(source))
        part.rename(made)
    return made.read_text()


class Host:
    """launches.c, the memory that it shares with the interpreter, and the programs it asks for."""

    def __init__(self, folder):
        self.folder = folder
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(ARENA_BYTES)
            self.memory = numpy.frombuffer(mmap.mmap(file.fileno(), ARENA_BYTES), ptx.U8)
            arguments = [str(TOP / LAUNCHES), f"/proc/self/fd/{file.fileno()}", str(ARENA_BYTES)]
            self.child = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[file.fileno()]
            )
        self.kernels = {}  # of PTX, by its text
        self.texts, self.options = {}, {}  # of the programs of a case, by number
        self.more_options = ""  # of all programs of a case

    def say(self, line):
        self.child.stdin.write(line.encode() + b"\n")
        self.child.stdin.flush()

    def hear(self):
        line = self.child.stdout.readline().decode()
        if not line:
            raise ptx.Fault("the host side ended")
        return line.split()

    def run(self, case, change=None, meter=None):
        """Run a case; returns ({(kernel, type, offsets): launches}, steps). change: of the PTX. meter: a ptx.Meter
        for the accesses of the elements."""
        out_elements = 0 if case.in_place else case.out_elements
        self.more_options = case.options
        lines = 0
        if case.cut:
            lines = numpy.prod(case.pieces[0].sizes) // case.pieces[0].sizes[case.pieces[0].axis]
        numbers = [int(case.family == "look-back"), int(case.wide), int(case.family == "lines")]
        numbers += [
            case.test,
            case.partition,
            case.in_elements * case.size,
            out_elements * case.size,
        ]
        self.say(f"begin {' '.join(map(str, numbers))} {case.dtype} {lines}")
        at, out_at, _ = map(int, self.hear()[1:])
        cells = self.memory[at : at + case.in_elements * case.size].view(f"u{case.size}")
        cells[:] = case.content(case.in_elements)
        results = cells
        if not case.in_place:
            results = self.memory[out_at : out_at + out_elements * case.size].view(f"u{case.size}")
        before, expected = cells.copy(), results.copy()
        machine = ptx.Machine(self.memory, case.draw.getrandbits(32))
        if meter:
            machine.meter = meter
            meter.ranges = [(at, at + cells.nbytes)]
            meter.ranges += [] if case.in_place else [(out_at, out_at + results.nbytes)]
        ran = collections.Counter()
        try:
            if case.cut:
                self._launch(
                    machine, [case.pieces[0].command(case.dtype, case.cut[0], (0, 1))], change, ran
                )
                self._launch(
                    machine, [case.pieces[0].command(case.dtype, case.cut[1], (1, 0))], change, ran
                )
            else:
                self._launch(machine, [p.command(case.dtype) for p in case.pieces], change, ran)
        finally:
            self.say("end")
        for piece in case.pieces:
            piece.fill(case.dtype, before, expected)
        wrong = numpy.flatnonzero(results != expected)
        if len(wrong):
            place = wrong[0]
            raise ptx.Fault(
                f"{len(wrong)} elements are wrong, the first is number {place}: "
                f"{int(results[place]):#x}, expected {int(expected[place]):#x}"
            )
        if not case.in_place and (cells != before).any():
            raise ptx.Fault("the input was changed")
        return ran, machine.steps

    def _launch(self, machine, commands, change, ran):
        for command in [*commands, "run"]:
            self.say(command)
        fault = None
        while True:
            word, *words = self.hear()
            if word == "source":
                self.texts[words[0]] = self.child.stdout.read(int(words[1])).decode()
            elif word == "options":
                self.options[words[0]] = " ".join(words[1:])
            elif word == "launch":
                try:
                    self._interpret(machine, words, change, ran)
                except (ptx.Fault, programs.Fault) as found:
                    fault = found
                self.say("failed" if fault else "done")
            elif fault:
                raise fault
            elif word == "failed":
                raise ptx.Fault(f"the launch failed: {' '.join(words)}")
            else:
                return

    def _interpret(self, machine, words, change, ran):
        program, name, groups, lanes, top, *arguments = words
        options = f"{self.options[program]} {self.more_options}"
        text = compile_text(self.texts[program], options, self.folder)
        if change:
            text = change(text)
        if text not in self.kernels:
            self.kernels[text] = ptx.kernels(text)
        numbers, ranges = [], []
        for argument in arguments:
            kind, *values = argument.split(":")
            if kind == "b":
                at, size = map(int, values)
                numbers.append(ptx.GLOBAL + at)
                ranges.append((at, at + size))
            else:
                numbers.append(int.from_bytes(bytes.fromhex(values[0]), "little"))
        kernel = self.kernels[text][name]
        machine.launch(kernel, int(groups), int(lanes), numbers, ranges, int(top))
        ran[programs.key_of(name, self.options[program].split())] += 1


# ---- planted faults ----

# One for each check of ptx.py, as a kernel of 32 lanes with one argument, an array of 32 numbers of 32 bits.
PLANTED_HEAD = """
.visible .entry planted(
	.param .u64 planted_param_0
)
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.shared .align 4 .b8 numbers[128];
	mov.u32 %r1, %tid.x;
	ld.param.u64 %rd1, [planted_param_0];
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.u64 %rd4, numbers;
	add.s64 %rd5, %rd4, %rd2;
	setp.lt.u32 %p1, %r1, 16;
"""
PLANTED = {
    "out of bounds": "st.global.u32 [%rd3+4], %r1;",
    "out of bounds in local memory": "st.shared.u32 [%rd5+4], %r1;",
    "not aligned": "ld.global.u32 %r2, [%rd1+2];",
    "lanes race for local memory": "st.shared.u32 [%rd5], %r1;\nld.shared.u32 %r2, [numbers+4];",
    "not every lane comes to this barrier": "@%p1 bra $L1;\nbar.sync 0;\n$L1:\nadd.s32 %r1, %r1, 1;",
    "two lanes store to one address": "st.global.u32 [%rd1], %r1;",
    "does not end": "$L1:\nadd.s32 %r1, %r1, 1;\nbra.uni $L1;",
    "no tanh.approx.f32 %r1, %r2": "tanh.approx.f32 %r1, %r2;",
    # And no fault where there is none: half of the lanes come later to a barrier.
    "none": """
	st.shared.u32 [%rd5], %r1;
	@%p1 bra $L2;
$L1:
	bar.sync 0;
	ld.shared.u32 %r2, [numbers+4];
	st.global.u32 [%rd3], %r2;
	bra.uni $L3;
$L2:
	add.s32 %r1, %r1, 1;
	bra.uni $L1;
$L3:""",
}


def planted_faults():
    """Yield the faults of PLANTED that the interpreter does not report."""
    memory = numpy.zeros(4096, ptx.U8)
    at, size = 256, 128
    for expected, code in PLANTED.items():
        found = "none"
        machine = ptx.Machine(memory, 1, steps_max=1000)
        try:
            kernel = ptx.kernels(f"{PLANTED_HEAD}{code}\nret;\n}}\n")["planted"]
            machine.launch(kernel, 1, 32, [ptx.GLOBAL + at], [(at, at + size)], len(memory))
        except ptx.Fault as fault:
            found = str(fault)
        if expected not in found:
            yield f"planted: {expected}; found: {found}"
    if (memory[at : at + size].view(ptx.U32) != 1).any():
        yield "planted: a lane lost its way to a barrier"


def without_fences(text):
    """A look-back whose fences order memory for the work-group only."""
    return re.sub(r"membar\.gl;|fence\.(acq_rel|sc)\.gpu;", "membar.cta;", text)


def without_barriers(text):
    """Without the second barrier of each kernel, if it has two."""
    entries = re.split(r"(?=^\.visible \.entry)", text, flags=re.M)
    barrier = re.compile(r"bar(?:rier)?\.sync[^;]*;")

    def drop(entry):
        found = list(barrier.finditer(entry))
        return entry if len(found) < 2 else entry[: found[1].start()] + entry[found[1].end() :]

    return "".join(map(drop, entries))


# Name: (change, family of the cases, cases at most until one must be wrong).
CHANGES = {
    "a look-back without fences": (without_fences, "look-back", 100),
    "a look-back without a barrier": (without_barriers, "look-back", 1),
    "tiles without a barrier": (without_barriers, "tiles", 1),
}


def hunt(name, seed, folder):
    """The case in which a planted change shows: (name, text or None, cases that were run)."""
    change, family, most = CHANGES[name]
    host = Host(folder)
    for number in range(seed, seed + most):
        arguments = (family, "int64", False, number, family == "look-back")
        try:
            host.run(Case(*arguments), change)
        except ptx.Fault as fault:
            host.run(Case(*arguments))  # which is right without the change
            return name, str(fault), number + 1 - seed
    return name, None, most


# ---- main ----

worker = None  # the Host of this process


def start_worker(folder):
    global worker
    worker = Host(folder)


def run_case(combination, seed):
    case = Case(*combination, seed)
    name = f"--rounds 1 --seed {seed} --only '{words_of(*combination)}'"
    started = time.process_time()
    try:
        ran, steps = worker.run(case)
    except (ptx.Fault, programs.Fault) as fault:
        return name, str(fault), {}, 0, 0
    return name, None, ran, steps, time.process_time() - started


def combinations():
    """The cases of a round. The service chooses the kernels: for floats it may take the same for each family."""
    return itertools.product(FAMILIES, TYPES, (False, True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=270)
    parser.add_argument("--only", default="", help="run cases such as 'tiles int8 32'")
    options = parser.parse_args()
    programs.run(os.environ.get("MAKE", "make"), "--no-print-directory", "-s", LAUNCHES)
    started = time.monotonic()
    faults = list(planted_faults())
    ran, cases, steps = collections.Counter(), 0, 0
    print(f"seeds from {options.seed}")
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ProcessPoolExecutor(
            int(os.environ.get("JOBS", os.cpu_count())),
            initializer=start_worker,
            initargs=(pathlib.Path(folder),),
        ) as pool,
    ):
        folder = pathlib.Path(folder)
        hunts = (
            [] if options.only else [pool.submit(hunt, c, options.seed, folder) for c in CHANGES]
        )
        for job in hunts:
            name, shown, tried = job.result()
            print(f"planted: {name}: {shown or 'not found'} (case {tried})")
            faults += [] if shown else [f"{name} was right in {tried} cases"]
        for number in range(options.rounds):
            if number >= ROUNDS_LEAST and time.monotonic() - started > options.seconds:
                break
            jobs = [
                pool.submit(run_case, case, options.seed + number)
                for case in combinations()
                if options.only in words_of(*case)
            ]
            for job in jobs:
                name, fault, kernels, pieces, seconds = job.result()
                if options.only:
                    print(f"{name}: {seconds:.1f} s, {pieces} steps")
                faults += [f"{name}: {fault}"] if fault else []
                ran.update(kernels)
                cases, steps = cases + 1, steps + pieces
    if not options.only:
        known = programs.read_table()["ptx"][1]
        faults += [f"{' '.join(key)} never ran" for key in sorted(known.keys() - ran.keys())]
    faults += [] if cases else ["no case ran"]
    for fault in faults:
        print(fault)
    print(
        f"{cases} cases, {sum(ran.values())} launches of {len(ran)} kernels, {steps} pieces of code "
        f"for a work-group, {len(faults)} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except programs.Fault as fault:
        sys.exit(str(fault))
