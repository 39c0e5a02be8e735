"""One engine on the CPU, driven by compute.py: ENGINE=numpy|torch|openvino|onnxruntime.

A line of JSON on standard input describes a scan ({"dtype", "shape", "axis", "exclusive",
"reverse", "input", "output"}: paths of raw files). The scan is run once and its result written;
the answer is "ready", or "no: reason". Any other line runs the scan again; the answer is its
time in seconds. Each engine runs in its fastest way: outputs of its own, compiled models, all
cores.
"""

import json
import os
import sys
import time

import numpy as np


def numpy_call(case, x, out):
    forward = slice(None, None, -1) if case["reverse"] else slice(None)
    where = (slice(None),) * case["axis"]
    source, target = x[where + (forward,)], out[where + (forward,)]
    if case["exclusive"]:
        target[where + (slice(0, 1),)] = 0
        source, target = source[where + (slice(0, -1),)], target[where + (slice(1, None),)]
    return lambda: np.cumsum(source, axis=case["axis"], dtype=x.dtype, out=target)


def torch_call(case, x, out):
    import torch

    torch.set_num_threads(os.cpu_count())
    source, target, axis = torch.from_numpy(x), torch.from_numpy(out), case["axis"]

    def plain():
        torch.cumsum(source, dim=axis, dtype=source.dtype, out=target)

    def turned():  # PyTorch has no negative strides and must copy
        y = torch.flip(source, [axis]) if case["reverse"] else source
        if case["exclusive"]:
            y = torch.cumsum(y, dim=axis, dtype=source.dtype).roll(1, axis)
            y.select(axis, 0).zero_()
        else:
            y = torch.cumsum(y, dim=axis, dtype=source.dtype)
        target.copy_(torch.flip(y, [axis]) if case["reverse"] else y)

    return turned if case["reverse"] or case["exclusive"] else plain


def openvino_call(case, x, out):
    import openvino as ov
    from openvino import opset3

    data = opset3.parameter(x.shape, x.dtype.type)
    axis = opset3.constant(case["axis"], np.int32)
    node = opset3.cum_sum(data, axis, exclusive=case["exclusive"], reverse=case["reverse"])
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": os.cpu_count()}
    request = ov.compile_model(ov.Model([node], [data]), "CPU", config).create_infer_request()
    request.set_input_tensor(ov.Tensor(x, shared_memory=True))
    request.set_output_tensor(ov.Tensor(out, shared_memory=True))

    def call():
        request.start_async()
        request.wait()

    return call


def onnxruntime_call(case, x, out):
    import onnx
    import onnxruntime as ort

    kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    flags = {"exclusive": int(case["exclusive"]), "reverse": int(case["reverse"])}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("CumSum", ["x", "axis"], ["y"], **flags)],
        "sum",
        [onnx.helper.make_tensor_value_info("x", kind, x.shape)],
        [onnx.helper.make_tensor_value_info("y", kind, x.shape)],
        [onnx.helper.make_tensor("axis", onnx.TensorProto.INT64, [], [case["axis"]])],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=9
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for bind, name, array in (
        (binding.bind_input, "x", x),
        (binding.bind_output, "y", out),
    ):
        bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


ENGINES = {
    "numpy": numpy_call,
    "torch": torch_call,
    "openvino": openvino_call,
    "onnxruntime": onnxruntime_call,
}


def prepare(make, case):
    x = np.fromfile(case["input"], case["dtype"]).reshape(case["shape"])
    out = np.empty_like(x)
    call = make(case, x, out)
    call()
    out.tofile(case["output"])
    return call, (x, out)  # keeps the arrays alive: some engines hold no reference to them


def main():
    make = ENGINES[os.environ["ENGINE"]]
    call = kept = None
    for line in sys.stdin:
        if line.startswith("{"):
            try:
                call, kept = prepare(make, json.loads(line))
                answer = "ready"
            except Exception as error:  # any error of the engine for an unsupported type
                call, kept, answer = (
                    None,
                    None,
                    "no: " + (str(error) or repr(error)).splitlines()[0],
                )
        else:
            began = time.perf_counter()
            call()
            answer = f"{time.perf_counter() - began:.9f}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
