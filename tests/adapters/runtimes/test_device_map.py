"""The device map says the same as the schedule, in as few words as it can."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opweave.adapters.runtimes.plan_exports import device_map
from opweave.problems.graph import Operator, OpGraph
from opweave.problems.placement.spec import Schedule


def mapped(modules: dict[str, str], devices: dict[str, str]) -> dict[str, str]:
    operators = [Operator(id=name, module=module) for name, module in modules.items()]
    return device_map(OpGraph(tensors=[], operators=operators), Schedule(device=devices, start={}))


def test_modules_stand_for_their_operators() -> None:
    modules = {"e": "embed", "q": "h.0.attn", "k": "h.0.attn", "f": "h.0.mlp", "g": "h.1", "o": "head"}
    devices = {"e": "a", "q": "a", "k": "a", "f": "b", "g": "b", "o": "b"}
    assert mapped(modules, devices) == {"embed": "a", "h.0.attn": "a", "h.0.mlp": "b", "h.1": "b", "head": "b"}


def test_a_module_named_like_an_operator_elsewhere_is_split() -> None:
    assert mapped({"m": "", "p": "m", "q": "m"}, {"m": "a", "p": "b", "q": "b"}) == {"m": "a", "p": "b", "q": "b"}


@given(
    st.dictionaries(
        st.sampled_from([f"op{index}" for index in range(8)]),
        st.tuples(st.sampled_from(["", "m", "m.x", "m.x.y", "n", "n.x"]), st.sampled_from("ab")),
        min_size=1,
    )
)
def test_the_longest_prefix_is_always_right(rows: dict[str, tuple[str, str]]) -> None:
    found = mapped({name: module for name, (module, _) in rows.items()}, {name: at for name, (_, at) in rows.items()})
    for name, (module, device) in rows.items():
        prefixes = [prefix for prefix in found if prefix == "" or f"{module}.".startswith(f"{prefix}.")]
        assert found[name if name in found else max(prefixes, key=len)] == device
