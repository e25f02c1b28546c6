"""Problems that keep searches busy."""

import opweave as ow
from benchmarks.edge_networks import as_in_the_paper
from benchmarks.generators import layered_dag, scattered
from benchmarks.slicing import problem_of
from benchmarks.stacked import Stack, stacked

HARD = {
    "memory_ordering": lambda: ow.MemoryOrdering(graph=layered_dag(300, 30, seed=1)),
    "total": lambda: ow.MemoryOrdering(graph=layered_dag(150, 12, seed=1), objective="total"),
    "placement": lambda: scattered(80, 4, seed=1),
    "batched_mapping": lambda: stacked(Stack(modules=3, nodes=8), 8),
    "slicing": lambda: problem_of("VGG16", "x1"),
    "pipeline": lambda: as_in_the_paper("MobileNetV2", 50, 64, 0),
}
"""Problems that keep all lanes busy for some seconds, but for the pipeline, which is proved at once."""
