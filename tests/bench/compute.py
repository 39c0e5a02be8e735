"""The same cumulative sums in NumPy, PyTorch, OpenVINO and ONNX Runtime, all on the CPU, beside Tally's kernels.

Both sides work on tensors in memory: no HTTP. GB/s counts the payload, bytes read plus bytes written.
"""

import json
import statistics
import subprocess
import tempfile
import time

import numpy as np

import load

# Shapes that nobody tuned for: primes and odd sizes among round ones.
CASES = [
    ((1 << 26,), 0),
    ((4096, 16384), 1),
    ((65536, 1021), 1),
    ((1 << 20, 61), 1),
    ((1 << 22, 16), 1),
    ((16384, 4096), 0),
    ((61, 1 << 20), 0),
    ((1 << 20, 31), 0),
    ((1 << 22, 3), 0),
    ((257, 509, 509), 1),
]
QUICK = [CASES[0], CASES[1], CASES[5], CASES[7]]


def timed(call, payload, seconds):
    """GB/s of the median call, after one that warms up."""
    call()
    times = []
    end = time.perf_counter() + seconds
    while not times or (time.perf_counter() < end and len(times) < 25):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return payload / statistics.median(times) / 1e9


def numpy_call(x, axis):
    out = np.empty_like(x)
    return lambda: np.cumsum(x, axis=axis, out=out)


def torch_call(x, axis):
    import torch

    torch.set_num_threads(2)
    tensor = torch.from_numpy(x)
    out = torch.empty_like(tensor)
    return lambda: torch.cumsum(tensor, dim=axis, out=out)


def openvino_call(x, axis):
    import openvino as ov
    from openvino import opset3

    data = opset3.parameter(x.shape, x.dtype.type)
    model = ov.Model([opset3.cum_sum(data, opset3.constant(axis, np.int32))], [data])
    request = ov.compile_model(
        model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    ).create_infer_request()
    request.set_input_tensor(ov.Tensor(x, shared_memory=True))
    return request.infer


def onnxruntime_call(x, axis):
    import onnx
    import onnxruntime as ort

    kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("CumSum", ["x", "axis"], ["y"])],
        "sum",
        [onnx.helper.make_tensor_value_info("x", kind, x.shape)],
        [onnx.helper.make_tensor_value_info("y", kind, x.shape)],
        [onnx.helper.make_tensor("axis", onnx.TensorProto.INT64, [], [axis])],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=9
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x))
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(np.empty_like(x)))
    return lambda: session.run_with_iobinding(binding)


def tally(shape, axis):
    """GB/s of Tally's kernel on the shape, float32 in wide precision, from the kernel benchmark."""
    with tempfile.NamedTemporaryFile() as rows:
        command = [load.BIN / "kernel_bench", "--shape", ",".join(map(str, shape))]
        command += ["--axis", str(axis), "--json", rows.name]
        subprocess.run(command, check=True, capture_output=True)
        return json.load(rows)[0]["gb_per_s"]


ENGINES = {
    "numpy": numpy_call,
    "torch": torch_call,
    "openvino": openvino_call,
    "onnxruntime": onnxruntime_call,
}


def peers(quick, note, _python):
    rows = []
    for shape, axis in QUICK if quick else CASES:
        note(f"{shape} axis {axis}")
        x = np.random.default_rng(1).random(shape, dtype=np.float32) - np.float32(0.5)
        payload = 2 * x.nbytes
        row = {"shape": "x".join(map(str, shape)), "axis": axis, "dtype": "float32"}
        ours = []
        for name, make in ENGINES.items():
            ours.append(tally(shape, axis))
            theirs = timed(make(x, axis), payload, 1 if quick else 3)
            row[f"{name} GB/s"] = round(theirs, 2)
            row[f"tally/{name}"] = round(ours[-1] / theirs, 2)
        row["tally GB/s"] = round(statistics.median(ours), 2)
        rows.append(row)
    ratios = [row[f"tally/{name}"] for row in rows for name in ENGINES]
    rows.append(
        {
            "shape": "all",
            "axis": "",
            "dtype": "",
            "tally GB/s": "",
            "geometric mean of ratios": round(float(np.exp(np.mean(np.log(ratios)))), 2),
            "least": min(ratios),
        }
    )
    return rows
