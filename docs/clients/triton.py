"""The same server as a model, for tritonclient. pip install 'tritonclient[http]'"""

import os

import numpy as np
import tritonclient.http as triton

address = os.environ.get("TALLY_URL", "http://127.0.0.1:8000").removeprefix("http://")
client = triton.InferenceServerClient(address)

x = np.array([[1, 2, 3], [10, 20, 30]], dtype=np.float32)
tensor = triton.InferInput("x", x.shape, "FP32")
tensor.set_data_from_numpy(x)
answer = client.infer("cumsum", [tensor], parameters={"axis": 1})
print(*answer.as_numpy("y").astype(int).ravel())
client.close()
