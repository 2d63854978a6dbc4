// Parts that several operators' pages have.

import { el } from "../shared/dom.js";

/** A section with a heading, and what stands beside the heading. */
export const section = (title, { id, beside = [], ...properties }, ...children) =>
  el("section", { "aria-labelledby": `${id}-title`, id, ...properties },
    el("div", { class: "bar" }, el("h2", { id: `${id}-title` }, title), beside), ...children);

/** A list of names and values; without the values that are empty. */
export const facts = (entries, properties = {}) =>
  el("dl", { class: "facts", ...properties },
    entries.filter(([, value]) => value || value === 0).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

/** A chip with a state. */
export const chip = (tone, text, properties = {}) => el("span", { class: "chip", "data-tone": tone, ...properties }, text);

/** A bar that is filled to a share of 0 to 1. Styles set on the node need no inline style in the page. */
export function meter(share) {
  const fill = el("span", { class: "fill" });
  fill.style.setProperty("--share", share);
  return el("span", { class: "meter", "aria-hidden": "true" }, fill);
}

export const button = (testid, label, onclick, tone = "") =>
  el("button", { type: "button", class: `button ${tone}`, testid, onclick }, label);

/** Replaces the children of a node if `documents`, from which they are made, are others than those that it shows. */
export function show(node, documents, make) {
  const text = JSON.stringify(documents);
  if (node.shown === text) return;
  node.shown = text;
  node.replaceChildren(...[make()].flat(Infinity).filter(Boolean));
}
