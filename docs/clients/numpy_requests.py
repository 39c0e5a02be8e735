"""NumPy arrays over HTTP as NPY. pip install numpy requests"""

import io
import os

import numpy as np
import requests

url = os.environ.get("TALLY_URL", "http://127.0.0.1:8000")


def cumsum(array, axis=0, **options):
    body = io.BytesIO()
    np.save(body, array)
    answer = requests.post(
        f"{url}/v1/cumsum",
        params={"axis": axis, **options},
        data=body.getvalue(),
        headers={"Content-Type": "application/x-npy"},
        timeout=60,
    )
    if answer.status_code != 200:
        raise ValueError(answer.json()["error"])
    return np.load(io.BytesIO(answer.content))


x = np.array([[1, 2, 3], [10, 20, 30]], dtype=np.float32)
print(*cumsum(x, axis=1).astype(int).ravel())
assert (cumsum(x, axis=1, reverse="true")[:, 0] == x.sum(axis=1)).all()
