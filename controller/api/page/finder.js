// Finding one's way in the picture: search, parts of the fabric, zoom.
import { byId, h, setText } from "./dom.js";
import { search } from "./layout.js";

export function bindFinder(fabric, model, onPick) {
  const field = byId("search");
  let [found, at] = [[], -1];
  field.addEventListener("input", () => {
    [found, at] = [search(model, field.value), -1];
    setText(byId("found"), field.value.trim() === "" ? "" : found.length === 0 ? "nothing" : `${found.length.toLocaleString("en")} found, Enter shows`);
  });
  // Enter shows one after the other.
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || found.length === 0) return;
    at = (at + (event.shiftKey ? found.length - 1 : 1)) % found.length;
    setText(byId("found"), `${at + 1} of ${found.length.toLocaleString("en")}`);
    onPick(found[at].kind, found[at].item);
    fabric.show(found[at]);
  });
  byId("zoom-in").addEventListener("click", () => fabric.lens.zoom(1.6));
  byId("zoom-out").addEventListener("click", () => fabric.lens.zoom(1 / 1.6));
  byId("whole-screen").addEventListener("click", toggleWhole);
  byId("fold-all").addEventListener("click", () => foldAll(fabric));
  byId("zoom-fit").addEventListener("click", () => fabric.lens.reset());
}

// Gives the picture the room of the tables, or takes it back.
export function toggleWhole() {
  byId("whole-screen").setAttribute("aria-pressed", document.body.classList.toggle("whole"));
}

// The button that folds or unfolds all groups.
export function showFolds({ groups, folded }) {
  const button = byId("fold-all");
  button.hidden = groups.length === 0;
  setText(button, folded.size < groups.length ? "Fold all" : "Unfold all");
}

export const foldAll = (fabric) => fabric.fold(fabric.groups.map((group) => group.name), fabric.folded.size < fabric.groups.length);

// Fills the choice of parts for another topology.
export function listGroups(fabric) {
  const { groups } = fabric;
  showFolds(fabric);
  const choice = byId("groups");
  choice.hidden = groups.length === 0;
  choice.replaceChildren(h("option", { value: "" }, "Go to…"), ...groups.map((group, at) => h("option", { value: at }, group.name)));
  choice.onchange = () => {
    if (choice.value === "") fabric.lens.reset();
    else fabric.goTo(groups[Number(choice.value)]);
  };
}
