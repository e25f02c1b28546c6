"""Language models: their files, what devices do for each token, and the commands of runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.llm.held import holdings as holdings, language_figure as language_figure
    from opweave.adapters.llm.machine import (
        bench_device as bench_device,
        load_rig as load_rig,
        rig_of as rig_of,
        this_machine as this_machine,
    )
    from opweave.adapters.llm.reading import read as read
    from opweave.adapters.llm.words import plan_in_words as plan_in_words
    from opweave.problems.language.model import (
        Cache as Cache,
        LanguageModel as LanguageModel,
        Layer as Layer,
        Weights as Weights,
    )
    from opweave.problems.language.posed import (
        by_layer as by_layer,
        fastest_pass as fastest_pass,
        fastest_request as fastest_request,
        in_blocks as in_blocks,
        in_stages as in_stages,
        serving_flow as serving_flow,
        steady_stream as steady_stream,
        whole_layers as whole_layers,
        with_overrides as with_overrides,
    )
    from opweave.problems.language.rig import (
        OVERHEADS as OVERHEADS,
        RESERVES as RESERVES,
        Overheads as Overheads,
        Reserve as Reserve,
        Rig as Rig,
        Spread as Spread,
        published_spread as published_spread,
        reserve_bytes as reserve_bytes,
        typical_efficiency as typical_efficiency,
    )
    from opweave.problems.language.rules import Beside as Beside, InOrder as InOrder
    from opweave.problems.language.workload import (
        Part as Part,
        Workload as Workload,
        language_costs as language_costs,
        language_graph as language_graph,
        parts as parts,
    )
    from opweave.solvers.language.baselines import OtherSplit as OtherSplit, other_splits as other_splits
    from opweave.solvers.language.questions import (
        LongestContext as LongestContext,
        fastest_in_blocks as fastest_in_blocks,
        longest_context as longest_context,
        next_bytes as next_bytes,
        which_machines as which_machines,
    )

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
