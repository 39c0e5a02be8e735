"""What a user would otherwise write: NumPy or PyTorch behind FastAPI. ENGINE=numpy|torch."""

import os

import numpy as np
from fastapi import FastAPI, Request, Response

ENGINE = os.environ.get("ENGINE", "numpy")
app = FastAPI()

if ENGINE == "torch":
    import torch

    torch.set_num_threads(2)

    def cumsum(x, axis):
        return torch.cumsum(torch.from_numpy(x), dim=axis).numpy()

else:

    def cumsum(x, axis):
        return np.cumsum(x, axis=axis, dtype=x.dtype)


@app.get("/readyz")
def ready():
    return {"ready": True}


@app.post("/json")
async def from_json(request: Request):
    body = await request.json()
    x = np.asarray(body["data"], dtype=body.get("dtype", "float32"))
    y = cumsum(x, body.get("axis", 0))
    return {"dtype": str(y.dtype), "shape": y.shape, "data": y.tolist()}


@app.post("/raw")
async def from_raw(request: Request):
    query = request.query_params
    x = np.frombuffer(await request.body(), dtype=query["dtype"]).reshape(
        [int(n) for n in query["shape"].split(",")]
    )
    y = cumsum(x.copy() if ENGINE == "torch" else x, int(query.get("axis", 0)))
    return Response(np.ascontiguousarray(y).tobytes(), media_type="application/octet-stream")
