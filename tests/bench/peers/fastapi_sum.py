"""A typical service that a user would write: NumPy or PyTorch behind FastAPI. ENGINE=numpy|torch.

It is as fast as Python allows: orjson reads and prints arrays, handlers are asynchronous, and
there is one process per core with one thread each.
"""

import os

import numpy as np
import orjson
from fastapi import FastAPI, Request, Response

ENGINE = os.environ.get("ENGINE", "numpy")
app = FastAPI()

if ENGINE == "torch":
    import torch

    torch.set_num_threads(1)

    def cumsum(x, axis):
        x = torch.from_numpy(x)
        return torch.cumsum(x, dim=axis, dtype=x.dtype).numpy()

else:

    def cumsum(x, axis):
        return np.cumsum(x, axis=axis, dtype=x.dtype)


@app.get("/readyz")
def ready():
    return {"ready": True}


@app.post("/json")
async def from_json(request: Request):
    body = orjson.loads(await request.body())
    x = np.asarray(body["data"], dtype=body.get("dtype", "float32"))
    y = cumsum(x, body.get("axis", 0))
    answer = {"dtype": str(y.dtype), "shape": y.shape, "data": np.ascontiguousarray(y)}
    return Response(
        orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json"
    )


@app.post("/raw")
async def from_raw(request: Request):
    query = request.query_params
    body = await request.body()
    if ENGINE == "torch":
        body = bytearray(body)  # PyTorch requires writable memory
    x = np.frombuffer(body, dtype=query["dtype"])
    x = x.reshape([int(n) for n in query["shape"].split(",")])
    y = cumsum(x, int(query.get("axis", 0)))
    return Response(np.ascontiguousarray(y).tobytes(), media_type="application/octet-stream")
