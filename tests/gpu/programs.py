"""Compile every program that a GPU builds, without a GPU, and compare the compilers' results with a table.

    python3 tests/gpu/programs.py [--update]

clang compiles each program for one NVIDIA and three AMD GPUs; ptxas, if installed, assembles the program for
NVIDIA.
tests/gpu/programs.txt has a row for each kernel: registers, bytes of stack of a work-item, spilled registers, bytes
of local memory. The check fails

- if a program does not compile,
- if a number of a kernel grew, or the table lacks a kernel or has one that does not exist any more,
- if the machine code lacks a fence where the look-back protocol needs it (kernels/cl/gpu_lookback.cl, "Memory
  order"). A fence must have device scope. Between the store that publishes a work-group's sum and the fence, the
  code waits until the store has arrived; the fence of a reader precedes the atomic operation of its last read.

--update rewrites the table; fences are still checked. The numbers belong to one version of clang and of ptxas, which
the table names. ptxas is optional: the check reports if it did not run, or has another version.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
TABLE = TOP / "tests/gpu/programs.txt"
LIST = "build/release/tests/kernels/test_sources"
CLANG = "clang-19"
PTX_GPU = "sm_90"
TARGETS = {
    "gfx90a": ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib"],
    "gfx942": ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-nogpulib"],
    "gfx1100": ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-nogpulib"],
    # NVIDIA's driver defines this macro and supports `asm`.
    "ptx": ["--target=nvptx64--nvidiacl", "-Xclang", "-target-cpu", "-Xclang", PTX_GPU]
    + ["-Xclang", "-target-feature", "-Xclang", "+ptx80"]
    + ["-D__NV_CL_C_VERSION=120", "-Dasm=__asm__"],
}
# A kernel that calls a function that opencl_c.h does not define fails to compile. Debug information has line numbers
# only, so it does not change the code.
FLAGS = "-x cl -cl-std=CL1.2 -O3 -S -Xclang -finclude-default-header -gline-directives-only".split()
FLAGS += ["-fdebug-default-version=4"]  # ptxas cannot read a newer version of DWARF
FLAGS += ["-Wall", "-Werror", "-Wno-unused-function", "-include", "tests/gpu/opencl_c.h"]

# The numbers of a kernel in the table, in this order. For AMD they are metadata of the compiler; its number of
# vector registers includes all kinds of them.
AMD_NUMBERS = {
    "vgpr": "vgpr_count",
    "sgpr": "sgpr_count",
    "stack": "private_segment_fixed_size",
    "spill": "vgpr_spill_count",
    "sspill": "sgpr_spill_count",
    "local": "group_segment_fixed_size",
}


class Fault(Exception):
    pass


# ---- compiling ----


def run(*command):
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    if done.returncode != 0:
        raise Fault(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def programs():
    """Return options and sources of every program that a GPU builds, without programs with faults for tests."""
    run(os.environ.get("MAKE", "make"), "--no-print-directory", "-s", LIST)
    lines = run(LIST, "--list").splitlines()
    pairs = (line.split("\t") for line in lines if "LOOKBACK_TEST" not in line)
    return [(options.split(), sources.split()) for options, sources in pairs]


def compile_program(target, options, sources, folder):
    """Return the assembly of a program."""
    out = folder / f"{target}-{'-'.join([pathlib.Path(sources[-1]).stem, *options])}.s"
    includes = [word for source in sources for word in ("-include", source)]
    run(CLANG, *FLAGS, *TARGETS[target], *options, *includes, "-o", str(out), "/dev/null")
    return out


# ---- numbers ----


def amd_numbers(text):
    """Map kernels to their numbers, from the metadata at the end of the assembly."""
    found = {}
    metadata = text.partition("amdhsa.kernels:")[2].partition("amdhsa.target:")[0]
    for kernel in re.split(r"^  - ", metadata, flags=re.M)[1:]:
        keys = dict(re.findall(r"^ *\.(\w+): +(\S+)$", kernel, re.M))
        found[keys["symbol"].removesuffix(".kd")] = {
            name: int(keys.get(key, 0)) for name, key in AMD_NUMBERS.items()
        }
    return found


def ptx_functions(text):
    """Map the kernels of PTX to their code."""
    return dict(re.findall(r"^\.visible \.entry (\w+)\(.*?\n\{\n(.*?)^\}", text, re.M | re.S))


def ptx_numbers(text):
    """Map kernels to their numbers, from PTX. Its registers are virtual: their number grows with the code."""
    return {
        name: {
            "declared": sum(
                map(int, re.findall(r"^\s*\.reg \.b(?:32|64|16)\s+%\w+<(\d+)>", code, re.M))
            ),
            "stack": sum(map(int, re.findall(r"__local_depot\d+\[(\d+)\]", code))),
        }
        for name, code in ptx_functions(text).items()
    }


PTXAS_LINE = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers",
    re.S,
)


def ptxas_numbers(file):
    text = run("ptxas", "-v", f"-arch={PTX_GPU}", "-O3", str(file), "-o", "/dev/null")
    return {
        name: {"reg": int(registers), "stack": int(stack), "spill": int(stores) + int(loads)}
        for name, stack, stores, loads, registers in PTXAS_LINE.findall(text)
    }


# ---- fences ----


def fence_sites():
    """Lines of the source with a fence: {line: "writer" or "reader"}."""
    source = (TOP / "kernels/cl/gpu_lookback.cl").read_text().splitlines()
    sites = {}
    for number, line in enumerate(source, 1):
        if line.strip() == "FENCE();":
            before, after = "".join(source[number - 4 : number - 1]), source[number]
            roles = ["writer"] * ("publish(" in before) + ["reader"] * ("last_look(" in after)
            if len(roles) != 1:
                raise Fault(
                    f"gpu_lookback.cl:{number}: is this the fence of a writer or of a reader?"
                )
            sites[number] = roles[0]
    for role in ("writer", "reader"):
        if role not in sites.values():
            raise Fault(f"gpu_lookback.cl: no {role} has a fence")
    return sites


# For each target, prefixes of instructions: a device fence, the wait for stores that it needs, the exchange that
# publishes a sum, and the compare-and-swap of a last read.
AMD_ATOMICS = (r"(?:global|flat)_atomic_swap", r"(?:global|flat)_atomic_cmpswap")
FENCES = {
    "gfx90a": (r"buffer_wbinvl1_vol", r"s_waitcnt .*vmcnt\(0\)", *AMD_ATOMICS),
    "gfx942": (r"buffer_inv sc1", r"s_waitcnt .*vmcnt\(0\)", *AMD_ATOMICS),
    "gfx1100": (r"buffer_gl1_inv", r"s_waitcnt_vscnt null, 0x0", *AMD_ATOMICS),
    "ptx": (
        r"membar\.(?:gl|sys)|fence\.(?:acq_rel|sc)\.(?:gpu|sys)",
        None,  # included in the fence
        r"atom\S*\.exch",
        r"atom\S*\.cas",
    ),
}
MEMORY = re.compile(
    r"(?:global|flat|buffer|scratch)_(?:load|store|atomic)|(?:ld|st)\.(?!param)|atom"
)


def instructions(text):
    """Return the code of a program as (line of gpu_lookback.cl or None, instruction); labels are instructions."""
    names = dict(re.findall(r'^\s*\.file\s+(\d+) (?:"[^"]*" )?"([^"]*)"', text, re.M))
    where = None
    for raw in text.splitlines():
        line = raw.split(";")[0].strip() if not raw.lstrip().startswith("//") else ""
        located = re.match(r"\.loc\s+(\d+) (\d+)", line)
        if located:
            inside = names.get(located[1], "").endswith("gpu_lookback.cl")
            where = int(located[2]) if inside else None
        elif line and not line.startswith("."):
            yield where, line
        elif re.match(r"\.?[A-Z$]\w+:", line):
            yield where, line


def fence_fault(target, role, code, at):
    """Return why the device fence at code[at] does not have this role; None if it has."""
    _, wait, exchange, last_look = FENCES[target]
    if role == "reader":
        after = next((line for _, line in code[at + 1 :] if MEMORY.match(line)), "nothing")
        return None if re.match(last_look, after) else f"behind the fence of a reader comes {after}"
    passed = []
    for _, line in reversed(code[:at]):
        if MEMORY.match(line):
            break
        passed.append(line)
    if not re.match(exchange, line):
        return f"before the fence of a writer comes {line}"
    waits = wait is None or any(re.match(wait, line) for line in passed)
    return None if waits else "the fence of a writer does not wait for what is published"


def fence_faults(target, text, sites):
    device_fence = FENCES[target][0]
    code = list(instructions(text))
    for number, role in sites.items():
        found = [
            at
            for at, (where, line) in enumerate(code)
            if where == number and re.match(device_fence, line)
        ]
        if not found:
            yield f"the fence of the {role} (gpu_lookback.cl:{number}) is none for the whole device"
        for at in found:
            fault = fence_fault(target, role, code, at)
            if fault:
                yield fault


# ---- the table ----

HEAD = """\
# Registers, bytes of stack and spilled registers of a work-item, and bytes of local memory of a work-group, of
# every kernel for GPUs: the most that `python3 tests/gpu/programs.py` accepts. It writes this file with --update.
"""
SECTION = re.compile(r"== (\w+), (.*)")


def read_table():
    """Return {target: (compiler, {(kernel, element, offsets): {name: number}})}."""
    table = {}
    for line in TABLE.read_text().splitlines() if TABLE.exists() else []:
        section = SECTION.match(line)
        if section:
            rows, names = {}, None
            table[section[1]] = (section[2], rows)
        elif line and not line.startswith("#"):
            words = line.split()
            if names is None:
                names = words[3:]
            else:
                rows[tuple(words[:3])] = dict(zip(names, map(int, words[3:])))
    return table


def write_table(table):
    text = HEAD
    for target, (compiler, rows) in table.items():
        names = next(iter(rows.values()))
        lines = [["kernel", "element", "offsets", *names]]
        lines += [[*key, *map(str, numbers.values())] for key, numbers in sorted(rows.items())]
        text += f"\n== {target}, {compiler}\n"
        for kernel, element, offsets, *words in lines:
            numbers = "".join(f"{word:>9}" for word in words)
            text += f"{kernel:<16}{element:<8}{offsets:<8}{numbers}\n"
    TABLE.write_text(text)


def growth(target, old, new):
    """Return the numbers that are worse in the new rows of a target than in the table."""
    for key in sorted(old.keys() | new.keys()):
        kernel = f"{target}: {' '.join(key)}"
        if key not in new:
            yield f"{kernel} is in the table, and no program has it"
        elif key not in old:
            yield f"{kernel} is not in the table"
        else:
            for name, number in new[key].items():
                if number > old[key][name]:
                    yield f"{kernel}: {name} grew from {old[key][name]} to {number}"


# ---- main ----


def key_of(kernel, options):
    element = next(word for word in options if word.startswith("-DELEM_"))
    offsets = next(word for word in options if word.startswith("-DINDEX="))
    return kernel, element.removeprefix("-DELEM_").lower(), offsets.removeprefix("-DINDEX=")


def examine(target, options, sources, folder, sites, with_ptxas):
    """Compile one program. Returns its rows by target, and its faults."""
    file = compile_program(target, options, sources, folder)
    text = file.read_text()
    numbers = {target: ptx_numbers(text) if target == "ptx" else amd_numbers(text)}
    if target == "ptx" and with_ptxas:
        numbers[PTX_GPU] = ptxas_numbers(file)
    faults = []
    if sources[-1].endswith("gpu_lookback.cl"):
        faults = [f"{target}: {' '.join(options)}: {f}" for f in fence_faults(target, text, sites)]
    if not numbers[target] or any(n.keys() != numbers[target].keys() for n in numbers.values()):
        faults.append(f"{target}: {' '.join(options)}: {sources[-1]} has no kernels")
    rows = {
        name: {key_of(kernel, options): row for kernel, row in kernels.items()}
        for name, kernels in numbers.items()
    }
    return rows, faults


def version(command, pattern):
    return re.search(pattern, run(command, "--version"))[0]


def main(update):
    compilers = dict.fromkeys(TARGETS, version(CLANG, r"clang version \d+").replace(" version", ""))
    with_ptxas = shutil.which("ptxas") is not None
    if with_ptxas:
        compilers[PTX_GPU] = version("ptxas", r"release \d+\.\d+").replace("release", "ptxas")
    sites = fence_sites()
    faults = []
    new = {target: {} for target in compilers}
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool,
    ):
        jobs = [
            pool.submit(examine, target, *program, pathlib.Path(folder), sites, with_ptxas)
            for program in programs()
            for target in TARGETS
        ]
        for job in jobs:
            try:
                rows, found = job.result()
            except Fault as fault:
                rows, found = {}, [str(fault)]
            faults += found
            for target, kernels in rows.items():
                new[target].update(kernels)
    old = read_table()
    if update and not faults:
        write_table({**old, **{target: (compilers[target], new[target]) for target in new}})
    compared = 0
    for target, (compiler, rows) in old.items() if not update else ():
        if compilers.get(target) != compiler:
            here = compilers.get(target, "none")
            print(f"{target}: not compared, the table is of {compiler}, here is {here}")
            continue
        compared += len(rows)
        faults += growth(target, rows, new[target])
    for fault in faults:
        print(fault)
    kernels = sum(map(len, new.values()))
    print(f"{kernels} kernels compiled, {compared} compared with the table, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main("--update" in sys.argv[1:]))
    except Fault as fault:
        sys.exit(str(fault))
