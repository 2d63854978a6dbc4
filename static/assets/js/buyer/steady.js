// Texts that change while their box keeps its size.

import { el } from "../shared/dom.js";

/** Makes the parent of `node`, an element of the class `steady`, as large as the largest of `texts` needs it. */
export function reserveSpace(node, texts) {
  const sizes = [...new Set(texts)].map((text) => el("span", { class: "size", "data-text": text, "aria-hidden": "true" }));
  for (const size of node.parentElement.querySelectorAll(".size")) size.remove();
  node.after(...sizes);
}
