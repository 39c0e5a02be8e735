"""How the benchmark names the processor of its machine."""

import re
import sys

import pytest

from support.cpuinfo import CPUS, cpuinfo
from support.tallyd import TOP

sys.path.insert(0, str(TOP / "tests" / "bench"))

import processor  # noqa: E402

pytestmark = pytest.mark.release_only


@pytest.mark.parametrize("maker", CPUS)
def test_a_processor_is_named_by_its_numbers(maker):
    found = processor.facts(cpuinfo(*CPUS[maker]))
    assert (found["maker"], found["name"], found["cpu"]) == (maker, CPUS[maker][5], CPUS[maker][4])


@pytest.mark.parametrize(
    "cpu, name",
    [
        (("AuthenticAMD", 26, 2, 1, "AMD EPYC"), "AMD Zen 5"),
        (("AuthenticAMD", 25, 1, 1, "AMD EPYC 7763"), "AMD Zen 3"),
        (("AuthenticAMD", 23, 49, 0, "AMD EPYC 7742"), "AMD Zen 2"),
        (("AuthenticAMD", 99, 1, 1, "AMD EPYC 9999"), "AMD EPYC 9999"),
        (("GenuineIntel", 6, 143, 8, "Intel(R) Xeon(R)"), "Intel Sapphire Rapids"),
        (("GenuineIntel", 6, 85, 4, "Intel(R) Xeon(R)"), "Intel Skylake"),
        (("GenuineIntel", 6, 85, 7, "Intel(R) Xeon(R)"), "Intel Cascade Lake"),
        (("GenuineIntel", 6, 254, 0, "Intel(R) Xeon(R) Z"), "Intel(R) Xeon(R) Z"),
    ],
)
def test_a_processor_has_its_microarchitecture_or_else_its_model_name(cpu, name):
    assert processor.facts(cpuinfo(*cpu))["name"] == name


def test_a_processor_without_a_model_name_is_named_by_implementer_and_part():
    text = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
    assert re.fullmatch(r"\w+ implementer 0x41, part 0xd40", processor.facts(text)["name"])
