"""Why is there no plan? A language model's head is pinned to a device that is too small for it."""

import opweave as ow

MIB = 2**20
layers = {"embed": 250, "block1": 180, "block2": 180, "block3": 180, "head": 250}
names = list(layers)
graph = ow.OpGraph(
    tensors=[ow.Tensor(id=f"{name}.out", bytes=4 * MIB) for name in names],
    parameters=[ow.Parameter(id=f"{name}.weight", bytes=size * MIB) for name, size in layers.items()],
    operators=[
        ow.Operator(
            id=name, inputs=[f"{before}.out"] if before else [], outputs=[f"{name}.out"], parameters=[f"{name}.weight"]
        )
        for before, name in zip([None, *names[:-1]], names, strict=True)
    ],
    outputs=["head.out"],
)
cluster = ow.Cluster(
    devices=[ow.Device(name="tpu", memory_bytes=192 * MIB), ow.Device(name="phone", memory_bytes=896 * MIB)],
    shared=40e6,
)
costs = ow.Costs.from_table({name: {"tpu": 0.002, "phone": 0.020} for name in names})
problem = ow.Placement(
    graph=graph,
    cluster=cluster,
    costs=costs,
    constraints=[ow.Pin(op="head", device="tpu"), ow.Colocate(ops=["block1", "block2"]), ow.MaxDevices(count=2)],
)

print(ow.solve(problem).status.value)
found = ow.conflict(problem)
print(found)
for repair in found.repairs:
    print(f"{repair.words}: then {1e3 * ow.solve(repair.problem).objective:.0f} ms")
