"""The text of /proc/cpuinfo for processors of two makers."""

CPUS = {
    "AMD": ("AuthenticAMD", 25, 17, 1, "AMD EPYC", "AMD Zen 4"),
    "Intel": ("GenuineIntel", 6, 173, 1, "Intel(R) Xeon(R) 6975P-C", "Intel Granite Rapids"),
}
CPUINFO = """processor\t: {number}
vendor_id\t: {cpu[0]}
cpu family\t: {cpu[1]}
model\t\t: {cpu[2]}
model name\t: {cpu[4]}
stepping\t: {cpu[3]}
flags\t\t: fpu vme
"""


def cpuinfo(*cpu):
    return "\n".join(CPUINFO.format(number=number, cpu=cpu) for number in range(2))
