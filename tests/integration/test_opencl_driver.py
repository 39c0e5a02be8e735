"""Tally's OpenCL driver as other programs use it: loaded through the ICD loader, and unloaded
again."""

import os
import subprocess
import sys

import pytest

from support.tallyd import MODE, TOP

LIBRARY = TOP / ("build/lib" if MODE == "release" else f"build/{MODE}/lib") / "libtally_opencl.so"
VENDORS = LIBRARY.parent / "OpenCL/vendors"
ENVIRONMENT = {**os.environ, "OCL_ICD_VENDORS": str(VENDORS), "TALLY_OPENCL_THREADS": "3"}

# A typical program: it lists devices, creates objects, runs a kernel, reads a buffer.
PROGRAM = """
import ctypes as c
cl = c.CDLL("libOpenCL.so.1")
for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer", "clCreateKernel",
             "clCreateProgramWithBuiltInKernels"):
    getattr(cl, name).restype = c.c_void_p
platform, device, code = c.c_void_p(), c.c_void_p(), c.c_int()
assert cl.clGetPlatformIDs(1, c.byref(platform), None) == 0
name = c.create_string_buffer(64)
assert cl.clGetPlatformInfo(platform, 0x0902, 64, name, None) == 0 and name.value == b"Tally"
assert cl.clGetDeviceIDs(platform, c.c_ulong(2), 1, c.byref(device), None) == 0
properties = (c.c_void_p * 3)(0x1084, platform, 0)
context = c.c_void_p(cl.clCreateContext(properties, 1, c.byref(device), None, None, c.byref(code)))
assert code.value == 0
queue = c.c_void_p(cl.clCreateCommandQueue(context, device, c.c_ulong(0), c.byref(code)))
kernel_name = b"scan_generic_i32_ulong"
program = c.c_void_p(
    cl.clCreateProgramWithBuiltInKernels(context, 1, c.byref(device), kernel_name, c.byref(code)))
kernel = c.c_void_p(cl.clCreateKernel(program, kernel_name, c.byref(code)))
assert code.value == 0
zero = c.c_ulong(0)  # no units: every work-item finds nothing to do
for number, letter in enumerate("pppp848"):
    size = 8 if letter == "p" else int(letter)
    value = None if letter == "p" else c.byref(zero)
    assert cl.clSetKernelArg(kernel, number, c.c_size_t(size), value) == 0
items = c.c_size_t(1000)
assert cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, c.byref(items), None, 0, None, None) == 0
memory = c.c_void_p(cl.clCreateBuffer(context, c.c_ulong(1), c.c_size_t(4), None, c.byref(code)))
got = c.create_string_buffer(4)
assert cl.clEnqueueWriteBuffer(queue, memory, 1, c.c_size_t(0), c.c_size_t(4), b"sums", 0, None,
                               None) == 0
assert cl.clEnqueueReadBuffer(queue, memory, 1, c.c_size_t(0), c.c_size_t(4), got, 0, None,
                              None) == 0
assert got.raw == b"sums" and cl.clFinish(queue) == 0
print("worked")
"""

# Unloading the shared object must not leave a thread that runs unmapped code. Functions are called
# by their position in the dispatch table (CL/cl_icd.h), since the loader would keep the object
# mapped.
UNLOADED = """
import _ctypes, ctypes as c, os, sys
driver = c.CDLL(sys.argv[1])
platform, device, code = c.c_void_p(), c.c_void_p(), c.c_int()
assert driver.clIcdGetPlatformIDsKHR(1, c.byref(platform), None) == 0
table = c.cast(c.cast(platform, c.POINTER(c.c_void_p))[0], c.POINTER(c.c_void_p))
def make(place, *arguments):
    call = c.cast(table[place], c.CFUNCTYPE(c.c_void_p, *map(type, arguments), c.c_void_p))
    made = call(*arguments, c.cast(c.pointer(code), c.c_void_p))
    assert code.value == 0
    return c.c_void_p(made)
def do(place, *arguments):
    call = c.cast(table[place], c.CFUNCTYPE(c.c_int, *map(type, arguments)))
    assert call(*arguments) == 0
def at(value):
    return c.cast(c.pointer(value), c.c_void_p)
none = c.c_void_p()
do(2, platform, c.c_ulong(2), c.c_uint(1), at(device), none)
context = make(4, none, c.c_uint(1), at(device), none, none)
queue = make(9, context, device, c.c_ulong(0))
name = c.create_string_buffer(b"scan_generic_i32_ulong")
names = c.cast(name, c.c_void_p)
program = make(97, context, c.c_uint(1), at(device), names)
kernel = make(34, program, names)
zero = c.c_ulong(0)
for number, letter in enumerate("pppp848"):
    size = 8 if letter == "p" else int(letter)
    do(38, kernel, c.c_uint(number), c.c_size_t(size), none if letter == "p" else at(zero))
items = c.c_size_t(1000)
do(59, queue, kernel, c.c_uint(1), none, at(items), none, c.c_uint(0), none, none)
assert len(os.listdir("/proc/self/task")) == 3
_ctypes.dlclose(driver._handle)
assert sys.argv[1] not in open("/proc/self/maps").read()
assert len(os.listdir("/proc/self/task")) == 1
print("worked")
"""


def run(script, *arguments):
    command = [sys.executable, "-c", script, *arguments]
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "worked\n", ended.stderr


@pytest.mark.release_only  # Python lacks a sanitizer's runtime
def test_any_program_can_use_it_through_the_loader():
    run(PROGRAM)


@pytest.mark.release_only
def test_it_can_be_unloaded():
    run(UNLOADED, str(LIBRARY))


@pytest.mark.release_only
def test_clinfo_shows_it():
    text = subprocess.run(["clinfo"], env=ENVIRONMENT, capture_output=True, text=True).stdout
    assert "Tally" in text and "scan_exact_rows_f32_ulong" in text


@pytest.mark.release_only
def test_it_exports_nothing_else():
    exports = subprocess.run(
        ["nm", "-D", "--defined-only", str(LIBRARY)], capture_output=True, text=True
    ).stdout
    names = sorted(line.split()[-1] for line in exports.splitlines())
    assert names == ["clGetExtensionFunctionAddress", "clGetPlatformInfo", "clIcdGetPlatformIDsKHR"]
