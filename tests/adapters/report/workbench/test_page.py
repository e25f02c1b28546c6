"""The page in a real browser: every problem's views, clicks, zoom, search, keys, themes, and hostile names."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.adapters.report.views import show
from opweave.adapters.report.workbench.data import document, packed
from opweave.adapters.report.workbench.levels import drawing
from opweave.adapters.report.workbench.page import script
from tests.adapters.report.test_user_problem import problem as user_problem
from tests.adapters.report.test_user_problem import result_of
from tests.adapters.report.workbench.conftest import Open, ladder, machines

pytestmark = pytest.mark.frameworks

MOST_SCRIPT, MOST_PAGE = 60 * 1024, 1_500_000
NAMES = "[...document.querySelectorAll('#places a')].map((each) => each.textContent)"
INK = """(id) => {
  const canvas = document.getElementById(id).querySelector("canvas");
  const cells = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(cells.buffer)).size;
}"""


def ordered() -> ow.Result:
    return ow.solve(ow.MemoryOrdering(graph=ladder()), solver="lpmf")


def placed() -> ow.Result:
    graph, cluster = ladder(), machines()
    return ow.solve(ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster)), solver="heft")


def piped() -> ow.Result:
    graph, cluster = ladder(), machines()
    costs = ow.Costs.roofline(graph, cluster)
    return ow.solve(ow.Pipeline(graph=graph, cluster=cluster, costs=costs), time_limit=5)


def laid_out() -> ow.Result:
    ordering = ow.MemoryOrdering(graph=ladder())
    return ow.solve(ow.MemoryLayout.of(ordering, ow.solve(ordering, solver="definition")), solver="tflm")


def of_a_user() -> ow.Result:
    own = user_problem()
    return result_of(own, 2.0).of_problem(own)


CASES = {
    ordered: ["Memory", "Model", "Table"],
    placed: ["Schedule", "Model", "Table"],
    piped: ["Stages", "Schedule", "Model", "Search", "Table"],
    laid_out: ["Addresses", "Memory", "Model", "Table"],
    of_a_user: ["Schedule", "Model", "Table"],
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_problem_has_its_views(case: object, opened: Open) -> None:
    """Each view that its data allow is there and shows something, also on a phone and in the dark."""
    for width, theme in ((1300, "light"), (390, "dark")):
        browser = opened(case(), width, theme)
        names = browser.js(NAMES)
        assert set(CASES[case]) <= set(names)
        for view in browser.js("[...document.querySelectorAll('canvas')].map((each) => each.closest('section').id)"):
            assert browser.js(f"({INK})('{view}')") > 3, view
        assert browser.js("document.documentElement.dataset.theme") == theme
        assert browser.js("document.documentElement.scrollWidth") <= width


def place(browser: object, view: str, x: float, y: float) -> tuple[float, float]:
    """A place of a view, given as shares of its width and height, in the window."""
    browser.js(f"document.querySelector('#{view} canvas').scrollIntoView({{block: 'center', behavior: 'instant'}})")
    corners = f"(({{x, y, width, height}}) => [x, y, width, height])(document.querySelector('#{view} canvas')"
    box = browser.js(f"{corners}.getBoundingClientRect())")
    return box[0] + x * box[2], box[1] + y * box[3]


def details(browser: object) -> str:
    return browser.js("document.getElementById('details').hidden ? '' : document.getElementById('details').innerText")


def test_a_click_on_the_memory_says_what_lives_and_why(opened: Open) -> None:
    result = ordered()
    browser = opened(result)
    browser.js("document.querySelector('#memory [data-key=p]').click()")
    browser.settle()
    told = details(browser)
    assert "This is the peak." in told
    assert "Needed by the running operator" in told
    assert "read last by" in told
    step = browser.js("state.moment.time")
    held = browser.js(
        "plans[0].alive(state.moment.resource, state.moment.time).map((row) => plans[0].lives.bytes[row])"
    )
    assert sum(held) == result.objective
    busiest = result.solution.order[step]
    assert busiest in told
    browser.click(*place(browser, "memory", 0.7, 0.6))
    assert browser.js("state.moment.time") > step
    browser.press(".")
    browser.press("Escape")
    assert details(browser) == ""


@pytest.mark.parametrize("case", [ordered, placed, laid_out])
def test_the_bytes_of_the_page_are_the_libraries(case: object, opened: Open) -> None:
    """The script works out the curves from the lifetimes; they are those that the library measures."""
    from opweave.problems.measures import bytes_held, bytes_over_time

    result = case()
    browser, timeline = opened(result), show(result.answers, result).timeline
    for row, peak in enumerate(bytes_held(timeline).tolist()):
        if timeline.resources[row].kind == "device":
            moments, held = bytes_over_time(timeline, row)
            assert browser.js(f"plans[0].curve({row}).peak") == peak
            here = moments[: min(len(moments), 60)].tolist()
            found = browser.js(f"{here}.map((moment) => plans[0].held({row}, moment + 1e-9))")
            assert found[:-1] == held[: len(here)].tolist()[:-1]


def test_schedule_zoom_pan_and_selection(opened: Open) -> None:
    browser = opened(placed())
    whole = browser.js("state.window")
    x, y = place(browser, "schedule", 0.5, 0.15)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400, modifiers=2)
    browser.settle()
    part = browser.js("state.window")
    assert part[1] - part[0] < 0.5 * (whole[1] - whole[0])
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x + 80, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x + 80, y, button="left")
    browser.settle()
    assert browser.js("state.window[0]") < part[0]
    browser.js("document.querySelector('#schedule canvas').focus()")
    browser.press("0")
    assert browser.js("state.window") == whole
    browser.press(".")  # the first run
    assert browser.js("state.activity !== null")
    first = browser.js("graph.operators[state.operator]")
    assert first in details(browser)
    assert browser.js("document.querySelector('#table [aria-selected=true]').innerText").startswith(first)  # linked
    browser.js("document.querySelector('#schedule [data-key=c]').click()")
    assert browser.js("state.path") is False


def test_search_sort_and_walk_through_the_table(opened: Open) -> None:
    browser = opened(placed())
    browser.press("/")
    assert browser.js("document.activeElement.id") == "search"
    browser("Input.insertText", text="conv layers.3")
    browser.settle()
    assert browser.js("views.table.found.map((op) => graph.operators[op])") == ["layers.3.conv"]
    browser.press("Enter")
    assert browser.js("graph.operators[state.operator]") == "layers.3.conv"
    browser.js("const box = document.getElementById('search'); box.value = ''; box.dispatchEvent(new Event('input'))")
    browser.js("[...document.querySelectorAll('.heads button')].find((each) => each.textContent === 'writes').click()")
    made = browser.js("views.table.found.map((op) => graph.made[op])")
    assert made == sorted(made)
    assert len(made) == 40
    browser.js("views.table.rows.box.focus()")
    browser.press("ArrowDown")
    assert browser.js("state.operator === views.table.found[views.table.rows.at()]")
    browser.js("document.querySelector('#table [data-key=s]').click()")
    assert browser.js("document.querySelector('#table [role=status]').textContent").endswith("storages")


SHOWN = "views.model.shown.map((item) => views.model.name(item))"
LAYERS = [f"layers.{layer}" for layer in range(10)]
FOLDED = "document.querySelector('#model [data-key=\"[\"]').click()"


def test_modules_unfold_and_fold_where_they_stand(opened: Open) -> None:
    browser = opened(placed())
    browser.js(FOLDED)
    browser.settle()
    assert browser.js(SHOWN) == LAYERS
    box = browser.js("views.model.box(4)")
    x, y = place(browser, "model", 0, 0)
    for _ in range(2):  # the details move the drawing under a double click, and yet it is the same module
        browser.click(x + box[0] + 5, y + box[1] + 5)
    assert "layers.3\nUnfold\noperators\n4" in details(browser).replace("\n\n", "\n")
    box = browser.js("views.model.box(4)")
    browser.js("document.querySelector('#details .link').click()")
    browser.settle()
    inner = [f"layers.3.{kind}" for kind in ("norm", "conv", "act", "add")]
    assert browser.js(SHOWN) == [*LAYERS[:4], *inner, *LAYERS[4:]]
    assert browser.js("views.model.box(4)")[:2] == pytest.approx(box[:2])
    assert "Fold" in details(browser)
    browser.js("views.model.double()")
    browser.settle()
    assert browser.js(SHOWN) == LAYERS


def test_everything_has_a_name_and_a_role(opened: Open) -> None:
    """A screen reader finds a name on whatever can be used, and only children that their parents may have."""
    for case in (placed, piped, laid_out):
        browser = opened(case())
        nodes = browser("Accessibility.getFullAXTree")["nodes"]
        used = [node for node in nodes if not node["ignored"]]
        words = {node["nodeId"]: node.get("name", {}).get("value", "") for node in used}
        roles = {node["nodeId"]: node["role"]["value"] for node in used}
        for role in ("button", "link", "application", "grid", "columnheader", "searchbox", "region", "image"):
            assert all(words[node] for node, found in roles.items() if found == role), role
        assert {"application", "grid", "row", "gridcell", "columnheader", "searchbox"} <= set(roles.values())
        rows = int(browser.js("document.querySelector('#table [role=grid]').getAttribute('aria-rowcount')"))
        assert rows == len(ladder().operators) + 1


def test_before_and_after_side_by_side(opened: Open) -> None:
    result = ordered()
    browser = opened(result)
    assert "Given order, and this order" in browser.js("document.getElementById('result').innerText")
    browser.js("document.querySelector('[data-shown=both]').click()")
    browser.settle()
    assert browser.js("shownPlans().map((plan) => plan.name)") == ["this order", "given order"]
    browser.js("document.querySelector('[data-shown=before]').click()")
    browser.settle()
    assert browser.js("views.memory.front.name") == "given order"


def test_the_theme_follows_the_system_and_the_switch(opened: Open) -> None:
    browser, theme = opened(ordered(), theme="dark"), "document.documentElement.dataset.theme"
    ground, press = "getComputedStyle(document.body).backgroundColor", "document.getElementById('theme').click()"
    dark = browser.js(ground)
    browser.js(press)
    assert browser.js(theme) == "light"
    assert browser.js(ground) != dark
    browser("Page.reload")
    browser.wait("document.body?.dataset.ready === 'yes'")
    assert browser.js(theme) == "light"  # remembered
    browser.js("void Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('refused') } })")
    browser.js("setUpTheme()")
    assert browser.js(theme) == "dark"  # nothing to remember with: that of the system
    browser.js(press)  # two listeners now: there and back
    assert browser.js(theme) == "dark"


HOSTILE = [
    "</script><script>window.broken = 1</script>",
    "'\"<img src=x onerror=alert(1)>&amp;",
    "x" * 1000,
    "\u202e\u0007\n{layer}",
    "😀 名前",
]


def test_hostile_names_are_only_texts(opened: Open) -> None:
    tensors = [ow.Tensor(id=f"{name}!", bytes=10 + k) for k, name in enumerate(HOSTILE)]
    ops = [
        ow.Operator(id=name, kind=name, module=name, inputs=[f"{HOSTILE[k - 1]}!"] * (k > 0), outputs=[f"{name}!"])
        for k, name in enumerate(HOSTILE)
    ]
    graph = ow.OpGraph(name=HOSTILE[0] + HOSTILE[1], operators=ops, tensors=tensors, outputs=[tensors[-1].id])
    browser = opened(ow.solve(ow.MemoryOrdering(graph=graph), solver="definition"), width=390)
    assert browser.js("window.broken") is None
    assert browser.js("document.querySelectorAll('img').length") == 0
    for op in range(len(HOSTILE)):
        browser.js(f"selectOperator({op})")
        browser.settle()
    assert browser.js("document.querySelector('#details h2').textContent") == HOSTILE[-1]
    assert browser.js("Math.max(...graph.operators.map((name) => name.length))") == 160
    assert browser.js("document.documentElement.scrollWidth") <= 390


def test_without_a_solution_the_model_is_shown(opened: Open) -> None:
    graph = ladder()
    cluster = ow.Cluster(devices=[ow.Device(name="tiny", memory_bytes=1)], shared=1e6)
    costs = ow.Costs.from_table({op.id: {"tiny": 1.0} for op in graph.operators})
    problem = ow.Placement(graph=graph, cluster=cluster, costs=costs)
    browser = opened(ow.solve(problem, time_limit=2))
    assert browser.js(NAMES) == ["Model", "Table"]
    assert "no plan can exist" in browser.js("document.getElementById('verdict').innerText")


def test_the_script_is_small() -> None:
    assert len(script().encode()) <= MOST_SCRIPT


def test_the_page_of_thousands_of_operators_is_small() -> None:
    """A tenth of twenty thousand operators takes less than a tenth of the size."""
    graph, cluster = ladder(2000, "model.layers.{layer}.block/{kind}_{layer}"), machines()
    problem = ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster))
    result = ow.solve(problem, solver="one_device", time_limit=10)
    assert len(packed(document(show(problem, result), drawing(graph)))) <= MOST_PAGE / 10
