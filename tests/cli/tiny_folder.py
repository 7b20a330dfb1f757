"""tiny_folder.py: a Hugging Face folder of a tiny model, for the tests of families."""
import json
import random
import struct


def write(to, config, tensors, spread):
    """config.json and model.safetensors: tensors, (name, shape, base), of random numbers about base, by the model's type."""
    rng, header, data = random.Random(config["model_type"]), {}, b""
    for name, shape, base in tensors:
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{n}f", *(base + rng.gauss(0, spread) for _ in range(n)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    head = json.dumps(header).encode()
    with open(to + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)
    with open(to + "/config.json", "w") as f:
        json.dump(config, f)
