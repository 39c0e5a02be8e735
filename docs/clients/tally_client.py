"""NumPy arrays with the package tally. pip install tally-client"""

import numpy as np
import tally

x = np.array([[1, 2, 3], [10, 20, 30]], dtype=np.float32)
with tally.Client() as client:  # at TALLY_URL
    print(*client.cumsum(x, axis=1).astype(int).ravel())
    assert (client.cumsum(x, axis=1, reverse=True)[:, 0] == x.sum(axis=1)).all()
