"""NumPy behind MLServer, as a custom runtime in the form that MLServer's documentation shows."""

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class CumulativeSum(MLModel):
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = NumpyCodec.decode_input(payload.inputs[0])
        y = np.cumsum(x, axis=-1, dtype=x.dtype)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", y)])
