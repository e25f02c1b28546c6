// Puts the views into the frames that cards.py made.

const views = {};

const THEME = "opweave theme";

/** Reads or writes what the browser remembers; a page from the file system may not be allowed to. */
function remember(use) {
  try {
    return use(localStorage);
  } catch {
    return undefined; // it is not
  }
}

/** The theme of the system, until the other one is chosen. */
function setUpTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const { dataset } = document.documentElement;
  const apply = (theme = remember((kept) => kept[THEME]) ?? (dark.matches ? "dark" : "light")) => {
    dataset.theme = theme;
    byId("theme").setAttribute("aria-pressed", String(theme === "dark"));
    readColours();
    change({ theme });
  };
  byId("theme").addEventListener("click", () => {
    apply(dataset.theme === "dark" ? "light" : "dark");
    remember((kept) => (kept[THEME] = dataset.theme));
  });
  dark.addEventListener("change", () => apply());
  apply();
}

/** Buttons of which one is pressed. */
function choices(buttons, choose) {
  buttons.forEach((chosen) =>
    chosen.addEventListener("click", () => {
      buttons.forEach((each) => each.setAttribute("aria-pressed", String(each === chosen)));
      choose(chosen.dataset);
    }),
  );
}

function start(found) {
  data = found;
  graph = new Graph(data.graph);
  data.resources.forEach(({ kind }, k) => kind === "device" && devices.push(k));
  for (const note of Object.values(data.notes)) note.of = new Map(Array.from(sums(note.rows), (row, k) => [row, note.texts[note.text[k]]]));
  if (data.plan) plans.push(new Plan(data.plan, `this ${data.noun}`, 0));
  if (data.before) plans.push(new Plan(data.before, data.before.name, 1));
  setUpTheme();
  showPlans("plan");
  choices(document.querySelectorAll("[data-shown]"), ({ shown }) => showPlans(shown));
  data.panels.forEach((panel, number) => {
    const card = byId(`panel-${number}`);
    if (panel.operators) showParts(panel, card.querySelector(".body"));
    for (const box of card.querySelectorAll("[data-box]")) box.addEventListener("click", () => selectGroup(box.firstChild.textContent, panel.boxes[box.dataset.box].operators));
  });
  for (const [id, Kind] of Object.entries({ schedule: Schedule, addresses: Addresses, memory: Memory, model: Model })) {
    if (byId(id)) views[id] = new Kind();
  }
  if (byId("search")) views.table = new Table();
  listeners.push(retell);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") change(NOTHING);
    if (event.key !== "/" || event.target.matches("input")) return;
    event.preventDefault();
    byId("search").focus();
  });
  document.body.dataset.ready = "yes";
}

unpack()
  .then(start)
  .catch((error) => {
    byId("views").prepend(el("p", { class: "card" }, `The views need a browser from 2023 or later. ${error}`));
    throw error;
  });
