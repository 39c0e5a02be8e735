"""The name of the machine's processor: vendor and microarchitecture, by the numbers in /proc/cpuinfo.

A hypervisor often hides the model name ("AMD EPYC"), but passes family, model and stepping on. A
processor that the table lacks keeps its model name; one without a model name (arm64) is named by
its implementer and part.
"""

import pathlib
import platform

MAKERS = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}

# (family, first model, last model, first stepping, last stepping, name); the first matching row
# counts.
ANY = (0, 255)
AMD = (
    (0x17, 0x08, 0x08, *ANY, "Zen+"),
    (0x17, 0x18, 0x18, *ANY, "Zen+"),
    (0x17, 0x00, 0x2F, *ANY, "Zen"),
    (0x17, 0x50, 0x5F, *ANY, "Zen"),
    (0x17, 0x30, 0xAF, *ANY, "Zen 2"),
    (0x19, 0x00, 0x0F, *ANY, "Zen 3"),
    (0x19, 0x20, 0x5F, *ANY, "Zen 3"),
    (0x19, 0x10, 0xAF, *ANY, "Zen 4"),
    (0x1A, 0x00, 0x2F, *ANY, "Zen 5"),
    (0x1A, 0x40, 0x4F, *ANY, "Zen 5"),
    (0x1A, 0x60, 0x7F, *ANY, "Zen 5"),
)
INTEL = (
    (6, 0x3F, 0x3F, *ANY, "Haswell"),
    (6, 0x4F, 0x4F, *ANY, "Broadwell"),
    (6, 0x56, 0x56, *ANY, "Broadwell"),
    (6, 0x55, 0x55, 0, 4, "Skylake"),
    (6, 0x55, 0x55, 5, 7, "Cascade Lake"),
    (6, 0x55, 0x55, 10, 11, "Cooper Lake"),
    (6, 0x6A, 0x6A, *ANY, "Ice Lake"),
    (6, 0x6C, 0x6C, *ANY, "Ice Lake"),
    (6, 0x8F, 0x8F, *ANY, "Sapphire Rapids"),
    (6, 0xCF, 0xCF, *ANY, "Emerald Rapids"),
    (6, 0xAD, 0xAE, *ANY, "Granite Rapids"),
    (6, 0xAF, 0xAF, *ANY, "Sierra Forest"),
    (6, 0x97, 0x97, *ANY, "Alder Lake"),
    (6, 0x9A, 0x9A, *ANY, "Alder Lake"),
    (6, 0xB7, 0xB7, *ANY, "Raptor Lake"),
    (6, 0xBA, 0xBA, *ANY, "Raptor Lake"),
)
MICROARCHITECTURES = {"AMD": AMD, "Intel": INTEL}


def fields_of(text):
    """The fields of the first processor in a text as /proc/cpuinfo has it."""
    first = text.split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def microarchitecture(maker, family, model, stepping):
    """The name of the microarchitecture, or None if the table lacks it."""
    for of, first, last, oldest, newest, name in MICROARCHITECTURES.get(maker, ()):
        if family == of and first <= model <= last and oldest <= stepping <= newest:
            return name
    return None


def maker_of(cpu):
    """The maker by the model name ("AMD EPYC"), for figures without other facts."""
    return next((maker for maker in MAKERS.values() if maker in cpu), "unknown")


def facts(text=None):
    """maker: the key under which figures are stored; name: vendor and microarchitecture; cpu: the
    model name."""
    if text is None:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    fields = fields_of(text)
    vendor = fields.get("vendor_id", "")
    maker = MAKERS.get(vendor, vendor or platform.machine() or "unknown")
    arm = f"implementer {fields.get('CPU implementer')}, part {fields.get('CPU part')}"
    cpu = fields.get("model name", f"{maker} {arm}" if "CPU implementer" in fields else maker)
    found = {"cpu": cpu, "maker": maker, "name": cpu}
    names = {"family": "cpu family", "model": "model", "stepping": "stepping"}
    if all(fields.get(name, "").isdigit() for name in names.values()):
        numbers = {key: int(fields[name]) for key, name in names.items()}
        known = microarchitecture(maker, **numbers)
        found |= numbers | ({"name": f"{maker} {known}"} if known else {})
    return found
