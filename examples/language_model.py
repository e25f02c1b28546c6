"""Where to keep a language model on a desktop and a laptop, and whether the laptop helps."""

import json
from pathlib import Path

import opweave as ow

# any .gguf, .safetensors or config.json; this is the configuration of Llama 3 70B
config = {"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80}
config |= {"num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192}
Path("config.json").write_text(json.dumps(config))
model = ow.llm.read("config.json", dtype="q4_k")

memory = {"memory_bytes": "64 GiB", "memory_bandwidth": "75 GB/s"}
desktop = [ow.clusters.device("rtx3090", "card"), ow.Device(name="processor", flops_per_second="1 TFLOP/s", **memory)]
laptop = [ow.clusters.device("rtx3060ti", "laptop card")]
pci, lan = 25e9, 1e9 / 8  # bytes per second
rig = ow.llm.Rig(
    cluster=ow.Cluster(
        devices=desktop + laptop,
        bandwidth=[[0, pci, lan], [pci, 0, lan], [lan, lan, 0]],
        latency=[[0, 2e-5, 3e-4], [2e-5, 0, 3e-4], [3e-4, 3e-4, 0]],
    ),
    host="processor",
    reserve={"card": "1 GiB", "processor": "8 GiB", "laptop card": "1 GiB"},
    efficiency=ow.llm.typical_efficiency(),
    machines={"desktop": ["card", "processor"], "laptop": ["laptop card"]},
)
Path("home.json").write_text(rig.model_dump_json())  # for: opweave llm config.json --dtype q4_k --devices home.json

work = ow.llm.Workload(context=8192)
found = ow.llm.fastest_in_blocks(model, rig, work, time_limit=20)
problem = ow.llm.fastest_pass(model, rig, work)
print(f"{1 / found.objective:.1f} tokens a second; no plan is faster than {1 / found.bound:.1f}")
for holding in ow.llm.holdings(model, rig, work, problem, found.solution):
    print(f"{holding.device}: {holding.what}")
for split in ow.llm.other_splits(problem):
    print(f"{split.name}: {split.reason if split.seconds is None else f'{1 / split.seconds:.1f} tokens a second'}")
print(ow.llm.which_machines(model, rig, work, time_limit=20))
print(ow.runtimes.llama_cpp_command(model, found, work, host="processor"))
